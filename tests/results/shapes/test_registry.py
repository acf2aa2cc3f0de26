"""Shapes: each declares what others need, and metrics from outside stand beside its own."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from importlib import import_module
from pathlib import Path

import numpy as np
import pytest

from contrapose.data import Card, find_single_benchmark, in_memory_benchmark
from contrapose.errors import InputError
from contrapose.evaluation.evaluate import evaluate_models
from contrapose.evaluation.parts import EvalRequest
from contrapose.metrics import BoolArray, FloatArray
from contrapose.report.evaluation import evaluation_tables
from contrapose.results import write_run
from contrapose.results.compare import compare
from contrapose.results.runs import read_run
from contrapose.results.shapes import find_shape, main_metric, register_metric, registry, shapes
from tests.fakes import Entry, Fake, Tower, choices, pairs

FAMILIES = (
    "adversarial", "boundaries",
    "choice", "classes", "composed", "edits", "foil", "images", "judgement", "pairs", "probes",
    "proficiency", "question_groups", "questions", "ratings", "retrieval", "sets", "triple",
)  # fmt: skip


@pytest.fixture(autouse=True)
def _registry(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(registry, "_registered", {})
    monkeypatch.setattr(registry, "entry_points", lambda group: [])
    registry._load_plugins.cache_clear()
    yield
    registry._load_plugins.cache_clear()


def diagonal(scores: FloatArray, match: BoolArray, present: BoolArray) -> FloatArray:
    """Whether the right pairs score above the wrong ones in sum."""
    right = np.where(match & present, scores, 0).sum(axis=(1, 2))
    wrong = np.where(~match & present, scores, 0).sum(axis=(1, 2))
    return np.asarray(right > wrong, dtype=np.float64)


def request(**options: object) -> EvalRequest:
    return EvalRequest((pairs(),), ("itc",), resamples=100, **options)  # type: ignore[arg-type]


def test_every_family_has_one_shape() -> None:
    assert tuple(shapes()) == FAMILIES
    for family, shape in shapes().items():
        assert shape.family == family
        assert shape.debiasing is None or shape.blind or shape.of == "matrix"
        matrix = ("adversarial", "classes", "composed", "edits", "retrieval")
        assert (shape.of == "matrix") == (family in matrix)


def test_the_main_metric_is_that_of_the_shape() -> None:
    assert main_metric({"text": 0, "image": 0, "group": 0, "average": 0}) == "group"
    assert main_metric({"image": 0}) == "image"
    assert main_metric({"image_to_text_r1": 0, "mean_recall": 0}) == "mean_recall"
    assert main_metric({"image_to_text_r1": 0, "r1_drop": 0}) == "image_to_text_r1"
    assert main_metric({"average": 0}) == "average"
    assert main_metric({"text": 0, "group": 0}, blind=True) == "text"
    assert main_metric({"something": 0}) is None


def test_an_unknown_family_is_refused() -> None:
    card: Card = in_memory_benchmark(pairs(), family="pears").card
    with pytest.raises(InputError, match=r"family 'pears'.*pairs"):
        find_shape(card)


def test_a_registered_metric_stands_beside_the_built_in_ones(tmp_path: Path) -> None:
    register_metric(shape="pairs", name="diagonal", better="higher", chance=1 / 2)(diagonal)
    first, second = evaluate_models([Fake(), Tower()], request())
    value = first.results.metrics["diagonal"]
    measure = first.measured.measures["diagonal"]
    assert value.value == measure.values.mean()
    assert value.chance == 1 / 2
    assert value.ci95 is not None
    assert value.ci95[0] <= value.value <= value.ci95[1]
    assert value.n == len(pairs())
    (table, *_) = evaluation_tables([first.results])
    assert any("diagonal" in row for row in table.rows)  # type: ignore[union-attr]
    write_run([first], tmp_path / "run")
    _, measured = read_run(tmp_path / "run")
    assert measured.measures["diagonal"].values.tolist() == measure.values.tolist()
    aggregation = in_memory_benchmark(pairs()).card.aggregation
    differences, _ = compare(first.measured, second.measured, aggregation, resamples=100)
    assert "diagonal" in differences
    (choice,) = evaluate_models([Fake()], EvalRequest((choices(),), ("itc",), resamples=50))
    assert "diagonal" not in choice.results.metrics


def test_values_may_be_undefined_and_chance_a_function() -> None:
    @register_metric("pairs", "odd", better=None, chance=lambda match, present: match[:, 0, 0] / 4)
    def odd(scores: FloatArray, match: BoolArray, present: BoolArray) -> FloatArray:
        return np.where(np.arange(len(scores)) % 2, 1.0, np.nan)

    (run,) = evaluate_models([Fake()], request())
    value = run.results.metrics["odd"]
    assert (value.n, value.value, value.chance) == (len(pairs()) // 2, 1.0, 1 / 4)


def test_bad_metrics_are_refused() -> None:
    with pytest.raises(InputError, match=r"no shape 'pears'.*pairs"):
        register_metric("pears", "x")
    with pytest.raises(InputError, match="matrix"):
        register_metric("retrieval", "x")
    register_metric("pairs", "group")(diagonal)
    with pytest.raises(InputError, match="'group' already"):
        evaluate_models([Fake()], request())
    registry._registered.clear()
    register_metric("pairs", "sum")(lambda scores, match, present: scores)
    with pytest.raises(InputError, match=r"'sum'.*12 values"):
        evaluate_models([Fake()], request())
    registry._registered.clear()
    register_metric("pairs", "huge")(lambda scores, match, present: scores[:, 0, 0] * np.inf)
    with pytest.raises(InputError, match=r"'huge'.*infinite"):
        evaluate_models([Fake()], request())


def test_metrics_of_other_packages_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    class DecoratedEntry(Entry):
        def load(self) -> object:
            return register_metric("pairs", "diagonal", chance=1 / 2)(diagonal)

    entry = DecoratedEntry("diagonal", "package:diagonal", diagonal)
    monkeypatch.setattr(registry, "entry_points", lambda group: [entry])
    (run,) = evaluate_models([Fake()], request())
    assert "diagonal" in run.results.metrics
    registry._load_plugins.cache_clear()
    registry._registered.clear()
    monkeypatch.setattr(registry, "entry_points", lambda group: [Entry("plain", "a:b", diagonal)])
    with pytest.raises(InputError, match=r"'plain'.*register_metric"):
        evaluate_models([Fake()], request())


def test_a_shape_has_the_name_of_its_module_and_is_loaded_by_it() -> None:
    for family, shape in shapes().items():
        assert shape is import_module(f"contrapose.results.shapes.{family}").SHAPE
    helpers = {"base", "comparisons", "protocols", "registry"}
    assert not helpers & set(shapes())
    with pytest.raises(InputError, match="unknown family 'base'"):
        find_shape(replace(find_single_benchmark("winoground").card, family="base"))
