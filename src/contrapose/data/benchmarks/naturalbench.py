"""NaturalBench: two questions about two photographs, each with opposite answers."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import groupby
from pathlib import Path

from contrapose.data.benchmarks.common import find_file, find_folder, require_folder
from contrapose.data.cards import Benchmark, Card, Micro
from contrapose.data.downloads import Download, HubFiles, Manual
from contrapose.data.examples import Example, diagonal_match
from contrapose.data.images import Cell, ImageRef
from contrapose.errors import InputError
from contrapose.files import (
    MalformedError,
    Problem,
    Problems,
    Record,
    parse_records,
    read_json_records,
    read_jsonl_records,
    read_parquet_records,
    safe_join,
)

FIRST, SECOND = ("yes", "a"), ("no", "b")
TYPES = {"yes_no": "yes_no", "mcq": "multiple_choice", "multiple_choice": "multiple_choice"}

SUFFIXES = {
    "yes_no": "Please answer Yes or No.",
    "multiple_choice": "Please output the letter corresponding to the correct option.",
}
"""End of every prompt, by the type of the question."""

CARD = Card(
    name="naturalbench",
    title="NaturalBench: two questions, two photographs, opposite answers",
    paper="Li et al., NaturalBench: Evaluating Vision-Language Models on Natural Adversarial "
    "Samples, NeurIPS 2024 (arXiv:2410.14669)",
    license="no license given; images of Flickr30K and DOCCI under their owners' terms",
    source="the dataset BaiqiL/NaturalBench on the Hugging Face hub; the same questions in "
    "github.com/Baiqi-Li/NaturalBench (dataset_split_for_finetuning/)",
    layout="*.parquet of the hub, here or in data/; or test_set.json and train_set.jsonl, here or "
    "in dataset_split_for_finetuning/, whose examples are test/<n> and train/<n>\n"
    "images/*.jpg, for the second form",
    download=Download(None, (HubFiles("BaiqiL/NaturalBench", ("*.parquet",)),)),
    shape="2 × 2",
    family="questions",
    counts={"naturalbench": 1900},
    aggregation=Micro(),
    chance={"question": 1 / 4, "image": 1 / 4, "single": 1 / 2, "group": 1 / 16},
    tags={"type": "yes_no or multiple_choice"},
    by=("type",),
    match=diagonal_match(2),
    scores="naturalbench",
    question="{}",
    answers={"yes_no": ("Yes", "No"), "multiple_choice": ("A", "B")},
    official="the released script reads replies as this one: the first of the two words counts, a "
    "reply without them is wrong",
    errata="the task file of lmms-eval asks for `naturalbench_ACC`, which its own code calls "
    "`naturalbench_Acc`. The hub's Parquet files were not seen: their columns are those that the "
    "released script reads",
)

RETRIEVAL = Card(
    name="naturalbench-retrieval",
    title="NaturalBench-Retrieval: two photographs, two captions",
    paper=CARD.paper,
    license=CARD.license,
    source="the Hugging Face hub, by the link in github.com/Baiqi-Li/NaturalBench",
    layout="metadata.json {index, image_0, image_1, caption_0, caption_1}\nimages/",
    download=Manual(
        "https://github.com/Baiqi-Li/NaturalBench", "follow the link to NaturalBench-Retrieval"
    ),
    shape="2 × 2",
    family="pairs",
    counts={},
    aggregation=Micro(),
    chance={"text": 1 / 4, "image": 1 / 4, "group": 1 / 6},
    by=(),
    errata="its files were not seen: the fields are those of its page",
)


@dataclass(frozen=True, slots=True)
class _Answer:
    """One of the four answers of a group."""

    question: str
    image: str
    first: bool
    kind: str


def read(root: Path, problems: Problems) -> Iterator[Example]:
    """Read the groups, from the hub's Parquet files or from the two released files."""
    require_folder(root)
    files = sorted(root.glob("*.parquet")) or sorted((root / "data").glob("*.parquet"))
    for file in files:
        columns = [f"Image_{i}_Question_{j}" for i in (0, 1) for j in (0, 1)]
        columns += ["Index", "Question_0", "Question_1", "Question_Type"]
        yield from parse_records(read_parquet_records(file, columns), _from_hub, problems)
    if files:
        return
    folder = root / "dataset_split_for_finetuning"
    folder = folder if folder.is_dir() else root
    known = [name for name in ("test_set.json", "train_set.jsonl") if (folder / name).is_file()]
    if not known:
        raise InputError(
            "holds no .parquet file, and neither test_set.json nor train_set.jsonl.", file=root
        )
    for name in known:
        yield from _read_split(folder / name, root, problems)


def _from_hub(record: Record) -> Example:
    kind = _read_kind(record, record.text("Question_Type"))
    name, row = record.name("Index"), record.line - 1
    images = tuple(
        ImageRef(f"{name}_{i}", record.file, cell=Cell(f"Image_{i}", row)) for i in (0, 1)
    )
    texts = tuple(record.text(f"Question_{j}").strip() + SUFFIXES[kind] for j in (0, 1))
    match = tuple(
        tuple(_is_first(record, record.text(f"Image_{i}_Question_{j}")) for j in (0, 1))
        for i in (0, 1)
    )
    return Example(name, images, texts, match, {"type": kind})


def _read_split(path: Path, root: Path, problems: Problems) -> Iterator[Example]:
    """Read the groups of a file: four rows each, the first question with both images first."""
    listed = path.suffix == ".json"
    records = read_json_records(path, problems) if listed else read_jsonl_records(path, problems)
    split = path.stem.removesuffix("_set")
    for number, some in groupby(enumerate(records), key=lambda row: row[0] // 4):
        group = [record for _, record in some]
        try:
            answers = [_read_row(record) if listed else _read_chat(record) for record in group]
            yield _build_group(f"{split}/{number}", answers, root)
        except MalformedError as error:
            problems.report(Problem("malformed record", str(error), path, group[0].line))


def _build_group(name: str, answers: list[_Answer], root: Path) -> Example:
    if len(answers) != 4:
        raise MalformedError(f"group {name}: has {len(answers)} rows, and needs four.")
    order = [(0, 0), (0, 1), (1, 0), (1, 1)]
    texts, images = (answers[0].question, answers[2].question), (answers[0].image, answers[1].image)
    for answer, (j, i) in zip(answers, order, strict=True):
        if (answer.question, answer.image, answer.kind) != (texts[j], images[i], answers[0].kind):
            raise MalformedError(f"group {name}: its rows are not two questions × two images.")
    folder = find_folder(root, "images")
    refs = tuple(
        ImageRef(image, safe_join(folder, image.removeprefix("images/"))) for image in images
    )
    match = tuple(tuple(answers[2 * j + i].first for j in (0, 1)) for i in (0, 1))
    return Example(name, refs, texts, match, {"type": answers[0].kind})


def _read_row(record: Record) -> _Answer:
    """Read a row [question, image, answer, type]."""
    row = record.value
    if not isinstance(row, list) or len(row) != 4 or not all(isinstance(x, str) for x in row):
        raise MalformedError(f"record {record.key}: expected [question, image, answer, type].")
    named = replace(
        record, value=dict(zip(("question", "image", "answer", "type"), row, strict=True))
    )
    return _Answer(
        named.text("question"),
        named.text("image"),
        _is_first(record, named.text("answer")),
        _read_kind(record, named.text("type")),
    )


def _read_chat(record: Record) -> _Answer:
    """Read a row of chat messages: the question, the image, the answer."""
    try:
        question, image, answer = (message["content"] for message in record.field("messages"))
        (part,) = image
        named = replace(
            record, value={"question": question, "image": part["image_path"], "answer": answer}
        )
    except (TypeError, ValueError, KeyError):
        raise MalformedError(
            f"record {record.key}: expected messages with a question, an image_path and an answer."
        ) from None
    text = named.text("question")
    kind = "yes_no" if text.endswith(SUFFIXES["yes_no"]) else "multiple_choice"
    return _Answer(text, named.text("image"), _is_first(record, named.text("answer")), kind)


def _is_first(record: Record, answer: str) -> bool:
    word = answer.strip().lower()
    if word not in FIRST + SECOND:
        raise MalformedError(f"record {record.key}: the answer must be Yes, No, A or B.")
    return word in FIRST


def _read_kind(record: Record, name: str) -> str:
    if name not in TYPES:
        raise MalformedError(f"record {record.key}: {name!r} is no type of question.")
    return TYPES[name]


def read_retrieval(root: Path, problems: Problems) -> Iterator[Example]:
    """Read the pairs of photographs and captions."""

    def build(record: Record) -> Example:
        names = [record.text(f"image_{i}") for i in (0, 1)]
        folder = find_folder(root, "images")
        refs = tuple(
            ImageRef(name, safe_join(folder, name.removeprefix("images/"))) for name in names
        )
        texts = tuple(record.text(f"caption_{i}") for i in (0, 1))
        return Example(record.name("index"), refs, texts, diagonal_match(2))

    path = find_file(root, "metadata.json", "data/metadata.json")
    yield from parse_records(read_json_records(path, problems), build, problems)


BENCHMARKS = {
    "naturalbench": Benchmark(CARD, read),
    "naturalbench-retrieval": Benchmark(RETRIEVAL, read_retrieval),
}
