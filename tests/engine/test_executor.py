"""The executor prepares inputs ahead and in order, also in other processes."""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from threading import get_ident
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image

from contrapose.data import Example, ImageRef, content_id
from contrapose.engine import (
    LocalExecutor,
    ScoringContext,
    content_ids,
    executor,
    plan_examples,
    score_examples,
)
from contrapose.engine import plan as plan_module
from contrapose.engine.batches import prepare_early, score_missing
from contrapose.engine.context import ScoreRequest
from contrapose.engine.examples import _start_decoders
from contrapose.engine.executor import (
    count_decoders,
)
from contrapose.engine.images import Filling, RegionMask, mask_image
from contrapose.engine.requests import build_caption_request, build_image_request
from contrapose.errors import InputError
from contrapose.models.image_transform import ImageTransform, batch_images
from contrapose.resize_crop import ResizeCrop
from tests.engine.models import Preparing
from tests.fakes import Fake, Tower, choices, pairs


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

    def inputs(self, batch: np.ndarray) -> Sequence[int]:
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
def test_batches_run_in_order_with_prepared_inputs(
    wanted: list[list[int]], workers: int, ahead: int
) -> None:
    work = Counting(wanted)
    kept: list[int] = []
    batches = [np.array([i]) for i in range(len(wanted))]
    LocalExecutor(workers, ahead).run(
        [(work, batch) for batch in batches], lambda _, n: kept.append(n)
    )
    assert kept == work.answered == list(range(len(wanted)))
    assert set(work.made) == {piece for some in wanted for piece in some}
    assert work.most <= ahead
    assert work.main <= {threading.get_ident()}


def test_neighboring_batches_share_inputs() -> None:
    work = Counting([[1, 2], [2, 3], [3, 1]])
    LocalExecutor(2, ahead=10).run([(work, np.array([i])) for i in range(3)], lambda _, n: None)
    assert sorted(work.made) == [1, 2, 3]


def test_an_error_in_a_worker_ends_the_run() -> None:
    kept: list[int] = []
    work = Counting([[1], [2], [3]], broken=2)
    with pytest.raises(ZeroDivisionError):
        LocalExecutor(2).run(
            [(work, np.array([i])) for i in range(3)], lambda _, number: kept.append(number)
        )
    assert kept == [0]


def test_images_are_prepared_in_other_threads() -> None:
    model = Preparing()
    result = score_examples(ScoringContext(model), "itc", pairs()).scores
    assert np.array_equal(result, score_examples(ScoringContext(Fake()), "itc", pairs()).scores)
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

    reports: list[str] = []
    context = ScoringContext(
        Waiting(), progress=lambda what, done, total: reports.append(f"{what} {done}")
    )
    result = score_examples(context, "itc", pairs(2)).scores
    assert np.array_equal(result, score_examples(ScoringContext(Fake()), "itc", pairs(2)).scores)
    scored = [report for report in reports if report.startswith("itc")]
    assert scored == ["itc: captions 0", "itc: captions 4", "itc: images 0", "itc: images 4"]


def test_captions_of_an_image_share_one_prepared_object() -> None:
    model = Preparing(batch_size=6)
    score_examples(ScoringContext(model), "itm", choices())
    for images in model.calls:
        assert len(images) == 6
        assert len({id(image) for image in images}) == 2
    assert len(model.prepared) == 12


def test_another_executor() -> None:
    class Backwards:
        def run(self, jobs, keep, upcoming=()) -> None:  # type: ignore[no-untyped-def]
            for work, batch in reversed(jobs):
                ready = {key: work.prepare(key) for key in work.inputs(batch)}
                keep(work, work.answer(batch, ready))

    for score in ("itc", "itm"):
        result = score_examples(ScoringContext(Fake(), executor=Backwards()), score, pairs()).scores
        assert np.array_equal(result, score_examples(ScoringContext(Fake()), score, pairs()).scores)


def test_plan_of_many_shapes() -> None:
    examples = [*choices(3), *pairs(4)]
    plan = plan_examples(examples)
    for k, example in enumerate(examples):
        for i, ref in enumerate(example.images):
            for j, text in enumerate(example.texts):
                image, caption = plan.pairs[plan.pair_index[k, i, j]]
                assert plan.texts[caption] == text
                shown: ImageRef = plan.images[image]
                assert shown.source == ref.source
    assert (plan.pair_index >= 0).sum() == 3 * 3 + 4 * 4


CROP = ResizeCrop(16, (16, 16), int(Image.Resampling.BICUBIC))


@dataclass
class Cropping(Tower):
    """Prepares images by a resize and a crop, and embeds their bytes."""

    resize_crop: ResizeCrop | None = CROP
    prepared: list[tuple[int, int]] = field(default_factory=list)

    def prepare_image(self, image: Image.Image) -> torch.Tensor:
        self.prepared.append(image.size)
        return torch.from_numpy(CROP.to_bytes(image))

    def embed_images(self, images: Sequence[torch.Tensor]) -> torch.Tensor:  # type: ignore[override]
        return torch.stack([image.float().mean((1, 2)) for image in images])

    def embed_texts(self, texts: Sequence[str]) -> torch.Tensor:
        return torch.tensor([[float(len(text)), 1.0, 2.0] for text in texts])


TRANSFORM = ImageTransform(16, (16, 16), Image.Resampling.BICUBIC, (0.5,) * 3, (0.2,) * 3)


class Normalizing(Cropping):
    """Normalizes bytes when it embeds them."""

    def normalize_image(self, prepared: torch.Tensor) -> torch.Tensor:
        return TRANSFORM.normalize_bytes(prepared)

    def embed_images(self, images: Sequence[torch.Tensor]) -> torch.Tensor:  # type: ignore[override]
        return batch_images(images, TRANSFORM, "cpu", torch.float32).square().mean((2, 3))


@pytest.fixture
def photos(tmp_path: Path) -> list[Example]:
    rng = np.random.default_rng(0)
    examples = []
    for i in range(6):
        path = tmp_path / f"{i}.png"
        Image.fromarray(rng.integers(0, 256, (20, 30 + i, 3), dtype=np.uint8)).save(path)
        examples.append(Example(str(i), (ImageRef(str(i), path),), ("a", "b b"), ((True, False),)))
    (tmp_path / "3.png").write_bytes(b"no image")
    return examples


def test_decoder_processes_give_the_scores_of_threads(photos: list[Example]) -> None:
    alone = ScoringContext(Cropping(batch_size=2))
    expected = score_examples(alone, "itc", photos)
    with LocalExecutor(2, processes=1) as local:
        model = Cropping(batch_size=2)
        context = ScoringContext(model, executor=local)
        result = score_examples(context, "itc", photos)
        assert local.decoders is not None
    assert local.decoders is None
    assert model.prepared == []
    assert np.array_equal(result.scores, expected.scores, equal_nan=True)
    assert context.skips.images == alone.skips.images
    assert len(context.skips.images) == 1


def task_keys(request: ScoreRequest, positions: Iterable[int]) -> set[Hashable]:
    """Keys of the tasks of images."""
    tasks = map(request.decode_task, positions)
    return {task.key for task in tasks if task is not None}


def test_images_of_a_later_run_are_decoded_early(photos: list[Example]) -> None:
    plan = plan_examples(photos)
    ids, refs = plan.image_ids, plan.images
    with LocalExecutor(2, processes=1) as local:
        context = ScoringContext(Cropping(), executor=local)
        texts = build_caption_request(context, plan.texts)
        images = build_image_request(context, refs, ids)
        local.expect_images(len(ids))
        order = np.arange(len(ids))
        kept: list[Any] = []
        local.run([(texts, np.arange(2))], lambda _, n: kept.append(n), [(images, order)])
        assert set(local.early) == task_keys(images, range(len(ids)))
        early = dict(local.early)
        local.run([(images, order[:3]), (images, order[3:])], lambda _, n: kept.append(n))
        assert not local.early
        assert all(future.done() for future in early.values())
    assert [batch.tried for batch in kept] == [2, 3, 3]
    assert not context.model.prepared  # type: ignore[attr-defined]
    assert len(context.skips.images) == 1


def test_missing_images_are_decoded_before_captions_are_read(photos: list[Example]) -> None:
    plan = plan_examples(photos)
    ids, refs = plan.image_ids, plan.images
    with LocalExecutor(2, processes=1) as local:
        context = ScoringContext(Cropping(batch_size=1), executor=local)
        score_missing(build_image_request(context, refs[:2], ids[:2]))
        images = build_image_request(context, refs, ids)
        assert prepare_early(images)
        early = dict(local.early)
        assert set(early) == task_keys(images, range(2, len(ids)))
        assert prepare_early(images)
        assert local.early == early  # none is decoded twice
        score_missing(build_caption_request(context, plan.texts), images)
        assert not local.early
    assert not context.model.prepared  # type: ignore[attr-defined]


@dataclass
class CropCounter(Cropping):
    """Counts tokens, and tells in which thread; a broken one cannot."""

    context: int = 3
    cuts: bool = True
    broken: bool = False
    counted: list[tuple[int, list[str]]] = field(default_factory=list)

    def token_counts(self, texts: Sequence[str]) -> list[int]:
        if self.broken:
            raise InputError("the tokenizer is broken.")
        self.counted.append((get_ident(), sorted(texts)))
        return [len(text.split()) for text in texts]


def test_captions_are_counted_while_images_are_embedded(
    photos: list[Example], monkeypatch: pytest.MonkeyPatch
) -> None:
    expected = score_examples(ScoringContext(CropCounter(batch_size=2)), "itc", photos)
    for limit, elsewhere in ((2, True), (1, False)):
        monkeypatch.setattr(plan_module, "CAPTIONS_AHEAD", limit)
        model = CropCounter(batch_size=2)
        with LocalExecutor(2, processes=1) as local:
            result = score_examples(ScoringContext(model, executor=local), "itc", photos)
        ((thread, texts),) = model.counted  # each caption once
        assert texts == ["a", "b b"]
        assert (thread != get_ident()) == elsewhere
        assert np.array_equal(result.scores, expected.scores, equal_nan=True)
    model = CropCounter(batch_size=2, broken=True)
    with LocalExecutor(2, processes=1) as local, pytest.raises(InputError, match="broken"):
        score_examples(ScoringContext(model, executor=local), "itc", photos)


class Gate:
    """Work of one input, which is prepared when the gate is opened."""

    def __init__(self, said: list[str]) -> None:
        self.said, self.opened = said, threading.Event()

    def inputs(self, batch: np.ndarray) -> Sequence[int]:
        return [0]

    def prepare(self, key: int) -> int:
        assert self.opened.wait(60)
        return key

    def answer(self, batch: np.ndarray, ready: Mapping[int, int]) -> str:
        self.said.append("image")
        return "image"


class Captions:
    """Late jobs, known from the beginning on or from the end; the last ones open the gate."""

    def __init__(self, gate: Gate, count: int, *, ready: bool, opens: int) -> None:
        self.gate, self.ready, self.opens = gate, ready, opens
        self.left = list(range(count))

    def is_ready(self) -> bool:
        return self.ready

    def take(self) -> tuple[Any, np.ndarray] | None:
        self.ready = True
        return (self, np.array([self.left.pop(0)])) if self.left else None

    def inputs(self, batch: np.ndarray) -> Sequence[int]:
        return []

    def prepare(self, key: int) -> int:
        raise AssertionError

    def answer(self, batch: np.ndarray, ready: Mapping[int, int]) -> str:
        assert not ready
        self.gate.said.append(f"caption {batch[0]}")
        if batch[0] == self.opens:
            self.gate.opened.set()
            time.sleep(0.2)  # the image is prepared in another thread
        return f"caption {batch[0]}"


def test_late_jobs_fill_the_time_in_which_images_are_prepared() -> None:
    said: list[str] = []
    kept: list[str] = []
    captions = Captions(Gate(said), 3, ready=True, opens=1)
    images: Any = [(captions.gate, np.array([0]))]
    late: Any = captions
    LocalExecutor(1).run(images, lambda _, answer: kept.append(answer), (), late)
    assert said == kept == ["caption 0", "caption 1", "image", "caption 2"]


@pytest.mark.parametrize("ready", [True, False])
def test_late_jobs_come_last_where_images_are_ready_or_they_are_not(*, ready: bool) -> None:
    said: list[str] = []
    captions = Captions(Gate(said), 2, ready=ready, opens=-1)
    captions.gate.opened.set()
    first: Any = [(Counting([[]]), np.array([0]))] * 2
    images: Any = [(captions.gate, np.array([0]))]
    late: Any = captions
    if ready:  # all inputs of these are ready: they have none
        LocalExecutor(1).run(first, lambda *_: None, (), late)
    else:
        LocalExecutor(1).run(images, lambda *_: None, (), late)
    expected = ["caption 0", "caption 1"]
    assert said == (expected if ready else ["image", *expected])


def test_images_are_decoded_while_others_are_hashed(
    photos: list[Example], monkeypatch: pytest.MonkeyPatch
) -> None:
    events: list[str] = []
    prepared = LocalExecutor.prepare_early

    def hash_image(ref: ImageRef) -> str:
        events.append("hash")
        return content_id(ref)

    def decode_early(self: LocalExecutor, task: Any, held: int = 0) -> bool:
        events.append("decode")
        return prepared(self, task, held)

    expected = score_examples(ScoringContext(Cropping(batch_size=2)), "itc", photos)
    monkeypatch.setattr(content_ids, "FILES_PER_TASK", 2)
    monkeypatch.setattr(content_ids, "QUICK_FILE", 1e9)
    monkeypatch.setattr(content_ids, "content_id", hash_image)
    monkeypatch.setattr(LocalExecutor, "prepare_early", decode_early)
    model = Cropping(batch_size=2)
    with LocalExecutor(2, processes=1) as local:
        context = ScoringContext(model, executor=local)
        result = score_examples(context, "itc", photos)
    assert events[:12] == ["hash", "hash", "decode", "decode"] * 3
    assert not model.prepared
    assert np.array_equal(result.scores, expected.scores, equal_nan=True)
    events.clear()

    class Matching(Cropping):
        def match(self, images: Sequence[Any], texts: Sequence[str]) -> np.ndarray:
            return np.arange(float(len(texts)))

    with LocalExecutor(2, processes=1) as local:  # captions decide the order of pairs
        score_examples(ScoringContext(Matching(), executor=local), "itm", photos)
    assert events[:6] == ["hash"] * 6


def test_captions_are_shown_when_images_are_done(photos: list[Example]) -> None:
    said: list[tuple[str, int, int]] = []
    model = CropCounter(batch_size=1)
    with LocalExecutor(2, processes=1) as local:
        context = ScoringContext(model, executor=local, progress=lambda *some: said.append(some))
        score_examples(context, "itc", photos)
    steps = [(what, done) for what, done, total in said if total > 1]
    labels = [what for what, _ in steps]
    assert labels == sorted(labels, key=["itc: images", "itc: captions"].index)
    images = [done for what, done in steps if what == "itc: images"]
    assert images == list(range(7))
    captions = [done for what, done in steps if what == "itc: captions"]
    assert captions == sorted(captions)  # none where all were scored while images were decoded


def test_early_images_are_bounded(photos: list[Example], monkeypatch: pytest.MonkeyPatch) -> None:
    plan = plan_examples(photos)
    monkeypatch.setattr(executor, "PREFETCH_BYTES", 0)
    with LocalExecutor(2, ahead=2, processes=1) as local:
        context = ScoringContext(Cropping(), executor=local)
        images = build_image_request(context, plan.images, plan.image_ids)
        assert not prepare_early(images)  # nobody has started decoders
        local.expect_images(len(plan.image_ids))
        assert not prepare_early(replace(images, context=replace(context, cache_use="only")))
        assert not local.early
        prepare_early(images)
        assert len(local.early) == 2


def test_an_error_forgets_what_a_later_run_was_to_take(photos: list[Example]) -> None:
    plan = plan_examples(photos[:3])
    with LocalExecutor(1, processes=1) as local:
        context = ScoringContext(Cropping(), executor=local)
        images = build_image_request(context, plan.images, plan.image_ids)
        local.expect_images(3)
        jobs: Any = [(Counting([[], [1]], broken=1), np.array([i])) for i in range(2)]
        with pytest.raises(ZeroDivisionError):
            local.run(jobs, lambda _, n: None, [(images, np.arange(3))])
        assert not local.early


def test_no_file_is_counted_where_no_decoder_would_start(photos: list[Example]) -> None:
    class Untouched(list[Example]):
        def __iter__(self) -> Any:
            raise AssertionError

    _start_decoders(ScoringContext(Cropping()), "itc", [Untouched(photos)])


@pytest.mark.parametrize("filling", [Filling(), Filling("mean")])
def test_hidden_regions_are_prepared_in_processes(photos: list[Example], filling: Filling) -> None:
    rng = np.random.default_rng(1)
    examples = []
    for example in photos[:3]:
        (ref,) = example.images
        with Image.open(str(ref.path)) as image:
            shape = image.height, image.width
        masks = [RegionMask.of(rng.integers(0, 2, shape).astype(np.bool_)) for _ in range(2)]
        masked = [mask_image(ref, content_id(ref), some, filling) for some in ((), masks)]
        examples.append(replace(example, images=tuple(masked), match=((True, False),) * 2))

    def score(local: LocalExecutor) -> np.ndarray:
        context = ScoringContext(Normalizing(), executor=local)
        return score_examples(context, "itc", examples).scores

    expected = score(LocalExecutor(1))
    with LocalExecutor(1, processes=1) as local:
        result = score(local)
        assert local.decoders is not None
    assert np.array_equal(result, expected)
    assert len(np.unique(expected[:, :, 0])) == 6


@dataclass
class Late:
    """Answer of a GPU that still computes."""

    number: int
    waits: bool = True


def test_an_answer_is_awaited_when_the_next_batch_has_begun() -> None:
    events: list[str] = []

    class Work(Counting):
        def answer(self, batch: np.ndarray, ready: Mapping[int, int]) -> Any:
            number = int(batch[0])
            events.append(f"begin {number}")
            if number == self.broken:
                raise ZeroDivisionError
            return Late(number, waits=number != 2)

    def keep(_: object, answer: Any) -> None:
        events.append(f"keep {answer.number}")

    LocalExecutor(1).run([(Work([[]] * 4), np.array([i])) for i in range(4)], keep)
    assert events == [
        "begin 0", "begin 1", "keep 0", "begin 2", "keep 1", "keep 2", "begin 3", "keep 3",
    ]  # fmt: skip
    events.clear()
    with pytest.raises(ZeroDivisionError):
        LocalExecutor(1).run([(Work([[]] * 2, broken=1), np.array([i])) for i in range(2)], keep)
    assert events == ["begin 0", "begin 1", "keep 0"]  # what was computed is not lost


def test_only_plain_files_are_decoded_in_processes(photos: list[Example]) -> None:
    for model, examples in ((Cropping(resize_crop=None), photos[:2]), (Cropping(), pairs(2))):
        with LocalExecutor(2, processes=1) as local:
            score_examples(ScoringContext(model, executor=local), "itc", examples)
            assert local.decoders is None
        assert model.prepared


def test_an_error_leaves_no_decoder(photos: list[Example]) -> None:
    class Broken(Cropping):
        def embed_images(self, images: Sequence[torch.Tensor]) -> torch.Tensor:  # type: ignore[override]
            raise KeyboardInterrupt

    with LocalExecutor(processes=1) as local:
        with pytest.raises(KeyboardInterrupt):
            score_examples(ScoringContext(Broken(), executor=local), "itc", photos)
        assert local.decoders is not None
        (pid,) = local.decoders.pids
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)


def test_decoders_pay_beside_a_gpu_only(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(executor.PROCESSES_VARIABLE, raising=False)
    assert count_decoders(10_000, cores=16) == 0
    monkeypatch.setattr(executor, "uses_cuda", lambda: True)
    assert count_decoders(10_000, cores=16) == 14
    assert count_decoders(10_000, 4, cores=16) == 4
    assert count_decoders(320, cores=16) == 10
    assert count_decoders(100, cores=16) == count_decoders(10_000, cores=3) == 0
    assert count_decoders(10_000, cores=200) == executor.MOST_DECODERS
    monkeypatch.setenv(executor.PROCESSES_VARIABLE, "3")
    assert count_decoders(100, cores=1) == 3
    monkeypatch.setenv(executor.PROCESSES_VARIABLE, "many")
    with pytest.raises(InputError, match="number"):
        count_decoders(100)


def test_torch_has_one_thread_beside_a_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    counts: list[int] = []
    fake = SimpleNamespace(get_num_threads=lambda: 16, set_num_threads=counts.append)
    monkeypatch.setitem(sys.modules, "torch", fake)
    monkeypatch.setattr(executor, "uses_cuda", lambda: True)
    with executor._one_cpu_thread():
        assert counts == [1]
    assert counts == [1, 16]
    monkeypatch.setattr(executor, "uses_cuda", lambda: False)
    with executor._one_cpu_thread():
        assert counts == [1, 16]
