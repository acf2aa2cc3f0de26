"""Selection of examples: parts of a benchmark, subsets, the first few, or a random sample."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TypeVar

import numpy as np

from contrapose.data import (
    Benchmark,
    ComposedQuery,
    ComposedSet,
    EditSet,
    Example,
    Gallery,
    Suite,
    find_benchmark,
    in_memory_benchmark,
    is_user_file,
)
from contrapose.data.example_columns import ExampleColumns, ExampleMap, store_many
from contrapose.data.examples import query_examples
from contrapose.data.video_clips import (
    has_video_images,
    has_videos,
    set_frames,
    set_image_frames,
)
from contrapose.engine import CachePolicy
from contrapose.errors import InputError, SubsetError, option
from contrapose.files import Problems, StrictProblems, did_you_mean
from contrapose.results.summary import RESAMPLES

PartData = list[Example] | ExampleColumns | Gallery | EditSet | ComposedSet

BenchmarkLike = str | Benchmark | Suite | Sequence[Example] | Gallery | EditSet | ComposedSet
"""A benchmark's name or the user's file, a benchmark, or the data of one."""

Unit = TypeVar("Unit", Example, ComposedQuery)


@dataclass(frozen=True, slots=True, kw_only=True)
class ScoringOptions:
    """Options that `eval`, `audit` and `diagnose` share, by the same names.

    Attributes:
        root: the benchmark's folder, or one that holds a folder of each benchmark's name.
        subsets: parts of a suite or values of the tag `subset`; none means all, or the default
            ones of a diagnosis.
        limit: at most so many examples of each subset, the first ones.
        device: device of the models; `auto` takes CUDA where there is some.
        dtype: number format of the models; None takes that of the model's name.
        batch_size: None begins with each model's suggestion, and finds what memory allows.
        workers: threads that decode images; None takes one per core.
        cache: folder or URL of the store; None keeps scores in memory alone.
        cache_use: `reuse` scores of the cache, `refresh` them, or use `only` them.
        trust_remote_code: run code that comes with a model's weights.
        resamples: of the bootstrap.
        seed: of everything random.
        offline: fetch nothing; benchmarks without a folder must be in the cache.
    """

    root: Path | None = None
    subsets: tuple[str, ...] = ()
    limit: int | None = None
    device: str = "auto"
    dtype: str | None = None
    batch_size: int | None = None
    workers: int | None = None
    cache: Path | str | None = None
    cache_use: CachePolicy = "reuse"
    trust_remote_code: bool = False
    resamples: int = RESAMPLES
    seed: int = 0
    offline: bool = False


@dataclass(frozen=True, slots=True)
class Selection:
    """Selection of examples from one benchmark.

    Attributes:
        name: as the user typed it, or that of its card.
        suite: whether it has parts.
        parts: by name, the empty name for a benchmark without parts: the benchmark and its data.
        named: the parts that the user named.
        root: the folder it was read from; None when it needs none.
    """

    name: str
    suite: bool
    parts: Mapping[str, tuple[Benchmark, PartData]]
    named: frozenset[str]
    root: Path | None

    def cases(self) -> Mapping[str, Example]:
        """Examples by their ids in score tables: `part/id` in a suite, else their own."""
        (_, data), *others = self.parts.values()
        if isinstance(data, ExampleColumns) and not others and not self.suite:
            return ExampleMap(data)
        return {
            f"{part}/{example.id}" if self.suite else example.id: example
            for part, (_, data) in self.parts.items()
            if isinstance(data, list | ExampleColumns)
            for example in data
        }

    def units(self) -> Mapping[str, Example]:
        """Examples, and queries as examples, by the ids of a run's units."""
        queries = {
            f"{part}/{unit}" if self.suite else unit: example
            for part, (_, data) in self.parts.items()
            if not isinstance(data, list | ExampleColumns)
            for unit, example in query_examples(data).items()
        }
        return {**self.cases(), **queries} if queries else self.cases()


def select(
    benchmark: BenchmarkLike,
    *,
    root: Path | None = None,
    subsets: Sequence[str] = (),
    limit: int | None = None,
    images: bool = False,
    offline: bool = False,
    progress: Callable[[str, int, int], None] | None = None,
) -> Selection:
    """Select and read a benchmark, or some subsets of it.

    Without a folder the files come from the cache of fetched benchmarks, and are fetched into it
    where they are not there.

    Args:
        benchmark: the name of a benchmark, a suite or a suite's part; the user's own file; a
            benchmark or suite itself; or examples, a gallery, edit or composed queries.
        root: its folder, or the folder that holds a folder of its name.
        subsets: parts of a suite, or values of the tag `subset`; none means all.
        limit: at most so many examples of each subset (images of a gallery, queries).
        images: also fetch the images of what is selected; with a folder nothing is fetched.
        offline: fetch nothing.
        progress: called with a description, what is done and what there is to do.

    Raises:
        InputError: an unknown benchmark or subset, no folder, or nothing left; or the files cannot
            be fetched.
        DownloadError: a file cannot be had now, or is not the one that the card describes.
    """
    require_limit(limit)
    name, source = resolve_benchmark(benchmark)
    folder = resolve_root(name, source, root, offline=offline, progress=progress)
    selection = _select_from(folder, name, source, subsets, limit)
    if images and root is None and folder is not None and not is_user_file(name):
        from contrapose.data.cached_data import data_source
        from contrapose.data.fetch import fetch_named_images

        fetch_named_images(
            data_source(name, source),
            [data for _, data in selection.parts.values()],
            complete=not subsets and limit is None,
            offline=offline,
            progress=progress,
        )
    return selection


def select_with_images(
    benchmarks: Iterable[BenchmarkLike],
    options: ScoringOptions,
    progress: Callable[[str, int, int], None] | None = None,
) -> list[Selection]:
    """Select and read benchmarks by the shared options; images that are missing are fetched."""
    return [
        select(
            benchmark,
            root=options.root,
            subsets=options.subsets,
            limit=options.limit,
            images=True,
            offline=options.offline,
            progress=progress,
        )
        for benchmark in benchmarks
    ]


def _select_from(
    folder: Path | None,
    name: str,
    source: Benchmark | Suite,
    subsets: Sequence[str],
    limit: int | None,
) -> Selection:
    if isinstance(source, Suite):
        parts = {
            part: (source.parts[part], read_part(source.parts[part], folder, (), limit))
            for part in select_parts(source, subsets)
        }
        return Selection(name, True, parts, frozenset(subsets), folder)
    data = read_part(source, folder, subsets, limit)
    return Selection(name, False, {"": (source, data)}, frozenset(("",)), folder)


def require_limit(limit: int | None) -> None:
    """Raise `InputError` for a limit below one."""
    if limit is not None and limit < 1:
        raise InputError(f"{option('limit')} must be at least 1, found {limit}.")


def select_parts(suite: Suite, subsets: Sequence[str]) -> list[str]:
    """Names of the chosen parts of a suite, in its order; none named means all.

    Raises:
        SubsetError: it has no such part.
    """
    for subset in subsets:
        if subset not in suite.parts:
            near = did_you_mean(subset, suite.parts)
            raise SubsetError(f"{suite.name} has no subset {subset!r}: {near}")
    return [part for part in suite.parts if not subsets or part in subsets]


def resolve_benchmark(benchmark: BenchmarkLike) -> tuple[str, Benchmark | Suite]:
    """Name of a benchmark, and the benchmark or suite itself.

    Raises:
        InputError: an unknown name, or there are no examples.
    """
    if isinstance(benchmark, str):
        return benchmark, find_benchmark(benchmark)
    if isinstance(benchmark, Suite):
        return benchmark.name, benchmark
    if not isinstance(benchmark, Benchmark):
        benchmark = in_memory_benchmark(benchmark)
    return benchmark.card.name, benchmark


def resolve_root(
    name: str,
    source: Benchmark | Suite,
    root: Path | None,
    *,
    offline: bool = False,
    progress: Callable[[str, int, int], None] | None = None,
) -> Path | None:
    """Folder of a benchmark's files; None when it needs none.

    The user's folder comes first; without one it is that of the cache, into which annotations are
    fetched if they are not there.

    Raises:
        InputError: there is no folder, and the files cannot be fetched; says what to do.
        DownloadError: a file cannot be had now, or is not the one that the card describes.
    """
    if root is not None:
        folder = root / name
        return folder if folder.is_dir() else root
    if is_user_file(name):
        return Path(name).parent
    parts = source.parts.values() if isinstance(source, Suite) else (source,)
    if all(part.generated for part in parts):
        return None
    from contrapose.data.cached_data import data_source
    from contrapose.data.fetch import open_source

    return open_source(data_source(name, source), offline=offline, progress=progress)


def read_part(
    benchmark: Benchmark,
    root: Path | None,
    subsets: Sequence[str],
    limit: int | None,
    problems: Problems | None = None,
) -> PartData:
    """Read the chosen subsets of a benchmark, and at most `limit` examples of each.

    Malformed records go to `problems`; without one the first is raised.

    Raises:
        InputError: the files cannot be read.
        SubsetError: there is no such subset.
    """
    data = benchmark.read(root or Path(), problems or StrictProblems())
    if isinstance(data, ComposedSet):
        queries = _select_examples(data.queries, benchmark, subsets, limit)
        return replace(data, queries=tuple(queries))
    if isinstance(data, Gallery | EditSet):
        if subsets:
            raise SubsetError(f"{benchmark.card.name} has no subsets.")
        return data if limit is None else _truncate(data, limit)
    if isinstance(data, ExampleColumns) and not subsets and limit is None:
        return data
    return store_many(_select_examples(data, benchmark, subsets, limit))


def _select_examples(
    examples: Iterable[Unit], benchmark: Benchmark, subsets: Sequence[str], limit: int | None
) -> list[Unit]:
    if not subsets and limit is None:
        return list(examples)
    chosen: list[Unit] = []
    counted: Counter[str] = Counter()
    one_subset = len(benchmark.card.counts) == 1 and not subsets
    for example in examples:
        subset = str(example.tags.get("subset", ""))
        counted[subset] += 1
        if subsets and subset not in subsets:
            continue
        if limit is not None and counted[subset] > limit:
            if one_subset and len(counted) == 1:
                break  # one subset: nothing that follows would be taken
            continue
        chosen.append(example)
    for subset in subsets:
        if subset not in counted:
            near = did_you_mean(subset, counted)
            raise SubsetError(f"{benchmark.card.name} has no subset {subset!r}: {near}")
    return chosen


def _truncate(data: Gallery | EditSet, limit: int) -> Gallery | EditSet:
    """Truncate to the first images of a gallery with their texts, or to the first edit queries."""
    if isinstance(data, EditSet):
        return replace(data, queries=data.queries[:limit])
    if data.templates:  # classes stay as they are: fewer would be an easier question
        pairs = tuple(pair for pair in data.pairs if pair[0] < limit)
        return replace(data, images=data.images[:limit], pairs=pairs)
    kept = (*data.pairs, *data.distractors)
    texts = sorted({text for image, text in kept if image < limit})
    position = {text: i for i, text in enumerate(texts)}
    return replace(
        data,
        images=data.images[:limit],
        texts=tuple(data.texts[text] for text in texts),
        pairs=tuple((i, position[text]) for i, text in data.pairs if i < limit),
        distractors=tuple((i, position[text]) for i, text in data.distractors if i < limit),
    )


def with_frames(selection: Selection, frames: int, *, alone: bool) -> Selection:
    """Selection whose videos have so many frames; see `set_frames`.

    Raises:
        InputError: it has no videos.
    """

    def change(data: PartData) -> PartData:
        if isinstance(data, list | ExampleColumns):
            return set_frames(data, frames, alone=alone)
        if isinstance(data, Gallery):
            return replace(data, images=set_image_frames(data.images, frames, alone=alone))
        return data

    parts = {name: (one, change(data)) for name, (one, data) in selection.parts.items()}
    if not any(
        has_videos(data)
        if isinstance(data, list | ExampleColumns)
        else has_video_images(data.images)
        for _, data in parts.values()
    ):
        raise InputError(f"{option('frames')} is for videos, and {selection.name} has none.")
    return replace(selection, parts=parts)


def sample_selection(selection: Selection, count: int, seed: int) -> Selection:
    """Sample at most `count` examples of each subset at random, in the order of the files.

    Raises:
        InputError: it is less than one.
    """
    if count < 1:
        raise InputError(f"{option('sample')} must be at least 1, found {count}.")
    parts = {
        name: (
            benchmark,
            _draw_examples(data, count, seed) if isinstance(data, list | ExampleColumns) else data,
        )
        for name, (benchmark, data) in selection.parts.items()
    }
    return replace(selection, parts=parts)


def _draw_examples(examples: Sequence[Example], count: int, seed: int) -> list[Example]:
    positions: dict[str, list[int]] = {}
    for i, example in enumerate(examples):
        positions.setdefault(str(example.tags.get("subset", "")), []).append(i)
    random = np.random.default_rng(seed)
    chosen = [
        int(i) for some in positions.values() for i in random.permutation(some)[:count].tolist()
    ]
    return [examples[i] for i in sorted(chosen)]
