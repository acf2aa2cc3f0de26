"""Selection: benchmarks by name, as objects, and examples in memory."""

from __future__ import annotations

from dataclasses import replace

import pytest

from contrapose.data import Example, Gallery, in_memory_benchmark
from contrapose.data.cards import Family
from contrapose.errors import InputError
from contrapose.evaluation.evaluate import evaluate_models
from contrapose.evaluation.parts import EvalRequest
from contrapose.evaluation.selection import BenchmarkLike, select
from tests.fakes import Fake, choices, edits, gallery, made, pairs, patch, patches


def image_choices() -> list[Example]:
    return [
        Example(f"i{i}", (patch(i), patch(i + 1)), (f"number {i}",), ((True,), (False,)))
        for i in range(4)
    ]


@pytest.mark.parametrize(
    ("data", "family", "metric"),
    [
        (choices(), "choice", "accuracy"),
        (pairs(), "pairs", "group"),
        (image_choices(), "images", "image"),
        (gallery(), "retrieval", "mean_recall"),
        (replace(gallery(), templates=("a {}.",)), "classes", "top1"),
        (edits(), "edits", "simat_n1"),
    ],
)
def test_data_in_memory_is_measured_by_its_shape(
    data: BenchmarkLike, family: Family, metric: str
) -> None:
    selection = select(data)
    (benchmark, _) = selection.parts[""]
    assert (selection.name, benchmark.card.family) == ("examples", family)
    (run, *_) = evaluate_models([Fake()], EvalRequest((data,), ("itc",), resamples=50))
    assert run.results.benchmark == "examples"
    assert metric in run.results.metrics
    assert run.request.benchmarks == ("examples",)


def test_benchmarks_and_suites_are_taken_as_they_are() -> None:
    assert list(select(patches()).parts) == ["pairs", "choices", "gallery", "edits"]
    plain = made("plain", "pairs", "2 × 2", pairs())
    assert select(plain, limit=3).name == "plain"
    assert len(select(plain, limit=3).parts[""][1]) == 3  # type: ignore[arg-type]


def test_a_family_may_be_given() -> None:
    triples = [
        Example(f"t{i}", (patch(i),), (f"{i}", "no", f"a {i}"), ((True, False, True),))
        for i in range(4)
    ]
    named = in_memory_benchmark(triples, name="mine", family="triple")
    (run,) = evaluate_models([Fake()], EvalRequest((named,), ("itc",), resamples=50))
    assert run.results.benchmark == "mine"
    assert "augmented_accuracy" in run.results.metrics


def test_nothing_to_select_is_refused() -> None:
    with pytest.raises(InputError, match="no examples"):
        select([])
    with pytest.raises(InputError, match=r"limit.*at least 1"):
        select(pairs(), limit=0)
    with pytest.raises(InputError, match=r"expected examples.*str"):
        select(["winoground"])  # type: ignore[list-item]
    gallery_data: Gallery = gallery()
    with pytest.raises(InputError, match="no subsets"):
        select(gallery_data, subsets=("a",))
