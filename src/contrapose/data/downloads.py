"""Downloads of benchmarks: addresses, pinned revisions, sizes, digests, or the steps by hand.

A card says by one of these where its files come from; `contrapose.data.fetch` fetches them. Nothing
in them is guessed: a size, digest or revision that was not seen is None, and the first fetch
records what it got.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Literal
from urllib.parse import quote

ArchiveFormat = Literal["zip", "tar"]
"""Format of an archive; a tar may be compressed by gzip, bzip2 or xz."""


@dataclass(frozen=True, slots=True)
class RemoteFile:
    """File at an address of the web.

    Attributes:
        path: where it lies in the benchmark's folder; for an archive the folder that it is unpacked
            into, empty for the benchmark's folder itself.
        url: its address, with the commit in it where there is one.
        size: its bytes; None where they are not known.
        sha256: digest of its bytes; None where it is not known: the first fetch records it.
        unpack: format of an archive to unpack; None keeps the file as it is.
        unpacked_size: bytes of all its members; an archive with more is refused. None allows
            as many as a usual archive of this size can hold.
    """

    path: str
    url: str
    size: int | None = None
    sha256: str | None = None
    unpack: ArchiveFormat | None = None
    unpacked_size: int | None = None


@dataclass(frozen=True, slots=True)
class HubFiles:
    """Files of a dataset repository of the Hugging Face hub, which states their sizes and digests.

    Attributes:
        repo: owner and name.
        patterns: names of the files; `*` stands for any characters, a slash too.
        revision: commit; None takes the newest at the first fetch, and keeps to it.
        folder: folder of the benchmark that they are put into, by their names in the repository.
        strip: beginning of those names that is left out.
        size: bytes of all of them; None where they are not known.
        unpack: format of archives to unpack into `folder`; None keeps the files as they are.
    """

    repo: str
    patterns: tuple[str, ...]
    revision: str | None = None
    folder: str = ""
    strip: str = ""
    size: int | None = None
    unpack: ArchiveFormat | None = None


@dataclass(frozen=True, slots=True)
class RemoteImages:
    """Images that lie on the web one by one; only those that the examples name are fetched.

    Attributes:
        folder: folder of the benchmark in which its reader looks for them.
        urls: addresses with `{name}` for the path below that folder, and `{stem}` for the same
            without its suffix; the next one is tried where the one before has no such image.
        count: number of the images that the whole benchmark names; None where it is not known.
        size: bytes of all of them; None where they are not known.
    """

    folder: str
    urls: tuple[str, ...]
    count: int | None = None
    size: int | None = None


@dataclass(frozen=True, slots=True)
class Download:
    """Download of a benchmark's files.

    Attributes:
        revision: commit or version of the annotations, which names the folder in the cache; None
            where the source has none.
        files: annotations and archives.
        images: images that are fetched one by one.
        gated: page on which terms must be accepted before the hub gives the files; empty where
            anyone may fetch them.
        by_hand: files that must be put in by hand, in one sentence; empty where nothing is missing.
    """

    revision: str | None
    files: tuple[RemoteFile | HubFiles, ...]
    images: tuple[RemoteImages, ...] = ()
    gated: str = ""
    by_hand: str = ""

    @property
    def folder(self) -> str:
        """Name of its folder in the cache, below that of the benchmark."""
        return (self.revision or "latest")[:12]


@dataclass(frozen=True, slots=True)
class Manual:
    """Download by hand, from a place that no program may or can fetch from.

    Attributes:
        page: address of the page to begin on.
        steps: what to do there, in one sentence.
        size: bytes of all files; None where they are not known.
    """

    page: str
    steps: str
    size: int | None = None


def download_kind(download: Download | Manual | None) -> str:
    """Kind of a download in one word: fetchable, gated, manual, or none."""
    if download is None:
        return "none"
    if isinstance(download, Manual):
        return "manual"
    return "gated" if download.gated else "fetchable"


def download_size(download: Download | Manual | None) -> int | None:
    """Bytes of all files of a download; None where the size of one of them is not known."""
    if download is None:
        return None
    if isinstance(download, Manual):
        return download.size
    sizes = [part.size for part in (*download.files, *download.images)]
    return None if None in sizes else sum(size or 0 for size in sizes)


def format_size(size: int | None) -> str:
    """Format a number of bytes in the unit that suits it; a dash where it is not known."""
    if size is None:
        return "–"
    number = float(size)
    for unit in ("B", "kB", "MB", "GB"):
        if number < 1000 or unit == "GB":
            break
        number /= 1000
    return f"{number:.0f} {unit}" if unit == "B" or number >= 100 else f"{number:.1f} {unit}"


def describe_download(download: Download | Manual | None) -> str:
    """Describe a download in a few words: its kind, size, and number of images."""
    kind = download_kind(download)
    size = download_size(download)
    if not isinstance(download, Download):
        return f"{kind}, {format_size(size)}" if size is not None else kind
    rest = ", images by hand" if download.by_hand else ""
    if size is not None:
        return f"{kind}, {format_size(size)}{rest}"
    known = sum(part.size or 0 for part in (*download.files, *download.images))
    parts = [format_size(known)] if known else []
    counts = [images.count for images in download.images if images.size is None]
    if counts:
        known_counts = sum(count or 0 for count in counts)
        parts.append("the images that it names" if None in counts else f"{known_counts:,} images")
    if any(part.size is None for part in download.files):
        parts.append("files whose size is not known")
    return f"{kind}, {' and '.join(parts)}{rest}"


def github_files(
    repo: str,
    commit: str,
    files: Mapping[str, tuple[str, int | None, str | None]],
) -> tuple[RemoteFile, ...]:
    """List files of a repository of GitHub at a commit.

    Args:
        repo: owner and name.
        commit: 40 digits.
        files: path in the benchmark's folder → path in the repository, size and SHA-256.
    """
    base = f"https://raw.githubusercontent.com/{repo}/{commit}"
    return tuple(
        RemoteFile(path, f"{base}/{name}", size, sha256)
        for path, (name, size, sha256) in files.items()
    )


COCO_URL = "http://images.cocodataset.org"
"""Host of COCO's images; it answers HTTPS with another host's certificate."""

GENOME_URL = "https://cs.stanford.edu/people/rak248"
"""Host of Visual Genome's images, in two folders."""


def coco_images(folder: str, *splits: str, count: int | None = None) -> RemoteImages:
    """Images of COCO, from the first of these splits that has them, such as `val2017`."""
    return RemoteImages(folder, tuple(f"{COCO_URL}/{split}/{{name}}" for split in splits), count)


def genome_images(folder: str, count: int | None = None) -> RemoteImages:
    """Images of Visual Genome, from the one of its two parts that has them."""
    urls = tuple(f"{GENOME_URL}/{part}/{{name}}" for part in ("VG_100K", "VG_100K_2"))
    return RemoteImages(folder, urls, count)


KARPATHY_URL = "https://storage.googleapis.com/sfr-vision-language-research/datasets"
"""Host of Karpathy's test splits as lists, from which the code of BLIP and ARO fetches them."""

FLICKR_DOWNLOAD = Manual(
    "https://shannon.cs.illinois.edu/DenotationGraph/",
    "fill in its form for the images, and fetch flickr30k_test.json from "
    f"{KARPATHY_URL}/flickr30k_test.json",
)
"""Flickr30k, whose images are given on request."""


def image_urls(path: str, sources: Iterable[RemoteImages]) -> tuple[str, ...]:
    """Addresses of an image by its path below the benchmark's folder; none where none is known."""
    for images in sources:
        prefix = f"{images.folder}/" if images.folder else ""
        if path.startswith(prefix):
            name = path.removeprefix(prefix)
            stem = name.rpartition(".")[0] or name
            return tuple(
                url.replace("{name}", quote(name)).replace("{stem}", quote(stem))
                for url in images.urls
            )
    return ()
