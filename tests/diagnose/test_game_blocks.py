"""Single games looked up again, and the examples that tell most."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from contrapose.data import Example
from contrapose.data.examples import diagonal_match
from contrapose.diagnose.game_blocks import GameBlock, GameIndex, UnplayedExample, worst_cases
from contrapose.errors import InputError
from tests.diagnose.scorers import play, random
from tests.fakes import patch


def examples(block: GameBlock) -> dict[str, Example]:
    return {
        id_: Example(id_, (patch(1), patch(2)), ("one", "two"), diagonal_match(2))
        for id_ in block.ids
    }


def test_dividends_and_shapley_values_add_up_to_the_score() -> None:
    block = play(random, 3, words=("O", "R", "A"))
    games = GameIndex([block], examples(block))
    for (k, i, j), _ in np.ndenumerate(block.values[..., 0, 0]):
        cell = games.cell(f"e{k}", i, j)
        assert cell is not None
        whole = block.values[k, i, j]
        assert cell.score == whole[-1, -1]
        assert cell.nobody == whole[0, 0]
        assert sum(cell.words.values()) == pytest.approx(whole[-1, -1] - whole[-1, 0])
        assert sum(cell.word_shapley_values.values()) == pytest.approx(whole[-1, -1] - whole[-1, 0])
        assert sum(cell.regions.values()) == pytest.approx(whole[-1, -1] - whole[0, -1])
        assert list(cell.words) == ["O", "R", "R&O", "A", "A&O", "R&A", "R&A&O"]
        assert list(cell.regions) == ["O1", "O2", "O1&O2"]


def test_index_merges_games_of_single_captions() -> None:
    both = play(random, 1)
    each = [
        GameBlock(
            ids=(f"e0/text-{j}",),
            images=both.images,
            match=both.match[:, :, j : j + 1],
            values=both.values[:, :, j : j + 1],
            image_players=both.image_players,
            text_players=both.text_players,
        )
        for j in range(2)
    ]
    whole, parts = GameIndex([both], examples(both)), GameIndex(each, examples(both))
    assert np.array_equal(whole.scores("e0"), parts.scores("e0"))
    assert parts.cell("e0", 1, 1) is not None
    assert parts.cell("e0", 1, 1).words == whole.cell("e0", 1, 1).words  # type: ignore[union-attr]
    assert GameIndex([], {}).cell("e0", 0, 0) is None


def test_worst_cases_have_the_largest_margins() -> None:
    block = play(random, 40)
    chosen = worst_cases(GameIndex([block], examples(block)), worst=2, best=1)
    plain = block.values[..., -1, -1]
    by_caption = np.concatenate([plain[:, 0, 0] - plain[:, 0, 1], plain[:, 1, 1] - plain[:, 1, 0]])
    captions = [each for each in chosen if each.exchanged == "captions"]
    assert [each.margin > 0 for each in captions] == [False, False, True]
    assert captions[0].margin == pytest.approx(by_caption.min())
    assert captions[2].margin == pytest.approx(by_caption.max())
    assert len({each.id for each in chosen}) == len(chosen) == 6
    for each in chosen:
        right, wrong = (plain[int(each.id[1:]), i, j] for i, j in each.cells)
        assert each.margin == pytest.approx(right - wrong)


def test_only_restricts_a_block() -> None:
    block = dataclasses.replace(
        play(random, 5), left_out=(UnplayedExample("e9", "no groups."),), naive=7
    )
    some = block.only(["e3", "e1", "e8"])
    assert some.ids == ("e1", "e3")
    assert some.images == (block.images[1], block.images[3])
    np.testing.assert_array_equal(some.values, block.values[[1, 3]])
    assert some.match.shape == (2, 2, 2)
    assert (some.left_out, some.naive) == (block.left_out, 7)
    assert block.only([]).values.shape == (0, 2, 2, 4, 4)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"text_players": ("O",)}, r"must be of shape \(3, m, n, 4, 2\)"),
        ({"ids": ("a",)}, "the games of 1 examples"),
        ({"values": np.zeros((3, 2, 2, 4, 4), dtype=np.float32)}, "float64, not float32"),
        ({"match": np.ones((3, 2, 1), dtype=bool)}, r"match must be of shape \(3, 2, 2\)"),
        ({"images": (("a",), ("b",), ("c",))}, "2 images for each of 3"),
    ],
)
def test_blocks_of_wrong_shape_are_refused(change: dict[str, object], words: str) -> None:
    block = play(random, 3)
    with pytest.raises(InputError, match=words):
        dataclasses.replace(block, **change)  # type: ignore[arg-type]
