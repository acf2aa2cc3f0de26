"""Batches shrink and grow with device memory."""

from __future__ import annotations

import gc
import weakref
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from contrapose.engine import AnswerStore, ScoringContext, memory, part_writer, score_examples
from contrapose.engine.memory import MemoryUsage, free_memory, grow_batch_size, is_out_of_memory
from contrapose.errors import InputError
from tests.engine.models import Small
from tests.fakes import Fake, pairs


@pytest.fixture
def _no_garbage(monkeypatch: pytest.MonkeyPatch) -> None:
    """Fakes leave no garbage in memory; to look for it takes longer than all else."""
    monkeypatch.setattr(gc, "collect", lambda: 0)


def test_free_memory_collects_garbage() -> None:
    ring = Ring()
    ring.ring = ring
    alive = weakref.ref(ring)
    del ring
    free_memory()
    assert alive() is None


class Ring:
    """An object that holds itself."""

    ring: Ring


@pytest.mark.usefixtures("_no_garbage")
@pytest.mark.parametrize("room", [1, 2, 3, 5])
@pytest.mark.parametrize("score", ["itc", "itm"])
def test_batches_are_halved_until_they_fit(room: int, score: str) -> None:
    model = Small(room=room)
    context = ScoringContext(model, batch_size=16)
    result = score_examples(context, score, pairs()).scores
    assert np.array_equal(result, score_examples(ScoringContext(Fake()), score, pairs()).scores)
    worked = max(size for size in model.sizes if size <= room)
    # Once it is known what fits, nothing larger is tried again.
    last = max(i for i, size in enumerate(model.sizes) if size > room)
    assert last <= 4
    assert list(context.batch_sizes.values()) == [worked]


@pytest.mark.usefixtures("_no_garbage")
@pytest.mark.parametrize(
    "message",
    ["HIP out of memory", "DefaultCPUAllocator: can't allocate memory", "not enough memory: you"],
)
def test_out_of_memory_messages(message: str) -> None:
    model = Small(error=message)
    score_examples(ScoringContext(model, batch_size=8), "itm", pairs())
    assert max(model.sizes) == 8
    assert is_out_of_memory(MemoryError())
    assert not is_out_of_memory(RuntimeError("shapes do not fit"))


@pytest.mark.usefixtures("_no_garbage")
def test_no_memory_for_one_pair() -> None:
    with pytest.raises(InputError, match="no room for even one of itm: pairs"):
        score_examples(ScoringContext(Small(room=0)), "itm", pairs())


def test_other_errors_are_raised() -> None:
    with pytest.raises(RuntimeError, match="mat1 and mat2"):
        score_examples(ScoringContext(Small(error="mat1 and mat2")), "itm", pairs())


def test_batch_growth_by_memory() -> None:
    giga = 1 << 30
    usage = MemoryUsage(before=2 * giga, peak=3 * giga, room=80 * giga)  # 64 take one gigabyte
    assert grow_batch_size(64, usage, 1_000_000) == 1024
    assert (
        grow_batch_size(64, MemoryUsage(2 * giga, 3 * giga, 20 * giga), 1_000_000) == 512
    )  # 2 + 8 ≤ 14 < 18
    assert grow_batch_size(64, MemoryUsage(2 * giga, 3 * giga, 3 * giga), 1_000_000) == 64
    assert grow_batch_size(64, usage, 64 * 8) == 64
    assert grow_batch_size(64, usage, 128 * 8) == 128
    assert grow_batch_size(64, None, 1_000_000) == 64
    assert grow_batch_size(64, replace(usage, room=200 * giga), 1_000_000, images=False) == 4096
    assert grow_batch_size(64, usage, 256, images=False) == 128
    assert grow_batch_size(64, MemoryUsage(giga, giga, 80 * giga), 1_000_000) == 64
    assert grow_batch_size(2000, usage, 1_000_000) == 2000


def test_the_first_batch_is_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    grows(monkeypatch)
    model = Small(room=100, batch_size=2)
    result = score_examples(ScoringContext(model), "itm", pairs()).scores
    assert model.sizes == [2, 16, 16, 14]  # the first is measured, then the others
    assert np.array_equal(result, score_examples(ScoringContext(Fake()), "itm", pairs()).scores)
    named = Small(room=100)
    score_examples(ScoringContext(named, batch_size=2), "itm", pairs())
    assert set(named.sizes) == {2}


def grows(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """A device on which batches of two grow to 16; says how often it is measured."""
    times: list[int] = []

    def measured(call):  # type: ignore[no-untyped-def]
        times.append(1)
        call()
        return MemoryUsage(0, 2, 80)

    monkeypatch.setattr(memory, "measure_memory", measured)
    monkeypatch.setattr(memory, "MIN_BATCHES", 2)
    monkeypatch.setattr(memory, "uses_cuda", lambda: True)  # each request is a run of its own
    return times


@pytest.mark.parametrize("after", [1, 2, 3])
@pytest.mark.parametrize("score", ["itc", "itm"])
def test_a_resumed_run_grows_to_the_same_batches(
    score: str, after: int, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    grows(monkeypatch)
    monkeypatch.setattr(part_writer, "WRITE_INTERVAL", 0.0)
    full = Small(room=100, batch_size=2)
    score_examples(ScoringContext(full), score, pairs())
    killed = Small(room=100, batch_size=2, after=after)
    with pytest.raises(KeyboardInterrupt):
        score_examples(ScoringContext(killed, AnswerStore(tmp_path)), score, pairs())
    rest = Small(room=100, batch_size=2)
    score_examples(ScoringContext(rest, AnswerStore(tmp_path)), score, pairs())
    if score == "itm":  # what was stored is measured again, not asked again
        assert rest.sizes == [2, *full.sizes[after:]]
    else:
        assert rest.sizes[-1:] == full.sizes[-1:]


def test_small_jobs_are_not_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    times = grows(monkeypatch)
    score_examples(ScoringContext(Small(room=100, batch_size=16)), "itm", pairs())
    assert not times
    score_examples(ScoringContext(Small(room=100, batch_size=8)), "itm", pairs())
    assert len(times) == 1
