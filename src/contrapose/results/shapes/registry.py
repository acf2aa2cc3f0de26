"""Registry of shapes: find a shape by its family, register metrics of others, and measure.

A shape is a module of this package that is named by its family; it is imported when a benchmark of
that family is.
"""

from __future__ import annotations

import pkgutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from importlib.metadata import entry_points
from pathlib import Path

import numpy as np

from contrapose.data import Card
from contrapose.errors import InputError
from contrapose.files import did_you_mean
from contrapose.metrics import BoolArray, FloatArray
from contrapose.results.measures import Better, Measure, Measurements
from contrapose.results.shapes.base import AVERAGE, MeasureInput, Shape
from contrapose.results.shapes.protocols import keep_counted_examples
from contrapose.scores import Answers, Frame


@cache
def _list_modules() -> tuple[str, ...]:
    """Names of this package's modules."""
    return tuple(module.name for module in pkgutil.iter_modules([str(Path(__file__).parent)]))


@cache
def _load_shape(family: str) -> Shape | None:
    """Load the shape of a family, which its module is named by; None where there is none."""
    if family not in _list_modules():
        return None
    module = import_module(f"{__name__.rpartition('.')[0]}.{family}")
    shape: Shape | None = getattr(module, "SHAPE", None)
    return shape


@cache
def shapes() -> dict[str, Shape]:
    """Load every shape, by its family."""
    known = map(_load_shape, _list_modules())
    return {shape.family: shape for shape in known if shape is not None}


def find_shape(card: Card) -> Shape:
    """Find the shape of a benchmark; an InputError where its family has none."""
    shape = _load_shape(card.family)
    if shape is None:
        near = did_you_mean(card.family, shapes())
        raise InputError(f"{card.name} is of the unknown family {card.family!r}: {near}")
    return shape


def main_metric(names: Mapping[str, object], *, blind: bool = False) -> str | None:
    """Main metric among metrics of one shape: the shape's, or the average; None without either.

    With `blind`, the metric that an order of captions decides stands for each shape.
    """
    ordered = sorted(shapes().values(), key=lambda shape: -len(shape.contains))
    mains = [shape.blind[:1] if blind else (shape.main,) for shape in ordered]
    known = (*(name for some in mains for name in some), AVERAGE)
    return next((name for name in known if name in names), None)


MetricFunction = Callable[[FloatArray, BoolArray, BoolArray], FloatArray]
"""From scores, match and present (examples × images × captions) to a value for each example."""

ChanceLevel = float | Callable[[BoolArray, BoolArray], FloatArray] | None


@dataclass(frozen=True, slots=True)
class _RegisteredMetric:
    """Metric from outside this package."""

    name: str
    function: MetricFunction
    better: Better | None
    chance: ChanceLevel

    def measure(self, question: MeasureInput) -> Measure:
        """Measure every example.

        Raises:
            InputError: the function does not give one number for each example.
        """
        frame = question.answers.frame
        values = np.asarray(
            self.function(question.by_caption, frame.match, frame.present), dtype=np.float64
        )
        if values.shape != (len(frame),):
            raise InputError(
                f"the metric {self.name!r} must give {len(frame)} values, one for each example, "
                f"not an array of shape {values.shape}."
            )
        if np.isinf(values).any():
            raise InputError(f"the metric {self.name!r} gives infinite values.")
        where = ~np.isnan(values)
        return Measure(
            np.where(where, values, 0.0), where, chance=self._levels(frame), better=self.better
        )

    def _levels(self, frame: Frame) -> FloatArray | None:
        if callable(self.chance):
            levels = np.asarray(self.chance(frame.match, frame.present), dtype=np.float64)
            return np.broadcast_to(levels, (len(frame),)).copy()
        return None if self.chance is None else np.full(len(frame), float(self.chance))


_registered: dict[str, dict[str, _RegisteredMetric]] = {}


def register_metric(
    shape: str, name: str, *, better: Better | None = "higher", chance: ChanceLevel = None
) -> Callable[[MetricFunction], MetricFunction]:
    """Register a metric of a shape: a decorator of a function of arrays.

    The metric then stands beside the built-in ones in tables, intervals, comparisons and run
    folders. A value of NaN leaves an example out.

    Args:
        shape: family of the benchmarks that it measures, such as "pairs".
        name: of the metric.
        better: whether higher or lower is better; None where neither is.
        chance: what guessing gets: one number, or a function of match and present that gives one
            for each example; None where guessing has no meaning. With a chance level the metric is
            a share of the examples, and is printed in per cent.

    Raises:
        InputError: there is no such shape, or it is not measured on examples.

    Example:
        >>> import numpy as np
        >>> @register_metric(shape="pairs", name="diagonal", better="higher", chance=1 / 2)
        ... def diagonal(scores, match, present):
        ...     right = np.where(match & present, scores, 0).sum(axis=(1, 2))
        ...     wrong = np.where(~match & present, scores, 0).sum(axis=(1, 2))
        ...     return right > wrong
    """
    if shape not in shapes():
        raise InputError(f"there is no shape {shape!r}: {did_you_mean(shape, shapes())}")
    if shapes()[shape].of != "examples":
        raise InputError(f"metrics of {shape!r} are measured on a matrix, and cannot be added.")

    def register(function: MetricFunction) -> MetricFunction:
        metric = _RegisteredMetric(name, function, better, chance)
        _registered.setdefault(shape, {})[name] = metric
        return function

    return register


@cache
def _load_plugins() -> None:
    """Import the metrics of other packages; importing registers them."""
    for entry in entry_points(group="contrapose.metrics"):
        function = entry.load()
        known = [metric.function for some in _registered.values() for metric in some.values()]
        if callable(function) and function not in known:
            raise InputError(
                f"the plug-in metric {entry.name!r} ({entry.value}) is not registered: decorate it "
                "with contrapose.results.shapes.register_metric."
            )


def registered_measures(question: MeasureInput, taken: Mapping[str, object]) -> dict[str, Measure]:
    """Measures of the registered metrics of a shape.

    Raises:
        InputError: one has the name of a built-in metric.
    """
    _load_plugins()
    extra = _registered.get(question.card.family, {})
    for name in extra:
        if name in taken:
            raise InputError(
                f"{question.card.family} has a metric {name!r} already: give yours another name."
            )
    return {name: metric.measure(question) for name, metric in extra.items()}


def measure(question: MeasureInput) -> Measurements:
    """Measure every example or query by the metrics of the benchmark's shape.

    Raises:
        InputError: the shape cannot be measured on these scores.
    """
    shape = find_shape(question.card)
    if isinstance(question.scores, Answers):
        question = keep_counted_examples(question, shape)
    result = shape.measure(question)
    if result.units is not None:
        return Measurements(*result.units, result.measures, result.derived, result.notes)
    answers, frame = question.answers, question.answers.frame
    measures = {**result.measures, **registered_measures(question, result.measures)}
    notes = (*answers.notes, *result.notes)
    return Measurements(frame.ids, frame.tags, frame.clusters, measures, result.derived, notes)
