"""Fetcher of one benchmark: annotations, archives and images into its folder in the cache."""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from contrapose.data.cached_data import (
    DataSource,
    FetchReport,
    Manifest,
    known_copies,
    read_manifest,
)
from contrapose.data.downloads import (
    ArchiveFormat,
    Download,
    HubFiles,
    RemoteFile,
    describe_download,
    image_urls,
)
from contrapose.data.hub import (
    STAGING,
    GatedError,
    HubFile,
    download_hub_file,
    has_token,
    list_hub_files,
)
from contrapose.data.images import ImageRef
from contrapose.data.integrity import (
    MISSING,
    compare_files,
    member_records,
    modification_time,
    store_times,
)
from contrapose.errors import InputError, option
from contrapose.files import resolve_name
from contrapose.files.archives import unpack_archive
from contrapose.files.download import Expectation, FetchedFile, download_file, sha256_of
from contrapose.files.web import DownloadError

Progress = Callable[[str, int, int], None]
"""Called with a description, what is done and what there is to do."""

THREADS = 8
WRITE_SECONDS = 2.0
"""Seconds between two writes of the manifest while images come in."""

LARGEST_IMAGE = 200 << 20
IMAGE_STARTS = (b"\xff\xd8\xff", b"\x89PNG\r\n", b"GIF8", b"RIFF", b"BM", b"II*\0", b"MM\0*")
"""First bytes of JPEG, PNG, GIF, WebP, BMP and TIFF: an error page is no image."""

MOST_FAILURES = 8
"""Images in a row that fail before the rest is not tried: the host or the network is down."""


def gated_error(source: DataSource, page: str) -> InputError:
    """Error of a benchmark whose terms are not accepted: page, license, layout and option."""
    return InputError(
        f"{source.name} is gated: accept its terms on {page} (licence: {source.license}) and set "
        f"HF_TOKEN to a token of your account; or fetch the files by hand and pass "
        f"{option('root', 'DIR')}, their folder ({source.layout})."
    )


@dataclass(slots=True)
class Fetcher:
    """Fetch of one benchmark's files into its folder, whose lock the caller holds."""

    source: DataSource
    download: Download
    progress: Progress | None
    announce: Callable[[str], None]
    manifest: Manifest = field(init=False)
    fetched: int = 0
    announced: bool = False

    def load(self) -> None:
        """Read the manifest, which another process may have changed."""
        self.manifest = read_manifest(self.source.folder)

    def report(self) -> FetchReport:
        """Report of what is in the folder, and what was fetched now."""
        manifest, source = self.manifest, self.source
        return FetchReport(
            source.name, source.folder, len(manifest.files), self.fetched, manifest.size,
            dict(manifest.missing), self.download.by_hand,
        )  # fmt: skip

    def has_files(self) -> bool:
        """Whether all annotations and archives are there, by their sizes."""
        return all(self._has(file) for file in self.download.files)

    def _has(self, file: RemoteFile | HubFiles) -> bool:
        paths = self.manifest.groups.get(_group(file))
        url = file.url if isinstance(file, RemoteFile) else None
        return bool(paths) and all(self.manifest.has(path, url) for path in paths or ())

    def compare(self) -> None:
        """Hash all files; those that are not as they were fetched count as not there."""
        result = compare_files(self.manifest, hash_all=True, progress=self.progress)
        store_times(self.manifest, result.times)
        for path, why in result.changed.items():
            if why != MISSING:
                self.announce(f"{self.source.folder / path} {why}: changed since it was fetched.")

    def forget(self, path: str) -> None:
        """Delete a file that was changed and cannot be had again, and its entry."""
        entry = self.manifest.files.pop(path, {})
        self.manifest.changed.discard(path)
        if entry and "entries" not in entry:
            (self.source.folder / path).unlink(missing_ok=True)

    def say_what_comes(self) -> None:
        """Say once what is fetched, how much it is, and under which license."""
        if not self.announced:
            self.announced = True
            self.announce(
                f"fetching {self.source.name} ({describe_download(self.download)}) into "
                f"{self.source.folder}. Licence: {self.source.license}."
            )

    def fetch_files(self) -> None:
        """Fetch annotations and archives that are not there."""
        if self.download.gated and not self.has_files() and not has_token():
            raise gated_error(self.source, self.download.gated)
        for file in self.download.files:
            if self._has(file):
                continue
            self.say_what_comes()
            try:
                if isinstance(file, RemoteFile):
                    paths = [self._fetch_file(file)]
                else:
                    paths = self._fetch_hub(file)
            except GatedError as error:
                if not self.download.gated:
                    raise
                raise gated_error(self.source, self.download.gated) from error
            self.manifest.groups[_group(file)] = paths
            self.manifest.write(self.source)
        shutil.rmtree(self.source.folder / STAGING, ignore_errors=True)

    def _fetch_file(self, file: RemoteFile) -> str:
        expected = Expectation(file.size, file.sha256)
        name = file.url.partition("?")[0].rpartition("/")[2]
        path = f"{file.path}/{name}".lstrip("/") if file.unpack else file.path
        target = self.source.folder / path
        if self._is_unpacked(path, file.url):  # a fetch was killed right after
            target.unlink(missing_ok=True)
            return path
        if not self._adopt(target, path, file.url, expected):
            result = download_file(file.url, target, expected, progress=self._bytes(name))
            self._record(path, file.url, result)
            self.manifest.write(self.source)
        if file.unpack:
            self._unpack(path, file.path, file.unpack, file.unpacked_size)
        return path

    def _fetch_hub(self, files: HubFiles) -> list[str]:
        listed = list_hub_files(files, self.manifest.commits.get(files.repo))
        self.manifest.commits[files.repo] = listed[0].commit
        paths = []
        for file in listed:
            name = file.name.removeprefix(files.strip)
            path = "/".join(word for word in (files.folder, name) if word)
            paths.append(path)
            unpacked = self._is_unpacked(path, file.url)
            if not unpacked and not self.manifest.has(path, file.url):
                self._fetch_hub_file(file, path)
            if files.unpack and not unpacked:
                self._unpack(path, files.folder, files.unpack, None)
        return paths

    def _fetch_hub_file(self, file: HubFile, path: str) -> None:
        target = self.source.folder / path
        if self._adopt(target, path, file.url, Expectation(file.size, file.sha256)):
            return
        staging = self.source.folder / STAGING
        result = download_hub_file(file, target, staging, self._bytes(file.name))
        self._record(path, file.url, result)
        self.manifest.write(self.source)

    def _unpack(self, path: str, into: str, form: ArchiveFormat, size: int | None) -> None:
        """Unpack an archive, and delete it."""
        archive = self.source.folder / path
        unpacked = unpack_archive(
            archive, self.source.folder / into, form, size=size, progress=self._bytes(archive.name)
        )
        self.manifest.files[path] |= {
            "into": into,
            "entries": list(unpacked.entries),
            "members": member_records(self.source.folder / into, unpacked.members),
            "unpacked": unpacked.size,
        }
        self.manifest.write(self.source)
        archive.unlink()

    def _is_unpacked(self, path: str, url: str) -> bool:
        """Whether an archive was unpacked, and what it left at the top is still there."""
        return "entries" in self.manifest.files.get(path, {}) and self.manifest.has(path, url)

    def _adopt(self, target: Path, path: str, url: str, expected: Expectation) -> bool:
        """Take a file that is there already, here or for another benchmark, if it is the right one.

        Without a known digest only a copy from the same address, with the digest that was recorded
        then, is taken.
        """
        entry = self.manifest.files.get(path, {})
        recorded = entry if entry.get("url") == url else {}
        for copy, entry in ((target, recorded), *known_copies({url}).values()):
            digest = expected.sha256 or entry.get("sha256")
            if digest is None or not copy.is_file() or sha256_of(copy) != digest:
                continue
            if copy != target:
                _link(copy, target)
            self._record(path, url, FetchedFile(target.stat().st_size, digest))
            return True
        return False

    def _record(self, path: str, url: str, result: FetchedFile) -> None:
        self.fetched += 1
        self.manifest.missing.pop(path, None)
        self.manifest.changed.discard(path)
        self.manifest.files[path] = {
            "url": url,
            "size": result.size,
            "sha256": result.sha256,
            "mtime": modification_time(self.source.folder / path),
            "date": datetime.now(UTC).isoformat(timespec="seconds"),
        }

    def _bytes(self, name: str) -> Callable[[int, int | None], None] | None:
        """Progress of one file, in kilobytes."""
        if self.progress is None:
            return None
        report, what = self.progress, f"{self.source.name}: {name} (kB)"

        def call(done: int, total: int | None) -> None:
            report(what, done // 1000, max(total or done, done) // 1000)

        return call

    def wanted_images(
        self, refs: Iterable[ImageRef], *, retry: bool = False
    ) -> dict[str, tuple[str, ...]]:
        """Paths of images that are named, not there, and have an address → the addresses.

        Args:
            refs: the references.
            retry: also those that could not be had before.
        """
        wanted: dict[str, tuple[str, ...]] = {}
        for path, urls in self._image_paths(refs):
            damaged = path in self.manifest.files and not self.manifest.has(path)
            if (damaged or resolve_name(self.source.folder / path) is None) and (
                retry or path not in self.manifest.missing
            ):
                wanted[path] = urls
        return wanted

    def _image_paths(self, refs: Iterable[ImageRef]) -> Iterator[tuple[str, tuple[str, ...]]]:
        """Paths below the folder of images that have addresses, each once, and the addresses."""
        seen: set[Path] = set()
        for ref in refs:
            if ref.path is None or ref.cell is not None or ref.path in seen:
                continue
            seen.add(ref.path)
            if ref.path.is_relative_to(self.source.folder):
                path = ref.path.relative_to(self.source.folder).as_posix()
                if urls := image_urls(path, self.download.images):
                    yield path, urls

    def record_images(self, refs: Iterable[ImageRef]) -> None:
        """Record images that are there without an entry: a fetch was killed, or a user's hand."""
        for path, urls in self._image_paths(refs):
            file = self.source.folder / path
            if path not in self.manifest.files and file.is_file():
                url = urls[0] if len(urls) == 1 else ""
                self._record(path, url, FetchedFile(file.stat().st_size, sha256_of(file)))
                self.fetched -= 1

    def fetch_images(self, wanted: Mapping[str, tuple[str, ...]]) -> None:
        """Fetch images in parallel; those that their host does not have are noted.

        Raises:
            DownloadError: some cannot be had now; the others are kept.
        """
        if not wanted:
            return
        self.say_what_comes()
        copies = known_copies({url for urls in wanted.values() for url in urls})
        failures: dict[str, DownloadError] = {}
        done = in_a_row = 0
        written = time.monotonic()
        for path, outcome in _run_all(self._fetch_image, wanted, copies):
            done += 1
            in_a_row = in_a_row + 1 if isinstance(outcome, DownloadError) else 0
            if not isinstance(outcome, DownloadError):
                url, result = outcome
                self._record(path, url, result)
            elif outcome.passing:
                failures[path] = outcome
            else:
                self.manifest.missing[path] = str(outcome)
                self.forget(path)
            if self.progress is not None:
                self.progress(f"{self.source.name}: images", done, len(wanted))
            if time.monotonic() - written > WRITE_SECONDS:
                self.manifest.write(self.source)
                written = time.monotonic()
            if failures and in_a_row >= MOST_FAILURES:
                break
        self.manifest.write(self.source)
        if failures:
            left = len(failures) + len(wanted) - done
            raise DownloadError(
                f"{left:,} of {len(wanted):,} images of {self.source.name} could not be fetched; "
                f"the first: {next(iter(failures.values()))}",
                passing=True,
            )

    def _fetch_image(
        self,
        path: str,
        urls: tuple[str, ...],
        copies: Mapping[str, tuple[Path, dict[str, Any]]],
    ) -> tuple[str, FetchedFile]:
        target = self.source.folder / path
        for url in urls:
            if url in copies:
                copy, entry = copies[url]
                if sha256_of(copy) == entry["sha256"]:
                    _link(copy, target)
                    return url, FetchedFile(entry["size"], entry["sha256"])
        expected = Expectation(largest=LARGEST_IMAGE, starts=IMAGE_STARTS)
        for url in urls[:-1]:
            try:
                return url, download_file(url, target, expected)
            except DownloadError as error:
                if error.passing:
                    raise
        return urls[-1], download_file(urls[-1], target, expected)


def _run_all(
    fetch: Callable[..., tuple[str, FetchedFile]],
    wanted: Mapping[str, tuple[str, ...]],
    copies: Mapping[str, tuple[Path, dict[str, Any]]],
) -> Iterator[tuple[str, tuple[str, FetchedFile] | DownloadError]]:
    """Fetch images in threads, a few ahead; what is waiting is dropped when the caller stops."""
    waiting = iter(wanted.items())
    running: dict[Future[tuple[str, FetchedFile]], str] = {}
    with ThreadPoolExecutor(THREADS) as pool:
        while True:
            for path, urls in waiting:
                running[pool.submit(fetch, path, urls, copies)] = path
                if len(running) >= 2 * THREADS:
                    break
            if not running:
                return
            for future in wait(running, return_when=FIRST_COMPLETED).done:
                path = running.pop(future)
                try:
                    outcome: tuple[str, FetchedFile] | DownloadError = future.result()
                except DownloadError as error:
                    outcome = error
                yield path, outcome


def _group(file: RemoteFile | HubFiles) -> str:
    """Key of an entry of a download in the manifest."""
    if isinstance(file, RemoteFile):
        return file.url
    return f"hub:{file.repo}@{file.revision or ''}:{','.join(file.patterns)}"


def _link(copy: Path, target: Path) -> None:
    """Give a file a second name, or copy it where the file system has no links."""
    target.parent.mkdir(parents=True, exist_ok=True)
    part = target.with_name(f".{target.name}.part")
    part.unlink(missing_ok=True)
    try:
        os.link(copy, part)
    except OSError:
        shutil.copyfile(copy, part)
    part.replace(target)
