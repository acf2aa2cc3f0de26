"""Games: every coalition gets the score that the model would give if it were asked directly."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image

from contrapose.data import Example, ImageRef, open_images
from contrapose.data.examples import diagonal_match
from contrapose.diagnose.game_blocks import GameBlock
from contrapose.diagnose.games import play_games
from contrapose.diagnose.planning import Baseline, image_coalitions, text_coalitions
from contrapose.diagnose.players import MissingPlayers, RegionMasks
from contrapose.diagnose.regions import SceneRegions, Superpixels, choose_regions
from contrapose.diagnose.words import SceneWords, SingleWords, choose_words
from contrapose.engine import AnswerStore, Filling, RegionMask, ScoringContext, score_examples
from contrapose.engine.images import prepare_image
from contrapose.errors import InputError
from contrapose.files import StrictProblems
from contrapose.models import load_model
from contrapose.world.benchmark import scenes
from tests.fakes import Fake, Patch, Tower


def part(name: str, count: int) -> list[Example]:
    data: Any = scenes(examples=count).parts[name].read(Path(), StrictProblems())
    return list(data)


@pytest.fixture(scope="module")
def tiny() -> Any:
    return load_model("tiny")


def scene_games(
    context: ScoringContext, score: str, examples: Sequence[Example], **how: Any
) -> list[GameBlock]:
    return play_games(context, score, examples, SceneWords(), SceneRegions(), **how)


@pytest.mark.parametrize("score", ["itc", "itm", "lm"])
def test_full_coalition_is_the_plain_score(score: str, tiny: Any) -> None:
    examples = [*part("location", 1), *[_renamed(each) for each in part("swap-relation", 1)]]
    context = ScoringContext(tiny, batch_size=16)
    plain = score_examples(context, score, examples)
    place = {name: k for k, name in enumerate(plain.frame.ids)}
    blocks = scene_games(context, score, examples)
    assert {id_ for block in blocks for id_ in block.ids} == set(place)
    for block in blocks:
        assert block.values.dtype == np.float64
        _, m, n, *_ = block.values.shape
        for k, id_ in enumerate(block.ids):
            wanted = plain.scores[place[id_], :m, :n]
            np.testing.assert_allclose(block.values[k, :, :, -1, -1], wanted, rtol=1e-12, atol=0)


def _renamed(example: Example) -> Example:
    return Example(f"swap {example.id}", example.images, example.texts, example.match, example.tags)


@pytest.mark.parametrize("score", ["itc", "itm", "lm"])
def test_every_cell_is_the_score_of_its_pair(score: str, tiny: Any) -> None:
    """The product of an encoder's vectors, and planned pairs, against one pair after another."""
    (example,) = part("location", 1)
    (block,) = scene_games(ScoringContext(tiny), score, [example])
    (groups,), (masks,) = SceneWords().find([example]), SceneRegions().find([example])
    assert not isinstance(groups, MissingPlayers)
    assert not isinstance(masks, MissingPlayers)
    assert block.image_players == ("O1", "O2")
    assert block.text_players == ("O", "R", "A")
    generator = np.random.default_rng(0)
    for _ in range(8):
        i, j, s, t = (int(generator.integers(size)) for size in (2, 2, 4, 8))
        shown = _shown(tiny, example.images[i], masks[i], s)
        text = text_coalitions(example.texts[j], groups[j], block.text_players, "zero")[t]
        if score == "itc":
            value = float((tiny.embed_images([shown]) * tiny.embed_texts([text])).sum())
        elif score == "itm":
            value = float(tiny.match([shown], [text])[0])
        else:
            value = float(tiny.token_logprobs([shown], [text]).values.double().mean())
        assert block.values[0, i, j, s, t] == pytest.approx(value, rel=1e-4, abs=1e-5)


def _shown(model: Any, ref: ImageRef, masks: RegionMasks, coalition: int) -> torch.Tensor:
    """An image with a coalition present, made without the engine: pixels set to zero."""
    pixels: torch.Tensor = model.prepare_image(open_images([ref])[0]).clone()
    for place, name in enumerate(("O1", "O2")):
        if not coalition >> place & 1:
            pixels[:, torch.from_numpy(masks[name].array())] = 0.0
    return pixels


def test_hidden_words_of_a_captioner_have_no_likelihood(tiny: Any) -> None:
    """Log P of the present tokens, divided by the number of all."""
    (example,) = part("location", 1)
    (block,) = scene_games(ScoringContext(tiny), "lm", [example], side="text")
    ((groups, *_),) = SceneWords().find([example])  # type: ignore[misc]
    text = text_coalitions(example.texts[0], groups, block.text_players, "zero")[0]
    image = tiny.prepare_image(open_images(example.images[:1])[0])
    hidden, whole = (
        tiny.token_logprobs([image], [each]).values.double() for each in (text, example.texts[0])
    )
    words = sum(len(example.texts[0][a:b].split()) for spans in groups.values() for a, b in spans)
    assert int((hidden == 0).sum()) == words
    assert len(hidden) == len(whole)
    wanted = float(hidden[hidden != 0].sum()) / len(whole)
    assert block.values[0, 0, 0, 0, 0] == pytest.approx(wanted, rel=1e-5)


def test_one_side_has_no_players_of_the_other(tiny: Any) -> None:
    examples = part("location", 2)
    context = ScoringContext(tiny)
    (whole,) = scene_games(context, "itc", examples, side="all")
    (text,) = scene_games(context, "itc", examples, side="text")
    (image,) = scene_games(context, "itc", examples, side="image")
    assert (text.image_players, text.values.shape) == ((), (2, 2, 2, 1, 8))
    assert (image.text_players, image.values.shape) == ((), (2, 2, 2, 4, 1))
    np.testing.assert_allclose(text.values[..., 0, :], whole.values[..., -1, :], rtol=1e-12)
    np.testing.assert_allclose(image.values[..., :, 0], whole.values[..., :, -1], rtol=1e-12)


@dataclass(frozen=True)
class Halves:
    """The two halves of patches of 4 × 4 pixels; some have none."""

    name: str = "halves"
    joint: bool = True

    def find(self, examples: Sequence[Example]) -> list[Sequence[RegionMasks] | MissingPlayers]:
        top = np.zeros((4, 4), dtype=np.bool_)
        top[:2] = True
        masks = {"O1": RegionMask.of(top), "O2": RegionMask.of(~top)}
        return [
            MissingPlayers("it has no halves")
            if example.id.startswith("whole")
            else [masks] * len(example.images)
            for example in examples
        ]


def patches(count: int, name: str = "p") -> list[Example]:
    """Examples of two patches, each pair sharing its first image with the next."""
    return [
        Example(
            f"{name}{i}",
            tuple(ImageRef(f"{i + k}", source=Patch((40 * (i + k), 9, 200))) for k in range(2)),
            (f"a red cube on a blue ball {i}", f"a blue ball on a red cube {i}"),
            diagonal_match(2),
        )
        for i in range(count)
    ]


DELETE = Baseline(text="delete")


def black_box(model: Any, score: str, examples: Sequence[Example], **how: Any) -> list[GameBlock]:
    return play_games(
        ScoringContext(model, **how), score, examples, choose_words(), Halves(), baseline=DELETE
    )


def test_black_box_gets_deletion_and_color() -> None:
    model = Tower()
    (block,) = black_box(model, "itc", patches(3))
    assert block.values.shape == (3, 2, 2, 4, 8)
    # Four images in four coalitions, one of which is the image itself; six captions in eight.
    assert block.encodings == len(model.images) + len(model.texts) == 4 * 4 + len(set(model.texts))
    assert len(set(model.texts)) == len(model.texts)
    assert block.naive == 2 * block.values.size
    assert block.encodings < block.naive / 10
    with pytest.raises(InputError, match=r"tower cannot hide words by 'zero'.*baseline"):
        play_games(ScoringContext(Tower()), "itc", patches(1), choose_words(), Halves())


def test_each_pair_is_scored_once() -> None:
    model = Fake()
    (block,) = black_box(model, "itm", patches(3))
    assert block.pairs == len(model.pairs) < block.values.size
    assert block.naive == block.values.size
    assert block.encodings == 0


def test_blocks_count_only_new_pairs() -> None:
    one, two = patches(1), patches(1, "whole")
    first, second = black_box(Tower(), "itc", [*one, *two])
    assert second.image_players == ()
    assert second.encodings == 0  # the same captions, and the images with all players
    assert first.encodings > 0
    assert [left.reason for left in first.left_out] == ["only its words play: it has no halves"]


def test_second_run_scores_nothing(tmp_path: Path) -> None:
    first, second = Fake(), Fake()
    for score in ("itc", "itm", "lm"):
        (one,) = black_box(first, score, patches(2), store=AnswerStore(tmp_path))
        (two,) = black_box(second, score, patches(2), store=AnswerStore(tmp_path), cache_use="only")
        np.testing.assert_array_equal(one.values, two.values)
    assert not second.pairs
    assert not second.images


def test_unreadable_images_are_left_out(tmp_path: Path) -> None:
    good, lost = patches(1)[0], patches(1, "lost")[0]
    gone = Example("gone", (ImageRef("x", tmp_path / "x.png"),), good.texts, ((True, False),))
    empty = Example("empty", lost.images, ("cube", "ball"), diagonal_match(2))
    blocks = black_box(Tower(), "itc", [good, gone, empty])
    assert [id_ for block in blocks for id_ in block.ids] == [good.id]
    reasons = {left.id: left.reason for left in blocks[0].left_out}
    assert reasons.keys() == {"gone", "empty"}
    assert "is not there" in reasons["gone"]
    assert reasons["empty"] == "nothing is left of a caption when all players are deleted"
    with pytest.raises(InputError, match=r"none of 1 examples can be played .*is not there"):
        black_box(Tower(), "itc", [gone])


def test_single_words_and_superpixels_play(tmp_path: Path) -> None:
    values = np.random.default_rng(0).integers(0, 256, (9, 12, 3), dtype=np.uint8)
    Image.fromarray(values).save(tmp_path / "photo.png")
    ref = ImageRef("photo", tmp_path / "photo.png")
    example = Example("7", (ref,), ("a red cube", "the ball is here"), ((True, False),))
    (block,) = play_games(
        ScoringContext(Tower()), "itc", [example], None, Superpixels(3), side="image"
    )
    assert block.ids == ("7",)
    assert block.values.shape == (1, 1, 2, 2 ** len(block.image_players), 1)
    tiny_clip = ScoringContext(load_model("tiny-clip"))
    first, second = play_games(tiny_clip, "itc", [example], SingleWords(), None, side="text")
    assert (first.ids, first.text_players) == (("7/text-0",), ("a", "red", "cube"))
    assert (second.ids, second.text_players) == (("7/text-1",), ("the", "ball", "is", "here"))
    assert second.match.tolist() == [[[False]]]
    assert second.values.shape == (1, 1, 1, 1, 16)


def test_more_players_than_can_be_played() -> None:
    long = " ".join(f"w{i}" for i in range(17))
    example = Example("7", patches(1)[0].images[:1], (long,), ((True,),))
    model = ScoringContext(load_model("tiny-clip"))
    with pytest.raises(InputError, match=r"17 players.*16"):
        play_games(model, "itc", [example], SingleWords(), None, side="text")


def test_missing_players_are_refused() -> None:
    examples = patches(1)
    context = ScoringContext(Tower())
    with pytest.raises(InputError, match=r"side all needs regions.*side"):
        play_games(
            context, "itc", examples, choose_words(), choose_regions(examples), baseline=DELETE
        )
    with pytest.raises(InputError, match="side text needs word groups"):
        play_games(context, "itc", examples, None, None, side="text", baseline=DELETE)
    with pytest.raises(InputError, match="no side 'left'"):
        play_games(context, "itc", examples, None, None, side="left", baseline=DELETE)  # type: ignore[arg-type]
    with pytest.raises(InputError, match=r"'prior' is no score.*itc"):
        play_games(ScoringContext(Fake()), "prior", examples, choose_words(), None, baseline=DELETE)
    with pytest.raises(InputError, match="same id"):
        play_games(
            context, "itc", [*examples, *examples], choose_words(), Halves(), baseline=DELETE
        )
    with pytest.raises(InputError, match="no examples"):
        play_games(context, "itc", [], choose_words(), Halves(), baseline=DELETE)


def test_image_coalitions_are_prepared_as_the_engine_does(tiny: Any) -> None:
    (example,) = part("location", 1)
    (found,) = SceneRegions().find([example])
    assert not isinstance(found, MissingPlayers)
    refs = image_coalitions(example.images[0], "id", found[0], ("O1", "O2"), Filling())
    image = open_images(example.images[:1])[0]
    for coalition, ref in enumerate(refs):
        wanted = _shown(tiny, example.images[0], found[0], coalition)
        assert torch.equal(torch.as_tensor(prepare_image(tiny, "id", ref, image)), wanted)
