"""Shared fixtures: the command line as a function, and public data files where they exist."""

from __future__ import annotations

import atexit
import gc
import os
import shutil
import sys
import tempfile
from collections.abc import Callable, Generator, Iterator
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, is_hypothesis_test, settings

INCLUDED_PREFIX = "contrapose_included_"

# Tests run side by side: two threads each on few cores wait for each other far longer than they
# compute. This must be said before torch is imported.
os.environ.setdefault("OMP_NUM_THREADS", "1")
# Without a GPU the kernels of `losses` run in Triton's interpreter; it must be known before
# anything imports Triton.
if not Path("/proc/driver/nvidia").exists():
    os.environ.setdefault("TRITON_INTERPRET", "1")

# The terminal of whoever runs the tests decides nothing.
for name in ("COLUMNS", "LINES", "NO_COLOR", "FORCE_COLOR", "CLICOLOR", "CLICOLOR_FORCE"):
    os.environ.pop(name, None)

# No test may use, or fill, the user's cache of scores, wherever that of other programs is.
_home = Path(os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache"))  # noqa: PTH111
os.environ.setdefault("HF_HOME", str(_home / "huggingface"))
os.environ.setdefault("TORCH_HOME", str(_home / "torch"))
os.environ["XDG_CACHE_HOME"] = tempfile.mkdtemp(prefix="contrapose-tests-cache-")
atexit.register(shutil.rmtree, os.environ["XDG_CACHE_HOME"], ignore_errors=True)

# No test may use, or fill, the benchmarks that the user has fetched.
os.environ["CONTRAPOSE_DATA"] = str(Path(tempfile.gettempdir()) / "contrapose-tests-no-data")

# Slow machines are no failures: no property test has a time limit, and a slow strategy is none.
# Every test run tries the same examples; `make torture` tries others, and more, of every test.
PROPERTY_EXAMPLES = int(os.environ.get("PROPERTY_EXAMPLES", "0"))
settings.register_profile(
    "tests",
    deadline=None,
    derandomize=not PROPERTY_EXAMPLES,
    max_examples=PROPERTY_EXAMPLES or 50,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.load_profile("tests")


@pytest.fixture(autouse=True)
def _one_thread() -> Iterator[None]:
    """Fail a test that leaves torch with more threads: all later ones would wait for each other."""
    yield
    torch = sys.modules.get("torch")
    if torch is not None and torch.get_num_threads() > 1 == int(os.environ["OMP_NUM_THREADS"]):
        torch.set_num_threads(1)
        pytest.fail("the test left torch with more than one thread")


@pytest.fixture(autouse=True)
def _nothing_included() -> Iterator[None]:
    """Forget the Python files that a test included: workers of later tests would include them."""
    yield
    for name in [name for name in sys.modules if name.startswith(INCLUDED_PREFIX)]:
        del sys.modules[name]


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Take all that collection imports out of garbage collection: it is never freed."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.collect()
        gc.freeze()
        gc.set_threshold(100_000, 10, 10)  # by default every 700 objects: a twentieth of all time
        gc.enable()


def pytest_unconfigure() -> None:
    """Let the interpreter free everything at its end, or extension modules report leaks."""
    gc.unfreeze()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark the tests that read public files, so that `-m "not real_data"` leaves them out."""
    for item in items:
        if "shared" in getattr(item, "fixturenames", ()):
            item.add_marker(pytest.mark.real_data)
        if PROPERTY_EXAMPLES and is_hypothesis_test(getattr(item, "obj", None)):
            raise_examples(item.obj, PROPERTY_EXAMPLES)  # type: ignore[attr-defined]


def raise_examples(test: Any, count: int) -> None:
    """Let a property test try so many examples, also one that has a smaller number of its own."""
    function = getattr(test, "__func__", test)
    before = function._hypothesis_internal_use_settings or settings()
    more = settings(before, max_examples=max(before.max_examples, count))
    function._hypothesis_internal_use_settings = more


ROOT = Path(__file__).resolve().parents[1]
SHARED = ROOT.parent / "shared" / "data"


@pytest.fixture(scope="session")
def shared() -> Path:
    """Public annotation and score files that are not part of the project."""
    if not SHARED.is_dir():
        pytest.skip(f"{SHARED} is not here; real annotations and scores are not shipped")
    return SHARED


BROWSERS = ("chromium", "chromium-browser", "google-chrome")


@pytest.fixture(scope="session")
def browser() -> Iterator[Any]:
    """Chromium without a window, one for all tests of a process: Playwright cannot run twice."""
    playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    file = next(filter(None, map(shutil.which, BROWSERS)), None)
    if file is None:
        pytest.skip("no Chromium is installed")
    with playwright.sync_playwright() as engine:
        options = ["--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"]
        running = engine.chromium.launch(executable_path=file, args=options)
        yield running
        running.close()


@dataclass(frozen=True, slots=True)
class CommandOutput:
    """Exit status and printed text of a command."""

    status: int
    out: str
    err: str

    def refused(self) -> str:
        """The one sentence of a refusal: status 2, nothing on standard output, no traceback."""
        assert self.status == 2, self
        assert self.out == "", self
        assert "Traceback" not in self.err
        assert self.err.startswith("contrapose: "), self
        lines = self.err.strip().split("\n")
        assert len(lines) == 1, self
        return lines[0]


Cli = Callable[..., CommandOutput]


@pytest.fixture
def cli(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Cli:
    """Run a `contrapose` command in this process; no phase is said, however slow the machine is."""
    from contrapose.cli import console, main
    from contrapose.cli.app import VERBS

    for module in VERBS.values():  # or one would keep what a test has put into `console` for now
        import_module(f"contrapose.cli.{module}")
    monkeypatch.setattr(console, "PHASE_SECONDS", 3600.0)
    monkeypatch.setattr(console, "LINE_SECONDS", 3600.0)

    def run(*arguments: object) -> CommandOutput:
        capsys.readouterr()
        with pytest.raises(SystemExit) as ended:
            main([str(argument) for argument in arguments])
        printed = capsys.readouterr()
        code = ended.value.code
        return CommandOutput(code if isinstance(code, int) else 0, printed.out, printed.err)

    return run
