"""Pairs are found by numbers, and never one pair for another."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from contrapose.engine import (
    AnswerStore,
    ListColumn,
    ScoringContext,
    parts,
    score_examples,
    score_tokens,
)
from contrapose.engine.parts import PairIndex, list_column_from_arrow, pack_ids, stack_id_words
from contrapose.errors import InputError
from contrapose.scores.answers import find_distinct
from tests.engine.models import Reader
from tests.fakes import Fake, choices, number, pairs, seen

IDS = st.lists(st.text("abé", max_size=17) | st.just("0123456789abcdef" * 2), max_size=8)


@given(IDS, IDS)
def test_columns_and_sequences_are_the_same(ids: list[str], more: list[str]) -> None:
    column = pa.array([*more, *ids], pa.large_string()).slice(len(more))
    assert np.array_equal(pack_ids(column), pack_ids(ids))
    letters = [row.tobytes().rstrip(b"\0").decode() for row in pack_ids(ids)]
    assert letters == ids
    both = stack_id_words([pack_ids(ids), pack_ids(more)])
    assert [row.tobytes().rstrip(b"\0").decode() for row in both] == [*ids, *more]


def test_pairs_with_the_same_number_stay_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    mixed = parts._hash_ids

    def weak(words: parts.IdWords, seed: int, which: int) -> parts.IdWords:
        found = mixed(words, seed, which)
        return found % 2 if seed < 3 else found

    monkeypatch.setattr(parts, "_hash_ids", weak)
    ids = [f"{i:032}" for i in range(20)]
    known = PairIndex.of(pack_ids(ids), pack_ids(ids))
    assert known.seed == 3
    pairs = np.argwhere(np.ones((20, 20), dtype=np.bool_))
    found = known.find(ids, ids, pairs)
    assert np.array_equal(found, np.where(pairs[:, 0] == pairs[:, 1], pairs[:, 0], -1))


def test_a_number_that_is_there_by_chance_is_no_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        parts, "_hash_ids", lambda words, seed, which: np.zeros(len(words), dtype=np.uint64)
    )
    known = PairIndex.of(pack_ids(["a"]), pack_ids(["x"]))
    assert known.find(["a", "b", "a" * 9], ["x"], np.array([[0, 0], [1, 0], [2, 0]])).tolist() == [
        0, -1, -1,
    ]  # fmt: skip


@given(st.lists(st.tuples(st.integers(0, 3), st.text("ab", max_size=1))))
def test_distinct(values: list[tuple[int, str]]) -> None:
    found, at = find_distinct(values)
    assert found == list(dict.fromkeys(values))
    assert [found[i] for i in at] == values


ROWS = st.lists(st.lists(st.floats(-9, 0, width=32), max_size=4), max_size=6)


def made(rows: list[list[float]]) -> ListColumn:
    flat = np.array([value for row in rows for value in row], dtype=np.float32)
    return ListColumn(flat, np.cumsum([0, *map(len, rows)]))


@given(st.lists(ROWS, min_size=1, max_size=3), st.lists(st.integers(-1, 20), max_size=8))
def test_as_python_lists(blocks: list[list[list[float]]], wanted: list[int]) -> None:
    rows = [row for block in blocks for row in block]
    joined = ListColumn.joined([made(block) for block in blocks])
    assert [list(joined[i]) for i in range(len(joined))] == rows
    wanted = [i for i in wanted if i < len(rows)]
    taken = joined.take(np.array(wanted, dtype=np.int64))
    assert [list(taken[i]) for i in range(len(taken))] == [
        rows[i] if i >= 0 else [] for i in wanted
    ]
    column = pa.chunked_array([joined.column()])
    assert column.to_pylist() == [row or None for row in rows]
    back = list_column_from_arrow(column)
    assert [list(back[i]) for i in range(len(back))] == rows


@pytest.mark.parametrize("cached", [True, False])
def test_every_token_of_every_pair(cached: bool, tmp_path: Path) -> None:
    examples = [*pairs(4), *choices(4)]
    store = AnswerStore(tmp_path if cached else None)
    score_examples(ScoringContext(Fake(), store), "lm", examples[:3])
    asking = ScoringContext(Fake(), store)
    lists, places = score_tokens(asking, "lm", examples)
    scores = score_examples(asking, "lm", examples).scores
    for k, example in enumerate(examples):
        for i, ref in enumerate(example.images):
            assert ref.source is not None
            shown = seen(type(ref.source).open_many([ref.source])[0])
            for j, text in enumerate(example.texts):
                tokens = lists[places[k, i, j]]
                words = [*text.split(), "."]
                expected = [-number(shown, word, n) for n, word in enumerate(words)]
                np.testing.assert_allclose(tokens, expected, atol=1e-6)
                assert tokens.dtype == np.float32
                assert tokens.mean() == pytest.approx(scores[k, i, j], abs=1e-6)
    if cached:
        again = Fake()
        fresh, _ = score_tokens(ScoringContext(again, AnswerStore(tmp_path)), "lm", examples)
        assert not again.pairs
        assert np.array_equal(fresh.values, lists.values)
        (first, *_) = sorted(tmp_path.rglob("*.parquet"))
        assert pq.read_schema(first).field("logprobs").type == pa.list_(pa.float32())


def test_blind_has_tokens_and_others_have_none() -> None:
    lists, places = score_tokens(ScoringContext(Reader()), "blind", pairs(2))
    assert len(lists[places[0, 1, 1]]) == len(pairs(2)[0].texts[1].split())
    with pytest.raises(InputError, match="'itm' has no token log-probabilities"):
        score_tokens(ScoringContext(Fake()), "itm", pairs(2))


def test_parts_from_before_have_none(tmp_path: Path) -> None:
    expected = score_examples(ScoringContext(Fake(), AnswerStore(tmp_path)), "lm", pairs(3)).scores
    (part,) = tmp_path.rglob("*.parquet")
    table = pq.read_table(part)
    pq.write_table(table.drop_columns(["logprobs"]), part)
    model = Fake()
    asking = ScoringContext(model, AnswerStore(tmp_path))
    assert np.array_equal(score_examples(asking, "lm", pairs(3)).scores, expected)
    score_examples(asking, "lm", pairs(5))
    lists, places = score_tokens(asking, "lm", pairs(5))
    assert len(model.pairs) == 8
    assert not len(lists[places[0, 0, 0]])
    assert len(lists[places[4, 0, 0]])


def test_lists_are_not_read_with_the_numbers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    score_examples(ScoringContext(Fake(), AnswerStore(tmp_path)), "lm", pairs())
    read: list[list[str]] = []
    plain = pq.ParquetFile.read

    def watched(self: pq.ParquetFile, columns: list[str], **options: object) -> pa.Table:
        read.append(columns)
        return plain(self, columns=columns, **options)

    monkeypatch.setattr(pq.ParquetFile, "read", watched)
    asking = ScoringContext(Fake(), AnswerStore(tmp_path))
    score_examples(asking, "lm", pairs())
    assert read == [["image", "text", "value", "sum", "tokens"]]
    score_tokens(asking, "lm", pairs())
    assert read[1:] == [["logprobs"]]


def test_a_damaged_part_is_named(tmp_path: Path) -> None:
    asking = ScoringContext(Fake(), AnswerStore(tmp_path))
    score_examples(asking, "lm", pairs(2))
    (part,) = tmp_path.rglob("*.parquet")
    part.write_bytes(b"PAR1 nothing")
    with pytest.raises(InputError, match="damaged part of the cache"):
        score_tokens(asking, "lm", pairs(2))
