"""Cache of fetched benchmarks: folders, manifests, states, locks, and removal.

`<cache>/data/<name>/<revision>/` holds a benchmark as its reader expects it, and `manifest.json`
with the address, size, SHA-256 and date of every file.
"""

from __future__ import annotations

import json
import os
import shutil
import time
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from contrapose.data.cards import Benchmark, Suite
from contrapose.data.downloads import Download, Manual
from contrapose.data.registry import benchmark_names, find_benchmark
from contrapose.errors import InputError
from contrapose.files import (
    MalformedError,
    cache_folder,
    did_you_mean,
    open_lock,
    parse_json,
    require_regular,
    safe_join,
    try_lock,
    write_text,
)

VARIABLE = "CONTRAPOSE_DATA"
MANIFEST, LOCK = "manifest.json", ".lock"
VERSION = 1
POLL_SECONDS = 0.2

DataState = Literal["complete", "partial", "not fetched", "manual", "gated", "none"]
"""State of a benchmark's files: all there, some, none; or none and not to be fetched freely."""


@dataclass(frozen=True, slots=True)
class DataSource:
    """Files of a benchmark, or of a suite whose parts share one folder.

    Attributes:
        name: of the benchmark or suite.
        parts: the benchmarks.
        download: where all their files come from.
        license: of the annotations and images.
        layout: of the folder.
        origin: where the files can be had, in words.
    """

    name: str
    parts: tuple[Benchmark, ...]
    download: Download | Manual | None
    license: str
    layout: str
    origin: str

    @property
    def folder(self) -> Path:
        """Folder of its files in the cache, which need not exist."""
        revision = self.download.folder if isinstance(self.download, Download) else "latest"
        return benchmark_folder(self.name) / revision


def data_source(name: str, benchmark: Benchmark | Suite) -> DataSource:
    """Source of a benchmark's files; the downloads of a suite's parts become one."""
    parts = tuple(benchmark.parts.values()) if isinstance(benchmark, Suite) else (benchmark,)
    cards = [part.card for part in parts]
    downloads = [card.download for card in cards if card.download is not None]
    manual = next((one for one in downloads if isinstance(one, Manual)), None)
    joined: Download | Manual | None = manual
    if manual is None and downloads and len(downloads) == len(cards):
        joined = _join([one for one in downloads if isinstance(one, Download)])
    return DataSource(
        name,
        parts,
        joined,
        *("; ".join(dict.fromkeys(texts)) for texts in (
            [card.license for card in cards],
            [card.layout.replace("\n", "; ") for card in cards],
            [card.source for card in cards],
        )),
    )  # fmt: skip


def _join(downloads: list[Download]) -> Download:
    return Download(
        downloads[0].revision,
        tuple(dict.fromkeys(file for one in downloads for file in one.files)),
        tuple(dict.fromkeys(images for one in downloads for images in one.images)),
        next((one.gated for one in downloads if one.gated), ""),
        " ".join(dict.fromkeys(one.by_hand for one in downloads if one.by_hand)),
    )


def find_source(name: str) -> DataSource:
    """Source of the files of the benchmark of this name.

    Raises:
        InputError: there is no such benchmark; or it is a file, or one that the package makes.
    """
    if name not in benchmark_names() and name.partition("/")[0] not in benchmark_names():
        near = did_you_mean(name, benchmark_names(), otherwise="see contrapose list benchmarks.")
        raise InputError(f"there is no benchmark {name!r}: {near}")
    return data_source(name, find_benchmark(name))


def data_root() -> Path:
    """Folder of all fetched benchmarks: `CONTRAPOSE_DATA`, or `data` in the user's cache folder."""
    chosen = os.environ.get(VARIABLE, "").strip()
    return Path(chosen).expanduser() if chosen else cache_folder() / "data"


def benchmark_folder(name: str) -> Path:
    """Folder of a benchmark in the cache, with a folder for each revision."""
    return safe_join(data_root(), name)


@dataclass(slots=True)
class Manifest:
    """Manifest of a fetched folder.

    Attributes:
        folder: the folder.
        files: path below it → `url`, `size`, `sha256`, `mtime`, `date`; an archive that was
            unpacked also has `entries`, the names that it left at the top of its folder `into`,
            and `members`, its files with their size, SHA-256 and time.
        groups: entry of the card's download → paths of its files.
        commits: hub repository → the commit that was fetched.
        missing: path of an image that cannot be had → why.
        complete: whether all files and images were there when the last fetch ended.
        changed: paths of `files` that count as not there, since they are not as they were fetched;
            not written.
    """

    folder: Path
    files: dict[str, dict[str, Any]] = field(default_factory=dict)
    groups: dict[str, list[str]] = field(default_factory=dict)
    commits: dict[str, str] = field(default_factory=dict)
    missing: dict[str, str] = field(default_factory=dict)
    complete: bool = False
    changed: set[str] = field(default_factory=set)

    def write(self, source: DataSource) -> None:
        """Write it atomically.

        Raises:
            InputError: it cannot be written: no permission, no space.
        """
        content = {
            "version": VERSION,
            "benchmark": source.name,
            "license": source.license,
            "complete": self.complete,
            "commits": self.commits,
            "groups": self.groups,
            "missing": dict(sorted(self.missing.items())),
            "files": dict(sorted(self.files.items())),
        }
        file = self.folder / MANIFEST
        try:
            write_text(file, json.dumps(content, indent=1, ensure_ascii=False) + "\n")
        except OSError as error:
            why = error.strerror or str(error)
            raise InputError(
                f"cannot be written ({why}); what came so far is kept.", file=file
            ) from None

    def has(self, path: str, url: str | None = None) -> bool:
        """Whether a file is there with the size it was fetched with, from this address if given."""
        entry = self.files.get(path)
        if entry is None or path in self.changed or (url is not None and entry["url"] != url):
            return False
        if "entries" in entry:
            into = self.folder / entry["into"]
            return all((into / name).exists() for name in entry["entries"])
        try:
            return (self.folder / path).stat().st_size == int(entry["size"])
        except OSError:
            return False

    @property
    def size(self) -> int:
        """Bytes of all files, of an archive those of its members."""
        return sum(int(entry.get("unpacked", entry["size"])) for entry in self.files.values())


def read_manifest(folder: Path) -> Manifest:
    """Read the manifest of a folder; an empty one where there is none that can be read."""
    require_regular(folder / MANIFEST)
    try:
        content = parse_json((folder / MANIFEST).read_text(encoding="utf-8"))
        files = {path: dict(entry) for path, entry in content["files"].items()}
        for path, entry in files.items():
            _require_entry(folder, path, entry)
        return Manifest(
            folder,
            files,
            {str(key): list(map(str, paths)) for key, paths in content["groups"].items()},
            {str(repo): str(commit) for repo, commit in content["commits"].items()},
            {str(path): str(why) for path, why in content["missing"].items()},
            bool(content["complete"]),
        )
    except (OSError, ValueError, LookupError, TypeError, AttributeError, RecursionError):
        return Manifest(folder)
    except MalformedError:  # a path that leaves the folder
        return Manifest(folder)


def _require_entry(folder: Path, path: str, entry: Mapping[str, Any]) -> None:
    """Require that an entry of a manifest names files below the folder, in values of their types.

    Raises:
        ValueError: a value is of another type; or another error where one is missing.
        MalformedError: a path leaves the folder.
    """
    safe_join(folder, path)
    numbers, texts = [entry["size"]], [entry["url"], entry["sha256"], entry["date"]]
    if "entries" in entry:
        numbers.append(entry["unpacked"])
        texts += [entry["into"], *entry["entries"]]
        prefix = f"{entry['into'] or '.'}/"
        safe_join(folder, f"{prefix}x")
        for name in entry["entries"]:
            safe_join(folder, f"{prefix}{name}")
        for name, (size, sha256, _) in entry["members"].items():
            safe_join(folder, f"{prefix}{name}")
            numbers.append(size)
            texts.append(sha256)
    if not all(isinstance(number, int) and number >= 0 for number in numbers):
        raise ValueError(path)
    if not all(isinstance(text, str) for text in texts):
        raise ValueError(path)


@contextmanager
def fetch_lock(name: str, announce: Callable[[str], None]) -> Iterator[None]:
    """Hold the lock of a benchmark's folder; a second process waits until the first is done.

    Raises:
        InputError: the folder cannot be written.
    """
    folder = benchmark_folder(name)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        stream = open_lock(folder / LOCK)
    except OSError as error:
        raise InputError(f"cannot be written ({error.strerror}).", file=folder) from None
    with stream:
        if not try_lock(stream):
            announce(f"another process fetches {name}; waiting for it.")
            while not try_lock(stream):
                time.sleep(POLL_SECONDS)
        yield


@dataclass(frozen=True, slots=True)
class DataStatus:
    """State of a benchmark's files.

    Attributes:
        name: of the benchmark.
        state: all there, some, none; or to be had by hand, or after accepting terms.
        size: bytes in the cache.
        files: number of files in the cache.
        license: of the annotations and images.
        folder: folder in the cache; None where nothing is there.
        missing: images that their host does not have.
    """

    name: str
    state: DataState
    size: int
    files: int
    license: str
    folder: Path | None
    missing: int = 0


@dataclass(slots=True)
class FetchReport:
    """Report of a fetch.

    Attributes:
        name: of the benchmark.
        folder: its folder in the cache.
        files: files and images that are in it.
        fetched: those of them that were fetched now.
        size: bytes of all of them.
        missing: images that cannot be had → why.
        by_hand: what must be put in by hand; empty if nothing.
    """

    name: str
    folder: Path
    files: int = 0
    fetched: int = 0
    size: int = 0
    missing: Mapping[str, str] = field(default_factory=dict)
    by_hand: str = ""


def data_status(source: DataSource) -> DataStatus:
    """State of a benchmark's files, by their sizes on disk."""
    download, manifest = source.download, read_manifest(source.folder)
    present = [path for path in manifest.files if manifest.has(path)]
    state: DataState = "none"
    if isinstance(download, Manual):
        state = "manual"
    elif download is not None:
        state = "gated" if download.gated else "not fetched"
    if present:
        intact = manifest.complete and len(present) == len(manifest.files)
        state = "complete" if intact else "partial"
    folder = source.folder if present else None
    size = manifest.size if present else 0
    return DataStatus(
        source.name, state, size, len(present), source.license, folder, len(manifest.missing)
    )


def list_status() -> list[DataStatus]:
    """States of all benchmarks that have files to be had, in the order of their names."""
    sources = [data_source(name, find_benchmark(name)) for name in benchmark_names()]
    return [data_status(source) for source in sources if source.download is not None]


def remove_data(name: str) -> int:
    """Delete a benchmark's folder in the cache, with all revisions; the bytes that it held.

    Only names of benchmarks and folders that a fetch made are accepted, and nothing outside the
    cache is touched.

    Raises:
        InputError: nothing of it is in the cache, or the folder is a link.
    """
    folder = require_removable(name)
    with fetch_lock(name, lambda message: None):
        size = sum(_file_sizes(folder))
        for entry in sorted(folder.iterdir(), key=lambda path: path.name == LOCK):
            if entry.is_dir() and not entry.is_symlink():
                shutil.rmtree(entry)
            else:
                entry.unlink()
    with suppress(OSError):
        folder.rmdir()
    return size


def require_removable(name: str) -> Path:
    """Folder of a benchmark in the cache that may be deleted.

    Raises:
        InputError: nothing of it is in the cache, or the folder is a link.
    """
    try:
        folder = benchmark_folder(name)
    except MalformedError as error:
        raise InputError(str(error)) from None
    if folder.is_symlink():
        raise InputError("is a link, which is not deleted: remove it by hand.", file=folder)
    if not (folder / LOCK).is_file():
        known = [path.name for path in data_root().glob("*") if (path / LOCK).is_file()]
        near = did_you_mean(name, known, otherwise="nothing is there under that name.")
        raise InputError(f"there are no files of {name!r} in {data_root()}: {near}")
    return folder


def _file_sizes(folder: Path) -> Iterator[int]:
    for parent, _, names in os.walk(folder):
        for name in names:
            with suppress(OSError):
                yield (Path(parent) / name).lstat().st_size


def known_copies(urls: Collection[str]) -> dict[str, tuple[Path, dict[str, Any]]]:
    """Files of other benchmarks in the cache that came from these addresses.

    Returns:
        Address → the file, which has the size it was fetched with, and its manifest entry.
    """
    copies: dict[str, tuple[Path, dict[str, Any]]] = {}
    for path in sorted(data_root().glob(f"**/{MANIFEST}")):
        manifest = read_manifest(path.parent)
        for name, entry in manifest.files.items():
            if entry["url"] in urls and "entries" not in entry and manifest.has(name):
                copies.setdefault(entry["url"], (path.parent / name, entry))
    return copies
