from __future__ import annotations

import numpy as np
import pytest
import torch

from contrapose.errors import InputError
from contrapose.losses.gather import Processes
from contrapose.tune.feed import Feed, trim_padding
from contrapose.tune.settings import Settings
from tests.tune.small import small_rows, small_student

SETTINGS = Settings(steps=6, batch=4, seed=5)


def feed(**more: object) -> Feed:
    return Feed(small_rows(), small_student(), SETTINGS, needs={"negative", "positive"}, **more)  # type: ignore[arg-type]


def test_a_round_sees_every_image_once() -> None:
    one = feed()
    rounds = [np.concatenate([one.batch(3 * r + i).rows for i in range(3)]) for r in range(2)]
    assert all(sorted(each.tolist()) == list(range(12)) for each in rounds)
    assert rounds[0].tolist() != rounds[1].tolist()


def test_a_batch_is_a_function_of_its_step() -> None:
    late, early = feed(), feed()
    expected = [late.batch(step) for step in range(6)]
    again = early.batch(4)
    assert again.rows.tolist() == expected[4].rows.tolist()
    assert torch.equal(again.captions, expected[4].captions)
    assert again.negatives.tolist() == expected[4].negatives.tolist()
    walked = list(feed().batches(3, 6))
    assert [b.rows.tolist() for b in walked] == [b.rows.tolist() for b in expected[3:]]


def test_prefetched_batches_are_the_same() -> None:
    rows = small_rows(kept=False)
    ahead = list(Feed(rows, small_student(), SETTINGS).batches(0, 6))
    direct = feed()
    assert [b.rows.tolist() for b in ahead] == [direct.batch(i).rows.tolist() for i in range(6)]


def test_texts_belong_to_their_images() -> None:
    one = feed()
    rows = one.rows
    for step in range(6):
        batch = one.batch(step)
        for i, row in enumerate(batch.rows.tolist()):
            caption = rows.texts[int(batch.captions[i])]
            saying = next(s for s in rows.image_captions[row] if s.caption == caption)
            wrong = [text for text, _ in saying.negatives]
            right = [text for text, _ in saying.positives]
            assert bool(batch.has_negative[i]) == bool(wrong)
            assert bool(batch.has_positive[i]) == bool(right)
            if wrong:
                assert rows.texts[int(batch.negatives[i])] in wrong
            else:
                assert batch.negatives[i] == -1
                assert batch.negative is not None
                assert torch.equal(batch.negative["tokens"][i], batch.text["tokens"][i])
            if right:
                assert rows.texts[int(batch.positives[i])] in right


def test_processes_share_a_batch() -> None:
    whole = feed().batch(2)
    halves = [feed(job=Processes(rank, 2)).batch(2) for rank in range(2)]
    assert [len(half) for half in halves] == [2, 2]
    joined = np.concatenate([half.rows for half in halves])
    assert joined.tolist() == whole.rows.tolist()


def test_what_cannot_be_fed() -> None:
    with pytest.raises(InputError, match="batch_size 3"):
        Feed(small_rows(3), small_student(), SETTINGS)
    with pytest.raises(InputError, match="evenly"):
        feed(job=Processes(0, 3))
    with pytest.raises(InputError, match="needs negatives"):
        Feed(small_rows(negatives=False), small_student(), SETTINGS, needs={"negative"})
    with pytest.raises(InputError, match="needs positives"):
        Feed(small_rows(positives=False), small_student(), SETTINGS, needs={"positive"})


def test_padding_that_all_share_is_left_out() -> None:
    tokens = {
        "input_ids": torch.tensor([[5, 6, 0, 0], [7, 0, 0, 0]]),
        "attention_mask": torch.tensor([[1, 1, 0, 0], [1, 0, 0, 0]]),
    }
    assert trim_padding(tokens)["input_ids"].tolist() == [[5, 6], [7, 0]]
    bare = {"tokens": tokens["input_ids"]}
    assert trim_padding(bare) is bare
