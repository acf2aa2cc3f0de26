"""The plan: distinct images, captions and pairs, shared by examples and benchmarks."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from contrapose.data import Example, ImageRef, find_benchmark
from contrapose.data.cards import Benchmark
from contrapose.data.ref_columns import FileColumn, RefColumn
from contrapose.data.text_columns import ContentIds, TextColumn
from contrapose.engine import (
    AnswerStore,
    ScoringContext,
    plan_examples,
    score_example_parts,
    score_examples,
)
from contrapose.engine import plan as module
from contrapose.files import StrictProblems
from tests.fakes import Fake, Patch, seen


@pytest.fixture(scope="module")
def sugarcrepe(shared: Path) -> list[Example]:
    result = find_benchmark("sugarcrepe")
    assert isinstance(result, Benchmark)
    examples = result.read(shared / "sugarcrepe", StrictProblems())
    assert not isinstance(examples, tuple)
    return list(examples)  # type: ignore[arg-type]


def colour(key: str, known: dict[str, int]) -> tuple[int, int, int]:
    number = known.setdefault(key, len(known))
    return number % 8 * 32, number // 8 % 8 * 32, number // 64 * 10


def test_all_of_sugarcrepe_is_planned_once(sugarcrepe: list[Example]) -> None:
    known: dict[str, int] = {}
    made = [
        replace(e, images=tuple(ImageRef(r.key, source=Patch(colour(r.key, known)))
                                for r in e.images))
        for e in sugarcrepe
    ]  # fmt: skip
    plan = plan_examples(made)
    assert (len(made), len(plan.images), len(plan.texts)) == (7_511, 1_560, 11_844)
    model = Fake(batch_size=512)
    context = ScoringContext(model)
    score_example_parts(context, "itc", [made[:4_000], made[4_000:]])
    assert (len(model.images), len(model.texts)) == (1_560, 11_844)
    score_examples(context, "itc", made)
    assert (len(model.images), len(model.texts)) == (1_560, 11_844)


def test_two_benchmarks_and_a_second_run_share_scores(
    sugarcrepe: list[Example], tmp_path: Path
) -> None:
    some = sugarcrepe[::97]
    known: dict[str, int] = {}
    examples = []
    for example in some:
        (ref,) = example.images
        path = tmp_path / f"{ref.key.replace('/', '_')}.jpg"
        Image.new("RGB", (32, 24), colour(ref.key, known)).save(path)
        examples.append(replace(example, images=(ImageRef(ref.key, path),)))
    # The second benchmark has copies of the same files under other names.
    others = []
    for example in examples:
        old = example.images[0].path
        assert old is not None
        copy = tmp_path / f"copy of {old.name}"
        copy.write_bytes(old.read_bytes())
        others.append(replace(example, id=f"o{example.id}", images=(ImageRef("o", copy),)))
    texts = {text for example in examples for text in example.texts}
    model = Fake()
    context = ScoringContext(model, AnswerStore(tmp_path / "store"))
    for data in (examples, others):
        score_examples(context, "itc", data)
        score_examples(context, "itm", data)
    assert len(model.images) == len(known)
    assert Counter(model.texts) == Counter(texts)
    shown = {seen(Image.open(ref.path)) for e in examples for ref in e.images if ref.path}
    assert len(model.pairs) == len(set(plan_pairs(examples)))
    assert len(shown) == len(known)
    again = Fake()
    for score in ("itc", "itm"):
        score_examples(ScoringContext(again, AnswerStore(tmp_path / "store")), score, others)
    assert not [*again.images, *again.texts, *again.pairs]


def plan_pairs(examples: list[Example]) -> list[tuple[str, str]]:
    return [(e.images[0].key, text) for e in examples for text in e.texts]


def test_a_column_of_images_is_planned_as_a_list(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, shade in (("a", 1), ("b", 2), ("c", 1), ("d", 3), ("e", 1)):
        Image.new("RGB", (4, 4), (shade, 0, 0)).save(tmp_path / f"{name}.png")
    monkeypatch.setattr(module, "IMAGES_PER_BLOCK", 2)
    monkeypatch.setattr(module, "FILES_PER_BLOCK", 2)
    texts = TextColumn.of(["x", "y", "x"])

    def compare(names: list[str], *, files: bool) -> None:
        column: RefColumn = FileColumn(TextColumn.of([f"{name}.png" for name in names]), tmp_path)
        if not files:
            column = RefColumn(
                TextColumn.of(names), lambda name: ImageRef(name, tmp_path / f"{name}.png")
            )
        pairs = np.array([[i, j] for i in range(len(names)) for j in range(3)])
        plan = module.plan_cells(column, texts, pairs)
        same = module.plan_cells(list(column), list(texts), pairs)
        for field in ("images", "image_ids", "texts", "text_ids"):
            assert list(getattr(plan, field)) == list(getattr(same, field))
        assert np.array_equal(plan.pairs, same.pairs)
        assert np.array_equal(plan.pair_index, same.pair_index)
        assert plan.unreadable == same.unreadable
        assert isinstance(plan.image_ids, ContentIds) != bool(plan.unreadable)

    for files in (False, True):
        compare(["a", "b", "c", "d", "e"], files=files)
        compare(["a", "b", "d"], files=files)
        compare(["a", "gone", "b", "c", "d", "missing"], files=files)


def test_made_images_of_a_column() -> None:
    column = RefColumn(
        TextColumn.of(["1", "2", "01"]), lambda name: ImageRef(name, source=Patch((int(name),) * 3))
    )
    images = module.distinct_images(column)
    assert [ref.key for ref in images.refs] == ["1", "2"]
    assert images.index.tolist() == [0, 1, 0]
