"""Token log-probabilities: kept beside the score, read when they are wanted, and only then."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from contrapose.errors import InputError
from contrapose.scoring import Asking, Lists, Store, ask_examples, ask_tokens
from contrapose.scoring.lists import lists_of
from tests.fakes import Fake, choices, number, pairs, seen
from tests.scoring.models import Reader

ROWS = st.lists(st.lists(st.floats(-9, 0, width=32), max_size=4), max_size=6)


def made(rows: list[list[float]]) -> Lists:
    flat = np.array([value for row in rows for value in row], dtype=np.float32)
    return Lists(flat, np.cumsum([0, *map(len, rows)]))


@given(st.lists(ROWS, min_size=1, max_size=3), st.lists(st.integers(-1, 20), max_size=8))
def test_as_python_lists(blocks: list[list[list[float]]], wanted: list[int]) -> None:
    rows = [row for block in blocks for row in block]
    joined = Lists.joined([made(block) for block in blocks])
    assert [list(joined[i]) for i in range(len(joined))] == rows
    wanted = [i for i in wanted if i < len(rows)]
    taken = joined.take(np.array(wanted, dtype=np.int64))
    assert [list(taken[i]) for i in range(len(taken))] == [
        rows[i] if i >= 0 else [] for i in wanted
    ]
    column = pa.chunked_array([joined.column()])
    assert column.to_pylist() == [row or None for row in rows]
    back = lists_of(column)
    assert [list(back[i]) for i in range(len(back))] == rows


@pytest.mark.parametrize("cached", [True, False])
def test_every_token_of_every_pair(cached: bool, tmp_path: Path) -> None:
    examples = [*pairs(4), *choices(4)]
    store = Store(tmp_path if cached else None)
    ask_examples(Asking(Fake(), store), "lm", examples[:3])
    asking = Asking(Fake(), store)
    lists, places = ask_tokens(asking, "lm", examples)
    scores = ask_examples(asking, "lm", examples).scores
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
        fresh, _ = ask_tokens(Asking(again, Store(tmp_path)), "lm", examples)
        assert not again.pairs
        assert np.array_equal(fresh.values, lists.values)
        (first, *_) = sorted(tmp_path.rglob("*.parquet"))
        assert pq.read_schema(first).field("logprobs").type == pa.list_(pa.float32())


def test_blind_has_tokens_and_others_have_none() -> None:
    lists, places = ask_tokens(Asking(Reader()), "blind", pairs(2))
    assert len(lists[places[0, 1, 1]]) == len(pairs(2)[0].texts[1].split())
    with pytest.raises(InputError, match="'itm' has no token log-probabilities"):
        ask_tokens(Asking(Fake()), "itm", pairs(2))


def test_parts_from_before_have_none(tmp_path: Path) -> None:
    expected = ask_examples(Asking(Fake(), Store(tmp_path)), "lm", pairs(3)).scores
    (part,) = tmp_path.rglob("*.parquet")
    table = pq.read_table(part)
    pq.write_table(table.drop_columns(["logprobs"]), part)
    model = Fake()
    asking = Asking(model, Store(tmp_path))
    assert np.array_equal(ask_examples(asking, "lm", pairs(3)).scores, expected)
    ask_examples(asking, "lm", pairs(5))
    lists, places = ask_tokens(asking, "lm", pairs(5))
    assert len(model.pairs) == 8
    assert not len(lists[places[0, 0, 0]])
    assert len(lists[places[4, 0, 0]])


def test_lists_are_not_read_with_the_numbers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ask_examples(Asking(Fake(), Store(tmp_path)), "lm", pairs())
    read: list[list[str]] = []
    plain = pq.ParquetFile.read

    def watched(self: pq.ParquetFile, columns: list[str], **options: object) -> pa.Table:
        read.append(columns)
        return plain(self, columns=columns, **options)

    monkeypatch.setattr(pq.ParquetFile, "read", watched)
    asking = Asking(Fake(), Store(tmp_path))
    ask_examples(asking, "lm", pairs())
    assert read == [["image", "text", "value", "sum", "tokens"]]
    ask_tokens(asking, "lm", pairs())
    assert read[1:] == [["logprobs"]]


def test_a_damaged_part_is_named(tmp_path: Path) -> None:
    asking = Asking(Fake(), Store(tmp_path))
    ask_examples(asking, "lm", pairs(2))
    (part,) = tmp_path.rglob("*.parquet")
    part.write_bytes(b"PAR1 nothing")
    with pytest.raises(InputError, match="damaged part of the cache"):
        ask_tokens(asking, "lm", pairs(2))
