"""Training pairs from tables (.jsonl, .csv, .tsv, .parquet) and from COCO captions."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from contrapose.data import ImageRef, open_images
from contrapose.errors import InputError
from contrapose.files import (
    MalformedError,
    Record,
    StrictProblems,
    parse_records,
    read_json,
    read_table_records,
    resolve_name,
    safe_join,
)
from contrapose.tune.data.rows import TrainingCaption, TrainingSet, file_fingerprint
from contrapose.tune.data.tars import is_tar, read_tars

if TYPE_CHECKING:
    from PIL.Image import Image
    from torch import Tensor

IMAGE_COLUMNS = ("image", "image_path", "file_name", "filename", "filepath")
CAPTION_COLUMNS = ("caption", "captions", "text", "sentence", "sentences")
TABLES = (".jsonl", ".ndjson", ".csv", ".tsv", ".parquet")


@dataclass(frozen=True, slots=True)
class _TableLine:
    """A parsed line of a table: an image path and its captions."""

    image: Path
    image_captions: tuple[TrainingCaption, ...]


class ImageFiles:
    """Images in files."""

    pixels: Tensor | None = None

    def __init__(self, paths: Sequence[Path]):
        self.paths = paths

    def open(self, rows: Sequence[int]) -> list[Image]:
        """Decode the images of some rows."""
        return list(open_images([ImageRef(str(p), p) for p in (self.paths[row] for row in rows)]))

    def mark(self, row: int) -> str:
        """Fingerprint of an image, which changes with its file."""
        return file_fingerprint(self.paths[row])


def read_training_set(path: Path, images: Path | None = None) -> TrainingSet:
    """Read a training set from a file; lines of the same image are merged.

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
        return read_tars(path)
    if not path.is_file():
        raise InputError("is not there: --data is a file of pairs, or scenes.", file=path)
    root = images or path.parent
    if not root.is_dir():
        raise InputError("is no folder of images.", file=root)
    suffix = path.suffix.lower()
    if suffix == ".json":
        said = _read_coco(path, root)
    elif suffix in TABLES:
        said = parse_records(
            read_table_records(path, StrictProblems()),
            lambda record: _parse_line(record, root),
            StrictProblems(),
        )
    else:
        raise InputError(
            "must be a .jsonl, .csv, .tsv or .parquet file of pairs, COCO's .json, or a .tar.",
            file=path,
        )
    found: dict[Path, list[TrainingCaption]] = {}
    for each in said:
        found.setdefault(each.image, []).extend(each.image_captions)
    if not found:
        raise InputError("holds nothing to learn from: it has no line.", file=path)
    return TrainingSet(ImageFiles(list(found)), list(found.values()))


def _parse_line(record: Record, root: Path) -> _TableLine:
    if not isinstance(record.value, dict):
        raise MalformedError(f"record {record.key}: expected an object with fields.")
    captions = _parse_texts(record, _find_column(record, CAPTION_COLUMNS, "caption"))
    image = _find_image(record, root)
    made = {
        side: _parse_changes(record, side, len(captions)) for side in ("negatives", "positives")
    }
    return _TableLine(
        image,
        tuple(
            TrainingCaption(
                caption, made["negatives"] if i == 0 else (), made["positives"] if i == 0 else ()
            )
            for i, caption in enumerate(captions)
        ),
    )


def _find_image(record: Record, root: Path) -> Path:
    name = next((name for name in IMAGE_COLUMNS if record.value.get(name)), None)
    if name is None:
        raise MalformedError(
            f"record {record.key}: the caption has no image; each needs one to learn from."
        )
    place = safe_join(root, record.text(name))
    path = place if place.is_file() else resolve_name(place)
    if path is None:
        raise MalformedError(
            f"record {record.key}: the image {record.value[name]!r} is not in {root}."
        )
    return path


def _find_column(record: Record, names: Iterable[str], what: str) -> str:
    for name in names:
        if record.value.get(name):
            return name
    raise MalformedError(f"record {record.key}: there is no {what}.")


def _parse_texts(record: Record, name: str) -> list[str]:
    """Parse one text or several; a CSV cell may hold a JSON list."""
    value = _parse_cell(record.value.get(name))
    texts = value if isinstance(value, list) else [value]
    if not texts or not all(isinstance(text, str) and text.strip() for text in texts):
        raise MalformedError(f"record {record.key}: {name!r} must be text, or a list of texts.")
    return [" ".join(text.split()) for text in texts]


def _parse_changes(record: Record, side: str, captions: int) -> tuple[tuple[str, str], ...]:
    """Parse hard negatives or positives and their kinds, for a line with one caption."""
    name = side if record.value.get(side) else side.removesuffix("s")
    if not record.value.get(name):
        return ()
    if captions > 1:
        raise MalformedError(f"record {record.key}: {side} need a line with one caption.")
    texts = _parse_texts(record, name)
    kinds = _parse_cell(record.value.get("kinds"))
    known = kinds.get(side) if isinstance(kinds, dict) else None
    if not isinstance(known, list) or len(known) != len(texts):
        known = ["change"] * len(texts)
    return tuple((text, str(kind)) for text, kind in zip(texts, known, strict=True))


def _parse_cell(value: Any) -> Any:
    if isinstance(value, str) and value.lstrip()[:1] in ("[", "{"):
        try:
            return json.loads(value)
        except ValueError:
            return value
    return value


def _read_coco(path: Path, root: Path) -> Iterator[_TableLine]:
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
    return parse_records(lines, lambda record: _parse_line(record, root), StrictProblems())
