"""The training set: scenes kept on the device as bytes, with several captions each; it may grow."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from functools import cache
from typing import NamedTuple

import torch
from torch import Tensor

from contrapose.errors import InputError
from contrapose.models.tiny.tokeniser import BYTES, SPECIAL, Tokeniser
from contrapose.world.captions import VOCABULARY
from contrapose.world.train.supply import Drawn, supply


class Batch(NamedTuple):
    """What one step sees.

    Attributes:
        images: (b, h, w, 3) bytes.
        tokens: (b, l) token numbers of one caption each.
        patches: (b, p, 2) which colour and which shape fills each patch; 0 where none does.
        places: (b, l, 2) where the thing is seen that a noun names, right and down from 0 to 1;
            negative where a token is not the end of a noun.
    """

    images: Tensor
    tokens: Tensor
    patches: Tensor
    places: Tensor


class TrainSet:
    """Scenes on a device, with room for more."""

    def __init__(self, room: int, source: Iterator[Drawn]):
        """A set of at most `room` scenes that come from `source`."""
        self.room, self.ready, self._source = room, 0, source
        self._kept: Drawn | None = None

    @property
    def scenes(self) -> Drawn:
        """All that are ready.

        Raises:
            InputError: there are none yet.
        """
        if self._kept is None:
            raise InputError("the training set is empty.")
        return Drawn(*(column[: self.ready] for column in self._kept))

    def grow(self, count: int) -> None:
        """Take scenes from the source until there are `count`, or no room is left."""
        while self.ready < min(count, self.room):
            block = next(self._source)
            if self._kept is None:
                self._kept = Drawn(
                    *(part.new_empty((self.room, *part.shape[1:])) for part in block)
                )
            end = min(self.ready + len(block.images), self.room)
            for column, part in zip(self._kept, block, strict=True):
                column[self.ready : end] = part[: end - self.ready]
            self.ready = end

    def batches(self, size: int, seed: int, *, mirror: bool = False) -> Iterator[Batch]:
        """Random batches, for ever; the same for the same seed.

        A round goes once over all scenes that are ready when it begins.

        Args:
            size: scenes a batch.
            seed: of the order, of which caption is taken, and of what is mirrored.
            mirror: show half of the scenes mirrored, "left" and "right" exchanged in their
                captions: twice as many scenes for nothing.

        Raises:
            InputError: there are fewer scenes than a batch needs.
        """
        if size > self.ready:
            raise InputError(f"a batch of {size} needs as many scenes, not {self.ready}.")
        random = torch.Generator(device="cpu").manual_seed(seed)
        device = self.scenes.images.device
        while True:
            scenes = self.scenes
            order = torch.randperm(self.ready, generator=random).to(device)
            captions = scenes.tokens.shape[1]
            which = torch.randint(captions, (len(order),), generator=random).to(device)
            turned = (torch.rand(len(order), generator=random) < 0.5).to(device)
            for start in range(0, len(order) - size + 1, size):
                some = slice(start, start + size)
                batch = chosen(scenes, order[some], which[some])
                yield mirrored(batch, turned[some]) if mirror else batch


def chosen(scenes: Drawn, rows: Tensor, captions: Tensor) -> Batch:
    """Some scenes, each with one of its captions."""
    nouns = scenes.nouns[rows, captions].long()
    at = (nouns - 1).clamp(min=0)[:, :, None].expand(-1, -1, 2)
    places = scenes.places[rows].gather(1, at)
    return Batch(
        scenes.images[rows],
        scenes.tokens[rows, captions].long(),
        scenes.patches[rows].long(),
        torch.where((nouns > 0)[:, :, None], places, -1.0),
    )


def mirrored(batch: Batch, where: Tensor) -> Batch:
    """The batch with some scenes seen in a mirror, and their captions true of what is seen.

    A caption with spelled words stays as it is, and so does its scene: "left" may be one of them.
    """
    images, tokens, patches, places = batch
    spelled = (tokens >= SPECIAL) & (tokens < SPECIAL + BYTES)
    where = where & ~spelled.any(dim=1)
    side = round(patches.shape[1] ** 0.5)
    turned = patches.view(-1, side, side, 2).flip(2).flatten(1, 2)
    across = torch.stack([1 - places[..., 0], places[..., 1]], dim=-1)
    return Batch(
        torch.where(where[:, None, None, None], images.flip(2), images),
        torch.where(where[:, None], _exchanged(tokens.device)[tokens], tokens),
        torch.where(where[:, None, None], turned, patches),
        torch.where(where[:, None, None] & (places >= 0), across, places),
    )


def make_set(
    count: int,
    seed: int,
    device: str,
    *,
    image_size: int = 96,
    patch: int = 12,
    workers: int = 8,
    block: int = 4096,
) -> TrainSet:
    """A whole set at once; the arguments are those of `supply`."""
    # Small sets are made in small blocks: about two in three scenes can be seen well.
    blocks = supply(
        seed, device, image_size=image_size, patch=patch, workers=workers,
        block=min(block, 2 * count),
    )  # fmt: skip
    with closing(blocks):
        made = TrainSet(count, blocks)
        made.grow(count)
    return made


@cache
def _exchanged(device: torch.device) -> Tensor:
    """Every token number, but "left" and "right" exchanged."""
    tokeniser = Tokeniser(VOCABULARY)
    (left,), (right,) = tokeniser.encode("left"), tokeniser.encode("right")
    numbers = list(range(len(tokeniser)))
    numbers[left], numbers[right] = right, left
    return torch.tensor(numbers, device=device)
