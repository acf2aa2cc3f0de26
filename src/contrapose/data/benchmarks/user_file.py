"""User-file benchmarks: a table of images, captions, and which belong together.

A file without fault is read by columns (`user_columns`), a million records in few steps. Any other
is read record by record: plain ones, with names of images, texts, one right caption or a match and
tags of one text each, in few steps, and all else by the careful reader, which says where a fault is
and why.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from contrapose.data.benchmarks.common import require_folder
from contrapose.data.benchmarks.user_columns import read_columns
from contrapose.data.benchmarks.user_videos import (
    apply_span,
    is_video_name,
    read_entry,
    read_video,
)
from contrapose.data.cards import Benchmark, examples_card
from contrapose.data.example_columns import ExampleColumns, count_matches
from contrapose.data.examples import Example, Match, TagValue, single_match
from contrapose.data.images import Cell, ImageRef
from contrapose.data.video_clips import VideoRef
from contrapose.files import (
    DoubledKeyError,
    MalformedError,
    ProblemList,
    Problems,
    Record,
    parse_json,
    parse_records,
    read_parquet_records,
    read_table_records,
    require_regular,
    safe_join,
)

PLAIN_FIELDS = frozenset(("id", "image", "images", "texts", "right", "match", "tags"))


class PlainReader:
    """Fast reader of plain records; images and matches that many share are built once.

    Attributes:
        root: what names of images are relative to.
    """

    def __init__(self, root: Path):
        self.root = root
        self._images: dict[str, ImageRef] = {}
        self._alone: dict[str, tuple[ImageRef]] = {}
        self._rights: dict[tuple[int, int], Match] = {}
        self._matches: dict[Match, Match] = {}

    def example(self, record: Record) -> Example | None:
        """Build the record's example; None where the careful reader is needed."""
        value = record.value
        try:
            if not PLAIN_FIELDS.issuperset(value):
                return None
            name, names, texts = value.get("id"), value.get("images"), value["texts"]
            if name is None:
                name = record.key
            elif type(name) is not str or not name.isascii() or not name or name.isspace():
                return None
            if names is None:
                names = [value["image"]]
            if type(names) is not list or type(texts) is not list:
                return None
            images = self._refs(names)
            match = self._match(value, len(images), len(texts))
            tags = self._tags(value["tags"]) if "tags" in value else {}
            return Example(name, images, tuple(texts), match, tags)
        except (MalformedError, TypeError, KeyError, AttributeError):
            return None

    def image(self, name: str) -> ImageRef:
        """Reference the image of a name.

        Raises:
            MalformedError: the name leads out of the root.
        """
        ref = self._images.get(name)
        if ref is None:
            if not isinstance(name, str):
                raise MalformedError("an image path is no text.")
            ref = self._images[name] = self.build_image(name)
        return ref

    def build_image(self, name: str) -> ImageRef:
        """Build the reference of an image anew, as `image` does once for each name."""
        path = safe_join(self.root, name)
        return VideoRef(path, key=name) if is_video_name(name) else ImageRef(name, path)

    def _refs(self, names: list[str]) -> tuple[ImageRef, ...]:
        if len(names) == 1:
            single = self._alone.get(names[0])
            if single is None:
                single = self._alone[names[0]] = (self.image(names[0]),)
            return single
        return tuple([self.image(name) for name in names])

    def _match(self, value: dict[str, object], images: int, texts: int) -> Match:
        rows = value.get("match")
        if rows is None:
            right = value["right"]
            if images != 1 or type(right) is not int or not 0 <= right < texts:
                raise MalformedError("it is not plain which caption is right.")
            match = self._rights.get((texts, right))
            if match is None:
                match = self._rights[texts, right] = single_match(texts, right)
            return match
        if type(rows) is not list or not all(type(row) is list for row in rows):
            raise MalformedError("it is no list of rows.")
        given: Match = tuple(map(tuple, rows))
        match = self._matches.get(given)
        if match is None:
            if not any(map(any, given)) or not {cell for row in given for cell in row} <= {0, 1}:
                raise MalformedError("it is not all true and false.")
            match = self._matches[given] = tuple(tuple(map(bool, row)) for row in given)
        return match

    @staticmethod
    def _tags(tags: object) -> dict[str, TagValue]:
        if type(tags) is not dict:
            raise MalformedError("they are no object.")
        for value in tags.values():
            if type(value) is not str or not value:
                raise MalformedError("one is not one text.")
        return tags


LAYOUT = """\
image, caption, negative (or negatives, a list): each negative is an example against the caption;
image, caption alone: a gallery, every image against every caption
a line an example: {"id": "7", "images": ["a.png", "b.png"], "texts": ["…", "…"],
  "match": [[true, false], [false, true]], "tags": {"subset": "colour"}}
match has a row an image and a column a caption; with one image "right": 0 says it too
CSV, TSV: the same names as columns, lists as JSON in a cell; or image, image_0, …, text_0, …,
  tag_<name> with one value each. Parquet: lists as lists; images may also be stored in columns
  image, image_0, … as the hub stores them
images are relative to the file's folder, or to the root folder; a video (.mp4, .webm, …) may stand
  in the place of an image, also as "video": "a.mp4" with "start" and "end" in seconds, "frames" or
  "times"; in a list: {"video": "a.mp4", "start": 2, "end": 6}"""


IMAGE_COLUMN = re.compile(r"image(_\d+)?")


def load_user_benchmark(path: Path) -> Benchmark:
    """Build a benchmark from a file of examples, with a card derived from its content.

    The family is "judgement" when every example is one image with one caption, and "ratings" when
    all these have the tag `rating`; "choice" when every one is an image with one right caption,
    else "pairs", whose scores are defined for any shape.
    Malformed records are left for `read` to report.

    Raises:
        InputError: the file is not there or is no table.
    """
    from contrapose.data.benchmarks.user_pairs import gallery_benchmark, is_gallery_file

    if is_gallery_file(path):
        return gallery_benchmark(path)
    problems_here = ProblemList()
    read_data = _read_examples(path, path.parent, problems_here)
    examples = read_data if isinstance(read_data, ExampleColumns) else list(read_data)
    matches = count_matches(examples)
    family: str | None = "pairs"
    if matches and all((len(match), len(match[0])) == (1, 1) for match in matches):
        family = None  # judgements or ratings, as the card finds
    elif all(len(match) == 1 and sum(match[0]) == 1 for match in matches):
        family = "choice"
    card = examples_card(
        examples,
        name=str(path),
        title=f"Examples of your own in {path.name}",
        source=str(path),
        layout=LAYOUT,
        owner="your own",
        family=family,
    )

    def read(root: Path, problems: Problems) -> Iterable[Example]:
        """The examples; image paths are relative to the root."""
        require_folder(root)
        if root == path.parent and not problems_here.problems:  # they are read already
            return examples if isinstance(examples, ExampleColumns) else iter(examples)
        return _read_examples(path, root, problems)

    return Benchmark(card, read)


def _read_examples(
    path: Path, root: Path, problems: Problems
) -> ExampleColumns | Iterator[Example]:
    from contrapose.data.benchmarks.user_pairs import split_negatives

    stored = _find_image_columns(path)
    columns = None if stored[0] else read_columns(path, PlainReader(root).build_image)
    if columns is not None:
        return columns
    records = (
        read_parquet_records(path, stored[1]) if stored[0] else read_table_records(path, problems)
    )

    plain = PlainReader(root)

    def build(record: Record) -> Example:
        example = None if stored[0] else plain.example(record)
        if example is not None:
            return example
        if not isinstance(record.value, dict):
            record.field("images")
        given = record.value.get("id") not in (None, "")
        name = record.name("id") if given else record.key
        images = read_images(record, plain, stored[0])
        texts = tuple(read_texts(record, "texts", "text"))
        return Example(
            name, images, texts, _read_match(record, len(images), len(texts)), _read_tags(record)
        )

    return parse_records(split_negatives(records), build, problems)


def _find_image_columns(path: Path) -> tuple[list[str], list[str]]:
    """Find the columns of a Parquet file that hold image bytes, and all others."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    if path.suffix.lower() != ".parquet":
        return [], []
    try:
        require_regular(path)
        schema = pq.read_schema(path)
        fields = list(schema)  # decodes their names
    except (pa.ArrowException, OSError, ValueError):
        return [], []  # reading the rows will say what is wrong

    def holds_bytes(kind: Any) -> bool:
        if pa.types.is_struct(kind):
            return any(kind.field(i).name == "bytes" for i in range(kind.num_fields))
        return bool(pa.types.is_binary(kind) or pa.types.is_large_binary(kind))

    images = [
        field.name
        for field in fields
        if IMAGE_COLUMN.fullmatch(field.name) and holds_bytes(field.type)
    ]
    images.sort(key=lambda name: (len(name), name))  # image_2 before image_10
    return images, [name for name in schema.names if name not in images]


def read_images(
    record: Record, plain: PlainReader, stored: Sequence[str] = ()
) -> tuple[ImageRef, ...]:
    """Reference the images and videos of a record.

    Args:
        record: the record.
        plain: reader of names.
        stored: columns of a Parquet file that hold images.

    Raises:
        MalformedError: there are none, or a name or a value is not possible.
    """
    if stored:
        row = record.line - 1
        return tuple(
            ImageRef(f"{column}/{row}", record.file, cell=Cell(column, row)) for column in stored
        )
    video = read_video(record, plain)
    if video is not None:
        return (video,)
    entries = _read_list(record, "images", "image")
    if not entries:
        raise MalformedError(f"record {record.key}: there are no images.")
    refs = tuple(read_entry(record, entry, plain) for entry in entries)
    return refs if any(isinstance(e, dict) for e in entries) else apply_span(record, refs, plain)


def _read_list(record: Record, several: str, one: str) -> list[Any]:
    """Read values of a list field, a single field, or numbered fields until one is empty."""
    fields: Mapping[str, Any] = record.value
    if fields.get(several) not in (None, ""):
        values = parse_structure(record, several)
        if not isinstance(values, list):
            raise MalformedError(f"record {record.key}: {several!r} must be a list.")
        return values
    if fields.get(one) not in (None, ""):
        return [fields[one]]
    numbered = [fields.get(f"{one}_{i}") for i in range(len(fields))]
    return numbered[: next((i for i, v in enumerate(numbered) if v in (None, "")), None)]


def read_texts(record: Record, several: str, one: str) -> list[str]:
    """Read texts from a list field, a single field, or numbered fields until one is empty."""
    values = _read_list(record, several, one)
    for value in values:
        if not isinstance(value, str) or not value.strip():
            raise MalformedError(f"record {record.key}: {several!r} must be texts, and none empty.")
    return values


LABELS = {"true": True, "false": False, "1": True, "0": False}


def _read_match(record: Record, images: int, texts: int) -> Match:
    if record.value.get("match") not in (None, ""):
        rows = parse_structure(record, "match")
        if not isinstance(rows, list) or not all(isinstance(row, list) for row in rows):
            raise MalformedError(
                f"record {record.key}: 'match' must be a list of rows, one an image."
            )
        if not all(value in (True, False) for row in rows for value in row):
            raise MalformedError(f"record {record.key}: 'match' must hold true and false.")
        if not any(any(row) for row in rows) and (images, texts) != (1, 1):
            raise MalformedError(f"record {record.key}: no image of 'match' belongs to a caption.")
        return tuple(tuple(bool(value) for value in row) for row in rows)
    label = record.value.get("label")
    if (images, texts) == (1, 1) and label not in (None, ""):
        if str(label).strip().lower() not in LABELS:
            raise MalformedError(f"record {record.key}: 'label' must be true or false.")
        return ((LABELS[str(label).strip().lower()],),)
    if record.value.get("right") in (None, "") or images != 1:
        raise MalformedError(
            f"record {record.key}: which captions fit? 'match' is missing"
            + (", and so is 'right'." if images == 1 else ".")
        )
    right = record.integer("right")
    if not 0 <= right < texts:
        raise MalformedError(
            f"record {record.key}: 'right' is {right}, and there are {texts} captions, from 0."
        )
    return single_match(texts, right)


def _read_tags(record: Record) -> dict[str, TagValue]:
    tags: dict[str, Any] = {
        name.removeprefix("tag_"): value
        for name, value in record.value.items()
        if name.startswith("tag_")
    }
    if record.value.get("tags") not in (None, ""):
        given = parse_structure(record, "tags")
        if not _is_map(given):
            raise MalformedError(f"record {record.key}: 'tags' must be an object: name → value.")
        tags |= dict(given)
    return {name: _read_tag(record, name, v) for name, v in tags.items() if v not in (None, "", [])}


def _is_map(value: Any) -> bool:
    """Whether a value is an object, or a Parquet map column's list of pairs."""
    return isinstance(value, dict) or (
        isinstance(value, list)
        and all(isinstance(pair, tuple) and len(pair) == 2 for pair in value)
    )


def _read_tag(record: Record, name: str, value: Any) -> TagValue:
    if isinstance(value, list) and all(isinstance(item, str) for item in value):
        return tuple(value)
    if not isinstance(value, str | int | float):
        raise MalformedError(
            f"record {record.key}: the tag {name!r} must be text or a list of texts."
        )
    return str(value)


def parse_structure(record: Record, name: str) -> Any:
    """Parse a field that is JSON, or a Python literal as pandas writes lists."""
    value = record.value[name]
    if not isinstance(value, str):
        return value
    try:
        return parse_json(value)
    except DoubledKeyError as error:
        raise MalformedError(f"record {record.key}: in {name!r} {error}.") from None
    except (ValueError, RecursionError):
        pass
    try:
        return ast.literal_eval(value)
    except (ValueError, SyntaxError, RecursionError, MemoryError, TypeError):
        raise MalformedError(
            f"record {record.key}: {name!r} must be a list or an object, as JSON; "
            f"found {value[:40]!r}."
        ) from None
