"""User-file benchmarks: a table of images, captions, and which belong together.

A file without fault is read by columns (`user_columns`), a million records in few steps. Any other
is read record by record: plain ones (`user_plain`) in few steps, and all else by the careful reader
(`user_fields`, `user_videos`), which says where a fault is and why.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

from contrapose.data.benchmarks.common import require_folder
from contrapose.data.benchmarks.user_columns import read_columns
from contrapose.data.benchmarks.user_fields import read_list, read_match, read_tags, read_texts
from contrapose.data.benchmarks.user_plain import PlainReader
from contrapose.data.benchmarks.user_videos import apply_span, read_entry, read_video
from contrapose.data.cards import Benchmark, examples_card
from contrapose.data.example_columns import ExampleColumns, count_matches
from contrapose.data.examples import Example
from contrapose.data.images import Cell, ImageRef
from contrapose.files import (
    MalformedError,
    ProblemList,
    Problems,
    Record,
    arrow_path,
    parse_records,
    read_parquet_records,
    read_table_records,
    require_regular,
)

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
    columns = None if stored[0] else read_columns(path, PlainReader(root))
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
            name, images, texts, read_match(record, len(images), len(texts)), read_tags(record)
        )

    return parse_records(split_negatives(records, problems), build, problems)


def _find_image_columns(path: Path) -> tuple[list[str], list[str]]:
    """Find the columns of a Parquet file that hold image bytes, and all others."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    if path.suffix.lower() != ".parquet":
        return [], []
    try:
        require_regular(path)
        schema = pq.read_schema(arrow_path(path))
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
    entries = read_list(record, "images", "image")
    if not entries:
        raise MalformedError(f"record {record.key}: there are no images.")
    refs = tuple(read_entry(record, entry, plain) for entry in entries)
    return refs if any(isinstance(e, dict) for e in entries) else apply_span(record, refs, plain)
