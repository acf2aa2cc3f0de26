"""Layouts of the benchmark's parts on disk: image names, and annotations in public formats.

Each part is a folder that a reader takes as its root:

    2 × 2            eqben                   kubric_<part>.json, images/kubric_<part>/
    1 × 2            sugarcrepe              <add|replace|swap>_<att|obj|rel>.json, images/
    order            a file of examples      examples.jsonl, images/
    hard-positives   hard-positives-replace  replace_<relations|attributes>_<which>.json, images/
    gallery          coco-retrieval          dataset_coco.json, images/
    edits            simat                   transfos.csv, triplets.csv, captions.txt, …

SIMAT's triplets are (one thing, "to the left of", the other); a query changes one of the two. The
columns `word` and `target_word`, which SIMAT does not have, hold the word that changes.
"""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from contrapose.data import BenchmarkData, ComposedSet, EditSet, Example, Gallery, ImageRef
from contrapose.errors import InputError
from contrapose.world.benchmark.annotations import scene_of
from contrapose.world.captions.words import RELATION_WORDS

_SUGARCREPE_FILES: Mapping[str, str] = {
    "replace-color": "replace_att",
    "replace-shape": "replace_obj",
    "replace-size": "replace_att",
    "replace-material": "replace_att",
    "replace-relation": "replace_rel",
    "replace-count": "replace_att",
    "swap-attribute": "swap_att",
    "swap-relation": "swap_obj",
}


BESIDE = RELATION_WORDS["left of"][0].text


@dataclass(frozen=True, slots=True)
class PartLayout:
    """File layout of a part: annotation files and image names.

    Attributes:
        reader: name of the benchmark that reads it, or of the file of examples.
        images: image files by name.
        texts: content of the annotation files by name.
    """

    reader: str
    images: tuple[tuple[str, ImageRef], ...]
    texts: Mapping[str, str]


def lay_out(part: str, data: BenchmarkData) -> PartLayout:
    """Lay out a part in the public format of its examples' shape, images × captions."""
    if isinstance(data, Gallery):
        return _karpathy_layout(data)
    if isinstance(data, EditSet):
        return _simat_layout(data)
    if isinstance(data, ComposedSet):
        raise InputError(f"{part} has composed queries, which the world has no layout for.")
    examples = list(data)
    layout = _LAYOUTS.get(examples[0].shape, _jsonl_layout)
    return layout(part, examples)


def _eqben_layout(part: str, examples: Sequence[Example]) -> PartLayout:
    subset = f"kubric_{part}"
    names = [[f"{example.id}_{i}.png" for i in range(2)] for example in examples]
    records = [
        {
            "image0": first,
            "image1": second,
            "caption0": example.texts[0],
            "caption1": example.texts[1],
        }
        for (first, second), example in zip(names, examples, strict=True)
    ]
    images = (
        (f"images/{subset}/{name}", ref)
        for pair, example in zip(names, examples, strict=True)
        for name, ref in zip(pair, example.images, strict=True)
    )
    return PartLayout("eqben", tuple(images), {f"{subset}.json": _json_text(records)})


def _sugarcrepe_layout(_: str, examples: Sequence[Example]) -> PartLayout:
    files: dict[str, dict[str, Any]] = {}
    for example in examples:
        right = example.match[0].index(True)
        change = str(example.tags["change"])
        added = {"attribute": "add_att", "object": "add_obj"}
        name = added[str(example.tags["added"])] if change == "add" else _SUGARCREPE_FILES[change]
        files.setdefault(name, {})[example.id] = {
            "filename": f"{example.id}.png",
            "caption": example.texts[right],
            "negative_caption": example.texts[1 - right],
        }
    texts = {f"{name}.json": _json_text(records) for name, records in sorted(files.items())}
    return PartLayout("sugarcrepe", tuple(_image_files(examples)), texts)


def _jsonl_layout(_: str, examples: Sequence[Example]) -> PartLayout:
    lines = (
        json.dumps(
            {
                "id": example.id,
                "images": [f"images/{example.id}.png"],
                "texts": example.texts,
                "match": example.match,
                "tags": dict(example.tags),
            },
            ensure_ascii=False,
        )
        for example in examples
    )
    return PartLayout(
        "examples.jsonl", tuple(_image_files(examples)), {"examples.jsonl": join_lines(lines)}
    )


def _hard_positives_layout(_: str, examples: Sequence[Example]) -> PartLayout:
    files: dict[str, list[dict[str, str]]] = {}
    for example in examples:
        half = "relations" if "relation" in str(example.tags["change"]) else "attributes"
        original, negative, positive = example.texts
        for which, true in (("original", original), ("hard_positive", positive)):
            files.setdefault(f"replace_{half}_{which}.json", []).append(
                {
                    "image_id": example.id,
                    "true_caption": true,
                    "false_caption": negative,
                    "image_path": f"images/{example.id}.png",
                }
            )
    texts = {name: _json_text(records) for name, records in sorted(files.items())}
    return PartLayout("hard-positives-replace", tuple(_image_files(examples)), texts)


def _karpathy_layout(gallery: Gallery) -> PartLayout:
    names = [f"{i}.png" for i in range(len(gallery.images))]
    sentences: list[list[dict[str, str]]] = [[] for _ in names]
    for image, text in gallery.pairs:
        sentences[image].append({"raw": gallery.texts[text]})
    records = [
        {"filename": name, "filepath": "images", "split": "test", "sentences": captions}
        for name, captions in zip(names, sentences, strict=True)
    ]
    images = tuple((f"images/{name}", ref) for name, ref in zip(names, gallery.images, strict=True))
    texts = {"dataset_coco.json": _json_text({"images": records, "dataset": "scenes"})}
    return PartLayout("coco-retrieval", images, texts)


def _simat_layout(edits: EditSet) -> PartLayout:
    """Lay out edit queries as SIMAT's files; the database is sorted by caption."""
    order = sorted(range(len(edits.images)), key=lambda image: edits.caption_of[image])
    triplets = [_split_triplet(text) for text in edits.captions]
    regions = [
        (i, *triplets[edits.caption_of[i]], row) for row, i in enumerate(order)
    ]  # a region's id is its index in the edit set
    often = {query.source: 0 for query in edits.queries}
    for query in edits.queries:
        often[query.source] += 1
    transfos = []
    for query in edits.queries:
        now, then = triplets[query.caption], triplets[query.target_caption]
        field, value, target = _find_change(now, then)
        transfos.append(
            (
                query.id, query.image, field, value, target, query.caption,
                query.target_caption, often[query.source], often[query.source],
                str(query.tags["split"] == "test"), query.source, query.target,
            )
        )  # fmt: skip
    texts = {
        "captions.txt": join_lines(edits.captions),
        "triplets.csv": csv_text(("region_id", "subj", "rel", "obj", "dataset_id"), regions),
        "retrieval_db.tsv": csv_text(
            ("region_id", "image_id", "bbox"),
            [(i, i, "0,0,1,1") for i in range(len(edits.images))],
            "\t",
        ),
        "transfos.csv": csv_text(
            (
                "transfo_id", "region_id", "field", "value", "target", "query_ids", "target_ids",
                "norm", "norm2", "is_test", "word", "target_word",
            ),
            transfos,
        ),
    }  # fmt: skip
    images = tuple((f"images/images/{i}.png", ref) for i, ref in enumerate(edits.images))
    return PartLayout("simat", images, texts)


_LAYOUTS: Mapping[tuple[int, int], Callable[[str, Sequence[Example]], PartLayout]] = {
    (1, 2): _sugarcrepe_layout,
    (1, 3): _hard_positives_layout,
    (2, 2): _eqben_layout,
}
"""Layouts by shape; a file of examples has all others."""


def _split_triplet(text: str) -> tuple[str, str, str]:
    first, second = text.split(f" {BESIDE} ")
    return first.split(" ", 1)[1], BESIDE, second.split(" ", 1)[1]


def _find_change(now: tuple[str, str, str], then: tuple[str, str, str]) -> tuple[str, str, str]:
    """Find the slot of a triplet that changed, with its old and new value."""
    for field, old, new in zip(("subj", "rel", "obj"), now, then, strict=True):
        if old != new:
            return field, old, new
    raise InputError("an edit query must change something.")


def _image_files(examples: Iterable[Example]) -> Iterator[tuple[str, ImageRef]]:
    for example in examples:
        yield f"images/{example.id}.png", example.images[0]


def _json_text(value: object) -> str:
    return json.dumps(value, indent=1, ensure_ascii=False) + "\n"


def join_lines(lines: Iterable[str]) -> str:
    """Text of some lines, each with its line break."""
    return "".join(f"{line}\n" for line in lines)


def csv_text(header: Sequence[str], rows: Iterable[Sequence[object]], delimiter: str = ",") -> str:
    """Text of a table with a header."""
    stream = io.StringIO()
    writer = csv.writer(stream, delimiter=delimiter, lineterminator="\n")
    writer.writerow(header)
    writer.writerows(rows)
    return stream.getvalue()


MANIFEST = "manifest.json"
SCENES = "scenes.jsonl"


def scene_lines(layout: PartLayout) -> str:
    """Text of the file of scenes: the name of each image, and the scene behind it."""
    return "".join(
        f'{{"image":{json.dumps(name)},"scene":{scene_of(ref).to_json()}}}\n'
        for name, ref in layout.images
    )


def mask_name(image: str) -> str:
    """Name of the index map of an image of a layout."""
    return f"masks/{image.removeprefix('images/')}"


def write_file(path: Path, content: bytes) -> None:
    """Write one file into a folder that is still being built."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)


def encode_png(image: Any) -> bytes:
    """Bytes of a PNG file."""
    stream = io.BytesIO()
    image.save(stream, "PNG")
    return stream.getvalue()
