"""The benchmark as a suite of parts, balanced or skewed, of any size and seed."""

from __future__ import annotations

from pathlib import Path

from contrapose.data import Benchmark, Data, Suite
from contrapose.errors import InputError
from contrapose.files import Problems
from contrapose.world.benchmark.draw import Form
from contrapose.world.benchmark.image import SIZE
from contrapose.world.benchmark.parts import EXAMPLES, PARTS, card, data_of

NAMES: dict[Form, str] = {"balanced": "scenes", "skewed": "scenes-skewed"}
"""What the two forms are called on the command line."""


def scenes(
    form: Form = "balanced", *, examples: int = EXAMPLES, seed: int = 0, size: int = SIZE
) -> Suite:
    """The suite in one of its forms.

    Args:
        form: balanced, or as skewed as the training world.
        examples: of each part; images of the gallery, queries of the edits.
        seed: same seed, same examples; example i does not depend on how many there are.
        size: width and height of the pictures.

    Raises:
        InputError: no such form, no examples, or pictures of no size.
    """
    if form not in NAMES:
        raise InputError(f"{form!r} is not a form of scenes; there are {' and '.join(NAMES)}.")
    require_positive(examples, size)
    name = NAMES[form]
    return Suite(
        name=name,
        title="Scenes: " + _TITLES[form],
        parts={part: _benchmark(name, part, form, examples, seed, size) for part in PARTS},
    )


_TITLES: dict[Form, str] = {
    "balanced": "rendered scenes and minimal changes; no language prior helps",
    "skewed": "the same from the skewed world of the training set: the language prior helps",
}


def require_positive(examples: int, size: int) -> None:
    """Say so when there would be nothing to see.

    Raises:
        InputError: a number is below one.
    """
    if examples < 1:
        raise InputError(f"there must be at least one example, not {examples}.")
    if size < 1:
        raise InputError(f"pictures must be at least one pixel wide, not {size}.")


def _benchmark(suite: str, part: str, form: Form, examples: int, seed: int, size: int) -> Benchmark:
    def read(root: Path, problems: Problems) -> Data:
        """Made, not read: neither folder nor problems are needed."""
        return data_of(part, form, examples, seed, size)

    return Benchmark(card(suite, part, form, examples), read, generated=True)


BENCHMARKS: dict[str, Suite] = {name: scenes(form) for form, name in NAMES.items()}
