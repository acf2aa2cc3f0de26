"""Install lines of messages and pages: each works as it is written."""

from __future__ import annotations

import importlib.metadata
import re
from pathlib import Path

import pytest

from contrapose import errors
from contrapose.errors import InputError, MissingExtraError, install_command

ROOT = Path(__file__).parents[1]


class Installed:
    """Metadata of an installation as pip writes it."""

    def __init__(self, origin: str | None):
        self.origin = origin

    def read_text(self, name: str) -> str | None:
        assert name == "direct_url.json"
        return self.origin


def test_a_checkout_is_named_by_its_folder(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    assert install_command("hf") == f"pip install -e '{ROOT}[hf]'"
    monkeypatch.chdir(ROOT)
    assert install_command("hf", "text") == "pip install -e '.[hf,text]'"
    assert str(MissingExtraError("av", "video", "Reading")).endswith("pip install -e '.[video]'.")


def test_a_package_that_cannot_be_loaded_is_not_called_missing() -> None:
    """As torch under a limit of memory: installing it again would not help."""
    found: list[str] = []
    for error in (
        ImportError("libtorch_cpu.so: failed to map segment from shared object"),
        ModuleNotFoundError("No module named 'torch'"),
    ):
        try:
            raise error
        except ImportError:
            found.append(str(MissingExtraError("torch", "torch", "A model")))
    assert found[0].endswith("is installed, and cannot be loaded (libtorch_cpu.so: failed to map "
                             "segment from shared object).")  # fmt: skip
    assert "not installed: pip install" in found[1]


@pytest.mark.parametrize(
    ("origin", "command"),
    [
        ('{"url": "file:///my%20files/c-0.1.whl"}', "pip install '/my files/c-0.1.whl[hf]'"),
        (
            '{"url": "https://a.b/c.git", "vcs_info": {"vcs": "git", "commit_id": "1f"}}',
            "pip install 'contrapose[hf] @ git+https://a.b/c.git@1f'",
        ),
        ('{"url": "https://a.b/c.whl"}', "pip install 'contrapose[hf] @ https://a.b/c.whl'"),
        (None, "pip install 'contrapose[hf]'"),
        ("damaged", "pip install 'contrapose[hf]'"),
        ("[]", "pip install 'contrapose[hf]'"),
    ],
)
def test_an_installed_package_is_named_by_its_origin(
    origin: str | None, command: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(errors, "__file__", str(tmp_path / "lib" / "contrapose" / "errors.py"))
    monkeypatch.setattr(importlib.metadata, "distribution", lambda _: Installed(origin))
    assert install_command("hf") == command


def test_no_page_installs_from_a_package_index() -> None:
    pages = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *ROOT.glob("docs/**/*.md")]
    sources = [*ROOT.glob("src/**/*.py"), *ROOT.glob("examples/**/*.ipynb")]
    assert len(pages) > 20
    for file in [*pages, *sources]:
        text = file.read_text(encoding="utf-8")
        assert not re.search(r"pip install[^\n`]*\bcontrapose(\[|\s|$)", text), file
        named = re.findall(r"pip install[^\n`]*\.\[([\w,]+)\]", text)
        extras = {extra for some in named for extra in some.split(",")}
        assert extras <= EXTRAS, file


EXTRAS = set(
    re.findall(
        r"^(\w+) = \[", (ROOT / "pyproject.toml").read_text().split("[project.optional")[1], re.M
    )
)


def test_a_sentence_stays_on_one_line_whatever_it_quotes() -> None:
    error = InputError("no image 'a\nb\x1b[2J'", file="c\rd", line=3)
    assert str(error) == r"c\rd, line 3: no image 'a\nb\x1b[2J'"
    assert error.message == r"no image 'a\nb\x1b[2J'"
    assert str(InputError(error.message)) == error.message
