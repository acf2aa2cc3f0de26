"""What models have answered, by content: nothing is asked twice, whatever run it was for.

A shelf holds one model's answers to one score, as Parquet parts that are only ever added. A part
that has its name is whole, whenever its writer was killed; what was left under a temporary name is
never read. Names of parts sort by the time of writing, so that the newest answer counts where
something was asked again. Any number of programs may add to a shelf at once: each writes parts of
its own, and none is ever changed or deleted.

    PLACE/answers/<model fingerprint>/<score>/<part>.parquet    model, score, image, text, value, …
"""

from __future__ import annotations

import hashlib
import os
import re
from pathlib import Path

from contrapose.scoring.places import open_place
from contrapose.scoring.shelf import Shelf


def default_folder() -> Path:
    """Where answers are kept when the user does not say: the platform's cache folder."""
    base = os.environ.get("XDG_CACHE_HOME", "").strip()
    return (Path(base) if base else Path.home() / ".cache") / "contrapose"


class Store:
    """All shelves at a place, or in memory when there is none."""

    def __init__(self, where: Path | str | None = None):
        """Open a store in a folder, or at a URL that fsspec understands.

        Raises:
            InputError: the place cannot be made or written.
            MissingExtraError: a URL, and fsspec is not installed.
        """
        self.place = None if where is None else open_place(where)
        self._shelves: dict[tuple[str, str], Shelf] = {}
        if self.place is not None:
            self.place.prepare()

    def shelf(self, fingerprint: str, score: str) -> Shelf:
        """A model's answers to a score."""
        key = fingerprint, score
        if key not in self._shelves:
            folder = f"answers/{_as_name(fingerprint)}/{_as_name(score)}"
            self._shelves[key] = Shelf(self.place, folder, fingerprint, score)
        return self._shelves[key]


def _as_name(text: str) -> str:
    """A folder name for any text: readable, and different for different texts."""
    plain = re.sub(r"[^A-Za-z0-9.+-]+", "_", text).strip("._")[:48]
    if plain == text:
        return plain
    return f"{plain}-{hashlib.blake2b(text.encode(), digest_size=6).hexdigest()}"
