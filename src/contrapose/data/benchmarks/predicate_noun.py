"""Predicate-noun dependencies: two photographs, two sentences that differ in one word."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path

from contrapose.data.benchmarks.common import find_file, find_image
from contrapose.data.cards import Benchmark, Card, Micro
from contrapose.data.downloads import Download, RemoteImages, github_files
from contrapose.data.examples import Example, diagonal_match
from contrapose.data.images import ImageRef
from contrapose.files import MalformedError, Problem, Problems, Record, read_json_records

FILE = "eval_set.json"
TAGS = ("pos", "predicate", "open_images_split")
FOLDERS = ("images", "open_images", ".")

COMMIT = "a84730fbb4f97026efc19602b345c7fefa7292ff"
OPEN_IMAGES = "https://open-images-dataset.s3.amazonaws.com"

DOWNLOAD = Download(
    COMMIT,
    github_files(
        "mitjanikolaus/multimodal-predicate-noun-dependencies",
        COMMIT,
        {
            "eval_set.json": (
                "data/sentence-semantics/eval_set.json",
                1921825,
                "fe9d4a5d052b30207df799a544c3d8697b4eccada672276f9256f3ff2e693ef5",
            ),
        },
    ),
    (
        RemoteImages(
            "images",
            tuple(f"{OPEN_IMAGES}/{split}/{{name}}" for split in ("test", "validation", "train")),
            1673,
        ),
    ),
)

CARD = Card(
    name="predicate-noun",
    title="Predicate-noun dependencies: who does what, with both in the picture",
    paper="Nikolaus et al., Do Vision-and-Language Transformers Learn Grounded Predicate-Noun "
    "Dependencies?, EMNLP 2022 (arXiv:2210.12079)",
    license="annotations without a license; images Open Images V6 (CC BY 2.0)",
    source="github.com/mitjanikolaus/multimodal-predicate-noun-dependencies "
    "(data/sentence-semantics/eval_set.json; scores of twelve models in runs/) and Open Images",
    layout=f"{FILE}, or the same under data/sentence-semantics/\nimages/<id>.jpg",
    download=DOWNLOAD,
    shape="2 × 2",
    family="pairs",
    counts={"predicate-noun": 1292},
    aggregation=Micro(),
    chance={"text": 1 / 4, "image": 1 / 4, "group": 1 / 6},
    tags={
        "pos": "subject or object: which word differs",
        "predicate": "of the first image: is, wears, holds, …",
        "open_images_split": "train or test",
    },
    by=("pos",),
    match=diagonal_match(2),
    scores="predicate-noun",
    single_choices="mean",
    errata="the released scores of CLIP are softmaxed over the two sentences of an image: the "
    "text score is that of the cosines, the image score is not. The file of the human answers has "
    "outcomes of 500 rows by another numbering, and no scores: only rows are measured",
    official="the paper's pair accuracy is the text score; its table is of rows, `text_single`",
)


@dataclass(frozen=True, slots=True)
class _Row:
    """Row of the annotations: an image, its sentence, and the sentence of the other one."""

    image: str
    target: str
    distractor: str
    tags: dict[str, str]


def read(root: Path, problems: Problems) -> Iterator[Example]:
    """Read the pairs; example n is made of the rows 2n and 2n + 1, which mirror each other."""
    path = find_file(root, FILE, f"data/sentence-semantics/{FILE}", f"data/{FILE}")
    records = read_json_records(path, problems)
    for number, some in groupby(enumerate(records), key=lambda row: row[0] // 2):
        pair = [record for _, record in some]
        try:
            yield _build_example(number, pair, root)
        except MalformedError as error:
            problems.report(Problem("malformed record", str(error), path, pair[0].line))


def _build_example(number: int, pair: list[Record], root: Path) -> Example:
    if len(pair) != 2:
        raise MalformedError(f"record {pair[0].key}: the row that mirrors it is missing.")
    first, second = (_read_row(record) for record in pair)
    if (first.target, first.distractor) != (second.distractor, second.target):
        raise MalformedError(
            f"record {pair[0].key}: its sentences are not those of the next row, exchanged."
        )
    images = tuple(
        ImageRef(row.image, find_image(root, row.image, *FOLDERS)) for row in (first, second)
    )
    texts = (first.target, second.target)
    return Example(str(number), images, texts, diagonal_match(2), first.tags)


def _read_row(record: Record) -> _Row:
    return _Row(
        record.text("img_filename"),
        record.text("sentence_target"),
        record.text("sentence_distractor"),
        {tag: record.text(tag) for tag in TAGS if record.value.get(tag)},
    )


BENCHMARK = Benchmark(CARD, read)
