"""The parts of the benchmark in the formats of public benchmarks, as our own readers read them.

Each part is a folder that a reader takes as its `--root`:

    2 × 2            eqben                   kubric_<part>.json, images/kubric_<part>/
    1 × 2            sugarcrepe              <add|replace|swap>_<att|obj|rel>.json, images/
    order            a file of one's own     examples.jsonl, images/
    hard-positives   hard-positives-replace  replace_<relations|attributes>_<which>.json, images/
    gallery          coco-retrieval          dataset_coco.json, images/
    edits            simat                   transfos.csv, triplets.csv, captions.txt, …

SIMAT's triplets are (one thing, "to the left of", the other); a query changes one of the two, and
the word that changes stands in the columns `word` and `target_word`, which SIMAT does not have.
"""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from contrapose.data import Data, EditSet, Example, Gallery, ImageRef
from contrapose.errors import InputError
from contrapose.world.captions.words import RELATION_WORDS

_SUGARCREPE: Mapping[str, str] = {
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
class Layout:
    """A part as files.

    Attributes:
        reader: name of the benchmark that reads it; a file's name where it is one of one's own.
        images: the images and the names of their files.
        texts: annotation files by name.
    """

    reader: str
    images: tuple[tuple[str, ImageRef], ...]
    texts: Mapping[str, str]


def laid_out(part: str, family: str, data: Data) -> Layout:
    """A part in the format that fits its family."""
    if isinstance(data, Gallery):
        return _karpathy(data)
    if isinstance(data, EditSet):
        return _simat(data)
    examples = list(data)
    if family == "pairs":
        return _eqben(part, examples)
    if family == "triple":
        return _hard_positives(examples)
    return _own(examples) if examples[0].shape != (1, 2) else _sugarcrepe(examples)


def _eqben(part: str, examples: Sequence[Example]) -> Layout:
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
    return Layout("eqben", tuple(images), {f"{subset}.json": _json(records)})


def _sugarcrepe(examples: Sequence[Example]) -> Layout:
    files: dict[str, dict[str, Any]] = {}
    for example in examples:
        right = example.match[0].index(True)
        change = str(example.tags["change"])
        added = {"attribute": "add_att", "object": "add_obj"}
        name = added[str(example.tags["added"])] if change == "add" else _SUGARCREPE[change]
        files.setdefault(name, {})[example.id] = {
            "filename": f"{example.id}.png",
            "caption": example.texts[right],
            "negative_caption": example.texts[1 - right],
        }
    texts = {f"{name}.json": _json(records) for name, records in sorted(files.items())}
    return Layout("sugarcrepe", tuple(_single(examples)), texts)


def _own(examples: Sequence[Example]) -> Layout:
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
    return Layout("examples.jsonl", tuple(_single(examples)), {"examples.jsonl": _lines(lines)})


def _hard_positives(examples: Sequence[Example]) -> Layout:
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
    texts = {name: _json(records) for name, records in sorted(files.items())}
    return Layout("hard-positives-replace", tuple(_single(examples)), texts)


def _karpathy(gallery: Gallery) -> Layout:
    names = [f"{i}.png" for i in range(len(gallery.images))]
    sentences: list[list[dict[str, str]]] = [[] for _ in names]
    for image, text in gallery.pairs:
        sentences[image].append({"raw": gallery.texts[text]})
    records = [
        {"filename": name, "filepath": "images", "split": "test", "sentences": own}
        for name, own in zip(names, sentences, strict=True)
    ]
    images = tuple((f"images/{name}", ref) for name, ref in zip(names, gallery.images, strict=True))
    texts = {"dataset_coco.json": _json({"images": records, "dataset": "scenes"})}
    return Layout("coco-retrieval", images, texts)


def _simat(edits: EditSet) -> Layout:
    """SIMAT's files; the database is sorted by caption, since that is how captions are found."""
    order = sorted(range(len(edits.images)), key=lambda image: edits.caption_of[image])
    triplets = [_triplet(text) for text in edits.captions]
    regions = [
        (i, *triplets[edits.caption_of[i]], place) for place, i in enumerate(order)
    ]  # a region is called by its place in the edit set
    often = {query.source: 0 for query in edits.queries}
    for query in edits.queries:
        often[query.source] += 1
    transfos = []
    for query in edits.queries:
        now, then = triplets[query.caption], triplets[query.target_caption]
        field, value, target = _change(now, then)
        transfos.append(
            (
                query.id, query.image, field, value, target, query.caption,
                query.target_caption, often[query.source], often[query.source],
                str(query.tags["split"] == "test"), query.source, query.target,
            )
        )  # fmt: skip
    texts = {
        "captions.txt": _lines(edits.captions),
        "triplets.csv": _csv(("region_id", "subj", "rel", "obj", "dataset_id"), regions),
        "retrieval_db.tsv": _csv(
            ("region_id", "image_id", "bbox"),
            [(i, i, "0,0,1,1") for i in range(len(edits.images))],
            "\t",
        ),
        "transfos.csv": _csv(
            (
                "transfo_id", "region_id", "field", "value", "target", "query_ids", "target_ids",
                "norm", "norm2", "is_test", "word", "target_word",
            ),
            transfos,
        ),
    }  # fmt: skip
    images = tuple((f"images/images/{i}.png", ref) for i, ref in enumerate(edits.images))
    return Layout("simat", images, texts)


def _triplet(text: str) -> tuple[str, str, str]:
    first, second = text.split(f" {BESIDE} ")
    return first.split(" ", 1)[1], BESIDE, second.split(" ", 1)[1]


def _change(now: tuple[str, str, str], then: tuple[str, str, str]) -> tuple[str, str, str]:
    """Which slot of a triplet changed, from what to what."""
    for field, old, new in zip(("subj", "rel", "obj"), now, then, strict=True):
        if old != new:
            return field, old, new
    raise InputError("an edit query must change something.")


def _single(examples: Iterable[Example]) -> Iterator[tuple[str, ImageRef]]:
    for example in examples:
        yield f"images/{example.id}.png", example.images[0]


def _json(value: object) -> str:
    return json.dumps(value, indent=1, ensure_ascii=False) + "\n"


def _lines(lines: Iterable[str]) -> str:
    return "".join(f"{line}\n" for line in lines)


def _csv(header: Sequence[str], rows: Iterable[Sequence[object]], delimiter: str = ",") -> str:
    stream = io.StringIO()
    writer = csv.writer(stream, delimiter=delimiter, lineterminator="\n")
    writer.writerow(header)
    writer.writerows(rows)
    return stream.getvalue()
