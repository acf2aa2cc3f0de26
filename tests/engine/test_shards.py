"""Shards: shares of the batches, their forms, and the variables of launchers."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from contrapose.engine import Shard, ShardSurvey, parse_shard, shard_device
from contrapose.engine.shards import LackingRequest
from contrapose.errors import InputError


@settings(deadline=None)
@given(st.integers(1, 9), st.lists(st.integers(0, 20), max_size=60))
def test_every_batch_belongs_to_one_shard(count: int, images: list[int]) -> None:
    images = sorted(images)
    batches = list(range(len(images)))
    for given_images in ((), images):
        shares = [Shard(i + 1, count).take(batches, given_images) for i in range(count)]
        assert sorted(batch for share in shares for batch in share) == batches


def test_batches_of_an_image_go_to_one_shard_where_there_are_enough_images() -> None:
    images = [i // 3 for i in range(60)]
    first = Shard(1, 2).take(range(60), images)
    assert {images[batch] for batch in first} == set(range(0, 20, 2))
    few = Shard(1, 2).take(range(60), [i // 20 for i in range(60)])
    assert few == list(range(0, 60, 2))


@pytest.mark.parametrize(
    ("count", "complete", "words"),
    [
        (3, [1, 3], "shard 2 of 3 lacks 5 (itm: pairs). Run it again"),
        (9, [], "; shard 9 of 9 lacks 5 (itm: pairs). Run them again"),
        (40, [1, 20], "; shard 9 of 40 lacks 5 (itm: pairs); so do 30 others, 10–19, 21–40. Run"),
        (900, list(range(2, 900, 2)), "; so do 443 others, 17, 19, 21, "),
    ],
)
def test_shards_that_lack_scores_are_named(count: int, complete: list[int], words: str) -> None:
    missing = [0 if i in complete else 5 for i in range(1, count + 1)]
    survey = ShardSurvey(
        lacking=[LackingRequest("itm: pairs", missing, ())], newest=[("", 0), ("part", count)]
    )
    with pytest.raises(InputError) as error:
        survey.require_complete()
    assert words in str(error.value)
    assert len(str(error.value)) < 800


def test_forms(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("RANK", "WORLD_SIZE", "SLURM_PROCID", "SLURM_NTASKS"):
        monkeypatch.delenv(name, raising=False)
    assert parse_shard("2/8") == parse_shard((2, 8)) == Shard(2, 8)
    assert parse_shard(None) is None
    assert parse_shard((2, np.int64(8))) == Shard(2, 8)  # type: ignore[arg-type]
    texts: dict[Any, str] = {
        "0/3": "from 1",
        "4/3": "from 1",
        f"1/{10**23}": "from 1",
        "2": "2/8",
        "a/b": "2/8",
    }
    others: dict[Any, str] = dict.fromkeys(
        (5, (float("inf"), 2), (2.9, 3.1), (1.5, 2), (True, 2)), "2/8"
    )
    for bad, words in {**texts, **others}.items():
        with pytest.raises(InputError, match=words):
            parse_shard(bad)
    with pytest.raises(InputError, match="RANK"):
        parse_shard("auto")
    monkeypatch.setenv("SLURM_PROCID", "3")
    monkeypatch.setenv("SLURM_NTASKS", "4")
    assert parse_shard("auto") == Shard(4, 4)
    monkeypatch.setenv("RANK", "0")
    monkeypatch.setenv("WORLD_SIZE", "2")
    assert parse_shard("auto") == Shard(1, 2)
    monkeypatch.setenv("RANK", "2")
    with pytest.raises(InputError, match="do not go together"):
        parse_shard("auto")
    for wrong in ("x", "-1", "1.5", "1" * 30):
        monkeypatch.setenv("RANK", wrong)
        with pytest.raises(InputError, match=f"RANK={wrong} "):
            parse_shard("auto")
    monkeypatch.setenv("RANK", "")
    assert parse_shard("auto") == Shard(4, 4)  # Slurm's


def test_device_of_a_process(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("torch.cuda.device_count", lambda: 4)
    assert shard_device("auto", {"LOCAL_RANK": "2"}) == "cuda:2"
    assert shard_device("auto", {"SLURM_LOCALID": "5"}) == "cuda:1"
    assert shard_device("cpu", {"LOCAL_RANK": "2"}) == "cpu"
    assert shard_device("auto", {}) == "auto"
    monkeypatch.setattr("torch.cuda.device_count", lambda: 1)
    assert shard_device("auto", {"LOCAL_RANK": "2"}) == "auto"
