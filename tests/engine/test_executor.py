"""The executor: pieces ready before their batch, in other threads, each once, never too many."""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image

from contrapose.data import ImageRef
from contrapose.engine import LocalExecutor, ScoringContext, score_examples
from contrapose.engine.plan import plan_examples
from tests.engine.models import Preparing
from tests.fakes import Fake, choices, pairs


@dataclass
class Counting:
    """Work that notes what is done, and how much lies ready."""

    needs: Sequence[Sequence[int]]
    broken: int = -1
    made: list[int] = field(default_factory=list)
    answered: list[int] = field(default_factory=list)
    used: set[int] = field(default_factory=set)
    most: int = 0
    main: set[int] = field(default_factory=set)
    lock: threading.Lock = field(default_factory=threading.Lock)

    def pieces(self, batch: np.ndarray) -> Sequence[int]:
        return self.needs[batch[0]]

    def prepare(self, piece: int) -> int:
        if piece == self.broken:
            raise ZeroDivisionError
        with self.lock:
            self.made.append(piece)
        return piece * 10

    def answer(self, batch: np.ndarray, ready: Mapping[int, int]) -> int:
        assert dict(ready) == {piece: piece * 10 for piece in self.needs[batch[0]]}
        self.main.add(threading.get_ident())
        self.answered.append(int(batch[0]))
        self.used |= set(ready)
        self.most = max(self.most, len(set(self.made) - self.used))
        return int(batch[0])


needs = st.lists(st.lists(st.integers(0, 30), unique=True, max_size=6), max_size=12)


@settings(max_examples=40, deadline=None)
@given(needs, st.integers(1, 3), st.integers(1, 8))
def test_in_order_with_everything_ready(wanted: list[list[int]], workers: int, ahead: int) -> None:
    work = Counting(wanted)
    kept: list[int] = []
    batches = [np.array([i]) for i in range(len(wanted))]
    LocalExecutor(workers, ahead).run(work, batches, kept.append)
    assert kept == work.answered == list(range(len(wanted)))
    assert set(work.made) == {piece for some in wanted for piece in some}
    assert work.most <= ahead
    assert work.main <= {threading.get_ident()}


def test_neighbours_share_their_pieces() -> None:
    work = Counting([[1, 2], [2, 3], [3, 1]])
    LocalExecutor(2, ahead=10).run(work, [np.array([i]) for i in range(3)], lambda _: None)
    assert sorted(work.made) == [1, 2, 3]


def test_what_breaks_in_a_thread_breaks_the_run() -> None:
    kept: list[int] = []
    with pytest.raises(ZeroDivisionError):
        LocalExecutor(2).run(
            Counting([[1], [2], [3]], broken=2), [np.array([i]) for i in range(3)], kept.append
        )
    assert kept == [0]


def test_images_are_prepared_in_other_threads() -> None:
    model = Preparing()
    found = score_examples(ScoringContext(model), "itc", pairs()).scores
    assert np.array_equal(found, score_examples(ScoringContext(Fake()), "itc", pairs()).scores)
    assert threading.get_ident() not in model.threads
    assert len(model.prepared) == 24


def test_images_are_prepared_while_captions_are_read() -> None:
    begun = threading.Event()

    class Waiting(Preparing):
        def prepare_image(self, image: Image.Image) -> torch.Tensor:
            begun.set()
            return super().prepare_image(image)

        def embed_texts(self, texts: Sequence[str]) -> torch.Tensor:
            assert begun.wait(60)
            return super().embed_texts(texts)

    told: list[str] = []
    asking = ScoringContext(
        Waiting(), progress=lambda what, done, total: told.append(f"{what} {done}")
    )
    found = score_examples(asking, "itc", pairs(2)).scores
    assert np.array_equal(found, score_examples(ScoringContext(Fake()), "itc", pairs(2)).scores)
    assert told == ["itc: captions 0", "itc: captions 4", "itc: images 0", "itc: images 4"]


def test_captions_of_an_image_come_together_as_one_object() -> None:
    model = Preparing(batch_size=6)
    score_examples(ScoringContext(model), "itm", choices())
    for images in model.calls:
        assert len(images) == 6
        assert len({id(image) for image in images}) == 2
    assert len(model.prepared) == 12


def test_another_executor_may_take_its_place() -> None:
    class Backwards:
        def run(self, work, batches, keep) -> None:  # type: ignore[no-untyped-def]
            for batch in reversed(batches):
                ready = {piece: work.prepare(piece) for piece in work.pieces(batch)}
                keep(work.answer(batch, ready))

    for score in ("itc", "itm"):
        found = score_examples(ScoringContext(Fake(), executor=Backwards()), score, pairs()).scores
        assert np.array_equal(found, score_examples(ScoringContext(Fake()), score, pairs()).scores)


def test_plan_of_many_shapes() -> None:
    examples = [*choices(3), *pairs(4)]
    plan = plan_examples(examples)
    for k, example in enumerate(examples):
        for i, ref in enumerate(example.images):
            for j, text in enumerate(example.texts):
                image, caption = plan.pairs[plan.places[k, i, j]]
                assert plan.texts[caption] == text
                shown: ImageRef = plan.images[image]
                assert shown.source == ref.source
    assert (plan.places >= 0).sum() == 3 * 3 + 4 * 4
