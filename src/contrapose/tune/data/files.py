"""Pairs from files: a table of images and captions, or COCO's captions."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from contrapose.data import ImageRef, open_images
from contrapose.errors import InputError
from contrapose.files import (
    Malformed,
    Record,
    Strict,
    inside,
    parse,
    read_json,
    resolve_name,
    table_records,
)
from contrapose.tune.data.marks import file_mark
from contrapose.tune.data.rows import Rows, Saying
from contrapose.tune.data.tars import is_tar, tar_rows

if TYPE_CHECKING:
    from PIL.Image import Image
    from torch import Tensor

IMAGE = ("image", "image_path", "file_name", "filename", "filepath")
CAPTION = ("caption", "captions", "text", "sentence", "sentences")
TABLES = (".jsonl", ".ndjson", ".csv", ".tsv", ".parquet")


@dataclass(frozen=True, slots=True)
class _Said:
    """A line of a table."""

    image: Path
    sayings: tuple[Saying, ...]


class Photographs:
    """Images in files."""

    pixels: Tensor | None = None

    def __init__(self, paths: Sequence[Path]):
        self.paths = paths

    def open(self, rows: Sequence[int]) -> list[Image]:
        """Some of them, decoded."""
        return list(open_images([ImageRef(str(p), p) for p in (self.paths[row] for row in rows)]))

    def mark(self, row: int) -> str:
        """What tells an image from another, and from itself when it was changed."""
        return file_mark(self.paths[row])


def read_rows(path: Path, images: Path | None = None) -> Rows:
    """What a file holds to learn from; images with several lines come together.

    A table (.jsonl, .csv, .tsv, .parquet) has a column with the image's path, one with its caption
    or captions, and may have `positives` and `negatives`, as `contrapose build pairs` writes them.
    A .json file is COCO's captions. A .tar, or a folder of them, holds images with captions beside
    them under the same name, as webdataset has it.

    Args:
        path: the file.
        images: the folder that paths start from; without it the file's own.

    Raises:
        InputError: the file cannot be read, a caption has no image, an image is not there, or there
            is nothing to learn from.
    """
    if is_tar(path):
        return tar_rows(path)
    if not path.is_file():
        raise InputError("is not there: --data is a file of pairs, or scenes.", file=path)
    root = images or path.parent
    if not root.is_dir():
        raise InputError("is no folder of images.", file=root)
    suffix = path.suffix.lower()
    if suffix == ".json":
        said = _coco(path, root)
    elif suffix in TABLES:
        said = parse(table_records(path, Strict()), lambda record: _line(record, root), Strict())
    else:
        raise InputError(
            "must be a .jsonl, .csv, .tsv or .parquet file of pairs, COCO's .json, or a .tar.",
            file=path,
        )
    found: dict[Path, list[Saying]] = {}
    for each in said:
        found.setdefault(each.image, []).extend(each.sayings)
    if not found:
        raise InputError("holds nothing to learn from: it has no line.", file=path)
    return Rows(Photographs(list(found)), list(found.values()))


def _line(record: Record, root: Path) -> _Said:
    if not isinstance(record.value, dict):
        raise Malformed(f"record {record.key}: expected an object with fields.")
    captions = _texts(record, _column(record, CAPTION, "caption"))
    image = _image(record, root)
    made = {side: _changes(record, side, len(captions)) for side in ("negatives", "positives")}
    return _Said(
        image,
        tuple(
            Saying(
                caption, made["negatives"] if i == 0 else (), made["positives"] if i == 0 else ()
            )
            for i, caption in enumerate(captions)
        ),
    )


def _image(record: Record, root: Path) -> Path:
    name = next((name for name in IMAGE if record.value.get(name)), None)
    if name is None:
        raise Malformed(
            f"record {record.key}: the caption has no image; each needs one to learn from."
        )
    place = inside(root, record.text(name))
    path = place if place.is_file() else resolve_name(place)
    if path is None:
        raise Malformed(f"record {record.key}: the image {record.value[name]!r} is not in {root}.")
    return path


def _column(record: Record, names: Iterable[str], what: str) -> str:
    for name in names:
        if record.value.get(name):
            return name
    raise Malformed(f"record {record.key}: there is no {what}.")


def _texts(record: Record, name: str) -> list[str]:
    """One text or several; a CSV cell may hold a JSON list."""
    value = _listed(record.value.get(name))
    texts = value if isinstance(value, list) else [value]
    if not texts or not all(isinstance(text, str) and text.strip() for text in texts):
        raise Malformed(f"record {record.key}: {name!r} must be text, or a list of texts.")
    return [" ".join(text.split()) for text in texts]


def _changes(record: Record, side: str, captions: int) -> tuple[tuple[str, str], ...]:
    """Changed captions and their kinds; they belong to the one caption of the line."""
    name = side if record.value.get(side) else side.removesuffix("s")
    if not record.value.get(name):
        return ()
    if captions > 1:
        raise Malformed(f"record {record.key}: {side} need a line with one caption.")
    texts = _texts(record, name)
    kinds = _listed(record.value.get("kinds"))
    known = kinds.get(side) if isinstance(kinds, dict) else None
    if not isinstance(known, list) or len(known) != len(texts):
        known = ["change"] * len(texts)
    return tuple((text, str(kind)) for text, kind in zip(texts, known, strict=True))


def _listed(value: Any) -> Any:
    if isinstance(value, str) and value.lstrip()[:1] in ("[", "{"):
        try:
            return json.loads(value)
        except ValueError:
            return value
    return value


def _coco(path: Path, root: Path) -> Iterator[_Said]:
    whole = read_json(path)
    try:
        names = {each["id"]: str(each["file_name"]) for each in whole["images"]}
        captions = [(each["image_id"], each["caption"]) for each in whole["annotations"]]
    except (TypeError, KeyError):
        raise InputError(
            "is not COCO's captions: it needs images and annotations.", file=path
        ) from None
    lines = (
        Record({"image": names.get(image), "caption": caption}, path, 1, str(i))
        for i, (image, caption) in enumerate(captions)
    )
    return parse(lines, lambda record: _line(record, root), Strict())
