"""Training pairs from tables (.jsonl, .csv, .tsv, .parquet), COCO captions and webdataset tars."""

from __future__ import annotations

import io
import tarfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from contrapose.data import ImageRef, open_images
from contrapose.data.pixels import BUDGET, require_size
from contrapose.errors import InputError, first_line, option
from contrapose.files import (
    IMAGE_SUFFIXES,
    DoubledKeyError,
    MalformedError,
    Record,
    StrictProblems,
    is_valid_unicode,
    parse_json,
    parse_records,
    read_json,
    read_table_records,
    require_regular,
    resolve_name,
    safe_join,
)
from contrapose.tune.data.rows import TrainingCaption, TrainingSet, file_fingerprint

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
    captions: tuple[TrainingCaption, ...]


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
    require_regular(path)
    if not path.is_file():
        raise InputError(
            f"is not there: {option('data')} is a file of pairs, or scenes.", file=path
        )
    root = images or path.parent
    if not root.is_dir():
        raise InputError("is no folder of images.", file=root)
    suffix = path.suffix.lower()
    if suffix == ".json":
        lines = _read_coco(path, root)
    elif suffix in TABLES:
        lines = parse_records(
            read_table_records(path, StrictProblems()),
            lambda record: _parse_line(record, root),
            StrictProblems(),
        )
    else:
        raise InputError(
            "must be a .jsonl, .csv, .tsv or .parquet file of pairs, COCO's .json, or a .tar.",
            file=path,
        )
    captions: dict[Path, list[TrainingCaption]] = {}
    for line in lines:
        captions.setdefault(line.image, []).extend(line.captions)
    if not captions:
        raise InputError("holds nothing to learn from: it has no line.", file=path)
    return TrainingSet(ImageFiles(list(captions)), list(captions.values()))


def _parse_line(record: Record, root: Path) -> _TableLine:
    if not isinstance(record.value, dict):
        raise MalformedError(f"record {record.key}: expected an object with fields.")
    captions = _parse_captions(record)
    return _TableLine(_find_image(record, root), captions)


def _parse_captions(record: Record) -> tuple[TrainingCaption, ...]:
    """Parse the captions of a record with the changes of the first."""
    captions = _parse_texts(record, _find_column(record, CAPTION_COLUMNS, "caption"))
    made = {
        side: _parse_changes(record, side, len(captions)) for side in ("negatives", "positives")
    }
    first = TrainingCaption(captions[0], made["negatives"], made["positives"])
    return (first, *map(TrainingCaption, captions[1:]))


def _find_image(record: Record, root: Path) -> Path:
    name = next((name for name in IMAGE_COLUMNS if record.value.get(name)), None)
    if name is None:
        raise MalformedError(
            f"record {record.key}: the caption has no image; each needs one to learn from."
        )
    joined = safe_join(root, record.text(name))
    path = resolve_name(joined)
    if path is None:
        raise MalformedError(
            f"record {record.key}: the image {record.value[name]!r} is not in {str(root)!r}."
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
    if not all(map(is_valid_unicode, texts)):
        raise MalformedError(f"record {record.key}: {name!r} holds half of a surrogate pair.")
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
            return parse_json(value)
        except DoubledKeyError as error:
            raise MalformedError(f"{error} in {value[:40]!r}.") from None
        except (ValueError, RecursionError):
            return value
    return value


def _read_coco(path: Path, root: Path) -> Iterator[_TableLine]:
    content = read_json(path)
    try:
        names = {entry["id"]: str(entry["file_name"]) for entry in content["images"]}
        captions = [
            (names.get(entry["image_id"]), entry["caption"]) for entry in content["annotations"]
        ]
    except (TypeError, KeyError):
        raise InputError(
            "is not COCO's captions: it needs images and annotations.", file=path
        ) from None
    lines = (
        Record({"image": image, "caption": caption}, path, 1, str(i))
        for i, (image, caption) in enumerate(captions)
    )
    return parse_records(lines, lambda record: _parse_line(record, root), StrictProblems())


MAX_CAPTION_BYTES = 1 << 20
"""Most bytes of a caption file in a tar."""


@dataclass(frozen=True, slots=True)
class _TarMember:
    """Position of an image's bytes in a tar file."""

    tar: Path
    start: int
    size: int
    name: str


class TarImages:
    """Images read from tar files in place."""

    pixels: Tensor | None = None

    def __init__(self, members: Sequence[_TarMember]):
        self.members = members

    def open(self, rows: Sequence[int]) -> list[Image]:
        """Decode the images of some rows.

        Raises:
            InputError: one cannot be decoded.
        """
        return [_open_image(self.members[row]) for row in rows]

    def mark(self, row: int) -> str:
        """Fingerprint of an image, which changes with its tar file."""
        member = self.members[row]
        return f"{file_fingerprint(member.tar)} {member.start} {member.size}"


def is_tar(path: Path) -> bool:
    """Whether a path is a tar file, or a folder that holds some."""
    return (path.suffix == ".tar" and path.is_file()) or (path.is_dir() and any(path.glob("*.tar")))


def read_tars(path: Path) -> TrainingSet:
    """Read a training set from tar files without unpacking them.

    A caption is a `.txt`, or a `.json` with `caption` and perhaps `negatives` and `positives`. A
    `.json` with captions counts before a `.txt` beside it; one without is other data of that image.

    Raises:
        InputError: a file is damaged, captions cannot be used (it says how many, and the first), a
            caption has no image, or there is nothing to learn from.
    """
    bad: list[tuple[Path, str]] = []
    members: list[_TarMember] = []
    captions: list[list[TrainingCaption]] = []
    for tar in [path] if path.is_file() else sorted(path.glob("*.tar")):
        images: dict[str, _TarMember] = {}
        records: dict[str, dict[str, Record]] = {}
        try:
            require_regular(tar)
            with tarfile.open(tar, "r:") as stream:
                for member in stream:
                    key, ending = _split_name(member.name)
                    if not member.isfile():
                        continue
                    if ending in IMAGE_SUFFIXES:
                        images[key] = _TarMember(tar, member.offset_data, member.size, member.name)
                    elif ending in (".txt", ".json"):
                        content = stream.extractfile(member)
                        text = b"" if content is None else content.read(MAX_CAPTION_BYTES + 1)
                        try:
                            value = _decode_member(text, ending)
                        except ValueError as error:
                            bad.append((tar, f"{member.name}: {error}."))
                            continue
                        record = Record(value, tar, 1, member.name)
                        records.setdefault(key, {})[ending] = record
        except (tarfile.TarError, OSError) as error:
            raise InputError(f"is not a whole tar file ({error}).", file=tar) from None
        for key, beside in records.items():
            try:
                tar_captions = _choose_captions(beside)
            except MalformedError as error:
                bad.append((tar, str(error)))
                continue
            if key not in images:
                raise InputError(f"the caption {key!r} has no image beside it.", file=tar)
            members.append(images[key])
            captions.append(list(tar_captions))
    if bad:
        count = f"{len(bad)} captions cannot be used; the first is " if len(bad) > 1 else ""
        raise InputError(f"{count}{bad[0][1]}", file=bad[0][0])
    if not members:
        raise InputError("holds nothing to learn from: no image with a caption.", file=path)
    return TrainingSet(TarImages(members), captions)


def _split_name(name: str) -> tuple[str, str]:
    """Split a member name at the first dot of the file name, as webdataset does."""
    folder, _, file = name.rpartition("/")
    stem, dot, ending = file.partition(".")
    return f"{folder}/{stem}", f"{dot}{ending.lower()}"


def _decode_member(content: bytes, ending: str) -> Any:
    """Decode a caption file of a tar to the fields of a record.

    Raises:
        ValueError: it is too long, not UTF-8, or not JSON.
    """
    if len(content) > MAX_CAPTION_BYTES:
        raise ValueError(f"is longer than {MAX_CAPTION_BYTES} bytes")
    try:
        text = content.decode("utf-8")
        return {"caption": text} if ending == ".txt" else parse_json(text)
    except UnicodeDecodeError:
        raise ValueError("is not UTF-8") from None
    except (ValueError, RecursionError) as error:
        raise ValueError(f"is not JSON ({first_line(error)})") from None


def _choose_captions(beside: Mapping[str, Record]) -> tuple[TrainingCaption, ...]:
    """Parse the captions of an image from the files beside it, by ending."""
    record = beside.get(".json")
    if record is not None and not isinstance(record.value, dict):
        raise MalformedError(f"record {record.key}: expected an object with fields.")
    if record is None or (
        ".txt" in beside and not any(name in record.value for name in CAPTION_COLUMNS)
    ):
        text = beside[".txt"]
        if not text.value["caption"].strip():
            raise MalformedError(f"record {text.key}: the caption is empty.")
        return (TrainingCaption(" ".join(text.value["caption"].split())),)
    for side in ("negatives", "positives"):
        if not isinstance(record.value.get(side) or [], list):
            raise MalformedError(f"record {record.key}: {side!r} must be a list of texts.")
    return _parse_captions(record)


def _open_image(member: _TarMember) -> Image:
    from PIL import Image

    try:
        with member.tar.open("rb") as stream:
            stream.seek(member.start)
            content = stream.read(member.size)
        with Image.open(io.BytesIO(content)) as image:
            require_size(image.width, image.height)
            with BUDGET.take(image.width * image.height):
                return image.convert("RGB")
    except InputError as error:
        raise InputError(f"{member.name}: {error.message}", file=member.tar) from None
    except (OSError, ValueError, Image.DecompressionBombError) as error:
        raise InputError(
            f"the image {member.name} cannot be decoded ({error}).", file=member.tar
        ) from None
