"""`check_data` and `check_model`: validate files on disk, and models."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from contrapose.api.inputs import BenchmarkInput, ModelLike, PathLike, Words
    from contrapose.data import Benchmark
    from contrapose.data.cards import BenchmarkData
    from contrapose.data.check import DataReport
    from contrapose.files import Problems
    from contrapose.models.conformance import ConformanceReport


def check_data(
    benchmark: BenchmarkInput,
    *,
    root: PathLike | None = None,
    subset: Words = None,
    limit: int | None = None,
    images: bool = True,
    offline: bool = False,
    progress: Callable[[int, int], None] | None = None,
) -> list[DataReport]:
    """Count examples, open images, and report what is missing, malformed or duplicated.

    Args:
        benchmark: its name, your file, a benchmark, or a list of `Example`s.
        root: the benchmark's folder; None takes the cache, into which annotations are fetched.
        subset: parts of a suite, or values of the tag `subset`; None is all.
        limit: at most so many examples of each subset.
        images: open every image, or none.
        offline: fetch nothing.
        progress: called with the images opened and the number of images.

    Returns:
        A report for each part of the benchmark; `ok` says whether it is as it should be.

    Raises:
        InputError: there is no such benchmark or subset, or its folder is not given.

    Example:
        >>> import contrapose as cp
        >>> [report.ok for report in cp.check_data("examples/shapes/examples.jsonl")]
        [True]
    """
    from contrapose.api.inputs import list_words, one_benchmark, one_path
    from contrapose.data import Suite
    from contrapose.data.check import check_data as check
    from contrapose.evaluation.selection import (
        require_limit,
        resolve_benchmark,
        resolve_root,
        select_parts,
    )

    require_limit(limit)
    subsets = list_words(subset)
    name, source = resolve_benchmark(one_benchmark(benchmark))
    counted: tuple[str, ...] | None = subsets or None
    if isinstance(source, Suite):
        parts = [source.parts[part] for part in select_parts(source, subsets)]
        counted, subsets = None, ()
    else:
        parts = [source]
    folder = one_path(root) or resolve_root(name, source, None, offline=offline) or Path()
    if subsets or limit is not None:
        parts = [
            replace(part, read=partial(_read_selected, part, subsets, limit)) for part in parts
        ]
    return [
        check(
            part,
            folder,
            images=images,
            counted=counted if limit is None else (),
            progress=progress,
        )
        for part in parts
    ]


def _read_selected(
    part: Benchmark, subsets: tuple[str, ...], limit: int | None, root: Path, problems: Problems
) -> BenchmarkData:
    """Read the chosen examples of a benchmark; faults go to the problems."""
    from contrapose.evaluation.selection import read_part

    return read_part(part, root, subsets, limit, problems)


def check_model(
    model: ModelLike,
    *,
    device: str = "cpu",
    dtype: str | None = None,
    trust_remote_code: bool = False,
) -> ConformanceReport:
    """Ask a model small questions and report whether it does what scoring relies on.

    Args:
        model: a model string, `my_package:MyModel`, `my_file.py:MyModel`, or a loaded model.
        device: `cpu`, `cuda`, `cuda:1`, … or `auto`.
        dtype: `fp32`, `bf16` or `fp16`: also says how far apart scores may be.
        trust_remote_code: run code that comes with the weights.

    Raises:
        InputError: there is no such model.

    Example:
        >>> import contrapose as cp
        >>> cp.check_model("tiny-clip").ok
        True
    """
    from contrapose.api.inputs import one_model
    from contrapose.models import load_model
    from contrapose.models.conformance import check_model as check
    from contrapose.models.options import parse_dtype

    tolerance = None if dtype is None else parse_dtype(dtype)
    chosen = one_model(model)
    if not isinstance(chosen, str):
        return check(chosen, dtype=tolerance)
    load = partial(
        load_model, chosen, device=device, dtype=dtype, trust_remote_code=trust_remote_code
    )
    return check(load(), load=load, dtype=tolerance)
