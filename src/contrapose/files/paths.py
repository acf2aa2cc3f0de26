"""Paths that annotation files name: kept inside their root, found under another suffix."""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path, PurePosixPath

from contrapose.files.problems import Malformed


def inside(root: Path, name: str) -> Path:
    """Join a path from an annotation file to its root.

    The check is on the words of the path, not on what links point to: a folder that the user
    linked into the root on purpose stays usable, a file cannot name its way out.

    Raises:
        Malformed: the path is empty, absolute, or climbs out of the root.
    """
    if not name or "\0" in name:
        raise Malformed("an image path is empty or holds a NUL character.")
    path = PurePosixPath(name.replace("\\", "/"))
    if path.is_absolute() or (path.parts and path.parts[0].endswith(":")):
        raise Malformed(f"the path {name!r} is absolute; paths must be relative to the root.")
    depth = 0
    for part in path.parts:
        depth += -1 if part == ".." else 1
        if depth < 0:
            raise Malformed(f"the path {name!r} climbs out of the root.")
    return root.joinpath(*path.parts)


def resolve_name(path: Path) -> Path | None:
    """Find the file that a path means: itself, or one that differs in case or in suffix only.

    Real folders hold `a.JPG` for `a.jpg` and `.png` for a name given without a suffix. Two
    candidates are no answer: nothing is guessed.
    """
    if path.is_file():
        return path
    if not path.parent.is_dir():
        return None
    names = _listing(path.parent)
    for wanted in (path.name.lower(), path.stem.lower()):
        found = names.get(wanted)
        if found is not None and len(found) == 1:
            return path.parent / found[0]
    return None


@lru_cache(maxsize=64)
def _listing(folder: Path) -> dict[str, tuple[str, ...]]:
    """Files of a folder by lower-cased name and by lower-cased stem."""
    names: dict[str, tuple[str, ...]] = {}
    for entry in sorted(folder.iterdir()):
        for key in {entry.name.lower(), entry.stem.lower()}:
            names[key] = (*names.get(key, ()), entry.name)
    return names
