"""Built-in renderer as a generator: both captions drawn as scenes that differ in nothing else."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from contrapose.build.edits.generators import GenerationError, ImagePair
from contrapose.build.edits.recipe import EditPrompt
from contrapose.world.benchmark.annotations import SceneImage, parse_caption
from contrapose.world.benchmark.arrangement import is_stable
from contrapose.world.benchmark.candidates import MIN_PIXELS, MIN_VISIBLE, VISIBILITY_SIZE
from contrapose.world.captions import Caption, is_true
from contrapose.world.sample import HALF_DEPTH, HALF_WIDTH, sample_scene
from contrapose.world.scene import MOST_THINGS, Scene, Thing

TRIES = 300
"""Arrangements that are tried for a pair."""
SLOTS = ("shape", "color", "size", "material", "pattern")


@dataclass(frozen=True, slots=True)
class SceneDrawer:
    """Generator that draws captions of the built-in grammar, each true of its image alone."""

    name: str = "scenes"
    lists: str = "scenes"
    workers: int = 1

    def generate(self, prompt: EditPrompt, size: int) -> ImagePair:
        """Draw both captions: same camera, light, ground, positions and unnamed properties.

        Raises:
            GenerationError: a caption is not of the grammar, or no arrangement makes each caption
                true of its scene and false of the other.
        """
        scenes = draw_scenes(prompt)
        first, second = SceneImage.open_many([SceneImage(scene, size) for scene in scenes])
        return first, second


def draw_scenes(prompt: EditPrompt) -> tuple[Scene, Scene]:
    """Scenes of both captions of a pair; see `SceneDrawer.generate`."""
    first, second = (_parse(caption) for caption in prompt.captions)
    rng = np.random.default_rng(prompt.seed)
    frame = sample_scene(prompt.seed, 0, things=1)
    for _ in range(TRIES):
        spots = [
            (
                float(rng.uniform(-HALF_WIDTH, HALF_WIDTH)),
                float(rng.uniform(-HALF_DEPTH, HALF_DEPTH)),
            )
            for _ in range(MOST_THINGS)
        ]
        looks = [sample_scene(prompt.seed, int(rng.integers(1 << 31)), things=1).things[0]
                 for _ in range(MOST_THINGS)]  # fmt: skip
        one = _arrange(first, looks, spots, frame)
        if one is None or is_true(first, one) is not True or is_true(second, one) is not False:
            continue
        for other_spots in _arrangements(spots):
            other = _arrange(second, looks, other_spots, frame)
            if (
                other is not None
                and is_true(second, other) is True
                and is_true(first, other) is False
                and _are_visible((one, other))
            ):
                return one, other
    raise GenerationError(
        f"no two scenes show {prompt.captions[0]!r} and {prompt.captions[1]!r} and differ in "
        "nothing else."
    )


def _parse(text: str) -> Caption:
    caption = parse_caption(text.strip().rstrip(".").lower())
    if caption is None:
        raise GenerationError(
            f"{text!r} is not a caption that the built-in renderer draws; it draws such as 'a red "
            "cube to the left of a blue ball' or 'a metal cone and a striped dome'."
        )
    return caption


def _arrangements(spots: Sequence[tuple[float, float]]) -> list[list[tuple[float, float]]]:
    """Positions of the other scene: the same, or those of the first two things exchanged."""
    return [list(spots), [spots[1], spots[0], *spots[2:]]]


def _arrange(
    caption: Caption,
    looks: Sequence[Thing],
    spots: Sequence[tuple[float, float]],
    frame: Scene,
) -> Scene | None:
    """Scene with the things of a caption at these positions; None if they have no room."""
    mentions = [mention for mention in caption.mentions for _ in range(mention.count)]
    if len(mentions) > MOST_THINGS:
        return None
    things = []
    for mention, look, (x, y) in zip(mentions, looks, spots, strict=False):
        values: dict[str, Any] = {
            slot: mention.value(slot)  # type: ignore[arg-type]
            for slot in SLOTS
            if mention.value(slot) is not None  # type: ignore[arg-type]
        }
        things.append(replace(look, x=x, y=y, on=None, **values))
    if caption.relation in ("on top of", "under"):
        top, base = (0, 1) if caption.relation == "on top of" else (1, 0)
        # A thing stands on one that comes before it in the scene.
        below = things[base]
        things = [below, replace(things[top], x=below.x, y=below.y, on=0)]
    scene = replace(frame, things=tuple(things))
    return scene if is_stable(scene) else None


def _are_visible(scenes: Sequence[Scene]) -> bool:
    from contrapose.world.render import are_visible, pack

    visible = are_visible(
        pack(scenes), fraction=MIN_VISIBLE, pixels=MIN_PIXELS, size=VISIBILITY_SIZE
    )
    return bool(visible.all())
