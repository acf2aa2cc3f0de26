from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from contrapose.diagnose.regions import SceneRegions
from studies import harsanyi, harsanyi_effects, harsanyi_report, harsanyi_scorers
from studies.harsanyi_claims import ABLE
from studies.harsanyi_scorers import SCORERS, Terms, play_terms


@pytest.fixture(autouse=True)
def _few_captions(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(harsanyi_scorers, "PRIOR_CAPTIONS", 10)
    harsanyi_scorers._language_model.cache_clear()
    yield
    harsanyi_scorers._language_model.cache_clear()


def full_scores(scorer: str, part: str) -> np.ndarray:
    """(k, m, n) scores without noise, nothing hidden."""
    examples = harsanyi.load_examples([part], 8, 5)
    blocks = play_terms(examples, SceneRegions())
    return np.concatenate([SCORERS[scorer](one.terms)[..., -1, -1] for one in blocks])


@pytest.mark.parametrize(
    ("scorer", "part", "accuracy"),
    [
        ("oracle", "swap-relation", 1),
        ("oracle", "swap-attribute", 1),
        ("relations only", "swap-relation", 1),
        ("backwards", "swap-relation", 0),
        ("objects only", "swap-relation", None),
        ("bag of words", "swap-attribute", None),
        ("no direction", "swap-relation", None),
    ],
)
def test_each_fault_is_the_one_that_was_built_in(
    scorer: str, part: str, accuracy: float | None
) -> None:
    scores = full_scores(scorer, part)[:, 0]
    first = scores[:, 0] - scores[:, 1]
    if accuracy is None:
        assert (first == 0).all()
        return
    match = [example.match[0][0] for example in harsanyi.load_examples([part], 8, 5)]
    right = np.where(match, first, -first) > 0
    assert right.mean() == accuracy


def test_hidden_words_and_things_are_not_seen() -> None:
    examples = harsanyi.load_examples(["swap-relation"], 4, 5)
    for played in play_terms(examples, SceneRegions()):
        terms, players = played.terms, played.block.text_players
        relation, objects = 1 << players.index("R"), 1 << players.index("O")
        hidden = [t for t in range(terms.relation.shape[-1]) if not t & relation]
        assert (terms.relation[..., hidden] == 0).all()
        assert (
            terms.objects[..., [t for t in range(1 << len(players)) if not t & objects]] == 0
        ).all()
        assert (terms.wording[..., 0, :] == terms.wording[..., -1, :]).all()
        assert (terms.layout[..., 0] == terms.layout[..., -1]).all()
        if played.block.image_players:
            assert (terms.objects[..., 0, -1] <= terms.objects[..., -1, -1]).all()


def test_every_scorer_has_expectations_and_a_term() -> None:
    assert set(ABLE) == set(SCORERS)
    zeros = Terms(*np.zeros((len(Terms._fields), 1, 1, 1, 1)))
    assert all(SCORERS[name](zeros).shape == (1, 1, 1, 1) for name in SCORERS)


def test_run_is_kept_and_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(harsanyi, "NOISES", (0.1,))
    sizes = harsanyi.Sizes((6, 10), (6, 10), 10, 4, 50)
    for seed in (1, 2):
        harsanyi.run_seed(seed, names=("oracle", "noise"), sizes=sizes, keep=tmp_path)
    answers = harsanyi_effects.load_answers(tmp_path)
    assert set(answers) == {("oracle", 0.1), ("noise", 0.1)}
    oracle = answers["oracle", 0.1][1]
    assert oracle["findings"].shape == (2, 5, 4)
    assert harsanyi_effects.interaction_share(harsanyi_effects.rows_of(oracle, "Q_R&O")) > 0.7
    files = sorted(tmp_path.iterdir())
    times = [file.stat().st_mtime_ns for file in files]
    harsanyi.run_seed(1, names=("oracle", "noise"), sizes=sizes, keep=tmp_path)
    assert [file.stat().st_mtime_ns for file in files] == times


def test_least_level_is_held_from_there_on() -> None:
    cells = np.zeros((5, 3, 4))
    cells[:, 0, 0] = 2
    assert harsanyi_report._least_level(cells, True, (50, 100, 200)) == "100"
    assert harsanyi_report._least_level(cells, False, (50, 100, 200)) == "wrong"
    cells[:, :, 0] = 2
    assert harsanyi_report._least_level(cells, False, (50, 100, 200)) == "never"
