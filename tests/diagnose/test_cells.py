"""Single games looked up again, and the examples that tell most."""

from __future__ import annotations

import numpy as np
import pytest

from contrapose.data import Example
from contrapose.data.example import diagonal
from contrapose.diagnose.cells import Games
from contrapose.diagnose.played import Played
from contrapose.diagnose.telling import telling
from tests.diagnose.scorers import play, random
from tests.fakes import patch


def examples(played: Played) -> dict[str, Example]:
    return {
        id_: Example(id_, (patch(1), patch(2)), ("one", "two"), diagonal(2)) for id_ in played.ids
    }


def test_dividends_and_shapley_values_add_up_to_the_score() -> None:
    played = play(random, 3, words=("O", "R", "A"))
    games = Games([played], examples(played))
    for (k, i, j), _ in np.ndenumerate(played.values[..., 0, 0]):
        cell = games.cell(f"e{k}", i, j)
        assert cell is not None
        whole = played.values[k, i, j]
        assert cell.score == whole[-1, -1]
        assert cell.nobody == whole[0, 0]
        assert sum(cell.words.values()) == pytest.approx(whole[-1, -1] - whole[-1, 0])
        assert sum(cell.word_shares.values()) == pytest.approx(whole[-1, -1] - whole[-1, 0])
        assert sum(cell.regions.values()) == pytest.approx(whole[-1, -1] - whole[0, -1])
        assert list(cell.words) == ["O", "R", "R&O", "A", "A&O", "R&A", "R&A&O"]
        assert list(cell.regions) == ["O1", "O2", "O1&O2"]


def test_games_of_single_captions_are_put_together() -> None:
    both = play(random, 1)
    each = [
        Played(
            ids=(f"e0/text-{j}",),
            images=both.images,
            match=both.match[:, :, j : j + 1],
            values=both.values[:, :, j : j + 1],
            image_players=both.image_players,
            text_players=both.text_players,
        )
        for j in range(2)
    ]
    whole, parts = Games([both], examples(both)), Games(each, examples(both))
    assert np.array_equal(whole.scores("e0"), parts.scores("e0"))
    assert parts.cell("e0", 1, 1) is not None
    assert parts.cell("e0", 1, 1).words == whole.cell("e0", 1, 1).words  # type: ignore[union-attr]
    assert Games([], {}).cell("e0", 0, 0) is None


def test_the_most_telling_have_the_largest_margins() -> None:
    played = play(random, 40)
    chosen = telling(Games([played], examples(played)), worst=2, best=1)
    plain = played.values[..., -1, -1]
    by_caption = np.concatenate([plain[:, 0, 0] - plain[:, 0, 1], plain[:, 1, 1] - plain[:, 1, 0]])
    captions = [each for each in chosen if each.exchanged == "captions"]
    assert [each.margin > 0 for each in captions] == [False, False, True]
    assert captions[0].margin == pytest.approx(by_caption.min())
    assert captions[2].margin == pytest.approx(by_caption.max())
    assert len({each.id for each in chosen}) == len(chosen) == 6
    for each in chosen:
        right, wrong = (plain[int(each.id[1:]), i, j] for i, j in each.cells)
        assert each.margin == pytest.approx(right - wrong)
