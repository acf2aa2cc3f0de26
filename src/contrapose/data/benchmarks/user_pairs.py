"""User files of captions: negatives against their caption, and galleries of images and captions."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from contrapose.data.benchmarks.common import require_folder
from contrapose.data.benchmarks.user_fields import (
    negative_columns,
    parse_structure,
    read_texts,
)
from contrapose.data.benchmarks.user_file import LAYOUT, read_images
from contrapose.data.benchmarks.user_plain import PlainReader
from contrapose.data.benchmarks.user_videos import SPAN_FIELDS, VIDEO_FIELDS
from contrapose.data.cards import Benchmark, Card, Micro
from contrapose.data.examples import Gallery
from contrapose.data.images import ImageRef
from contrapose.files import (
    MalformedError,
    Problem,
    ProblemList,
    Problems,
    Record,
    parse_json,
    parse_records,
    read_table_records,
)

LONGEST_LINE = 1 << 20
"""Bytes of a first line up to which it is read by itself."""


def split_negatives(records: Iterable[Record], problems: Problems) -> Iterator[Record]:
    """Records in which each negative of a caption is an example, its kind as the tag `subset`.

    The form of `contrapose build pairs` and of tables with the columns image, caption, negative.
    Records whose negatives cannot be read are reported as problems.
    """
    for record in records:
        fields = record.value
        if not isinstance(fields, dict) or "caption" not in fields or fields.get("texts"):
            yield record
            continue
        columns = negative_columns(fields)
        if not columns:
            yield record
            continue
        try:
            negatives = [text for name in columns for text in _list_negatives(record, name)]
        except MalformedError as error:
            problems.report(Problem("malformed record", str(error), record.file, record.line))
            continue
        kinds = fields.get("kinds")
        named = kinds.get("negatives") if isinstance(kinds, dict) else None
        keys = ("image", "images", "tags", *VIDEO_FIELDS)
        rest = {key: fields[key] for key in fields if key in keys or key.startswith("tag_")}
        for i, negative in enumerate(negatives):
            tag = {"tag_subset": named[i]} if isinstance(named, list) and i < len(named) else {}
            given = fields.get("id") not in (None, "")
            stem = str(fields["id"]) if given else record.key
            texts = [fields["caption"], negative]
            name = f"{stem}-{i}" if len(negatives) > 1 else stem
            yield record.inner({**tag, **rest, "id": name, "texts": texts, "right": 0})


def _list_negatives(record: Record, name: str) -> list[Any]:
    """Negatives of a column: a list, a list as JSON, or one text; an empty cell has none."""
    value = record.value[name]
    if name == "negatives" and isinstance(value, str) and value.lstrip().startswith("["):
        value = parse_structure(record, name)
    if value in (None, ""):
        return []
    return value if isinstance(value, list) else [value]


def is_gallery_file(path: Path) -> bool:
    """Whether the first record of a file has an image and a caption, and nothing to choose."""
    if path.suffix.lower() not in (".csv", ".tsv", ".jsonl"):
        return False
    first = _read_first_line(path)
    if first is None:
        record = next(iter(read_table_records(path, ProblemList())), None)
        first = None if record is None else record.value
    if not isinstance(first, dict):
        return False
    names = {name for name in first if not name.startswith("tag_")} - {"id", "split", *SPAN_FIELDS}
    shown = names & {"image", "video"}
    return bool(shown and names & {"caption", "captions"}) and len(names) == 1 + len(shown)


def _read_first_line(path: Path) -> Any:
    """Value of the first line of a JSONL file; None where the file must be read to tell."""
    if path.suffix.lower() != ".jsonl" or not path.is_file():
        return None
    try:
        with path.open("rb") as stream:
            return parse_json(stream.readline(LONGEST_LINE).decode("utf-8-sig"))
    except (OSError, ValueError, RecursionError):
        return None


def gallery_benchmark(path: Path) -> Benchmark:
    """Benchmark of a file of images with captions: each image against all captions."""
    gallery = _read_gallery(path, path.parent, ProblemList())
    card = Card(
        name=str(path),
        title=f"Images and captions of your own in {path.name}",
        paper="your own",
        license="your own",
        source=str(path),
        layout=LAYOUT,
        shape=f"{len(gallery.images):,} × {len(gallery.texts):,}",
        family="retrieval",
        counts={str(path): len(gallery.images)},
        aggregation=Micro(),
        chance={},
        by=(),
    )

    def read(root: Path, problems: Problems) -> Gallery:
        require_folder(root)
        return _read_gallery(path, root, problems)

    return Benchmark(card, read)


def _read_gallery(path: Path, root: Path, problems: Problems) -> Gallery:
    """Gallery of a file; captions of one image may stand in several records, or in a list."""
    plain = PlainReader(root)

    def build(record: Record) -> tuple[ImageRef, list[str]]:
        if not isinstance(record.value, dict):
            record.field("image")
        captions = read_texts(record, "captions", "caption")
        if not captions:
            raise MalformedError(f"record {record.key}: there is no caption.")
        images = read_images(record, plain)
        if len(images) > 1:
            raise MalformedError(f"record {record.key}: there must be one image.")
        return images[0], captions

    by_image: dict[ImageRef, dict[str, None]] = {}
    for image, captions in parse_records(read_table_records(path, problems), build, problems):
        by_image.setdefault(image, {}).update(dict.fromkeys(captions))
    texts = tuple(dict.fromkeys(text for some in by_image.values() for text in some))
    position = {text: i for i, text in enumerate(texts)}
    pairs = [(i, position[text]) for i, some in enumerate(by_image.values()) for text in some]
    return Gallery(path.name, tuple(by_image), texts, tuple(pairs))
