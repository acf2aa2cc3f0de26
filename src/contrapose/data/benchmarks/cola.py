"""COLA: two images whose attributes have changed places, two captions."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

from contrapose.data.benchmarks.common import find_file, find_image
from contrapose.data.cards import Benchmark, Card, Micro
from contrapose.data.downloads import Download, RemoteImages, genome_images, github_files
from contrapose.data.examples import Example, diagonal_match
from contrapose.data.images import ImageRef
from contrapose.files import MalformedError, Problems, Record, parse_records, read_json_records

FILE = "COLA_multiobjects_matching_benchmark.json"
FOLDERS = ("images", "vg_gqa_images", "VG_100K", "VG_100K_2", ".")

DOWNLOAD = Download(
    None,
    github_files(
        "arijitray1993/COLA",
        "HEAD",
        {
            "COLA_multiobjects_matching_benchmark.json": (
                "data/COLA_multiobjects_matching_benchmark.json",
                56746,
                "e2846dcc958e3277813ca572bce53db96fd5dd65caaa57ccd20dc1ce51d73ec0",
            ),
        },
    ),
    (
        RemoteImages(
            "images",
            ("https://cs-people.bu.edu/array/data/vg_gqa_images/{name}", *genome_images("").urls),
            218,
        ),
    ),
)

CARD = Card(
    name="cola",
    title="COLA multi-object: attributes bound to the right object",
    paper="Ray et al., COLA: A Benchmark for Compositional Text-to-image Retrieval, NeurIPS 2023 "
    "(arXiv:2305.03689)",
    license="annotations MIT; images Visual Genome (CC BY 4.0)",
    source="github.com/arijitray1993/COLA (data/) and the Visual Genome images it links to",
    layout=f"{FILE}, or the same under data/\n"
    "images/<id>.jpg, or vg_gqa_images/, or VG_100K/ and VG_100K_2/",
    download=DOWNLOAD,
    shape="2 × 2",
    family="images",
    counts={"cola": 210},
    aggregation=Micro(),
    chance={"image": 1 / 4},
    by=(),
    match=diagonal_match(2),
)


def read(root: Path, problems: Problems) -> Iterator[Example]:
    """Read the pairs; ids are their positions in the file.

    The file names images by the web address they once had: the last part of it is the name.
    """

    def build(record: Record) -> Example:
        entry = record.value
        if not isinstance(entry, list) or len(entry) != 4 or not all(map(_is_text, entry)):
            raise MalformedError(
                f"record {record.key}: expected [image 1, caption 1, image 2, caption 2]."
            )
        names = [_read_name(link, record.key) for link in entry[::2]]
        refs = tuple(ImageRef(name, find_image(root, name, *FOLDERS)) for name in names)
        return Example(record.key, refs, (entry[1], entry[3]), diagonal_match(2))

    path = find_file(root, FILE, f"data/{FILE}")
    yield from parse_records(read_json_records(path, problems), build, problems)


def _read_name(link: str, key: str) -> str:
    """Last part of a web address."""
    try:
        return urlsplit(link).path.rpartition("/")[2]
    except ValueError:
        raise MalformedError(f"record {key}: {link[:100]!r} is no web address.") from None


def _is_text(value: object) -> bool:
    return isinstance(value, str)


BENCHMARK = Benchmark(CARD, read)
