"""Fetching of benchmarks into the cache: annotations, archives, and the images they name.

Everything is verified before it takes its name, recorded in the manifest, and never fetched twice.
Readers say which images are needed, so that no others are fetched.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from pathlib import Path

from contrapose.data.cached_data import DataSource, FetchReport, fetch_lock
from contrapose.data.cards import BenchmarkData
from contrapose.data.downloads import Download, Manual, format_size
from contrapose.data.examples import ComposedSet, EditSet, Gallery
from contrapose.data.fetcher import Fetcher, Progress
from contrapose.data.images import ImageRef
from contrapose.data.integrity import check_files, is_annotation, names_of
from contrapose.data.video_clips import VideoClip
from contrapose.errors import InputError, hide_credentials, option, printable
from contrapose.files import StrictProblems, resolve_name


def announce_on_stderr(message: str) -> None:
    """Say a sentence on standard error."""
    with suppress(OSError, ValueError, AttributeError):
        print(printable(hide_credentials(f"contrapose: {message}")), file=sys.stderr, flush=True)


def is_offline(offline: bool = False) -> bool:
    """Whether nothing may be fetched: asked for, or `HF_HUB_OFFLINE` is set."""
    value = os.environ.get("HF_HUB_OFFLINE", "").strip().upper()
    return offline or value in ("1", "ON", "YES", "TRUE")


def fetch_source(
    source: DataSource,
    *,
    offline: bool = False,
    progress: Progress | None = None,
    announce: Callable[[str], None] = announce_on_stderr,
) -> FetchReport:
    """Fetch all files and images of a benchmark, and check the digests of those that are there.

    Raises:
        InputError: it cannot be fetched, or nothing may be fetched; says what to do.
        DownloadError: a file cannot be had now, or is not the one that the card describes.
    """
    fetcher = Fetcher(source, _require_download(source), progress, announce)
    with fetch_lock(source.name, announce):
        fetcher.load()
        fetcher.compare()
        if not fetcher.has_files():
            _require_online(source, offline)
        fetcher.fetch_files()
        refs = [ref for part in source.parts for ref in _read_refs(part.read, source.folder)]
        wanted = fetcher.wanted_images(refs, retry=True)
        if wanted:
            _require_online(source, offline)
        fetcher.fetch_images(wanted)
        for path in sorted(fetcher.manifest.changed):  # nothing names it any more
            fetcher.forget(path)
        fetcher.record_images(refs)
        fetcher.manifest.complete = True
        fetcher.manifest.write(source)
    return fetcher.report()


def open_source(
    source: DataSource, *, offline: bool = False, progress: Progress | None = None
) -> Path:
    """Folder of a benchmark's annotations in the cache; they are fetched if they are not there.

    Raises:
        InputError: it cannot be fetched, or nothing may be fetched; says what to do.
        DownloadError: a file cannot be had now, or is not the one that the card describes.
    """
    fetcher = Fetcher(source, _require_download(source), progress, announce_on_stderr)
    fetcher.load()
    check_files(source, fetcher.manifest, is_annotation, announce_on_stderr)
    if not fetcher.has_files():
        _require_online(source, offline)
        with fetch_lock(source.name, announce_on_stderr):
            _load_again(fetcher)
            fetcher.fetch_files()
    return source.folder


def _load_again(fetcher: Fetcher) -> None:
    """Read the manifest under the lock; entries that were changed and not fetched since stay so."""
    before = fetcher.manifest
    fetcher.load()
    fetcher.manifest.changed |= {
        path
        for path in before.changed
        if fetcher.manifest.files.get(path, {}).get("date") == before.files[path]["date"]
    }


def find_fetched(source: DataSource) -> Path | None:
    """Folder of a benchmark's annotations if the cache holds them; nothing is fetched."""
    if not isinstance(source.download, Download):
        return None
    fetcher = Fetcher(source, source.download, None, announce_on_stderr)
    fetcher.load()
    check_files(source, fetcher.manifest, is_annotation, announce_on_stderr)
    return source.folder if fetcher.has_files() else None


def fetch_named_images(
    source: DataSource,
    parts: Iterable[BenchmarkData],
    *,
    complete: bool,
    offline: bool = False,
    progress: Progress | None = None,
) -> None:
    """Fetch the images that examples name and that are not in the cache.

    Args:
        source: files of the benchmark.
        parts: examples, galleries or queries, as read from its folder.
        complete: whether they are all of the benchmark.
        offline: fetch nothing.
        progress: called with a description, what is done and what there is to do.

    Raises:
        InputError: images are missing and nothing may be fetched.
        DownloadError: images cannot be had now.
    """
    fetcher = Fetcher(source, _require_download(source), progress, announce_on_stderr)
    fetcher.load()
    refs = [ref for data in parts for ref in image_refs(data)]
    names = names_of(source.folder, map(_ref_path, refs))
    check_files(source, fetcher.manifest, names.__contains__, announce_on_stderr)
    if fetcher.wanted_images(refs) or not fetcher.has_files():
        _require_online(source, offline)
        _fetch_wanted(fetcher, refs, complete)
    if fetcher.download.by_hand and refs:
        missing = sum(map(_is_missing, refs))
        if missing:
            message = f"{source.name} wants by hand: {fetcher.download.by_hand}"
            if missing == len(refs):
                raise InputError(f"{message}. Put them into {source.folder}.")
            announce_on_stderr(f"{message}; their examples are skipped.")


def _is_missing(ref: ImageRef) -> bool:
    """Whether the file of an image or of a video is not there."""
    path = _ref_path(ref)
    return path is not None and resolve_name(path) is None


def _ref_path(ref: ImageRef) -> Path | None:
    """File of an image or of a video; None for a generated image."""
    return ref.source.path if isinstance(ref.source, VideoClip) else ref.path


def _fetch_wanted(fetcher: Fetcher, refs: list[ImageRef], complete: bool) -> None:
    """Fetch images under the lock, and say which cannot be had."""
    source = fetcher.source
    with fetch_lock(source.name, announce_on_stderr):
        _load_again(fetcher)
        fetcher.fetch_files()
        wanted = fetcher.wanted_images(refs)
        before = len(fetcher.manifest.missing)
        fetcher.fetch_images(wanted)
        fetcher.record_images(refs)
        fetcher.manifest.complete |= complete
        fetcher.manifest.write(source)
    if len(fetcher.manifest.missing) > before:
        announce_on_stderr(describe_missing(fetcher.report()))


def describe_missing(report: FetchReport) -> str:
    """Name the first images that cannot be had, and say how many there are."""
    path, why = next(iter(report.missing.items()))
    return f"{len(report.missing):,} images of {report.name} cannot be had, such as {path}: {why}"


def image_refs(data: BenchmarkData) -> Iterator[ImageRef]:
    """References to the images of examples, a gallery, or queries."""
    if isinstance(data, Gallery | EditSet | ComposedSet):
        yield from data.images
    else:
        for example in data:
            yield from example.images


def _read_refs(read: Callable[..., BenchmarkData], folder: Path) -> Iterator[ImageRef]:
    return image_refs(read(folder, StrictProblems()))


def _require_download(source: DataSource) -> Download:
    """Download of a benchmark that can be fetched.

    Raises:
        InputError: it must be had by hand; says from where, under which terms, and the layout.
    """
    download = source.download
    by_root = f"pass {option('root', 'DIR')}, the folder of {source.name} ({source.layout})"
    if download is None:
        raise InputError(f"{by_root}. Files from: {source.origin}. Licence: {source.license}.")
    if isinstance(download, Manual):
        raise InputError(
            f"{source.name} must be fetched by hand from {download.page}: "
            f"{download.steps.rstrip('.')}. Licence: {source.license}. Then {by_root}."
        )
    return download


def _require_online(source: DataSource, offline: bool) -> None:
    """Require that fetching is allowed.

    Raises:
        InputError: it is not; says what to run elsewhere.
    """
    if is_offline(offline):
        why = option("offline", True) if offline else "HF_HUB_OFFLINE is set"
        raise InputError(
            f"{source.name} is not complete in {source.folder}, and nothing may be fetched "
            f"({why}): run contrapose data fetch {source.name} where there is network, or pass "
            f"{option('root', 'DIR')}."
        )


def describe_report(report: FetchReport) -> str:
    """Describe a finished fetch in a sentence."""
    size = format_size(report.size)
    return f"{report.name}: {report.files:,} files, {size}, in {report.folder}"
