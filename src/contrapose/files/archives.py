"""Archives, zip and tar, unpacked into a folder that no member can leave.

Names, kinds, counts and sizes are checked before and while a member is written. The members appear
in their folder only when all of them are complete.
"""

from __future__ import annotations

import hashlib
import lzma
import re
import shutil
import stat
import struct
import tarfile
import zipfile
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Literal

from contrapose.errors import InputError, first_line
from contrapose.files.atomic import temporary_folder
from contrapose.files.text import is_valid_unicode

MOST_MEMBERS = 1_000_000
MOST_RATIO = 200
"""Bytes that one byte of an archive may unpack to; images and JSON stay far below."""

LEAST_LIMIT = 64 << 20
"""Bytes that any archive may unpack to, however small it is."""

DAMAGE_ERRORS = (
    *(zipfile.BadZipFile, tarfile.TarError, zlib.error, lzma.LZMAError, struct.error, EOFError),
    *(ArithmeticError, LookupError, ValueError),
)
"""Errors of a damaged archive; the last three come from numbers and names in its headers."""

LONGEST_NAME = 255
RESERVED = re.compile(r"(con|prn|aux|nul|com\d|lpt\d)(\..*)?$", re.IGNORECASE)
"""Names that mean devices on Windows."""


@dataclass(frozen=True, slots=True)
class UnpackedArchive:
    """Members of an archive that was unpacked.

    Attributes:
        entries: names of the files and folders at the top, sorted.
        files: number of files.
        size: bytes of all of them.
        members: path of a file below the folder → its size and SHA-256.
    """

    entries: tuple[str, ...]
    files: int
    size: int
    members: dict[str, tuple[int, str]]


@dataclass(frozen=True, slots=True)
class _Member:
    name: str
    size: int
    open: Callable[[], IO[bytes]]


def unpack_archive(
    archive: Path,
    folder: Path,
    form: Literal["zip", "tar"],
    *,
    size: int | None = None,
    progress: Callable[[int, int | None], None] | None = None,
) -> UnpackedArchive:
    """Unpack an archive into a folder; entries that are there already are replaced.

    Args:
        archive: the file.
        folder: the folder; created where it is missing.
        form: its format; a tar may be compressed.
        size: most bytes that it may unpack to; None derives a limit from its own size.
        progress: called with the bytes written so far, and those of the archive where known.

    Raises:
        InputError: it is damaged, or a member is a link or device, has a name that leaves the
            folder, or the members are more or larger than they may be. The folder is as before.
    """
    limit = max(archive.stat().st_size * MOST_RATIO, LEAST_LIMIT) if size is None else size
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with temporary_folder(folder, "unpack") as new:
            written = _write_members(archive, new, form, limit, progress)
            for entry in written.entries:
                _move(new / entry, folder / entry)
    except DAMAGE_ERRORS as error:
        raise InputError(f"is damaged ({first_line(error)}).", file=archive) from None
    except (NotImplementedError, RuntimeError) as error:  # a method of compression, a password
        raise InputError(f"cannot be unpacked ({first_line(error)}).", file=archive) from None
    except OSError as error:
        reason = error.strerror or str(error)
        raise InputError(f"cannot be unpacked into {folder} ({reason}).", file=archive) from None
    return written


def _write_members(
    archive: Path,
    folder: Path,
    form: Literal["zip", "tar"],
    limit: int,
    progress: Callable[[int, int | None], None] | None,
) -> UnpackedArchive:
    files = total = 0
    names: set[str] = set()
    records: dict[str, tuple[int, str]] = {}
    members = _zip_members(archive, limit) if form == "zip" else _tar_members(archive)
    for member in members:
        parts = _safe_parts(archive, member.name)
        key = "/".join(parts).casefold()
        if key in names:
            raise InputError(f"holds {member.name!r} twice.", file=archive)
        names.add(key)
        files += 1
        if files > MOST_MEMBERS or total + member.size > limit:
            raise InputError(
                f"would unpack to more than {limit:,} bytes or {MOST_MEMBERS:,} files.",
                file=archive,
            )
        target = folder.joinpath(*parts)
        target.parent.mkdir(parents=True, exist_ok=True)
        with member.open() as source, target.open("xb") as stream:
            written, digest = 0, hashlib.sha256()
            while block := source.read(1 << 20):
                written += len(block)
                if written > member.size:  # a header that says less than there is
                    raise InputError(
                        f"holds {member.name!r} with more bytes than it says.", file=archive
                    )
                digest.update(block)
                stream.write(block)
        if written < member.size:
            raise InputError(f"holds {member.name!r} with fewer bytes than it says.", file=archive)
        records["/".join(parts)] = (written, digest.hexdigest())
        total += written
        if progress is not None:
            progress(total, None)
    if not files:
        raise InputError("holds no files.", file=archive)
    entries = tuple(sorted(entry.name for entry in folder.iterdir()))
    return UnpackedArchive(entries, files, total, records)


def _zip_members(archive: Path, limit: int) -> Iterator[_Member]:
    with zipfile.ZipFile(archive) as opened:
        listed = opened.infolist()
        if len(listed) > MOST_MEMBERS or sum(info.file_size for info in listed) > limit:
            raise InputError(
                f"would unpack to more than {limit:,} bytes or {MOST_MEMBERS:,} files.",
                file=archive,
            )
        for info in listed:
            kind = stat.S_IFMT(info.external_attr >> 16)
            # zipfile turns backslashes and NUL into something else: the name as it was counts
            name = info.orig_filename
            _safe_parts(archive, name)
            if info.is_dir():
                continue
            if kind not in (0, stat.S_IFREG):
                raise InputError(f"holds {name!r}, which is a link or device.", file=archive)
            yield _Member(name, info.file_size, lambda info=info: opened.open(info))  # type: ignore[misc]


def _tar_members(archive: Path) -> Iterator[_Member]:
    with tarfile.open(archive, "r:*") as opened:
        for info in opened:
            if info.isdir():
                if info.name.strip("./"):
                    _safe_parts(archive, info.name)
                continue
            if not info.isreg() or info.issparse():
                raise InputError(f"holds {info.name!r}, which is a link or device.", file=archive)

            def open_member(info: tarfile.TarInfo = info) -> IO[bytes]:
                stream = opened.extractfile(info)
                if stream is None:
                    raise tarfile.ReadError(f"{info.name} cannot be read")
                return stream

            yield _Member(info.name, info.size, open_member)


def _safe_parts(archive: Path, name: str) -> list[str]:
    """Words of a member's path, each one a plain name.

    Raises:
        InputError: it is absolute, climbs, or holds what paths of some system take for more.
    """
    words = name.split("/")
    while len(words) > 1 and words[0] == ".":
        words = words[1:]
    if len(words) > 1 and words[-1] == "":  # a folder
        words = words[:-1]
    for word in words:
        plain = word not in ("", ".", "..") and is_valid_unicode(word)
        if (
            not plain
            or re.search(r"[\\:\0-\x1f\x7f]", word)
            or len(word.encode()) > LONGEST_NAME
            or RESERVED.match(word)
        ):
            raise InputError(f"holds the name {name!r}, which is not safe to write.", file=archive)
    return words


def _move(new: Path, path: Path) -> None:
    """Move an entry to its path: folders are merged, files replaced, links never followed."""
    if path.is_symlink() or (path.exists() and new.is_dir() and not path.is_dir()):
        path.unlink()
    if new.is_dir() and path.is_dir():
        for entry in list(new.iterdir()):
            _move(entry, path / entry.name)
        return
    if path.is_dir():
        shutil.rmtree(path)
    new.replace(path)
