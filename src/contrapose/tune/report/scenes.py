"""Evaluation panel of the built-in world."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from contrapose.data import BenchmarkData, EditSet, Example, Gallery, ImageRef
from contrapose.files import StrictProblems
from contrapose.tune.report.panels import (
    EvaluationPanel,
    KeyedImages,
    PanelBuilder,
    Trial,
    TrialKind,
)
from contrapose.world.benchmark import SceneImage, scenes
from contrapose.world.captions import Caption, Mention
from contrapose.world.sample import sample_scenes
from contrapose.world.scene import COLORS, SHAPES, Scene

if TYPE_CHECKING:
    from PIL.Image import Image

GROUPS: tuple[tuple[str, TrialKind, int, tuple[str, ...]], ...] = (
    ("swaps", "choice", 1, ("swap-attribute", "swap-relation")),
    (
        "replacements",
        "choice",
        1,
        (
            "replace-color", "replace-shape", "replace-size", "replace-material",
            "replace-relation", "replace-count",
        ),
    ),
    ("changes", "pairs", 1, ("location", "counting", "attribute")),
    ("hard positives", "triple", 3, ("hard-positives",)),
)  # fmt: skip
"""What the bill pools: its name, the shape, how many times the examples, and the parts."""
SEED = 4_242
"""Of the panel; far from the seeds that people choose for training."""


def make_scene_panel(
    examples: int = 100, *, seed: int = SEED, device: str = "cpu"
) -> EvaluationPanel:
    """The panel, the same for the same seed.

    Args:
        examples: of each part; twice as many in the gallery and for naming things, three times as
            many hard positives.
        seed: of everything.
        device: where pictures are drawn.
    """
    found = PanelBuilder()
    tests: list[Trial] = []
    for name, kind, times, parts in GROUPS:
        suite = scenes(examples=times * examples, seed=seed)
        every = (
            (
                _image_sources(example.images),
                _right_first(example) if kind == "choice" else example.texts,
            )
            for part in parts
            for example in _iterate_examples(suite.parts[part].read(Path(), StrictProblems()))
        )
        tests.append(found.test(name, kind, every))
    larger = scenes(examples=2 * examples, seed=seed)
    gallery = larger.parts["gallery"].read(Path(), StrictProblems())
    if isinstance(gallery, Gallery):
        pairs = zip(gallery.images, gallery.texts, strict=True)
        own = ((_image_sources((image,)), (text,)) for image, text in pairs)
        tests.append(found.test("retrieval", "gallery", own))
    tests.append(_make_naming_trial(found, 2 * examples, seed))
    keys = list(found.pictures)

    def opened(some: Sequence[object]) -> list[Image]:
        return _draw_images([key for key in some if isinstance(key, SceneImage)], device)

    return EvaluationPanel("scenes", KeyedImages(keys, opened), list(found.captions), tests)


def _iterate_examples(data: BenchmarkData) -> Iterator[Example]:
    """Those of a part that is no gallery and no set of edits."""
    return iter(()) if isinstance(data, Gallery | EditSet) else iter(data)


def _right_first(example: Example) -> list[str]:
    """The captions of one image, the right one first."""
    return sorted(example.texts, key=lambda text: not example.match[0][example.texts.index(text)])


def _image_sources(images: Sequence[ImageRef]) -> list[object]:
    return [image.source for image in images]


def _make_naming_trial(found: PanelBuilder, count: int, seed: int) -> Trial:
    """Scenes of one thing each, to be named by colour and shape out of all that there are."""
    looks = [(color, shape) for color in COLORS for shape in SHAPES]
    texts = [Caption("one", (Mention(None, shape, color),)).text for color, shape in looks]
    single: list[Scene] = sample_scenes(count, seed + 1, "balanced", things=1)
    right = [looks.index((scene.things[0].color, scene.things[0].shape)) for scene in single]
    return Trial(
        "naming",
        "classes",
        np.array([[found.image(SceneImage(scene))] for scene in single], dtype=np.int64),
        np.array([found.text(text) for text in texts], dtype=np.int64),
        np.array(right, dtype=np.int64),
    )


def _draw_images(sources: Sequence[SceneImage], device: str) -> list[Image]:
    from PIL import Image

    from contrapose.world.render import render

    arrays = render([source.scene for source in sources], sources[0].size, device).images
    return [Image.fromarray(array) for array in arrays.cpu().numpy()]
