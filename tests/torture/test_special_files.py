"""Pipes, sockets, folders and links to themselves in the place of every file of a folder."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from contrapose.errors import ContraposeError
from contrapose.evaluation.audit.scores import read_corpus
from contrapose.files import include
from contrapose.files.download import Expectation, _resume_point, sha256_of
from contrapose.files.work_folder import _keep_same
from contrapose.models.names import file_digest
from contrapose.search.image_files import list_images
from contrapose.tune.data.files import read_training_set
from contrapose.tune.output import _read_objective
from tests.special_files import SPECIAL_FILES, make_special_file
from tests.torture.conftest import Tally
from tests.torture.mutations import write
from tests.torture.test_folders import LOGS, MORE, read_log, read_run_folder, run_folder
from tests.torture.test_readers import png

Folder = tuple[Callable[[], dict[str, Any]], Callable[[Path], object]]
FOLDERS: dict[str, Folder] = {
    "run": (run_folder, read_run_folder),
    **{name: MORE[name] for name in MORE if name not in ("zip", "tar", "tgz")},
    **{name: (partial(LOGS.__getitem__, name), read_log) for name in LOGS},
    "corpus": (lambda: {"a.txt": b"a dog"}, lambda root: read_corpus(root / "a.txt")),
    "list of images": (lambda: {"a.txt": b"a.png"}, lambda root: list_images(root / "a.txt")),
    "folder of images": (lambda: {"x/a.png": png()}, lambda root: list_images(root / "x")),
    "Python file": (lambda: {"a.py": b"x = 1"}, lambda root: include(root / "a.py")),
    "request of tune": (
        lambda: {"a.json": {"objective": {"name": "a"}}},
        lambda root: _read_objective(root / "a.json"),
    ),
    "training pairs": (
        lambda: {"a.jsonl": [{"image": "a.png", "caption": "a cat"}], "a.png": png()},
        lambda root: read_training_set(root / "a.jsonl"),
    ),
    "recipe": (lambda: {"recipe.json": {}}, lambda root: _keep_same(root, "{}")),
    "weights to name": (lambda: {"a.bin": b"a"}, lambda root: file_digest(root / "a.bin")),
    "fetched file": (lambda: {"a.bin": b"a"}, lambda root: sha256_of(root / "a.bin")),
    "half of a download": (
        lambda: {"a.part": b"a", "a.part.json": {"url": "http://x/a", "validator": "b"}},
        lambda root: _resume_point("http://x/a", root / "a.part", Expectation()),
    ),
}


@pytest.fixture
def deadline() -> Iterator[None]:
    """Deadline of a test, which a reader that waits for a pipe would miss."""

    def end(*_: object) -> None:
        pytest.fail("a reader waits for what never comes")  # no error that a reader may catch

    before = signal.signal(signal.SIGALRM, end)
    signal.alarm(60)
    yield
    signal.alarm(0)
    signal.signal(signal.SIGALRM, before)


@pytest.mark.usefixtures("deadline")
@pytest.mark.parametrize("name", FOLDERS)
def test_what_is_no_file_in_a_folder(name: str, tmp_path: Path, tally: Tally) -> None:
    """No reader waits for a pipe, or fails otherwise than with an error for the user."""
    make, read = FOLDERS[name]
    files, count = make(), 0
    for changed in files:
        for kind in SPECIAL_FILES:
            root = tmp_path / str(count)
            for file, value in files.items():
                write(root / file, value, None)
            make_special_file(root / changed, kind)
            with suppress(ContraposeError, OSError):  # the command line names both, with status 2
                read(root)
            count += 1
    tally.add("pipes, sockets, folders and loops in the place of files", count)
