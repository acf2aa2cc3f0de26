"""The training set: shapes, captions, the same set however it is made, and what batches show."""

from __future__ import annotations

import pickle
from concurrent.futures import ThreadPoolExecutor
from itertools import islice
from multiprocessing.context import BaseContext
from typing import Any

import numpy as np
import pytest
import torch

from contrapose.errors import InputError
from contrapose.models.tiny.network import BYTES, END, PAD, SPECIAL, START, Tokenizer
from contrapose.world.captions import VOCABULARY, describe
from contrapose.world.render import render
from contrapose.world.sample import HELD_OUT, World, sample_scene
from contrapose.world.scene import COLORS, SHAPES
from tools.train_tiny import data as supply_module
from tools.train_tiny.data import (
    CAPTIONS_PER_SCENE,
    MAX_TOKENS,
    MIN_PATCH_SHARE,
    SceneBatch,
    SceneTensors,
    TrainSet,
    generate_scenes,
    look_codes,
    make_set,
    mirror_batch,
    patch_labels,
    select_captions,
    thing_centers,
    tokenize_caption,
)

TOKENISER_DATA = Tokenizer(VOCABULARY)
COUNT = 20
WORLDS: tuple[World, ...] = ("skewed", "balanced")


def make(seed: int = 4, *, count: int = COUNT, workers: int = 1, block: int = 4096) -> SceneTensors:
    return make_set(count, seed, "cpu", image_size=48, workers=workers, block=block).scenes


@pytest.fixture(scope="module")
def complete() -> TrainSet:
    return make_set(COUNT, 4, "cpu", image_size=48, workers=1)


@pytest.fixture(scope="module")
def small(complete: TrainSet) -> SceneTensors:
    return complete.scenes


def equal(one: SceneTensors, other: SceneTensors) -> bool:
    return all(map(torch.equal, one, other))


def test_shapes(small: SceneTensors) -> None:
    assert small.images.shape == (COUNT, 48, 48, 3)
    assert small.images.dtype == torch.uint8
    assert small.tokens.shape == small.nouns.shape == (COUNT, CAPTIONS_PER_SCENE, MAX_TOKENS)
    assert small.patches.shape == (COUNT, 16, 2)
    assert small.places.shape == (COUNT, 5, 2)


def test_captions_stand_between_start_and_end(small: SceneTensors) -> None:
    for row in small.tokens.flatten(0, 1).tolist():
        length = row.index(END) + 1
        assert row[0] == START
        assert row[length:] == [PAD] * (MAX_TOKENS - length)
        assert not {PAD, START, END} & set(row[1 : length - 1])
        said = TOKENISER_DATA.decode(row)
        assert set(said.replace(",", " ").split()) <= set(VOCABULARY)


def test_patches_show_what_is_in_the_training_world(small: SceneTensors) -> None:
    colors, shapes = small.patches[..., 0], small.patches[..., 1]
    assert torch.equal(colors > 0, shapes > 0)
    assert 0.02 < float((colors > 0).float().mean()) < 0.9
    names = list(COLORS)
    found = {
        (names[c - 1], SHAPES[s - 1]) for c, s in small.patches.flatten(0, 1).tolist() if c > 0
    }
    assert not found & HELD_OUT


class PicklingThreads(ThreadPoolExecutor):
    """Threads that pickle their jobs and results, as processes do, which take seconds to start."""

    def __init__(self, workers: int, context: BaseContext, initializer: Any, arguments: Any):
        assert context.get_start_method() == "spawn"
        super().__init__(workers, initializer=initializer, initargs=arguments)

    def submit(self, job: Any, /, *arguments: Any, **options: Any) -> Any:
        sent = pickle.dumps((job, arguments, options))
        return super().submit(_run_pickled, sent)


def _run_pickled(sent: bytes) -> Any:
    job, arguments, options = pickle.loads(sent)  # noqa: S301 - of this test
    return pickle.loads(pickle.dumps(job(*arguments, **options)))  # noqa: S301


def test_the_set_depends_on_the_seed_alone(
    small: SceneTensors, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(supply_module, "ProcessPoolExecutor", PicklingThreads)
    assert equal(make(block=7), small)
    assert equal(make(workers=2, block=16), small)
    assert not torch.equal(make(5).images, small.images)
    fewer = make(count=5)
    assert equal(fewer, SceneTensors(*(column[:5] for column in small)))


def test_hidden_scenes_are_left_out(small: SceneTensors, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(supply_module, "MIN_VISIBLE", 0.0)
    monkeypatch.setattr(supply_module, "MIN_PIXELS", 0)
    assert not torch.equal(make().images, small.images)


def test_set_grows_up_to_its_room(small: SceneTensors) -> None:
    blocks = [SceneTensors(*(column[i : i + 6] for column in small)) for i in (0, 6, 12)]
    growing = TrainSet(15, iter(blocks))
    with pytest.raises(InputError, match="set is empty"):
        _ = growing.scenes
    growing.grow(0)
    assert growing.ready == 0
    growing.grow(7)
    assert growing.ready == 12
    growing.grow(7)
    assert growing.ready == 12
    growing.grow(1000)
    assert growing.ready == 15
    assert equal(growing.scenes, SceneTensors(*(column[:15] for column in small)))


def test_new_scenes_join_at_the_next_round(small: SceneTensors) -> None:
    blocks = [SceneTensors(*(column[i : i + 6] for column in small)) for i in (0, 6)]
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


def test_batches(complete: TrainSet) -> None:
    small = complete.scenes
    one, again, other = (list(islice(complete.batches(8, seed), 4)) for seed in (1, 1, 2))
    for batch, same in zip(one, again, strict=True):
        assert all(map(torch.equal, batch, same))
    assert not torch.equal(one[0].images, other[0].images)
    images, tokens, patches, places = one[0]
    assert images.shape == (8, 48, 48, 3)
    assert tokens.shape == (8, MAX_TOKENS)
    assert patches.shape == (8, 16, 2)
    assert places.shape == (8, MAX_TOKENS, 2)
    for i in range(8):
        (at,) = (small.images == images[i]).flatten(1).all(dim=1).nonzero().flatten().tolist()
        assert torch.equal(small.patches[at].long(), patches[i])
        captions = [
            c
            for c in range(CAPTIONS_PER_SCENE)
            if torch.equal(small.tokens[at, c].long(), tokens[i])
        ]
        assert captions
        nouns = small.nouns[at, captions[0]].tolist()
        for k, noun in enumerate(nouns):
            aim = small.places[at, noun - 1].tolist() if noun else [-1, -1]
            assert places[i, k].tolist() == aim


def test_no_scene_comes_twice_in_a_round(complete: TrainSet) -> None:
    first, second = (batch.images for batch in islice(complete.batches(10, 3), 2))
    together = torch.cat([first, second]).flatten(1)
    assert len({tuple(row) for row in together.tolist()}) == COUNT


def test_too_few_scenes_for_a_batch(complete: TrainSet) -> None:
    with pytest.raises(InputError, match=r"batch of 21.*20"):
        next(complete.batches(21, 0))


def captions_of(batch: SceneBatch) -> list[str]:
    return [TOKENISER_DATA.decode(row) for row in batch.tokens.tolist()]


def test_mirror_flips_images_words_and_positions(small: SceneTensors) -> None:
    every = torch.arange(COUNT)
    for number in range(CAPTIONS_PER_SCENE):
        batch = select_captions(small, every, torch.full((COUNT,), number))
        some = torch.arange(COUNT) % 2 == 0
        turned = mirror_batch(batch, some)
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
        assert all(map(torch.equal, mirror_batch(batch, torch.zeros(COUNT).bool()), batch))


def test_half_of_a_batch_is_mirrored(complete: TrainSet) -> None:
    plain = {image.tobytes() for image in complete.scenes.images.numpy()}
    seen = [
        image
        for batch in islice(complete.batches(20, 1, mirror=True), 10)
        for image in batch.images
    ]
    share = sum(image.numpy().tobytes() not in plain for image in seen) / len(seen)
    assert 0.3 < share < 0.65


TOKENISER_SUPPLY = Tokenizer(VOCABULARY)


def test_tokenized_caption() -> None:
    """The tokens are those of the text, and every marked one is a noun that names its thing."""
    plural = single = 0
    for i in range(60):
        scene, rng = sample_scene(3, i), np.random.default_rng(i)
        caption = describe(scene, rng)
        assert caption is not None
        words, named = tokenize_caption(caption, TOKENISER_SUPPLY)
        assert words == TOKENISER_SUPPLY.encode(caption.text)
        assert len(named) == len(words)
        marked = [(word, thing) for word, thing in zip(words, named, strict=True) if thing]
        alone = [each for each in caption.mentions if each.count == 1 and each.thing is not None]
        assert len(marked) == len(alone)
        single += len(alone)
        plural += len(caption.mentions) - len(alone)
        for word, thing in marked:
            (mention,) = [each for each in alone if each.thing == thing - 1]
            assert TOKENISER_SUPPLY.decode([word]) == mention.word("shape").text
            assert mention.shape in (None, scene.things[thing - 1].shape)
    assert single > 50
    assert plural > 3


def test_thing_centers() -> None:
    index = torch.full((1, 8, 8), -1, dtype=torch.int8)
    index[0, 0:2, 6:8] = 0
    index[0, 4, 0] = 2
    found = thing_centers(index)[0]
    assert found[0].tolist() == [7 / 8, 1 / 8]
    assert found[2].tolist() == [0.5 / 8, 4.5 / 8]
    assert found[[1, 3, 4]].abs().sum() == 0


def test_centers_of_a_rendered_scene() -> None:
    """The left one of two things has the smaller first number, the far one the smaller second."""
    scenes = [sample_scene(8, i, things=2) for i in range(12)]
    drawn = render(scenes, 48)
    for found, index in zip(thing_centers(drawn.index), drawn.index, strict=True):
        for k in range(2):
            rows, columns = (index == k).nonzero(as_tuple=True)
            if len(rows):
                expected = [(columns.float().mean() + 0.5) / 48, (rows.float().mean() + 0.5) / 48]
                torch.testing.assert_close(found[k], torch.stack(expected))


def test_look_codes() -> None:
    scene = sample_scene(1, 0, things=2)
    rows = look_codes([scene])
    assert rows.shape == (1, 5, 2)
    for row, thing in zip(rows[0, :2].tolist(), scene.things, strict=True):
        assert list(COLORS)[row[0] - 1] == thing.color
        assert SHAPES[row[1] - 1] == thing.shape
    assert not rows[0, 2:].any()


def test_patch_labels_of_a_small_map() -> None:
    """Four patches of 4 × 4: nothing, all of thing 0, more of 1 than of 0, too little of 1."""
    index = torch.full((1, 8, 8), -1, dtype=torch.int8)
    index[0, :4, 4:] = 0
    index[0, 4, :3] = 0
    index[0, 5:7, :4] = 1
    index[0, 7, 7] = 1
    assert 1 / 16 < MIN_PATCH_SHARE < 2 / 16
    things = torch.zeros(1, 5, 2, dtype=torch.int8)
    things[0, 0] = torch.tensor([3, 2])
    things[0, 1] = torch.tensor([7, 5])
    assert patch_labels(index, things, 4).tolist() == [[[0, 0], [3, 2], [7, 5], [0, 0]]]
    index[0, 6, 7] = 1
    assert patch_labels(index, things, 4)[0, 3].tolist() == [7, 5]


def test_scenes_of_another_world_with_fewer_captions() -> None:
    (ball,) = TOKENISER_DATA.encode("ball")
    shares = []
    for world in WORLDS:
        scenes = next(
            generate_scenes(5, "cpu", image_size=24, workers=1, block=200, world=world, captions=2)
        )
        assert scenes.tokens.shape[1] == 2
        shares.append((scenes.tokens == ball).float().mean().item())
    assert shares[0] > 1.4 * shares[1]
