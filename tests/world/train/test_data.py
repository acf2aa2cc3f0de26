"""The training set: shapes, captions, the same set however it is made, and what batches show."""

from __future__ import annotations

from itertools import islice

import pytest
import torch

from contrapose.errors import InputError
from contrapose.models.tiny.tokeniser import BYTES, END, PAD, SPECIAL, START, Tokeniser
from contrapose.world.captions import VOCABULARY
from contrapose.world.odds import HELD_OUT
from contrapose.world.scene import COLORS, SHAPES
from contrapose.world.train import supply as supply_module
from contrapose.world.train.data import Batch, TrainSet, chosen, make_set, mirrored
from contrapose.world.train.supply import CAPTIONS, LENGTH, Drawn

TOKENISER = Tokeniser(VOCABULARY)
COUNT = 20


def made(seed: int = 4, *, count: int = COUNT, workers: int = 1, block: int = 4096) -> Drawn:
    return make_set(count, seed, "cpu", image_size=48, workers=workers, block=block).scenes


@pytest.fixture(scope="module")
def whole() -> TrainSet:
    return make_set(COUNT, 4, "cpu", image_size=48, workers=1)


@pytest.fixture(scope="module")
def small(whole: TrainSet) -> Drawn:
    return whole.scenes


def equal(one: Drawn, other: Drawn) -> bool:
    return all(map(torch.equal, one, other))


def test_shapes(small: Drawn) -> None:
    assert small.images.shape == (COUNT, 48, 48, 3)
    assert small.images.dtype == torch.uint8
    assert small.tokens.shape == small.nouns.shape == (COUNT, CAPTIONS, LENGTH)
    assert small.patches.shape == (COUNT, 16, 2)
    assert small.places.shape == (COUNT, 5, 2)


def test_captions_stand_between_start_and_end(small: Drawn) -> None:
    for row in small.tokens.flatten(0, 1).tolist():
        length = row.index(END) + 1
        assert row[0] == START
        assert row[length:] == [PAD] * (LENGTH - length)
        assert not {PAD, START, END} & set(row[1 : length - 1])
        said = TOKENISER.decode(row)
        assert set(said.replace(",", " ").split()) <= set(VOCABULARY)


def test_patches_show_what_is_in_the_training_world(small: Drawn) -> None:
    colors, shapes = small.patches[..., 0], small.patches[..., 1]
    assert torch.equal(colors > 0, shapes > 0)
    assert 0.02 < float((colors > 0).float().mean()) < 0.9
    names = list(COLORS)
    found = {
        (names[c - 1], SHAPES[s - 1]) for c, s in small.patches.flatten(0, 1).tolist() if c > 0
    }
    assert not found & HELD_OUT


def test_the_set_depends_on_the_seed_alone(small: Drawn) -> None:
    assert equal(made(block=7), small)
    assert equal(made(workers=2, block=16), small)
    assert not torch.equal(made(5).images, small.images)
    fewer = made(count=5)
    assert equal(fewer, Drawn(*(column[:5] for column in small)))


def test_scenes_that_are_not_seen_well_are_left_out(
    small: Drawn, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(supply_module, "LEAST_VISIBLE", 0.0)
    monkeypatch.setattr(supply_module, "LEAST_PIXELS", 0)
    assert not torch.equal(made().images, small.images)


def test_a_set_grows_as_far_as_it_is_asked_and_has_room(small: Drawn) -> None:
    blocks = [Drawn(*(column[i : i + 6] for column in small)) for i in (0, 6, 12)]
    growing = TrainSet(15, iter(blocks))
    with pytest.raises(InputError, match="the training set is empty"):
        _ = growing.scenes
    growing.grow(0)
    assert growing.ready == 0
    growing.grow(7)
    assert growing.ready == 12
    growing.grow(7)
    assert growing.ready == 12
    growing.grow(1000)
    assert growing.ready == 15
    assert equal(growing.scenes, Drawn(*(column[:15] for column in small)))


def test_new_scenes_join_at_the_next_round(small: Drawn) -> None:
    blocks = [Drawn(*(column[i : i + 6] for column in small)) for i in (0, 6)]
    growing = TrainSet(12, iter(blocks))
    growing.grow(6)
    batches = growing.batches(6, 1)
    first = next(batches)
    growing.grow(12)
    later = torch.cat([next(batches).images, next(batches).images])
    assert {image.tobytes() for image in first.images.numpy()} == {
        image.tobytes() for image in small.images[:6].numpy()
    }
    assert {image.tobytes() for image in later.numpy()} == {
        image.tobytes() for image in small.images[:12].numpy()
    }


def test_batches(whole: TrainSet) -> None:
    small = whole.scenes
    one, again, other = (list(islice(whole.batches(8, seed), 4)) for seed in (1, 1, 2))
    for batch, same in zip(one, again, strict=True):
        assert all(map(torch.equal, batch, same))
    assert not torch.equal(one[0].images, other[0].images)
    images, tokens, patches, places = one[0]
    assert images.shape == (8, 48, 48, 3)
    assert tokens.shape == (8, LENGTH)
    assert patches.shape == (8, 16, 2)
    assert places.shape == (8, LENGTH, 2)
    for i in range(8):
        (at,) = (small.images == images[i]).flatten(1).all(dim=1).nonzero().flatten().tolist()
        assert torch.equal(small.patches[at].long(), patches[i])
        captions = [
            c for c in range(CAPTIONS) if torch.equal(small.tokens[at, c].long(), tokens[i])
        ]
        assert captions
        nouns = small.nouns[at, captions[0]].tolist()
        for k, noun in enumerate(nouns):
            aim = small.places[at, noun - 1].tolist() if noun else [-1, -1]
            assert places[i, k].tolist() == aim


def test_no_scene_comes_twice_in_a_round(whole: TrainSet) -> None:
    first, second = (batch.images for batch in islice(whole.batches(10, 3), 2))
    together = torch.cat([first, second]).flatten(1)
    assert len({tuple(row) for row in together.tolist()}) == COUNT


def test_too_few_scenes_for_a_batch(whole: TrainSet) -> None:
    with pytest.raises(InputError, match="a batch of 21 needs as many scenes, not 20"):
        next(whole.batches(21, 0))


def captions_of(batch: Batch) -> list[str]:
    return [TOKENISER.decode(row) for row in batch.tokens.tolist()]


def test_a_mirror_turns_pictures_words_and_places(small: Drawn) -> None:
    every = torch.arange(COUNT)
    for number in range(CAPTIONS):
        batch = chosen(small, every, torch.full((COUNT,), number))
        some = torch.arange(COUNT) % 2 == 0
        turned = mirrored(batch, some)
        for i, (before, after) in enumerate(
            zip(captions_of(batch), captions_of(turned), strict=True)
        ):
            bytes_ = (batch.tokens[i] >= SPECIAL) & (batch.tokens[i] < SPECIAL + BYTES)
            spelled = bool(bytes_.any())
            if i % 2 or spelled:
                assert all(torch.equal(a[i], b[i]) for a, b in zip(batch, turned, strict=True))
                continue
            table = {"left": "right", "right": "left"}
            assert after.split() == [table.get(word, word) for word in before.split()]
            assert torch.equal(turned.images[i], batch.images[i].flip(1))
            grid = batch.patches[i].view(4, 4, 2)
            assert torch.equal(turned.patches[i].view(4, 4, 2), grid.flip(1))
            named = batch.places[i, :, 0] >= 0
            assert torch.equal(turned.places[i, ~named], batch.places[i, ~named])
            across, down = turned.places[i, named].unbind(1)
            torch.testing.assert_close(across, 1 - batch.places[i, named, 0])
            assert torch.equal(down, batch.places[i, named, 1])
        assert all(map(torch.equal, mirrored(batch, torch.zeros(COUNT).bool()), batch))


def test_half_of_a_batch_is_mirrored(whole: TrainSet) -> None:
    plain = {image.tobytes() for image in whole.scenes.images.numpy()}
    seen = [
        image for batch in islice(whole.batches(20, 1, mirror=True), 10) for image in batch.images
    ]
    share = sum(image.numpy().tobytes() not in plain for image in seen) / len(seen)
    assert 0.3 < share < 0.65
