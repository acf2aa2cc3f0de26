"""Integrity of fetched files: sizes, times and digests, compared with the manifest.

A file whose size and time of change are those of the manifest is taken as it is, so that a run
hashes nothing. Where one of them differs the SHA-256 decides; `verify_source` hashes everything.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from contrapose.data.cached_data import (
    MANIFEST,
    DataSource,
    Manifest,
    data_root,
    fetch_lock,
    read_manifest,
)
from contrapose.data.video import VIDEO_SUFFIXES
from contrapose.errors import InputError
from contrapose.files import IMAGE_SUFFIXES
from contrapose.files.download import sha256_of

MISSING = "is missing"


@dataclass(frozen=True, slots=True)
class DataVerification:
    """Comparison of a benchmark's files with their digests.

    Attributes:
        name: of the benchmark.
        folder: its folder in the cache.
        files: number of files that were compared, those of archives among them.
        size: bytes of them.
        changed: path below the folder → how it differs from the file that was fetched.
    """

    name: str
    folder: Path
    files: int
    size: int
    changed: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class _Record:
    """File of a manifest: its path, the manifest's entry that it belongs to, and its own record."""

    path: str
    entry: str
    size: int
    sha256: str
    mtime: int | None


@dataclass(slots=True)
class FileComparison:
    """Outcome of comparing files with a manifest.

    Attributes:
        changed: path → how it differs; missing files are in it.
        touched: files with another time than the manifest's, whose digests were compared.
        files: number of files.
        size: bytes of them by the manifest.
        times: path → its new time, where the digest is the same.
    """

    changed: dict[str, str] = field(default_factory=dict)
    touched: list[str] = field(default_factory=list)
    files: int = 0
    size: int = 0
    times: dict[str, int] = field(default_factory=dict)


def modification_time(file: Path) -> int | None:
    """Time of a file's last change in nanoseconds; None where it cannot be had."""
    try:
        return file.stat().st_mtime_ns
    except OSError:
        return None


def member_records(folder: Path, members: Mapping[str, tuple[int, str]]) -> dict[str, list[Any]]:
    """Records of an archive's members for the manifest: size, SHA-256 and time.

    Args:
        folder: the folder that it was unpacked into.
        members: path below it → size and SHA-256.
    """
    return {
        name: [size, sha256, modification_time(folder / name)]
        for name, (size, sha256) in members.items()
    }


def _records(manifest: Manifest) -> Iterator[_Record]:
    for path, entry in manifest.files.items():
        if "entries" not in entry:
            yield _Record(path, path, entry["size"], entry["sha256"], entry.get("mtime"))
            continue
        prefix = f"{entry['into']}/" if entry["into"] else ""
        for name, (size, sha256, mtime) in entry["members"].items():
            yield _Record(prefix + name, path, size, sha256, mtime)


def compare_files(
    manifest: Manifest,
    *,
    only: Callable[[str], bool] | None = None,
    hash_all: bool = False,
    before: Callable[[list[str]], None] | None = None,
    progress: Callable[[str, int, int], None] | None = None,
) -> FileComparison:
    """Compare files with a manifest, whose `changed` then names the entries to fetch again.

    Args:
        manifest: of the folder.
        only: whether a path is compared; None for all.
        hash_all: hash every file, also one whose size and time are those of the manifest.
        before: called with the paths of files that are hashed, if there are any.
        progress: called with a description, what is done and what there is to do.
    """
    result = FileComparison()
    suspects: list[tuple[_Record, int]] = []
    entries: dict[str, str] = {}
    for record in _records(manifest):
        if only is not None and not only(record.path):
            continue
        entries[record.path] = record.entry
        result.files += 1
        result.size += record.size
        try:
            status = (manifest.folder / record.path).stat()
        except OSError as error:
            gone = isinstance(error, FileNotFoundError | NotADirectoryError)
            result.changed[record.path] = MISSING if gone else f"cannot be read ({error.strerror})"
            continue
        if status.st_size != record.size:
            result.changed[record.path] = f"has {status.st_size:,} bytes, not {record.size:,}"
        elif hash_all or status.st_mtime_ns != record.mtime:
            suspects.append((record, status.st_mtime_ns))
    if suspects and before is not None:
        before([record.path for record, _ in suspects])
    for done, (record, mtime) in enumerate(suspects, 1):
        try:
            same = sha256_of(manifest.folder / record.path) == record.sha256
            why = "has another SHA-256"
        except OSError as error:
            same, why = False, f"cannot be read ({error.strerror})"
        if not same:
            result.changed[record.path] = why
        elif mtime != record.mtime:
            result.times[record.path] = mtime
        if mtime != record.mtime:
            result.touched.append(record.path)
        if progress is not None:
            progress("comparing digests", done, len(suspects))
    manifest.changed |= {entries[path] for path in result.changed}
    return result


def store_times(manifest: Manifest, times: Mapping[str, int]) -> None:
    """Take the new times of files with the same digests into a manifest."""
    for path, entry in manifest.files.items():
        if "entries" not in entry:
            entry["mtime"] = times.get(path, entry.get("mtime"))
            continue
        prefix = f"{entry['into']}/" if entry["into"] else ""
        for name, record in entry["members"].items():
            record[2] = times.get(prefix + name, record[2])


def is_annotation(path: str) -> bool:
    """Whether a path is that of neither an image nor a video, so that a reader may open it."""
    return not path.lower().endswith((*IMAGE_SUFFIXES, *VIDEO_SUFFIXES))


def check_files(
    source: DataSource,
    manifest: Manifest,
    only: Callable[[str], bool],
    announce: Callable[[str], None],
) -> list[str]:
    """Check files that a run is about to read; those that were changed count as not fetched.

    New times of files with the same digests are written to the manifest, where that can be done, so
    that the next run does not hash them again.

    Returns:
        The paths of files that were changed; missing ones are not among them.
    """

    def say(paths: list[str]) -> None:
        announce(
            f"{source.name}: {_count(paths)} another time than when fetched, such as {paths[0]}; "
            "comparing digests."
        )

    result = compare_files(manifest, only=only, before=say)
    changed = [path for path, why in result.changed.items() if why != MISSING]
    if changed:
        why = result.changed[changed[0]]
        announce(
            f"{source.name}: {len(changed):,} fetched files were changed, such as "
            f"{source.folder / changed[0]}, which {why}."
        )
    if result.times:
        with suppress(InputError), fetch_lock(source.name, announce):
            newest = read_manifest(source.folder)
            if newest.files.keys() == manifest.files.keys():
                store_times(newest, result.times)
                newest.write(source)
        store_times(manifest, result.times)
    return changed


def _count(paths: list[str]) -> str:
    return "1 file has" if len(paths) == 1 else f"{len(paths):,} files have"


def verify_source(
    source: DataSource,
    *,
    announce: Callable[[str], None],
    progress: Callable[[str, int, int], None] | None = None,
) -> DataVerification:
    """Compare the SHA-256 of every file of a fetched benchmark with its manifest.

    Raises:
        InputError: nothing of it is in the cache, or its manifest cannot be read.
    """
    folder = source.folder
    if not (folder / MANIFEST).exists():
        raise InputError(
            f"{source.name} is not in the cache ({data_root()}): run contrapose data fetch "
            f"{source.name}."
        )
    with ExitStack() as stack:
        with suppress(InputError):  # a folder that cannot be written is compared without the lock
            stack.enter_context(fetch_lock(source.name, announce))
        manifest = read_manifest(folder)
        if not manifest.files:
            raise InputError(
                f"cannot be read, or names no files: run contrapose data fetch {source.name}.",
                file=folder / MANIFEST,
            )
        result = compare_files(manifest, hash_all=True, progress=progress)
        if result.times:
            store_times(manifest, result.times)
            with suppress(InputError):
                manifest.write(source)
    return DataVerification(
        source.name, folder, result.files, result.size, dict(sorted(result.changed.items()))
    )


def names_of(folder: Path, files: Iterable[Path | None]) -> set[str]:
    """Paths below a folder of the files that are in it, with forward slashes."""
    prefix = os.path.join(folder, "")  # noqa: PTH118 - a prefix of strings
    texts = (os.fspath(file) for file in files if file is not None)
    names = {text[len(prefix) :] for text in texts if text.startswith(prefix)}
    return names if os.sep == "/" else {name.replace(os.sep, "/") for name in names}
