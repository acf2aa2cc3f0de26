"""Evaluation panels: the held-out benchmarks a model is evaluated on before and after tuning."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from contrapose.data import (
    Benchmark,
    ComposedSet,
    EditSet,
    Example,
    Family,
    Gallery,
    ImageRef,
    Suite,
    in_memory_benchmark,
)
from contrapose.data.benchmarks.classes import read
from contrapose.data.examples import diagonal_match, single_match
from contrapose.errors import InputError
from contrapose.files import StrictProblems
from contrapose.tune.data.rows import TrainingImages, TrainingSet
from contrapose.world.benchmark import SceneImage, scenes
from contrapose.world.captions import Caption, Mention
from contrapose.world.sample import sample_scenes
from contrapose.world.scene import COLORS, SHAPES

if TYPE_CHECKING:
    from PIL.Image import Image

SWAPS = "swaps"
TRIPLE_MATCH = ((True, False, True),)
SCENE_PARTS: Mapping[str, tuple[int, tuple[str, ...]]] = {
    SWAPS: (1, ("swap-attribute", "swap-relation")),
    "replacements": (
        1,
        (
            "replace-color", "replace-shape", "replace-size", "replace-material",
            "replace-relation", "replace-count",
        ),
    ),
    "changes": (1, ("location", "counting", "attribute")),
    "hard-positives": (3, ("hard-positives",)),
}  # fmt: skip
"""Parts of the panel of scenes: how many times the examples, and the parts of `scenes` pooled."""
SEED = 4_242
"""Seed of the panel of scenes; far from the seeds that people choose for training."""
SWAP_KINDS = ("swap", "exchange", "order", "shuffle", "trigram", "noun", "rewrite-exchange")
REPLACEMENT_KINDS = ("replace", "attribute", "object", "relation", "number", "rewrite-contrast")
MAX_HELD_OUT_IMAGES = 1000
"""Images at most; more would not change a verdict."""
MAX_ZERO_SHOT_IMAGES = 5000
"""Images at most, drawn from all; more would not change a verdict."""


@dataclass(frozen=True, slots=True)
class EvaluationPanel:
    """Evaluation panel: a suite of benchmarks in memory.

    Attributes:
        source: what the examples are made of, in words.
        suite: one benchmark per part of the report.
    """

    source: str
    suite: Suite

    def __add__(self, other: EvaluationPanel) -> EvaluationPanel:
        """Panel with the parts of both."""
        parts = {**self.suite.parts, **other.suite.parts}
        return EvaluationPanel(f"{self.source}; {other.source}", replace(self.suite, parts=parts))


@dataclass(frozen=True, slots=True)
class TrainingImage:
    """Image source: a row of a training set.

    Attributes:
        images: the images of the training set.
        row: the row.
        content: fingerprint of the image.
    """

    images: TrainingImages = field(compare=False, repr=False)
    row: int
    content: str

    @classmethod
    def open_many(cls, sources: Sequence[Self]) -> Sequence[Image]:
        """Decode many images of one training set at once."""
        return sources[0].images.open([source.row for source in sources])


def make_panel(
    source: str, parts: Mapping[str, Sequence[Example] | Gallery | EditSet]
) -> EvaluationPanel:
    """Panel of in-memory benchmarks; parts without examples are left out.

    Raises:
        InputError: there are none.
    """
    filled = {
        name: in_memory_benchmark(data, name, _family(data)) for name, data in parts.items() if data
    }
    if not filled:
        raise InputError(f"{source} holds nothing to measure the model by.")
    return EvaluationPanel(source, Suite("tuning", source, filled))


def make_scene_panel(examples: int = 100, *, seed: int = SEED) -> EvaluationPanel:
    """Panel of the built-in world, the same for the same seed.

    Args:
        examples: of each pooled part of `scenes`; twice as many in the gallery and for naming,
            three times as many hard positives.
        seed: of everything random.
    """
    parts: dict[str, list[Example] | Gallery] = {}
    for name, (times, pooled) in SCENE_PARTS.items():
        suite = scenes(examples=times * examples, seed=seed)
        parts[name] = [
            replace(example, id=f"{part}/{example.id}")
            for part in pooled
            for example in _read_examples(suite.parts[part])
        ]
    gallery = scenes(examples=2 * examples, seed=seed).parts["gallery"]
    data = gallery.read(Path(), StrictProblems())
    assert isinstance(data, Gallery)  # noqa: S101 - of this part
    return make_panel(
        "scenes", {**parts, "retrieval": data, "naming": _make_naming_gallery(2 * examples, seed)}
    )


def make_pairs_panel(
    rows: TrainingSet, model: Any = None, source: str = "held-out pairs"
) -> EvaluationPanel:
    """Panel of held-out pairs: captions against their hard negatives, triples, retrieval.

    Args:
        rows: the held-out images and captions.
        model: the model before tuning, whose caption vectors find pairs of images with close
            captions; without one there are no such pairs.
        source: what the rows are, in words.

    Raises:
        InputError: there is nothing to measure.
    """
    count = min(len(rows), MAX_HELD_OUT_IMAGES)
    images = [
        ImageRef(str(row), source=TrainingImage(rows.images, row, rows.images.mark(row)))
        for row in range(count)
    ]
    parts: dict[str, list[Example] | Gallery] = {SWAPS: [], "replacements": [], "other-changes": []}
    triples: list[Example] = []
    for row, image in enumerate(images):
        for i, caption in enumerate(rows.image_captions[row]):
            for j, (text, kind) in enumerate(caption.negatives):
                texts = (caption.caption, text)
                example = Example(f"{row}/{i}/{j}", (image,), texts, single_match(2, 0))
                part = parts[_change_group(kind)]
                assert isinstance(part, list)  # noqa: S101 - made above
                part.append(example)
            if caption.negatives and caption.positives:
                three = caption.caption, caption.negatives[0][0], caption.positives[0][0]
                triples.append(Example(f"{row}/{i}", (image,), three, TRIPLE_MATCH))
    firsts = [rows.image_captions[row][0].caption for row in range(count)]
    if model is not None and count > 3:
        parts["close-pairs"] = [
            Example(f"{i}-{j}", (images[i], images[j]), (firsts[i], firsts[j]), diagonal_match(2))
            for i, j in _find_close_pairs(model, firsts)
        ]
    parts["hard-positives"] = triples
    rows_of = {text: row for row, text in reversed(list(enumerate(firsts)))}
    distinct = sorted(rows_of.values())
    if len(distinct) > 1:
        parts["retrieval"] = Gallery(
            "retrieval",
            tuple(images[row] for row in distinct),
            tuple(firsts[row] for row in distinct),
            tuple((i, i) for i in range(len(distinct))),
        )
    return make_panel(source, parts)


def make_zero_shot_panel(root: Path, seed: int = 0) -> EvaluationPanel:
    """Panel of zero-shot classification: a folder with a folder of images per class.

    The folder is what the benchmark `class-folders` reads: names may stand in `classnames.txt` and
    prompts in `templates.txt`. A class's vector is the mean of its prompts' (Radford et al. 2021).

    Args:
        root: the folder.
        seed: of the sample, where there are more than `MAX_ZERO_SHOT_IMAGES` images.

    Raises:
        InputError: the folder cannot be read, or has one class only.
    """
    gallery = read(root, StrictProblems())
    if len(gallery.texts) < 2:
        raise InputError("has one class: zero-shot classification needs two or more.", file=root)
    pairs = gallery.pairs
    if len(pairs) > MAX_ZERO_SHOT_IMAGES:
        drawn = np.random.default_rng((seed, 7)).choice(
            len(pairs), MAX_ZERO_SHOT_IMAGES, replace=False
        )
        pairs = tuple(pairs[i] for i in sorted(drawn.tolist()))
    sampled = replace(
        gallery,
        images=tuple(gallery.images[image] for image, _ in pairs),
        pairs=tuple((i, label) for i, (_, label) in enumerate(pairs)),
    )
    source = f"{len(pairs):,} images of {len(gallery.texts):,} classes in {root}"
    return make_panel(source, {"zero-shot": sampled})


def _family(data: Sequence[Example] | Gallery | EditSet) -> Family | None:
    """Family of triples; of others their shape says it."""
    triple = not isinstance(data, Gallery | EditSet) and data[0].match == TRIPLE_MATCH
    return "triple" if triple else None


def _read_examples(benchmark: Benchmark) -> list[Example]:
    data = benchmark.read(Path(), StrictProblems())
    return [] if isinstance(data, Gallery | EditSet | ComposedSet) else list(data)


def _make_naming_gallery(count: int, seed: int) -> Gallery:
    """Scenes of one thing each; the classes are all colors and shapes."""
    looks = [(color, shape) for color in COLORS for shape in SHAPES]
    single = sample_scenes(count, seed + 1, "balanced", things=1)
    things = [scene.things[0] for scene in single]
    return Gallery(
        "naming",
        tuple(ImageRef(f"naming/{i}", source=SceneImage(scene)) for i, scene in enumerate(single)),
        tuple(Caption("one", (Mention(None, shape, color),)).text for color, shape in looks),
        tuple((i, looks.index((it.color, it.shape))) for i, it in enumerate(things)),
        templates=("{}",),
    )


def _change_group(kind: str) -> str:
    if kind.startswith(SWAP_KINDS):
        return SWAPS
    return "replacements" if kind.startswith(REPLACEMENT_KINDS) else "other-changes"


def _find_close_pairs(model: Any, captions: Sequence[str]) -> list[tuple[int, int]]:
    """Each image with the one of the nearest different caption; every pair once."""
    size = max(1, model.batch_size)
    vectors = np.concatenate(
        [
            model.embed_texts(captions[start : start + size]).float().cpu().numpy()
            for start in range(0, len(captions), size)
        ]
    )
    cosines = vectors @ vectors.T
    for i, text in enumerate(captions):  # the image itself, and images with the same caption
        cosines[i, [j for j, other in enumerate(captions) if other == text]] = -np.inf
    nearest = cosines.argmax(axis=1)
    pairs = {(min(i, int(j)), max(i, int(j))) for i, j in enumerate(nearest) if i != j}
    return sorted((i, j) for i, j in pairs if captions[i] != captions[j])
