"""Paths that others name: joined safely to their root, links refused, plug-in files imported."""

from __future__ import annotations

import hashlib
import os
import re
import sys
from contextlib import suppress
from functools import lru_cache
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType

from contrapose.errors import ContraposeError, InputError, first_line
from contrapose.files.text import MalformedError, is_valid_unicode, require_regular

DRIVE = re.compile(r"[A-Za-z]:")
URL = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+:/")

IMAGE_SUFFIXES = (
    *(".bmp", ".gif", ".jfif", ".jpe", ".jpeg", ".jpg", ".npy", ".png"),
    *(".ppm", ".tif", ".tiff", ".webp"),
)
"""Suffixes of image files; the format is detected from the bytes."""


def cache_folder() -> Path:
    """Folder of the package in the user's cache folder, which need not exist."""
    base = os.environ.get("XDG_CACHE_HOME", "").strip()
    return (Path(base) if base else Path.home() / ".cache") / "contrapose"


def local_path(name: Path | str) -> Path:
    """Path of a file or folder of this machine, which need not exist.

    Raises:
        InputError: it is a URL, is not valid Unicode, or the system refuses it: a name that is too
            long, a folder that may not be searched, a link that leads to itself.
    """
    text = os.fspath(name)
    if URL.match(text):
        raise InputError("is a URL, and must be a file or folder of this machine.", file=text)
    if not is_valid_unicode(text):
        raise InputError("has a name that is not valid UTF-8: rename it.", file=text)
    path = Path(text)
    try:
        path.expanduser().stat()
    except (FileNotFoundError, NotADirectoryError):
        pass
    except (OSError, ValueError, RuntimeError) as error:
        reason = getattr(error, "strerror", None) or first_line(error)
        raise InputError(f"cannot be used ({reason}).", file=path) from None
    return path


def arrow_path(path: Path) -> Path:
    """Absolute path of a file, which Arrow takes as it is.

    In a relative one it takes `~` for the home folder, and the beginning of `gs:a` for a protocol.
    """
    return path.absolute()


@lru_cache(maxsize=1 << 16)
def safe_join(root: Path, name: str) -> Path:
    """Join a path from an annotation file to its root, refusing paths that leave it.

    The check is on the words of the path, not on what links point to: a folder that the user
    linked into the root on purpose stays usable, an annotation cannot name a path outside. A `..`
    removes the word before it, so that it cannot step out through such a link either.

    Raises:
        MalformedError: the path is empty, absolute, not valid Unicode, or climbs out of the root.
    """
    if not name.strip() or "\0" in name:
        raise MalformedError("an image path is empty or holds a NUL character.")
    if not is_valid_unicode(name):
        raise MalformedError(f"the path {name!r} holds half of a surrogate pair.")
    plain = name.replace("\\", "/")
    if plain.startswith("/") or DRIVE.match(plain):
        raise MalformedError(f"the path {name!r} is absolute; paths must be relative to the root.")
    parts: list[str] = []
    for part in plain.split("/"):
        if part == ".." and not parts:
            raise MalformedError(f"the path {name!r} climbs out of the root.")
        if part == "..":
            parts.pop()
        elif part not in ("", "."):
            parts.append(part)
    if not parts:
        raise MalformedError(f"the path {name!r} names a folder, not a file.")
    return root.joinpath(*parts)


def resolve_name(path: Path) -> Path | None:
    """Resolve an image path: itself, or one that differs in case or in suffix only.

    Real folders hold `a.JPG` for `a.jpg` and `.png` for a name given without a suffix. Two
    candidates are ambiguous, and nothing is guessed. A text file beside the image does not count.
    """
    try:
        if path.is_file():
            return path
        if not path.parent.is_dir():
            return None
        changed = path.parent.stat().st_mtime_ns
        names = _list_folder(path.parent, changed)
    except OSError:  # a name too long for the file system, a folder that may not be read
        return None
    for wanted in (path.name.lower(), _image_stem(path.name)):
        candidates = names.get(wanted, ())
        if len(candidates) == 1:
            return path.parent / candidates[0]
    return None


@lru_cache(maxsize=64)
def _list_folder(folder: Path, changed: int) -> dict[str, tuple[str, ...]]:
    """List a folder's files by lower-cased name and by stem, cached until it changes."""
    names: dict[str, tuple[str, ...]] = {}
    with os.scandir(folder) as entries:
        files = sorted(entry.name for entry in entries if entry.is_file())
    for name in files:
        for key in {name.lower(), _image_stem(name)}:
            names[key] = (*names.get(key, ()), name)
    return names


def _image_stem(name: str) -> str:
    """Return the lower-cased name without an image suffix."""
    stem, suffix = os.path.splitext(name.lower())  # noqa: PTH122 - a name, not a path
    return stem if suffix in IMAGE_SUFFIXES else stem + suffix


def include(path: Path | str) -> ModuleType:
    """Import a Python file once, under a unique module name, and return the module.

    Raises:
        InputError: there is no such file, or it fails; says where.
    """
    file = local_path(path).expanduser().resolve()
    if file.suffix != ".py":
        raise InputError("a Python file is included, whose name ends in .py.", file=path)
    require_regular(file)
    if not file.is_file():
        raise InputError("there is no such file to include.", file=path)
    name = f"contrapose_included_{hashlib.blake2b(str(file).encode(), digest_size=8).hexdigest()}"
    if name in sys.modules:
        return sys.modules[name]
    spec = spec_from_file_location(name, file)
    if spec is None or spec.loader is None:
        raise InputError("cannot be imported.", file=path)
    module = module_from_spec(spec)
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    except BaseException as error:
        del sys.modules[name]
        if isinstance(error, ContraposeError) or not isinstance(error, Exception):
            raise
        raise InputError(
            f"fails when it is included ({type(error).__name__}: {error}).",
            file=path,
            line=_error_line(error, file),
        ) from error
    return module


def _error_line(error: Exception, file: Path) -> int | None:
    """Return the last line of the file itself that the error went through."""
    if isinstance(error, SyntaxError) and error.filename == str(file):
        return error.lineno
    line, trace = None, error.__traceback__
    while trace is not None:
        if trace.tb_frame.f_code.co_filename == str(file):
            line = trace.tb_lineno
        trace = trace.tb_next
    return line


def require_no_link(path: Path) -> None:
    """Refuse a symbolic link, through which another file or folder would be written.

    Raises:
        InputError: it is one.
    """
    if path.is_symlink():
        raise InputError(
            "is a symbolic link, and nothing is written through it; delete it.", file=path
        )


def require_no_links(folder: Path) -> None:
    """Refuse a folder that is a symbolic link or holds one, at whatever depth.

    Raises:
        InputError: says which.
    """
    require_no_link(folder)
    pending = [str(folder)]
    while pending:
        with suppress(OSError), os.scandir(pending.pop()) as entries:
            for entry in entries:
                if entry.is_symlink():
                    require_no_link(Path(entry.path))
                elif entry.is_dir():
                    pending.append(entry.path)
