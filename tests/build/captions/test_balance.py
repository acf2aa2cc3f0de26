"""Balance of negatives: symmetric gaps, at most so many of a caption, and the audit's verdict."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from contrapose.build.captions import CaptionPairs, CaptionRecord, Recipe, Tally, make_pairs
from contrapose.build.captions.balance import (
    BALANCED_AWAY,
    BlindTest,
    audit_pairs,
    balance_pairs,
    blind_gaps,
    choose_balanced,
    find_told_kinds,
    negative_examples,
)

KINDS = ("object", "number", "order-others")


@settings(deadline=None, max_examples=40)
@given(st.integers(0, 10_000), st.integers(1, 4), st.integers(1, 3))
def test_chosen_gaps_are_symmetric(seed: int, per_caption: int, scores: int) -> None:
    rng = np.random.default_rng(seed)
    count = int(rng.integers(1, 300))
    gaps = np.round(rng.normal(0.8, 1, (count, scores)), 1)
    kinds = rng.choice(KINDS, count).tolist()
    owners = rng.integers(0, 40, count).tolist()
    chosen = choose_balanced(gaps, kinds, owners, per_caption, np.random.default_rng(seed))
    again = choose_balanced(gaps, kinds, owners, per_caption, np.random.default_rng(seed))
    assert chosen == again
    assert max(Counter(owners[i] for i in chosen).values(), default=0) <= per_caption
    for kind in KINDS:
        inside = gaps[[i for i in sorted(chosen) if kinds[i] == kind]]
        assert ((inside > 0).sum(axis=0) == (inside < 0).sum(axis=0)).all()


def test_four_scores_leave_enough() -> None:
    """A language model's mean and sum, the n-gram model and the length, most in favor."""
    rng = np.random.default_rng(0)
    common = rng.normal(0.7, 1, 2000)
    gaps = np.stack([common + rng.normal(0, 0.3, 2000) for _ in range(3)], axis=1)
    gaps = np.concatenate([gaps, np.zeros((2000, 1))], axis=1)
    chosen = choose_balanced(gaps, ["object"] * 2000, range(2000), 1, np.random.default_rng(0))
    assert len(chosen) > 600
    assert find_told_kinds(gaps, ["object"] * 2000) == {"object"}
    kept = gaps[sorted(chosen)]
    assert find_told_kinds(kept, ["object"] * len(kept)) == set()


def test_as_many_as_can_be_kept() -> None:
    gaps = np.array([[1.0], [2.0], [3.0], [-1.0], [-2.5], [0.0]])
    chosen = choose_balanced(gaps, ["object"] * 6, range(6), 1, np.random.default_rng(0))
    assert 5 in chosen  # a tie tells nothing
    assert len(chosen) in (3, 5)


def make(shared: Path, count: int, per_caption: int, tally: Tally) -> list[CaptionPairs]:
    lines = (shared / "flickr8k_features" / "test_captions.txt").read_text().splitlines()
    rows = [CaptionRecord(line, f"{i // 5}.jpg") for i, line in enumerate(lines[:count])]
    return list(make_pairs(rows, Recipe(per_caption=per_caption), tally=tally))


def test_balanced_negatives_cannot_be_told(shared: Path) -> None:
    tally = Tally()
    pairs = make(shared, 150, 12, tally)
    before = audit_pairs(pairs, BlindTest())
    kept = balance_pairs(pairs, 3, BlindTest(), tally)
    after = audit_pairs(kept, BlindTest())
    assert before is not None
    assert after is not None
    assert max(score["accuracy"] for score in before["scores"].values()) > 0.65
    assert max(score["accuracy"] for score in after["scores"].values()) <= 0.55
    assert before["flagged"]
    assert not after["flagged"]
    assert all(len(one.negatives) <= 3 for one in kept)
    assert sum(len(one.negatives) for one in kept) > 60
    assert [one.positives for one in kept] == [one.positives for one in pairs]
    for old, new in zip(pairs, kept, strict=True):
        assert set(new.negatives) <= set(old.negatives)
    for kind, count in tally.proposed.items():
        assert count == tally.kept[kind] + tally.dropped.get(kind, Counter()).total()
    assert sum(counts[BALANCED_AWAY] for counts in tally.dropped.values()) > 0
    assert tally.captions["without a negative"] == sum(not one.negatives for one in kept)


def test_too_few_captions_are_kept_as_they_are() -> None:
    (pairs,) = make_pairs([CaptionRecord("a red cube on a blue ball")], Recipe(per_caption=8))
    assert blind_gaps(negative_examples([pairs]), BlindTest()) is None
    assert balance_pairs([pairs], 8, BlindTest()) == [pairs]
    audit = audit_pairs([pairs], BlindTest())
    assert audit is not None
    assert any("too few" in note for note in audit["notes"])


def test_no_negatives() -> None:
    (pairs,) = make_pairs([CaptionRecord("Untitled")], Recipe())
    assert pairs.negatives == ()
    assert balance_pairs([pairs], 4, BlindTest()) == [pairs]
    assert audit_pairs([pairs], BlindTest()) is None
