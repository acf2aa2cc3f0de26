"""Selection of examples: parts of a benchmark, subsets, the first few, or a random sample."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from contrapose.data import (
    Benchmark,
    EditSet,
    Example,
    Gallery,
    Suite,
    find_benchmark,
    is_user_file,
)
from contrapose.errors import InputError
from contrapose.files import StrictProblems
from contrapose.files.suggest import did_you_mean

PartData = list[Example] | Gallery | EditSet


@dataclass(frozen=True, slots=True)
class Selection:
    """Selection of examples from one benchmark.

    Attributes:
        name: as the user typed it.
        suite: whether it has parts.
        parts: by name, the empty name for a benchmark without parts: the benchmark and its data.
        named: the parts that the user asked for by name.
        root: the folder it was read from; None when it needs none.
    """

    name: str
    suite: bool
    parts: Mapping[str, tuple[Benchmark, PartData]]
    named: frozenset[str]
    root: Path | None


def select(
    name: str, *, root: Path | None = None, subsets: Sequence[str] = (), limit: int | None = None
) -> Selection:
    """Select and read a benchmark, or some subsets of it.

    Args:
        name: a benchmark, a suite, a suite's part, or the user's own file.
        root: its folder, or the folder that holds a folder of its name.
        subsets: parts of a suite, or values of the tag `subset`; none means all.
        limit: at most so many examples of each subset (images of a gallery, edit queries).

    Raises:
        InputError: an unknown benchmark or subset, no folder, or nothing left.
    """
    if limit is not None and limit < 1:
        raise InputError(f"--limit must be at least 1, found {limit}.")
    found = find_benchmark(name)
    place = _resolve_root(name, found, root)
    if isinstance(found, Suite):
        for subset in subsets:
            if subset not in found.parts:
                near = did_you_mean(subset, found.parts)
                raise InputError(f"{name} has no subset {subset!r}: {near}")
        chosen = [part for part in found.parts if not subsets or part in subsets]
        parts = {
            part: (found.parts[part], _read_part(found.parts[part], place, (), limit))
            for part in chosen
        }
        return Selection(name, True, parts, frozenset(subsets), place)
    data = _read_part(found, place, subsets, limit)
    return Selection(name, False, {"": (found, data)}, frozenset(("",)), place)


def _resolve_root(name: str, found: Benchmark | Suite, root: Path | None) -> Path | None:
    parts = list(found.parts.values()) if isinstance(found, Suite) else [found]
    if root is not None:
        own = root / name
        return own if own.is_dir() else root
    if is_user_file(name):
        return Path(name).parent
    for part in parts:
        if not part.generated:
            layout = part.card.layout.replace("\n", "; ")
            raise InputError(
                f"pass --root DIR, the folder of {name} ({layout}). "
                f"Files from: {part.card.source}. Licence: {part.card.licence}."
            )
    return None


def _read_part(
    benchmark: Benchmark, root: Path | None, subsets: Sequence[str], limit: int | None
) -> PartData:
    data = benchmark.read(root or Path(), StrictProblems())
    if isinstance(data, Gallery | EditSet):
        if subsets:
            raise InputError(f"{benchmark.card.name} has no subsets.")
        return data if limit is None else _truncate(data, limit)
    return _select_examples(data, benchmark, subsets, limit)


def _select_examples(
    examples: Iterable[Example], benchmark: Benchmark, subsets: Sequence[str], limit: int | None
) -> list[Example]:
    if not subsets and limit is None:
        return list(examples)
    kept: list[Example] = []
    counted: Counter[str] = Counter()
    only = len(benchmark.card.counts) <= 1 and not subsets
    for example in examples:
        subset = str(example.tags.get("subset", ""))
        counted[subset] += 1
        if subsets and subset not in subsets:
            continue
        if limit is not None and counted[subset] > limit:
            if only and len(counted) == 1:
                break  # one subset: nothing that follows would be taken
            continue
        kept.append(example)
    for subset in subsets:
        if subset not in counted:
            near = did_you_mean(subset, counted)
            raise InputError(f"{benchmark.card.name} has no subset {subset!r}: {near}")
    return kept


def _truncate(data: Gallery | EditSet, limit: int) -> Gallery | EditSet:
    """Truncate to the first images of a gallery with their texts, or to the first edit queries."""
    if isinstance(data, EditSet):
        return replace(data, queries=data.queries[:limit])
    if data.templates:  # classes stay as they are: fewer would be an easier question
        pairs = tuple(pair for pair in data.pairs if pair[0] < limit)
        return replace(data, images=data.images[:limit], pairs=pairs)
    texts = sorted({text for image, text in data.pairs if image < limit})
    place = {text: i for i, text in enumerate(texts)}
    return replace(
        data,
        images=data.images[:limit],
        texts=tuple(data.texts[text] for text in texts),
        pairs=tuple((i, place[text]) for i, text in data.pairs if i < limit),
    )


def sample_selection(selection: Selection, count: int, seed: int) -> Selection:
    """Sample at most `count` examples of each subset at random, in the order of the files.

    Raises:
        InputError: it is less than one.
    """
    if count < 1:
        raise InputError(f"--sample must be at least 1, found {count}.")
    parts = {
        name: (benchmark, _draw_examples(data, count, seed) if isinstance(data, list) else data)
        for name, (benchmark, data) in selection.parts.items()
    }
    return replace(selection, parts=parts)


def _draw_examples(examples: Sequence[Example], count: int, seed: int) -> list[Example]:
    places: dict[str, list[int]] = {}
    for i, example in enumerate(examples):
        places.setdefault(str(example.tags.get("subset", "")), []).append(i)
    random = np.random.default_rng(seed)
    chosen = [int(i) for some in places.values() for i in random.permutation(some)[:count].tolist()]
    return [examples[i] for i in sorted(chosen)]
