"""Kept answers of a study: per-example values of every arm and seed, made once.

An answer is one `.npz` file, written under a temporary name and renamed, so that a run that breaks
off goes on where it was. `pack` joins the answers of a study into one file, which the repository
holds and from which every table and picture of its page is made again.
"""

from __future__ import annotations

import hashlib
import io
import json
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from contrapose.files import write_bytes

Answer = dict[str, NDArray[Any]]
Key = Mapping[str, Any]
"""Arm, seed and settings: everything that the answer depends on."""

FOLDER = Path(__file__).parent / "answers"
"""Folder of the packed answers."""


class KeptAnswers:
    """Answers by their key, in a folder or in one packed file."""

    def __init__(self, place: Path):
        """Open a folder of answers, or a packed `.npz` file, which cannot be added to."""
        self.place = place
        self._packed: dict[str, Answer] = {}
        if place.suffix == ".npz" and place.is_file():
            with np.load(place, allow_pickle=False) as columns:
                for name in columns.files:
                    key, _, column = name.rpartition("|")
                    self._packed.setdefault(key, {})[column] = columns[name]

    def once(self, key: Key, make: Callable[[], Answer]) -> Answer:
        """The answer for a key: the kept one, or made now and kept."""
        found = self.get(key)
        if found is not None:
            return found
        made = make()
        content = io.BytesIO()
        np.savez_compressed(content, _key=np.array(_text(key)), **made)  # type: ignore[arg-type]
        self.place.mkdir(parents=True, exist_ok=True)
        write_bytes(self._file(key), content.getvalue())
        return made

    def get(self, key: Key) -> Answer | None:
        """The kept answer for a key."""
        if self._packed:
            return self._packed.get(_text(key))
        if self.place.suffix == ".npz" or not self._file(key).is_file():
            return None
        return _read(self._file(key))[1]

    def items(self) -> Iterator[tuple[dict[str, Any], Answer]]:
        """All keys with their answers."""
        if self._packed:
            yield from ((json.loads(key), answer) for key, answer in self._packed.items())
        elif self.place.is_dir():
            for file in sorted(self.place.glob("*.npz")):
                yield _read(file)

    def pack(self, file: Path) -> int:
        """Join all answers into one file; gives their number."""
        columns = {
            f"{_text(key)}|{name}": column for key, answer in self.items()
            for name, column in answer.items()
        }  # fmt: skip
        content = io.BytesIO()
        np.savez_compressed(content, **columns)  # type: ignore[arg-type]
        file.parent.mkdir(parents=True, exist_ok=True)
        write_bytes(file, content.getvalue())
        return len({name.rpartition("|")[0] for name in columns})

    def _file(self, key: Key) -> Path:
        name = hashlib.blake2b(_text(key).encode(), digest_size=10).hexdigest()
        return self.place / f"{name}.npz"


def _text(key: Key) -> str:
    return json.dumps(dict(key), sort_keys=True)


def _read(file: Path) -> tuple[dict[str, Any], Answer]:
    with np.load(file, allow_pickle=False) as columns:
        answer = {name: columns[name] for name in columns.files}
    return json.loads(str(answer.pop("_key"))), answer
