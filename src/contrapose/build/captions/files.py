"""Files of captions and pairs: readers of caption files, and the writer of pairs and manifest.

Captions come from tables, plain text, COCO or Karpathy annotations; pairs are written as one JSON
object per line.
"""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from contrapose import __version__
from contrapose.build.captions.pairs import CaptionPairs, CaptionRecord, Recipe, Tally, make_pairs
from contrapose.build.captions.rewriter import Rewriter
from contrapose.errors import InputError, option
from contrapose.files import (
    MalformedError,
    Record,
    StrictProblems,
    atomic_file,
    parse_records,
    read_json,
    read_lines,
    read_table_records,
    write_text,
)

CAPTION_FIELDS = ("caption", "captions", "text", "sentence", "sentences", "true_caption")
IMAGE_FIELDS = ("image", "image_path", "file_name", "filename", "filepath", "image_id")
TABLE_SUFFIXES = frozenset((".jsonl", ".ndjson", ".csv", ".tsv", ".parquet"))


def read_captions(
    path: Path, *, caption_field: str | None = None, image_field: str | None = None
) -> Iterator[CaptionRecord]:
    """Read the captions of a file, in its order.

    A table (JSONL, CSV, TSV, Parquet) has a column with the caption, or a list of captions, and may
    have one with the image. Text has one caption per line. JSON is COCO's annotations, Karpathy's
    splits, or a list of captions or of records as in a table.

    Args:
        path: the file.
        caption_field: the column of the caption, where it has an unusual name.
        image_field: the column of the image.

    Raises:
        InputError: the file cannot be read, or a record has no caption.
    """
    suffix = path.suffix.lower()
    if suffix in TABLE_SUFFIXES:
        return _read_rows(read_table_records(path, StrictProblems()), caption_field, image_field)
    if suffix in (".txt", ""):
        return (CaptionRecord(line) for _, line in read_lines(path, StrictProblems()))
    if suffix != ".json":
        raise InputError(
            "must be a .jsonl, .csv, .tsv, .parquet, .txt or .json file of captions.", file=path
        )
    value = read_json(path)
    if isinstance(value, dict) and isinstance(value.get("annotations"), list):
        return _read_coco(path, value)
    if isinstance(value, dict) and isinstance(value.get("images"), list):
        return _read_karpathy(path, value["images"])
    entries = value.items() if isinstance(value, dict) else enumerate(_require_list(path, value))
    records = (Record(entry, path, 0, str(key)) for key, entry in entries)
    return _read_rows(records, caption_field, image_field)


def _require_list(path: Path, value: Any) -> list[Any]:
    if not isinstance(value, list):
        raise InputError("must hold a list of captions or records.", file=path)
    return value


def _read_rows(
    records: Iterable[Record], caption_field: str | None, image_field: str | None
) -> Iterator[CaptionRecord]:
    def build(record: Record) -> list[CaptionRecord]:
        if isinstance(record.value, str):
            return [CaptionRecord(record.value)]
        name = caption_field or next(
            (name for name in CAPTION_FIELDS if _has_field(record, name)), CAPTION_FIELDS[0]
        )
        image = image_field or next((one for one in IMAGE_FIELDS if _has_field(record, one)), None)
        shown = None if image is None else record.name(image)
        value = record.field(name)
        texts = value if isinstance(value, list) else [value]
        return [CaptionRecord(_caption_text(record, name, text), shown) for text in texts]

    for rows in parse_records(_drop_line_zero(records), build, StrictProblems()):
        yield from rows


def _drop_line_zero(records: Iterable[Record]) -> Iterator[Record]:
    """Remove the line number 0 of records from JSON files."""
    for record in records:
        record.line = record.line or None  # type: ignore[assignment]
        yield record


def _has_field(record: Record, name: str) -> bool:
    return isinstance(record.value, dict) and record.value.get(name) not in (None, "")


def _caption_text(record: Record, name: str, text: Any) -> str:
    """Text of a caption, or of one in a list; Karpathy's have it under `raw`."""
    text = text.get("raw") if isinstance(text, dict) else text
    if text is None or (isinstance(text, str) and not text.strip()):
        return ""
    return Record({name: text}, record.file, record.line, record.key).text(name)


def _read_coco(path: Path, value: Mapping[str, Any]) -> Iterator[CaptionRecord]:
    images = value.get("images")
    images = images if isinstance(images, list) else []
    names = {
        image.get("id"): str(image["file_name"])
        for image in images if isinstance(image, dict) and "file_name" in image
        if isinstance(image.get("id"), int | str)
    }  # fmt: skip

    def build(record: Record) -> CaptionRecord:
        number = record.field("image_id")
        if not isinstance(number, int | str | None):
            raise MalformedError(f"record {record.key}: 'image_id' must be a number or a name.")
        if names and number not in names:
            raise MalformedError(f"record {record.key}: there is no image {number!r} in the file.")
        image = names.get(number, None if number is None else str(number))
        return CaptionRecord(_caption_text(record, "caption", record.field("caption")), image)

    records = (Record(entry, path, 0, str(i)) for i, entry in enumerate(value["annotations"]))
    return parse_records(_drop_line_zero(records), build, StrictProblems())


def _read_karpathy(path: Path, images: list[Any]) -> Iterator[CaptionRecord]:
    def build(record: Record) -> list[CaptionRecord]:
        folder = record.value.get("filepath") if isinstance(record.value, dict) else None
        name = record.name("filename")
        sentences = record.field("sentences")
        if not isinstance(sentences, list):
            raise MalformedError(f"record {record.key}: 'sentences' must be a list.")
        image = f"{folder}/{name}" if folder else name
        return [
            CaptionRecord(_caption_text(record, "sentences", entry), image) for entry in sentences
        ]

    records = (Record(entry, path, 0, str(i)) for i, entry in enumerate(images))
    for rows in parse_records(_drop_line_zero(records), build, StrictProblems()):
        yield from rows


PAIRS, MANIFEST = "pairs.jsonl", "manifest.json"
SCHEMA = 1
PROGRESS_EVERY = 500
"""Captions between two calls of `progress`."""


@dataclass(frozen=True, slots=True)
class PairFiles:
    """Paths of the two files of a build: pairs and manifest."""

    pairs: Path
    manifest: Path


def pair_files(out: Path, *, overwrite: bool = False) -> PairFiles:
    """Paths for `out`: a .jsonl file with its manifest beside it, or a folder with both.

    Raises:
        InputError: something is there already and `overwrite` is off.
    """
    if out.suffix.lower() in (".jsonl", ".ndjson"):
        paths = PairFiles(out, out.with_name(f"{out.stem}.manifest.json"))
    else:
        if out.exists() and not out.is_dir():
            raise InputError("is a file; end it in .jsonl or name a folder.", file=out)
        paths = PairFiles(out / PAIRS, out / MANIFEST)
    for path in (paths.pairs, paths.manifest):
        if path.is_dir() or (path.exists() and not overwrite):
            raise InputError(
                f"is there already; choose another {option('out')} or pass "
                f"{option('overwrite', True)}.",
                file=path,
            )
    return paths


def build_pairs(
    captions: Iterable[CaptionRecord],
    out: Path,
    recipe: Recipe = Recipe(),  # noqa: B008 - it is frozen
    *,
    rewriter: Rewriter | None = None,
    source: str = "",
    complete: bool = False,
    overwrite: bool = False,
    progress: Callable[[int], None] | None = None,
) -> dict[str, Any]:
    """Generate pairs of captions and write them; both files appear complete or not at all.

    Args:
        captions: captions with their images; empty ones and doubles are left out and counted.
        out: a .jsonl file, or a folder.
        recipe: settings of pair generation.
        rewriter: a second source of captions.
        source: the captions' source in the manifest.
        complete: write only captions that have a positive and a negative.
        overwrite: replace files that exist.
        progress: called with the number of captions done.

    Returns:
        The manifest.

    Raises:
        InputError: there are no captions, or the files cannot be written.
    """
    places = pair_files(out, overwrite=overwrite)
    read: Counter[str] = Counter()
    tally = Tally()
    written = 0
    digest = hashlib.sha256()
    with atomic_file(places.pairs, exclusive=not overwrite) as stream:
        for pairs in make_pairs(_drop_duplicates(captions, read), recipe, rewriter, tally):
            done = tally.captions["made"]
            if progress is not None and done % PROGRESS_EVERY == 0:
                progress(done)
            if complete and not (pairs.positives and pairs.negatives):
                continue
            line = _encode_line(pairs)
            digest.update(line)
            stream.write(line)
            written += 1
        if not read["read"]:
            raise InputError("holds no captions.", file=source or None)
        if not read["distinct"]:
            raise InputError("holds no caption with words.", file=source or None)
        if not written:
            raise InputError(
                "none of the captions gives a positive and a negative; leave "
                f"{option('complete')} out."
            )
        manifest = _make_manifest(recipe, rewriter, source, complete, read, tally, written)
        manifest["sha256"] = digest.hexdigest()
        text = json.dumps(manifest, indent=2, ensure_ascii=False) + "\n"
        write_text(places.manifest, text, exclusive=not overwrite)
    return manifest


def _drop_duplicates(
    captions: Iterable[CaptionRecord], read: Counter[str]
) -> Iterator[CaptionRecord]:
    seen: set[bytes] = set()
    for row in captions:
        read["read"] += 1
        if not any(sign.isalnum() for sign in row.caption):
            read["empty"] += 1
            continue
        key = hashlib.blake2b(f"{row.image}\n{row.caption}".encode(), digest_size=16).digest()
        if key in seen:
            read["double"] += 1
            continue
        seen.add(key)
        read["distinct"] += 1
        yield CaptionRecord(" ".join(row.caption.split()), row.image)


def _encode_line(pairs: CaptionPairs) -> bytes:
    return (json.dumps(pairs.as_json(), ensure_ascii=False) + "\n").encode()


def _make_manifest(
    recipe: Recipe,
    rewriter: Rewriter | None,
    source: str,
    complete: bool,
    read: Counter[str],
    tally: Tally,
    written: int,
) -> dict[str, Any]:
    names = [kind for kind in recipe.kinds if tally.proposed[kind]]
    return {
        "schema": SCHEMA,
        "contrapose": __version__,
        "source": source,
        "seed": recipe.seed,
        "per_caption": recipe.per_caption,
        "tagger": recipe.tagger,
        "kinds": list(recipe.kinds),
        "complete": complete,
        "captions": {
            **{name: read[name] for name in ("read", "empty", "double", "distinct")},
            **{name: tally.captions[name] for name in ("without a positive", "without a negative")},
            "written": written,
        },
        "proposals": {
            kind: {
                "proposed": tally.proposed[kind],
                **dict(sorted(tally.dropped.get(kind, Counter()).items())),
                "kept": tally.kept[kind],
            }
            for kind in names
        },
        "rewriter": None
        if rewriter is None
        else {"model": rewriter.name, **dict(sorted(rewriter.counts.items()))},
    }
