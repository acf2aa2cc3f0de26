"""Finding a benchmark's files in the few places where people's downloads put them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path

from contrapose.errors import InputError
from contrapose.files import inside, resolve_name


def first_folder(root: Path, *names: str) -> Path:
    """The first of these folders that is there; the first name when none is.

    Scores can be read without images, so a missing folder is no error here: the image is, when
    it is opened.
    """
    folders = [root / name for name in names]
    return next((folder for folder in folders if folder.is_dir()), folders[0])


def find_image(root: Path, name: str, *folders: str) -> Path:
    """Where an image lies that may be in any of these folders, as Visual Genome has two.

    Its place in the first folder when it is in none: that is where it will be missed.

    Raises:
        Malformed: the name climbs out of the folder.
    """
    places = [inside(root / folder, name) for folder in folders]
    return next((place for place in places if resolve_name(place) is not None), places[0])


def find_file(root: Path, *names: str) -> Path:
    """The first of these files that is there.

    Raises:
        InputError: none is; says what was looked for.
    """
    require_folder(root)
    for name in names:
        if (root / name).is_file():
            return root / name
    raise InputError(f"holds none of {', '.join(names)}.", file=root)


def annotation_files(
    root: Path, subsets: Iterable[str], *folders: str, suffix: str = ".json"
) -> Iterator[tuple[str, Path]]:
    """The (subset, file) pairs that are there, in the root or in one of these folders below it.

    Raises:
        InputError: not one is there.
    """
    require_folder(root)
    subsets = tuple(subsets)
    places = (root, *(root / folder for folder in folders))
    found = [
        (subset, path)
        for subset in subsets
        if (
            path := next(
                (p / f"{subset}{suffix}" for p in places if (p / f"{subset}{suffix}").is_file()),
                None,
            )
        )
    ]
    if not found:
        raise InputError(f"holds none of {', '.join(s + suffix for s in subsets)}.", file=root)
    yield from found


def require_folder(root: Path) -> None:
    """Say so when the root is not a folder."""
    if not root.is_dir():
        raise InputError("is not a folder; --root must name the benchmark's folder.", file=root)
