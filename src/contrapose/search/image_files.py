"""Listing of image files: of a folder with its subfolders, of a list, or the files themselves."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from contrapose.errors import InputError, printable
from contrapose.files import (
    IMAGE_SUFFIXES,
    MalformedError,
    StrictProblems,
    is_valid_unicode,
    local_path,
    read_lines,
    safe_join,
)


@dataclass(frozen=True, slots=True)
class ImageFile:
    """Image file as it stands in a folder.

    Attributes:
        name: path relative to the root, with `/`.
        size: bytes.
        mtime: time of change in nanoseconds.
    """

    name: str
    size: int
    mtime: int


def list_images(images: Path | Sequence[Path]) -> tuple[Path, list[ImageFile], dict[str, str]]:
    """List images: the root, the files sorted by name, and those that cannot be listed.

    A folder is searched with its subfolders; hidden files and folders are left out, linked folders
    are not followed, and a link to a file outside is skipped. Paths of a `.txt` file are relative
    to it and cannot leave its folder.

    Raises:
        InputError: the folder or list is not there, or holds no image.
    """
    if isinstance(images, Path) and images.is_dir():
        root = images.resolve()
        names: Iterator[str] = _walk(root)
    elif isinstance(images, Path) and images.suffix == ".txt":
        root = local_path(images).resolve().parent
        names = _list_lines(images)
    elif isinstance(images, Path):
        raise InputError("must be a folder of images, or a .txt file of paths.", file=images)
    else:
        files = [Path(os.path.abspath(file)) for file in images]  # noqa: PTH100 - keeps links
        if not files:
            raise InputError("there is no image to index.")
        root = Path(os.path.commonpath([file.parent for file in files]))
        names = (file.relative_to(root).as_posix() for file in files)
    listed: dict[str, ImageFile] = {}
    skipped: dict[str, str] = {}
    for name in names:
        path = root / name
        if not is_valid_unicode(name):
            skipped[printable(name)] = "the file's name is not valid Unicode"
            continue
        try:
            status = path.stat()
        except OSError as error:  # also of a link that leads to itself
            skipped[name] = f"the file cannot be read ({error.strerror})"
            continue
        if path.is_symlink() and not path.resolve().is_relative_to(root):
            skipped[name] = "the file is a link to outside the folder"
        else:
            listed[name] = ImageFile(name, status.st_size, status.st_mtime_ns)
    if not listed and not skipped:
        shown = images if isinstance(images, Path) else root
        raise InputError(f"holds no image ({', '.join(IMAGE_SUFFIXES)}).", file=shown)
    return root, [listed[name] for name in sorted(listed)], skipped


def _walk(root: Path) -> Iterator[str]:
    """Yield image names of a folder and its subfolders; hidden ones are left out."""
    for folder, folders, names in os.walk(root):
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        within = Path(folder).relative_to(root)
        for name in names:
            if name.lower().endswith(IMAGE_SUFFIXES) and not name.startswith("."):
                yield (within / name).as_posix()


def _list_lines(file: Path) -> Iterator[str]:
    """Yield the paths of a list, relative to its folder."""
    root = file.resolve().parent
    for line, name in read_lines(file, StrictProblems()):
        try:
            yield safe_join(root, name).relative_to(root).as_posix()
        except MalformedError as error:
            raise InputError(str(error), file=file, line=line) from None
