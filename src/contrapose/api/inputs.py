"""Arguments of the public functions: strings or objects, one or many, in their plain form."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from pathlib import Path
from typing import Any, Literal

from contrapose.data import Benchmark, ComposedSet, EditSet, Example, Gallery, Suite
from contrapose.engine import default_store_folder
from contrapose.errors import InputError, option
from contrapose.evaluation.selection import BenchmarkLike
from contrapose.files import did_you_mean, local_path, require_free
from contrapose.models.capabilities import Model
from contrapose.models.function import FunctionModel, ScoreFunction
from contrapose.models.options import parse_dtype

ModelLike = str | Path | Model | ScoreFunction
"""A model string or folder, a loaded model, or a function of an image and a caption."""

BenchmarkInput = BenchmarkLike | Path
"""A benchmark's name, the user's file, a benchmark, or its examples."""

Words = str | Iterable[str] | None
"""One word, several, or none."""

PathLike = str | Path

Cache = PathLike | bool | None
"""Folder or URL of stored scores; True for the user's cache folder, False or None for memory."""


def one_model(model: ModelLike) -> str | Model:
    """Model string or model; a function becomes a model.

    Raises:
        InputError: it is neither, or a class.
    """
    if isinstance(model, str | Path):
        return str(model)
    if isinstance(model, type):
        raise InputError(f"{model.__name__} is a class: pass a model, as {model.__name__}().")
    if isinstance(model, Model):
        return model
    if callable(model):
        return FunctionModel(model)
    raise InputError(
        "a model is a string, an object with a name, a fingerprint and a batch_size, or a function "
        f"of an image and a caption; found {type(model).__name__}."
    )


def list_models(models: ModelLike | Iterable[ModelLike]) -> tuple[list[str | Model], bool]:
    """List of models, the same string once; and whether several were meant.

    Functions of the same name are numbered, so that their runs can be told apart.
    """
    several = not isinstance(models, str | Path | Model) and isinstance(models, Iterable)
    given: Iterable[Any] = models if several else (models,)  # type: ignore[assignment]
    chosen: list[str | Model] = []
    for model in map(one_model, given):
        if not (isinstance(model, str) and model in chosen):
            chosen.append(model)
    if not chosen:
        raise InputError("there is no model to ask.")
    counts: dict[str, int] = {}
    for model in chosen:
        if isinstance(model, FunctionModel):
            counts[model.name] = number = counts.get(model.name, 0) + 1
            model.name += f"-{number}" if number > 1 else ""
    return chosen, several


def one_benchmark(benchmark: BenchmarkInput) -> BenchmarkLike:
    """Benchmark by name, or the object itself."""
    if isinstance(benchmark, Path):
        return str(benchmark)
    if not isinstance(
        benchmark, str | Benchmark | Suite | Gallery | EditSet | ComposedSet | Sequence
    ):
        raise InputError(
            "a benchmark is a name, a file, a benchmark, a gallery or a list of examples; found "
            f"{type(benchmark).__name__}."
        )
    return benchmark


def list_benchmarks(
    on: BenchmarkInput | Iterable[BenchmarkInput],
) -> tuple[tuple[BenchmarkLike, ...], bool]:
    """Benchmarks, and whether several were meant; a list of examples is one benchmark."""
    if isinstance(on, str | Path | Benchmark | Suite | Gallery | EditSet | ComposedSet):
        return (one_benchmark(on),), False
    given: list[Any] = list(on)
    if given and all(isinstance(item, Example) for item in given):
        return (given,), False
    return tuple(one_benchmark(item) for item in given), True


def list_words(words: Words) -> tuple[str, ...]:
    """Several words; a single string is one of them."""
    if words is None:
        return ()
    return (words,) if isinstance(words, str) else tuple(dict.fromkeys(words))


def one_path(path: PathLike | None) -> Path | None:
    """Path of a folder or file; None stays None.

    Raises:
        InputError: it is a URL, or a path that the system refuses.
    """
    return None if path is None else local_path(path)


def store_place(cache: Cache) -> Path | str | None:
    """Folder or URL of the store; None keeps scores in memory."""
    if cache is True:
        return default_store_folder()
    return None if cache is False else cache


def scoring_options(
    *,
    root: PathLike | None,
    subset: Words,
    limit: int | None,
    device: str,
    dtype: str | None,
    batch_size: int | None,
    workers: int | None = None,
    cache: Cache,
    cache_use: str,
    trust_remote_code: bool,
    resamples: int,
    seed: int,
    offline: bool,
) -> dict[str, Any]:
    """Fields of `ScoringOptions`: the options that evaluate, audit and diagnose share.

    Raises:
        InputError: one of them has a value that it cannot have.
    """
    require_at_least(1, batch_size=batch_size, workers=workers, limit=limit)
    require_at_least(100, resamples=resamples)
    require_at_least(0, seed=seed)
    return {
        "root": one_path(root),
        "subsets": list_words(subset),
        "limit": limit,
        "device": device,
        "dtype": None if dtype is None else parse_dtype(dtype),
        "batch_size": batch_size,
        "workers": workers,
        "cache": store_place(cache),
        "cache_use": require_choice("cache_use", cache_use, ("reuse", "refresh", "only")),
        "trust_remote_code": trust_remote_code,
        "resamples": resamples,
        "seed": seed,
        "offline": offline,
    }


def require_at_least(least: int, **numbers: int | None) -> None:
    """Refuse options below a number; None is an option left out.

    Raises:
        InputError: says which.
    """
    for name, number in numbers.items():
        if number is not None and number < least:
            raise InputError(f"{option(name)} must be at least {least}, found {number}.")


def require_choice(name: str, value: str | None, choices: Collection[str]) -> Any:
    """Value of an option that has a few; None is an option left out.

    Raises:
        InputError: it is none of them.
    """
    if value is not None and value not in choices:
        hint = did_you_mean(str(value), choices, otherwise=f"one of {', '.join(choices)}.")
        raise InputError(f"{option(name)} cannot be {value!r}: {hint}")
    return value


def parse_alpha(alpha: float | str | None, *, prior: bool) -> float | Literal["auto"]:
    """Weight of the prior to subtract; `auto` when left out.

    Raises:
        InputError: neither `auto` nor a number from 0 to 1, or there is no prior to take out.
    """
    if alpha is not None and not prior:
        raise InputError(
            f"{option('alpha')} says how much of a prior to take out: pass {option('prior')} too."
        )
    if alpha is None or alpha == "auto":
        return "auto"
    try:
        value = float(alpha)
    except ValueError:
        value = -1.0
    if not 0 <= value <= 1:
        raise InputError(
            f"{option('alpha')} must be auto or a number from 0 to 1, found {alpha!r}."
        )
    return value


def require_report_folder(folder: Path, results: str, kind: str, *, overwrite: bool) -> None:
    """Require that a folder is free, or holds an earlier report that may be replaced.

    Args:
        folder: to write.
        results: file that such a report has.
        kind: of the report, in a word.
        overwrite: let an earlier one be replaced.

    Raises:
        InputError: it is taken by something else.
    """
    require_free(folder, overwrite=overwrite)
    if folder.is_dir() and any(folder.iterdir()) and not (folder / results).is_file():
        raise InputError(f"holds no {kind}, and is not written over; choose another.", file=folder)
