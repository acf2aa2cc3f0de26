"""The user's own examples: a table of images, captions, and which belong together."""

from __future__ import annotations

import ast
import json
import re
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from contrapose.data.benchmarks.folders import require_folder
from contrapose.data.benchmarks.plain import Plain
from contrapose.data.card import Card, Micro
from contrapose.data.cells import Cell
from contrapose.data.example import Example, Match, TagValue, diagonal, one_right
from contrapose.data.images import ImageRef
from contrapose.data.registry import Benchmark
from contrapose.files import (
    Collected,
    Malformed,
    Problems,
    Record,
    parquet_records,
    parse,
    table_records,
)

LAYOUT = """\
a line an example: {"id": "7", "images": ["a.png", "b.png"], "texts": ["…", "…"],
  "match": [[true, false], [false, true]], "tags": {"subset": "colour"}}
match has a row an image and a column a caption; with one image "right": 0 says it too
CSV, TSV: the same names as columns, lists as JSON in a cell; or image, image_0, …, text_0, …,
  tag_<name> with one value each. Parquet: lists as lists; images may also be stored in columns
  image, image_0, … as the hub stores them
images are relative to the file's folder, or to --root"""


STORED = re.compile(r"image(_\d+)?")


def own_benchmark(path: Path) -> Benchmark:
    """A benchmark of the examples in a file; its card is made from what stands there.

    The family is "choice" when every example is one image with one right caption, else "pairs",
    whose scores are defined for any shape. Malformed records are left for `read` to report.

    Raises:
        InputError: the file is not there or is no table.
    """
    problems_here = Collected()
    examples = list(_examples(path, path.parent, problems_here))
    matches = Counter([example.match for example in examples])
    shapes: Counter[tuple[int, int]] = Counter()
    for match, count in matches.items():
        shapes[len(match), len(match[0])] += count
    choice = all(len(match) == 1 and sum(match[0]) == 1 for match in matches)
    square = matches.keys() <= {diagonal(2)}
    tags = dict.fromkeys((name for example in examples for name in example.tags), "from the file")
    chance: dict[str, float] = {}
    if choice and shapes:
        guesses = sum(count / texts for (_, texts), count in shapes.items())
        chance = {"accuracy": guesses / sum(shapes.values())}
    elif square and shapes:
        chance = {"text": 1 / 4, "image": 1 / 4, "group": 1 / 6}
    card = Card(
        name=str(path),
        title=f"Examples of your own in {path.name}",
        paper="your own",
        licence="your own",
        source=str(path),
        layout=LAYOUT,
        shape=", ".join(f"{m} × {n}" for m, n in sorted(shapes)) or "empty",
        family="choice" if choice else "pairs",
        counts={},
        aggregation=Micro(),
        chance=chance,
        tags=tags,
        by=("subset",) if "subset" in tags else (),
    )

    def read(root: Path, problems: Problems) -> Iterator[Example]:
        """The examples; image paths are relative to the root."""
        require_folder(root)
        if root == path.parent and not problems_here.found:  # they are read already
            return iter(examples)
        return _examples(path, root, problems)

    return Benchmark(card, read)


def _examples(path: Path, root: Path, problems: Problems) -> Iterator[Example]:
    stored = _stored_images(path)
    records = parquet_records(path, stored[1]) if stored[0] else table_records(path, problems)

    plain = Plain(root)

    def build(record: Record) -> Example:
        example = None if stored[0] else plain.example(record)
        if example is not None:
            return example
        if not isinstance(record.value, dict):
            record.field("images")
        given = record.value.get("id") not in (None, "")
        name = record.name("id") if given else record.key
        images = _images(record, plain, stored[0])
        texts = tuple(_series(record, "texts", "text"))
        return Example(name, images, texts, _match(record, len(images), len(texts)), _tags(record))

    return parse(records, build, problems)


def _stored_images(path: Path) -> tuple[list[str], list[str]]:
    """Columns of a Parquet file that hold the images themselves, and all others."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    if path.suffix.lower() != ".parquet":
        return [], []
    try:
        schema = pq.read_schema(path)
    except (pa.ArrowException, OSError):
        return [], []  # reading the rows will say what is wrong

    def holds_bytes(kind: Any) -> bool:
        if pa.types.is_struct(kind):
            return any(kind.field(i).name == "bytes" for i in range(kind.num_fields))
        return bool(pa.types.is_binary(kind) or pa.types.is_large_binary(kind))

    images = [
        field.name for field in schema if STORED.fullmatch(field.name) and holds_bytes(field.type)
    ]
    images.sort(key=lambda name: (len(name), name))  # image_2 before image_10
    return images, [name for name in schema.names if name not in images]


def _images(record: Record, plain: Plain, stored: list[str]) -> tuple[ImageRef, ...]:
    if stored:
        row = record.line - 1
        return tuple(
            ImageRef(f"{column}/{row}", record.file, cell=Cell(column, row)) for column in stored
        )
    names = _series(record, "images", "image")
    if not names:
        raise Malformed(f"record {record.key}: there are no images.")
    return tuple(map(plain.image, names))


def _series(record: Record, several: str, one: str) -> list[str]:
    """Texts from a list field, from a field of one, or from numbered fields until one is empty."""
    fields: Mapping[str, Any] = record.value
    if fields.get(several) not in (None, ""):
        values = _structure(record, several)
        if not isinstance(values, list):
            raise Malformed(f"record {record.key}: {several!r} must be a list.")
    elif fields.get(one) not in (None, ""):
        values = [fields[one]]
    else:
        numbered = [fields.get(f"{one}_{i}") for i in range(len(fields))]
        values = numbered[: next((i for i, v in enumerate(numbered) if v in (None, "")), None)]
    for value in values:
        if not isinstance(value, str) or not value.strip():
            raise Malformed(f"record {record.key}: {several!r} must be texts, and none empty.")
    return list(values)


def _match(record: Record, images: int, texts: int) -> Match:
    if record.value.get("match") not in (None, ""):
        rows = _structure(record, "match")
        if not isinstance(rows, list) or not all(isinstance(row, list) for row in rows):
            raise Malformed(f"record {record.key}: 'match' must be a list of rows, one an image.")
        if not all(value in (True, False) for row in rows for value in row):
            raise Malformed(f"record {record.key}: 'match' must hold true and false.")
        if not any(any(row) for row in rows):
            raise Malformed(f"record {record.key}: no image of 'match' belongs to a caption.")
        return tuple(tuple(bool(value) for value in row) for row in rows)
    if record.value.get("right") in (None, "") or images != 1:
        raise Malformed(
            f"record {record.key}: which captions fit? 'match' is missing"
            + (", and so is 'right'." if images == 1 else ".")
        )
    right = record.integer("right")
    if not 0 <= right < texts:
        raise Malformed(
            f"record {record.key}: 'right' is {right}, and there are {texts} captions, from 0."
        )
    return one_right(texts, right)


def _tags(record: Record) -> dict[str, TagValue]:
    tags: dict[str, Any] = {
        name.removeprefix("tag_"): value
        for name, value in record.value.items()
        if name.startswith("tag_")
    }
    if record.value.get("tags") not in (None, ""):
        given = _structure(record, "tags")
        if not _is_map(given):
            raise Malformed(f"record {record.key}: 'tags' must be an object: name → value.")
        tags |= dict(given)
    return {name: _tag(record, name, v) for name, v in tags.items() if v not in (None, "", [])}


def _is_map(value: Any) -> bool:
    """An object; a map column of a Parquet file comes as a list of pairs."""
    return isinstance(value, dict) or (
        isinstance(value, list)
        and all(isinstance(pair, tuple) and len(pair) == 2 for pair in value)
    )


def _tag(record: Record, name: str, value: Any) -> TagValue:
    if isinstance(value, list) and all(isinstance(each, str) for each in value):
        return tuple(value)
    if not isinstance(value, str | int | float):
        raise Malformed(f"record {record.key}: the tag {name!r} must be text or a list of texts.")
    return str(value)


def _structure(record: Record, name: str) -> Any:
    """A field's value; text in its place is JSON, or a Python literal as pandas writes lists."""
    value = record.value[name]
    if not isinstance(value, str):
        return value
    try:
        return json.loads(value)
    except (ValueError, RecursionError):
        pass
    try:
        return ast.literal_eval(value)
    except (ValueError, SyntaxError, RecursionError, MemoryError, TypeError):
        raise Malformed(
            f"record {record.key}: {name!r} must be a list or an object, as JSON; "
            f"found {value[:40]!r}."
        ) from None
