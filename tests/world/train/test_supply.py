"""Where training scenes come from: what is said, what it names, and where that is seen."""

from __future__ import annotations

import numpy as np
import torch

from contrapose.models.tiny.tokeniser import Tokeniser
from contrapose.world.captions import VOCABULARY, describe
from contrapose.world.render import render
from contrapose.world.sample import sample_scene
from contrapose.world.scene import COLORS, SHAPES
from contrapose.world.train.supply import LEAST_SHARE, looks, middles, patch_looks, read

TOKENISER = Tokeniser(VOCABULARY)


def test_reading_a_caption() -> None:
    """The tokens are those of the text, and every marked one is a noun that names its thing."""
    plural = single = 0
    for i in range(60):
        scene, rng = sample_scene(3, i), np.random.default_rng(i)
        caption = describe(scene, rng)
        assert caption is not None
        words, named = read(caption, TOKENISER)
        assert words == TOKENISER.encode(caption.text)
        assert len(named) == len(words)
        marked = [(word, thing) for word, thing in zip(words, named, strict=True) if thing]
        alone = [each for each in caption.mentions if each.count == 1 and each.thing is not None]
        assert len(marked) == len(alone)
        single += len(alone)
        plural += len(caption.mentions) - len(alone)
        for word, thing in marked:
            (mention,) = [each for each in alone if each.thing == thing - 1]
            assert TOKENISER.decode([word]) == mention.word("shape").text
            assert mention.shape in (None, scene.things[thing - 1].shape)
    assert single > 50
    assert plural > 3


def test_middles() -> None:
    index = torch.full((1, 8, 8), -1, dtype=torch.int8)
    index[0, 0:2, 6:8] = 0
    index[0, 4, 0] = 2
    found = middles(index)[0]
    assert found[0].tolist() == [7 / 8, 1 / 8]
    assert found[2].tolist() == [0.5 / 8, 4.5 / 8]
    assert found[[1, 3, 4]].abs().sum() == 0


def test_middles_of_a_drawn_scene() -> None:
    """The left one of two things has the smaller first number, the far one the smaller second."""
    scenes = [sample_scene(8, i, things=2) for i in range(12)]
    drawn = render(scenes, 48)
    for found, index in zip(middles(drawn.index), drawn.index, strict=True):
        for k in range(2):
            rows, columns = (index == k).nonzero(as_tuple=True)
            if len(rows):
                expected = [(columns.float().mean() + 0.5) / 48, (rows.float().mean() + 0.5) / 48]
                torch.testing.assert_close(found[k], torch.stack(expected))


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
