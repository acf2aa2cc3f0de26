"""MMVP: pairs of photographs that CLIP takes for alike, as statements and as questions."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import groupby
from pathlib import Path

from contrapose.data.benchmarks.common import find_file, find_image
from contrapose.data.cards import Benchmark, Card, Micro
from contrapose.data.downloads import Download, HubFiles
from contrapose.data.examples import Example, TagValue, diagonal_match, single_match
from contrapose.data.images import ImageRef
from contrapose.files import (
    MalformedError,
    Problem,
    Problems,
    Record,
    parse_records,
    read_csv_records,
)

PAPER = (
    "Tong et al., Eyes Wide Shut? Exploring the Visual Shortcomings of Multimodal LLMs, CVPR 2024 "
    "(arXiv:2401.06209)"
)
PROMPT = "a photo of "
"""Beginning of every caption of MMVP-VLM, as the released script has it."""

DISPUTED = frozenset({99, 100, 279, 280})
"""Questions of MMVP, counted from 1, whose released answers are reported to be wrong."""

ANSWERS = {True: "reported wrong", False: "undisputed"}
"""Values of the tag `answer`."""

VLM_CARD = Card(
    name="mmvp-vlm",
    title="MMVP-VLM: two photographs that CLIP takes for alike, two statements",
    paper=PAPER,
    license="MIT",
    source="the dataset MMVP/MMVP_VLM on the Hugging Face hub; script: github.com/tsb0601/MMVP "
    "(scripts/evaluate_vlm.py)",
    layout="Questions.csv: id, type, statement; two rows are a pair\n"
    "MLLM_VLM Images/<type>/<id>.jpg",
    shape="2 × 2",
    family="pairs",
    counts={"mmvp-vlm": 135},
    aggregation=Micro(),
    chance={"text": 1 / 4, "image": 1 / 4, "group": 1 / 6},
    tags={"pattern": "the visual pattern that differs, one of nine with 15 pairs each"},
    by=("pattern",),
    match=diagonal_match(2),
    official="its number is the image score: both statements choose the right photograph. A tie "
    "goes to the second photograph, so that one tied statement of the two may count as right; "
    "here it never does",
    errata="the file of questions was not seen: its columns are those that the released script "
    "reads. An image, 149.jpg, was added to the hub after the first release",
    download=Download(
        "69218ac4ba2ec1fa303ba9b1b4bff54c0b5516c6",
        (
            HubFiles(
                "MMVP/MMVP_VLM",
                ("Questions.csv", "MLLM_VLM Images/*"),
                "69218ac4ba2ec1fa303ba9b1b4bff54c0b5516c6",
            ),
        ),
    ),
)

CARD = Card(
    name="mmvp",
    title="MMVP: the same question about two photographs that CLIP takes for alike",
    paper=PAPER,
    license="MIT",
    source="the dataset MMVP/MMVP on the Hugging Face hub; scripts: github.com/tsb0601/MMVP",
    layout="Questions.csv: Index, Question, Options, Correct Answer; two rows are a pair\n"
    "MMVP Images/<index>.jpg",
    shape="1 × 2",
    family="sets",
    counts={"mmvp": 300},
    aggregation=Micro(),
    chance={"accuracy": 1 / 2},
    tags={
        "pair": "two photographs with the same question",
        "answer": "whether the released answer is disputed: undisputed, or reported wrong",
    },
    by=("answer",),
    scores="mmvp",
    official="its number is the pair accuracy, of all 150 pairs by the released answers, replies "
    "graded by GPT-4; a reply is read by its letter or its words here",
    errata="four answers are reported to be wrong: questions 99 and 100 (tusks) and 279 and 280 "
    "(standing or sitting), where the two photographs seem to have changed places. They carry the "
    "tag answer=reported wrong, and only the official protocol counts them. The file was not seen: "
    "its columns are those that the released script reads",
    disputed=("answer", ANSWERS[True]),
    download=Download(None, (HubFiles("MMVP/MMVP", ("Questions.csv", "MMVP Images/*")),)),
)


def read_vlm(root: Path, problems: Problems) -> Iterator[Example]:
    """Read the pairs of statements; ids are the positions of the pairs in the file.

    Columns count by position, as in the released script.
    """
    path = find_file(root, "Questions.csv", "MMVP_VLM/Questions.csv")
    rows = enumerate(read_csv_records(path, problems))
    for number, some in groupby(rows, key=lambda row: row[0] // 2):
        pair = [record for _, record in some]
        try:
            yield _build_pair(str(number), pair, path.parent)
        except MalformedError as error:
            problems.report(Problem("malformed record", str(error), path, pair[0].line))


def _build_pair(name: str, pair: list[Record], root: Path) -> Example:
    if len(pair) != 2:
        raise MalformedError(f"pair {name}: has one statement, and needs two.")
    cells = []
    for record in pair:
        values = [v.strip() for v in record.value.values() if isinstance(v, str)]
        if len(values) < 3 or not all(values[:3]) or not values[0].isdecimal():
            raise MalformedError(f"record {record.key}: expected id, type, statement.")
        cells.append(values[:3])
    if cells[0][1] != cells[1][1]:
        raise MalformedError(f"pair {name}: its statements are of two types.")
    images = []
    for number, kind, _ in cells:
        file = f"{kind}/{number}.jpg"
        images.append(ImageRef(number, find_image(root, file, "MLLM_VLM Images", "images")))
    texts = tuple(PROMPT + statement for _, _, statement in cells)
    return Example(name, tuple(images), texts, diagonal_match(2), {"pattern": cells[0][1]})


OPTION = re.compile(r"\(([a-z])\)\s*([^()]*(?:\((?![a-z]\))[^()]*\)?[^()]*)*)", re.IGNORECASE)
"""An option: `(a) open`."""


def parse_options(text: str) -> dict[str, str]:
    """Parse options such as `(a) Open (b) Closed`: letter → words, in the order of the letters."""
    return {match[1].lower(): match[2].strip(" ,;\n") for match in OPTION.finditer(text)}


def read(root: Path, problems: Problems) -> Iterator[Example]:
    """Read the questions; ids are their indices, which count from 1."""
    path = find_file(root, "Questions.csv", "MMVP/Questions.csv")

    def build(record: Record) -> Example:
        index = record.integer("Index")
        if index < 1:
            raise MalformedError(f"record {record.key}: 'Index' counts from 1.")
        options = parse_options(record.text("Options"))
        letters = "".join(options)
        if len(options) < 2 or letters != "abcdefghij"[: len(options)] or "" in options.values():
            raise MalformedError(
                f"record {record.key}: 'Options' must be like '(a) open (b) closed'."
            )
        right = record.text("Correct Answer").strip(" ().").lower()
        if right not in options:
            raise MalformedError(f"record {record.key}: the answer {right!r} is no option.")
        question = record.text("Question").strip()
        name = f"{index}.jpg"
        folders = ("MMVP Images", "MMVP Imgaes", "images")
        image = ImageRef(name, find_image(path.parent, name, *folders))
        texts = tuple(f"{question} {words}" for words in options.values())
        match = single_match(len(options), letters.index(right))
        return Example(str(index), (image,), texts, match, question_tags(index))

    yield from parse_records(read_csv_records(path, problems), build, problems)


def question_tags(index: int) -> dict[str, TagValue]:
    """Tags of a question by its index: its pair, and whether its answer is disputed."""
    return {"pair": str((index + 1) // 2), "answer": ANSWERS[index in DISPUTED]}


BENCHMARKS = {"mmvp-vlm": Benchmark(VLM_CARD, read_vlm), "mmvp": Benchmark(CARD, read)}
