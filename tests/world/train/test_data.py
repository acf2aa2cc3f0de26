"""The training set: shapes, captions, and the same set however it is made."""

from __future__ import annotations

from itertools import islice

import pytest
import torch

from contrapose.errors import InputError
from contrapose.models.tiny.tokeniser import END, PAD, START, Tokeniser
from contrapose.world.captions import VOCABULARY
from contrapose.world.odds import HELD_OUT
from contrapose.world.sample import sample_scene
from contrapose.world.scene import COLORS, SHAPES
from contrapose.world.train import data as data_module
from contrapose.world.train.data import (
    CAPTIONS,
    LEAST_SHARE,
    LENGTH,
    TrainSet,
    looks,
    make_set,
    patch_looks,
)

COUNT = 20


def made(seed: int = 4, *, count: int = COUNT, workers: int = 1, block: int = 4096) -> TrainSet:
    return make_set(count, seed, "cpu", image_size=48, workers=workers, block=block)


@pytest.fixture(scope="module")
def small() -> TrainSet:
    return made()


def equal(one: TrainSet, other: TrainSet) -> bool:
    return all(
        torch.equal(getattr(one, name), getattr(other, name))
        for name in ("images", "tokens", "patches")
    )


def test_shapes(small: TrainSet) -> None:
    assert small.images.shape == (COUNT, 48, 48, 3)
    assert small.images.dtype == torch.uint8
    assert small.tokens.shape == (COUNT, CAPTIONS, LENGTH)
    assert small.patches.shape == (COUNT, 16, 2)


def test_captions_stand_between_start_and_end(small: TrainSet) -> None:
    tokeniser = Tokeniser(VOCABULARY)
    for row in small.tokens.flatten(0, 1).tolist():
        length = row.index(END) + 1
        assert row[0] == START
        assert row[length:] == [PAD] * (LENGTH - length)
        assert not {PAD, START, END} & set(row[1 : length - 1])
        said = tokeniser.decode(row)
        assert set(said.replace(" - ", "-").replace(",", " ").split()) <= set(VOCABULARY)


def test_patches_show_what_is_in_the_training_world(small: TrainSet) -> None:
    colors, shapes = small.patches[..., 0], small.patches[..., 1]
    assert torch.equal(colors > 0, shapes > 0)
    assert 0.02 < float((colors > 0).float().mean()) < 0.9
    names = list(COLORS)
    found = {
        (names[c - 1], SHAPES[s - 1]) for c, s in small.patches.flatten(0, 1).tolist() if c > 0
    }
    assert not found & HELD_OUT


def test_the_set_depends_on_the_seed_alone(small: TrainSet) -> None:
    assert equal(made(block=7), small)
    assert equal(made(workers=2, block=16), small)
    assert not torch.equal(made(5).images, small.images)
    fewer = made(count=5)
    assert torch.equal(fewer.images, small.images[:5])
    assert torch.equal(fewer.tokens, small.tokens[:5])


def test_scenes_that_are_not_seen_well_are_left_out(
    small: TrainSet, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(data_module, "LEAST_VISIBLE", 0.0)
    monkeypatch.setattr(data_module, "LEAST_PIXELS", 0)
    assert not torch.equal(made().images, small.images)


def test_looks() -> None:
    scene = sample_scene(1, 0, things=2)
    rows = looks([scene])
    assert rows.shape == (1, 5, 2)
    for row, thing in zip(rows[0, :2].tolist(), scene.things, strict=True):
        assert list(COLORS)[row[0] - 1] == thing.color
        assert SHAPES[row[1] - 1] == thing.shape
    assert not rows[0, 2:].any()


def test_patches_of_a_map_drawn_by_hand() -> None:
    """Four patches of 4 × 4: nothing, all of thing 0, more of 1 than of 0, too little of 1."""
    index = torch.full((1, 8, 8), -1, dtype=torch.int8)
    index[0, :4, 4:] = 0
    index[0, 4, :3] = 0
    index[0, 5:7, :4] = 1
    index[0, 7, 7] = 1
    assert 1 / 16 < LEAST_SHARE < 2 / 16
    things = torch.zeros(1, 5, 2, dtype=torch.int8)
    things[0, 0] = torch.tensor([3, 2])
    things[0, 1] = torch.tensor([7, 5])
    assert patch_looks(index, things, 4).tolist() == [[[0, 0], [3, 2], [7, 5], [0, 0]]]
    index[0, 6, 7] = 1
    assert patch_looks(index, things, 4)[0, 3].tolist() == [7, 5]


def test_batches(small: TrainSet) -> None:
    one, again, other = (list(islice(small.batches(8, seed), 4)) for seed in (1, 1, 2))
    for batch, same in zip(one, again, strict=True):
        assert all(torch.equal(a, b) for a, b in zip(batch, same, strict=True))
    assert not torch.equal(one[0][0], other[0][0])
    pixels, tokens, patches = one[0]
    assert pixels.shape == (8, 3, 48, 48)
    assert -1 <= float(pixels.min()) < float(pixels.max()) <= 1
    assert tokens.shape == (8, LENGTH)
    assert patches.shape == (8, 16, 2)
    bytes_ = ((pixels + 1) * 127.5).round().to(torch.uint8).permute(0, 2, 3, 1)
    for i in range(8):
        (place,) = (small.images == bytes_[i]).flatten(1).all(dim=1).nonzero().flatten().tolist()
        assert torch.equal(small.patches[place].long(), patches[i])
        assert any(torch.equal(tokens[i], caption.long()) for caption in small.tokens[place])


def test_no_scene_comes_twice_in_a_round(small: TrainSet) -> None:
    first, second = (pixels for pixels, _, _ in islice(small.batches(10, 3), 2))
    together = torch.cat([first, second]).flatten(1)
    assert len({tuple(row) for row in together.tolist()}) == COUNT


def test_too_few_scenes_for_a_batch(small: TrainSet) -> None:
    with pytest.raises(InputError, match="a batch of 21 needs as many scenes, not 20"):
        next(small.batches(21, 0))
