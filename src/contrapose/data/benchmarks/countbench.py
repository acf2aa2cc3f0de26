"""CountBench: how many things are in the picture, from two to ten?"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import partial
from pathlib import Path

from contrapose.data.benchmarks.common import find_image, require_folder
from contrapose.data.cards import Benchmark, Card, Micro
from contrapose.data.downloads import Download, github_files
from contrapose.data.examples import Example, single_match
from contrapose.data.images import Cell, ImageRef
from contrapose.errors import InputError
from contrapose.files import (
    MalformedError,
    Problems,
    Record,
    parse_records,
    read_json_records,
    read_parquet_records,
)

WORDS = ("two", "three", "four", "five", "six", "seven", "eight", "nine", "ten")
COMMIT = "4c83108155ed7d9416ac90e21a821e383d788e16"

CARD = Card(
    name="countbench",
    title="CountBench: how many things are there, two to ten?",
    paper="Paiss et al., Teaching CLIP to Count to Ten, ICCV 2023 (arXiv:2302.12066)",
    license="no license given; images of LAION under their owners' terms",
    source="github.com/teaching-clip-to-count/teaching-clip-to-count.github.io (CountBench.json), "
    "which gives the addresses of the images",
    layout="CountBench.json; or *.parquet with image, text and number, here or in data/\n"
    "images/<n>.jpg, n the position in the file from 0 (any image suffix)",
    shape="1 × 9",
    family="choice",
    counts={"countbench": 540},
    aggregation=Micro(),
    chance={"accuracy": 1 / 9},
    tags={"number": "how many there are: 2 to 10, 60 pictures each"},
    by=("number",),
    official="its number is the share of pictures whose own caption scores highest among the nine "
    "that differ in the number word; the script was not released",
    errata="images are addresses on the web, of which many no longer answer: results on the rest "
    "are not those of the paper. In 16 captions the number word stands twice, and both are "
    "replaced; 21 captions hold another number word too, which is left. Two addresses stand twice",
    download=Download(
        COMMIT,
        github_files(
            "teaching-clip-to-count/teaching-clip-to-count.github.io",
            COMMIT,
            {
                "CountBench.json": (
                    "CountBench.json",
                    146701,
                    "2b1586d1b945243429d54afd9f719c787ec56bdb0e66dfa8a1f151ad58c164b7",
                )
            },
        ),
        by_hand="the images, which lie at 538 addresses of the web: save the n-th of the file, "
        "counted from 0, as images/<n>.jpg",
    ),
)


def read(root: Path, problems: Problems) -> Iterator[Example]:
    """Read the captions; the n-th of the nine says that there are n + 2. Ids are positions."""
    require_folder(root)
    path = next((p for p in (root / "CountBench.json",) if p.is_file()), None)
    if path is not None:
        records = read_json_records(path, problems)
        yield from parse_records(records, lambda record: _build(record, root), problems)
        return
    files = sorted(root.glob("*.parquet")) or sorted((root / "data").glob("*.parquet"))
    if not files:
        raise InputError("holds neither CountBench.json nor a .parquet file.", file=root)
    if len(files) > 1:
        raise InputError("holds several .parquet files, and needs one.", file=root)
    rows = read_parquet_records(files[0], ["text", "number"])
    yield from parse_records(rows, lambda record: _build(record, None), problems)


def _build(record: Record, root: Path | None) -> Example:
    number, text = record.integer("number"), record.text("text")
    if not 2 <= number <= 10:
        raise MalformedError(f"record {record.key}: 'number' must be 2 to 10, found {number}.")
    texts = replace_number(text, number)
    if texts is None:
        raise MalformedError(
            f"record {record.key}: the caption does not hold the word {WORDS[number - 2]!r}."
        )
    if root is None:
        image = ImageRef(record.key, record.file, cell=Cell("image", record.line - 1))
    else:
        record.text("image_url")
        image = ImageRef(record.key, find_image(root, f"{record.key}.jpg", "images"))
    match = single_match(len(WORDS), number - 2)
    return Example(record.key, (image,), texts, match, {"number": str(number)})


def replace_number(text: str, number: int) -> tuple[str, ...] | None:
    """Captions with each of the nine number words in place of the caption's own.

    Capitals stay as they are; None where the word is not there.
    """
    pattern = re.compile(rf"\b{WORDS[number - 2]}\b", re.IGNORECASE)
    if pattern.search(text) is None:
        return None

    return tuple(
        text if word == WORDS[number - 2] else pattern.sub(partial(_write_word, word), text)
        for word in WORDS
    )


def _write_word(word: str, match: re.Match[str]) -> str:
    """Write a word with the capitals of the one that it replaces."""
    if match[0].isupper():
        return word.upper()
    return word.capitalize() if match[0][0].isupper() else word


BENCHMARK = Benchmark(CARD, read)
