"""Helpers of the readers: record fields, and files in the folders where downloads put them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from contrapose.data.images import Box, ImageRef
from contrapose.errors import InputError, option
from contrapose.files import MalformedError, Record, resolve_name, safe_join


def read_first_text(record: Record, name: str) -> str:
    """Read a text field, or the first entry of a list field."""
    value = record.field(name)
    if isinstance(value, list) and value:
        return record.check_text(name, value[0])
    return record.text(name)


def read_box(record: Record, x: str, y: str, width: str, height: str) -> Box:
    """Read a crop box from four integer fields."""
    left, top = record.integer(x), record.integer(y)
    across, down = record.integer(width), record.integer(height)
    if across < 1 or down < 1:
        raise MalformedError(f"record {record.key}: the box of {across} × {down} pixels is empty.")
    return left, top, across, down


def find_folder(root: Path, *names: str) -> Path:
    """Find the first of these folders that exists; return the first name when none does.

    Scores can be read without images, so a missing folder is no error here: the image is, when
    it is opened.
    """
    folders = [root / name for name in names]
    return next((folder for folder in folders if folder.is_dir()), folders[0])


def find_image(root: Path, name: str, *folders: str) -> Path:
    """Find an image that may be in any of these folders, as Visual Genome has two.

    Where it is in none, its path in the first folder, so that the error names that one.

    Raises:
        MalformedError: the name climbs out of the folder.
    """
    paths = [safe_join(root / folder, name) for folder in folders]
    return next((path for path in paths if resolve_name(path) is not None), paths[0])


def find_file(root: Path, *names: str) -> Path:
    """Find the first of these files that exists.

    Raises:
        InputError: none does; lists the names.
    """
    require_folder(root)
    for name in names:
        if (root / name).is_file():
            return root / name
    raise InputError(f"holds none of {', '.join(names)}.", file=root)


def find_annotation_files(
    root: Path, subsets: Iterable[str], *folders: str, suffix: str = ".json"
) -> Iterator[tuple[str, Path]]:
    """Find the existing (subset, file) pairs, in the root or in these folders below it.

    Raises:
        InputError: there is no such file.
    """
    require_folder(root)
    subsets = tuple(subsets)
    folders_searched = (root, *(root / folder for folder in folders))
    files = [
        (subset, path)
        for subset in subsets
        if (
            path := next(
                (
                    p / f"{subset}{suffix}"
                    for p in folders_searched
                    if (p / f"{subset}{suffix}").is_file()
                ),
                None,
            )
        )
    ]
    if not files:
        raise InputError(f"holds none of {', '.join(s + suffix for s in subsets)}.", file=root)
    yield from files


def require_folder(root: Path) -> None:
    """Require that the root is a folder."""
    if not root.is_dir():
        raise InputError(
            f"is not a folder; {option('root')} must name the benchmark's folder.", file=root
        )


def read_names(record: Record, name: str) -> list[str]:
    """Read a list of identifiers, texts or whole numbers, none of them twice.

    Raises:
        MalformedError: it is no such list.
    """
    values = record.field(name)
    if not isinstance(values, list):
        raise MalformedError(f"record {record.key}: {name!r} must be a list.")
    names = [record.inner({name: value}).name(name) for value in values]
    if len(set(names)) < len(names):
        raise MalformedError(f"record {record.key}: {name!r} names an image twice.")
    return names


@dataclass(slots=True)
class ImagePositions:
    """Images of a composed set by name, in the order they are added."""

    refs: list[ImageRef] = field(default_factory=list)
    positions: dict[str, int] = field(default_factory=dict)

    def add(self, name: str, path: Path, crop: Box | None = None, *, square: bool = False) -> int:
        """Position of an image, which is added if it is new; crops have names of their own."""
        position = self.positions.setdefault(name, len(self.refs))
        if position == len(self.refs):
            self.refs.append(ImageRef(name, path, crop, square=square))
        return position

    def find(self, record: Record, names: Iterable[str], file: str) -> tuple[int, ...]:
        """Positions of images that a record names.

        Raises:
            MalformedError: one of them is not known; `file` is where it should be.
        """
        names = tuple(names)
        for name in names:
            if name not in self.positions:
                raise MalformedError(f"record {record.key}: the image {name!r} is not in {file}.")
        return tuple(self.positions[name] for name in names)
