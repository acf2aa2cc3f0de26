"""`check_data` and `check_model`: validate files on disk, and models."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from contrapose.api.inputs import BenchmarkInput, ModelLike, PathLike
    from contrapose.data.check import DataReport
    from contrapose.models.conformance import ConformanceReport


def check_data(
    benchmark: BenchmarkInput,
    *,
    root: PathLike | None = None,
    images: bool = True,
    offline: bool = False,
    progress: Callable[[int, int], None] | None = None,
) -> list[DataReport]:
    """Count examples, open images, and report what is missing, malformed or duplicated.

    Args:
        benchmark: its name, your file, a benchmark, or a list of `Example`s.
        root: the benchmark's folder; None takes the cache, into which annotations are fetched.
        images: open every image, or none.
        offline: fetch nothing.
        progress: called with the images opened and the number of images.

    Returns:
        A report for each part of the benchmark; `ok` says whether it is as it should be.

    Raises:
        InputError: there is no such benchmark, or its folder is not given.

    Example:
        >>> import contrapose as cp
        >>> [report.ok for report in cp.check_data("examples/shapes/examples.jsonl")]
        [True]
    """
    from contrapose.api.inputs import one_benchmark, one_path
    from contrapose.data import Suite
    from contrapose.data.check import check_data as check
    from contrapose.evaluation.selection import resolve_benchmark, resolve_root

    name, source = resolve_benchmark(one_benchmark(benchmark))
    parts = tuple(source.parts.values()) if isinstance(source, Suite) else (source,)
    folder = one_path(root) or resolve_root(name, source, None, offline=offline) or Path()
    return [check(part, folder, images=images, progress=progress) for part in parts]


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
