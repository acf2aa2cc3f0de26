"""A pair of scenes and captions as a value, and small helpers to make one."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from contrapose.data import TagValue
from contrapose.world.benchmark import edit
from contrapose.world.captions import Caption, Kind, Mention, describe, is_true
from contrapose.world.captions.draws import Draws
from contrapose.world.captions.mentioning import draw_word
from contrapose.world.captions.words import Slot
from contrapose.world.scene import Scene


@dataclass(frozen=True, slots=True)
class Pair:
    """Two scenes and two captions, each caption true of its own scene and false of the other.

    Attributes:
        scene: the scene that was drawn.
        caption: what is true of it.
        other_scene: the scene with one slot changed.
        other_caption: what is true of that.
        tags: what was changed.
    """

    scene: Scene
    caption: Caption
    other_scene: Scene
    other_caption: Caption
    tags: Mapping[str, TagValue] = field(default_factory=dict)

    @property
    def turned(self) -> Pair:
        """The same the other way round."""
        return Pair(
            self.other_scene, self.other_caption, self.scene, self.caption,
            {name: v[::-1] if isinstance(v, tuple) else v for name, v in self.tags.items()},
        )  # fmt: skip

    @property
    def holds(self) -> bool:
        """Whether each caption is true of its own scene and false of the other, beyond doubt."""
        return (
            is_true(self.caption, self.scene) is True
            and is_true(self.other_caption, self.scene) is False
            and is_true(self.other_caption, self.other_scene) is True
            and is_true(self.caption, self.other_scene) is False
        )


Maker = Callable[[Scene, np.random.Generator], Pair | None]
"""Makes a pair from a scene; None if this scene does not allow one."""


def described(scene: Scene, rng: np.random.Generator, kinds: Sequence[Kind]) -> Caption | None:
    """A caption of one of these kinds; a count of one is always said as "one"."""
    caption = describe(scene, rng, kinds[int(rng.integers(len(kinds)))])
    if caption is None or caption.kind != "count":
        return caption
    return replace(
        caption, mentions=tuple(replace(each, number_word=0) for each in caption.mentions)
    )


def saying(mention: Mention, slot: Slot, value: str, draws: Draws) -> Mention:
    """The mention with a slot said that it may have left out."""
    if mention.value(slot) is not None:
        return mention
    return mention.saying(slot, value, draw_word(slot, value, draws))


def with_mention(caption: Caption, index: int, mention: Mention) -> Caption:
    """The caption with one of its mentions in another form."""
    mentions = list(caption.mentions)
    mentions[index] = mention
    return replace(caption, mentions=tuple(mentions))


def two_things(caption: Caption) -> tuple[int, int]:
    """The things that the two mentions of a caption stand for."""
    first, second = (mention.thing for mention in caption.mentions)
    if first is None or second is None:
        raise ValueError("these mentions stand for things")
    return first, second


def first_pair(pairs: Iterable[Pair]) -> Pair | None:
    """The first pair whose other scene can be and whose captions tell the two apart."""
    return next((pair for pair in pairs if edit.sound(pair.other_scene) and pair.holds), None)
