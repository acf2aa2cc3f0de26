"""Sets of minimal pairs read back from disk, with their manifest and an id of their content."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from contrapose.build.minimal_pairs import EXAMPLES
from contrapose.build.pair_sets import MANIFEST
from contrapose.data.benchmarks.eqben import LEVELS, OFFICIAL_NAMES
from contrapose.errors import InputError
from contrapose.files import (
    MalformedError,
    StrictProblems,
    read_json,
    read_jsonl_records,
    safe_join,
)

FIELDS = {
    "builder": str, "subset": str, "read_with": str, "sha256": dict, "filters": dict,
    "parameters": dict, "images": dict,
}  # fmt: skip
"""Fields of a manifest that a review reads, and their types."""


@dataclass(frozen=True, slots=True)
class PairSet:
    """Set of minimal pairs on disk.

    Attributes:
        folder: where it lies.
        manifest: how it came about.
        rows: pairs with `id`, `images` relative to the folder, `captions`, `tags` and `group`, the
            keys under which EqBen's file nests them.
        id: digest of captions and images; another build has another.
    """

    folder: Path
    manifest: Mapping[str, Any]
    rows: tuple[Mapping[str, Any], ...]
    id: str


def read_pair_set(folder: Path) -> PairSet:
    """Read a set that `build graph`, `boundaries`, `steps` or `edits` wrote; no image is opened.

    Raises:
        InputError: it is none, or its files are damaged.
    """
    path = folder / MANIFEST
    if not path.is_file():
        raise InputError(f"is no set of minimal pairs: it has no {MANIFEST}.", file=folder)
    manifest = read_json(path)
    if not isinstance(manifest, dict) or any(
        not isinstance(manifest.get(name), kind) for name, kind in FIELDS.items()
    ):
        raise InputError(
            f"is not the manifest of minimal pairs; it lacks one of {', '.join(FIELDS)}.", file=path
        )
    subset = manifest["subset"]
    records: Iterator[tuple[Any, tuple[str, ...]]]
    if manifest["read_with"] == EXAMPLES:
        file = folder / EXAMPLES
        records = ((record.value, ()) for record in read_jsonl_records(file, StrictProblems()))
    elif subset in OFFICIAL_NAMES:
        file = folder / f"{OFFICIAL_NAMES[subset]}.json"
        records = _flatten(read_json(file), LEVELS.get(subset, 0))
    else:
        raise InputError(f"has pairs in no known format, {manifest['read_with']!r}.", file=path)
    try:
        rows = tuple(_parse_row(value, keys, folder) for value, keys in records)
        ids = {row["id"] for row in rows}
        if not rows or len(ids) < len(rows):
            raise MalformedError("has no pairs." if not rows else "has two pairs of one id.")
    except MalformedError as error:
        raise InputError(str(error), file=file) from None
    return PairSet(folder, manifest, rows, _digest(rows, manifest["sha256"]))


def _flatten(
    value: Any, levels: int, keys: tuple[str, ...] = ()
) -> Iterator[tuple[Any, tuple[str, ...]]]:
    """Records of EqBen's file, with the keys under which they lie."""
    if levels == 0:
        for record in value if isinstance(value, list) else [value]:
            yield record, keys
    elif isinstance(value, dict):
        for key, inner in value.items():
            yield from _flatten(inner, levels - 1, (*keys, key))


def _parse_row(value: Any, keys: tuple[str, ...], folder: Path) -> dict[str, Any]:
    """Pair of a record in either format.

    Raises:
        MalformedError: a field is missing or not of its type, or an image lies elsewhere.
    """
    if not isinstance(value, dict):
        raise MalformedError("has a pair that is no object.")
    if "texts" in value:
        images, captions = value.get("images"), value["texts"]
    else:
        images = [f"images/{value.get(name)}" for name in ("image0", "image1")]
        captions = [value.get(name) for name in ("caption0", "caption1")]
    tags, name = value.get("tags") or {}, value.get("id")
    texts = [name, *(captions if isinstance(captions, list) else ())]
    if (
        not isinstance(images, list)
        or len(images) != 2
        or len(texts) != 3
        or not all(isinstance(text, str) for text in (*texts, *images))
        or not isinstance(tags, dict)
    ):
        raise MalformedError(f"has a pair {name!r} without an id, two images and two captions.")
    for image in images:
        safe_join(folder, image)
    return {
        "id": name,
        "images": images,
        "captions": captions,
        "tags": {str(key): str(text) for key, text in tags.items()},
        "group": list(keys),
    }


def _digest(rows: tuple[Mapping[str, Any], ...], hashes: Mapping[str, str]) -> str:
    pairs = [[row["id"], row["images"], row["captions"]] for row in rows]
    images = [[hashes.get(name) for name in row["images"]] for row in rows]
    content = json.dumps([pairs, images], ensure_ascii=False).encode()
    return hashlib.blake2b(content, digest_size=16).hexdigest()
