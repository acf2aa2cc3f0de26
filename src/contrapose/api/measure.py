"""`measure`: metrics of scores that are there already."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

from contrapose.api.inputs import (
    BenchmarkInput,
    PathLike,
    Words,
    list_words,
    one_benchmark,
    one_path,
    parse_alpha,
    require_at_least,
    require_choice,
)
from contrapose.api.runs import Run, Runs
from contrapose.data import Suite
from contrapose.errors import InputError, option
from contrapose.evaluation.selection import resolve_benchmark
from contrapose.files import local_path
from contrapose.metrics import LikelihoodScale
from contrapose.results.score_files import MetricsRequest, measure_score_file
from contrapose.scores.files import list_columns
from contrapose.scores.rating_layouts import split_column

SCALES = ("log", "probability", "inverse-nll")


def measure(
    scores: PathLike | Any,
    examples: BenchmarkInput,
    *,
    root: PathLike | None = None,
    prior: PathLike | Any = None,
    alpha: float | str | None = None,
    likelihood_as: LikelihoodScale = "log",
    prior_as: LikelihoodScale | None = None,
    by: Words = None,
    tags: Mapping[str, PathLike] | Words = None,
    protocol: Literal["strict", "official"] = "strict",
    threshold: float | None = None,
    dev_scores: PathLike | Any = None,
    partial: bool = False,
    resamples: int = 10_000,
    seed: int = 0,
    out: PathLike | None = None,
    overwrite: bool = False,
) -> Run:
    """Metrics of given scores: accuracies, intervals, chance, ties, and the parts.

    Args:
        scores: an array of examples × images × captions (the images may be left out where there is
            one), a list with an array for each example, a data frame or a list of rows (example,
            image, text, score), a matrix for a gallery; or a file in the benchmark's own layout, a
            general table, an `.npy` array, a folder of arrays, or a log of another program, as
            `import_logs` reads it.
        examples: a list of `Example`s, a gallery, a benchmark, its name, or your own file.
        root: the benchmark's folder: adds tags and clusters by image; needs no images.
        prior: log P(T) of every caption: a file, or an array of examples × captions.
        alpha: how much of the prior to take out: a number from 0 to 1, or `auto`.
        likelihood_as: what the scores are when a prior is given: `log`, `probability` or
            `inverse-nll`.
        prior_as: the same for the prior; None is as the scores.
        by: tags to break results down by.
        tags: files of further tags by name, JSON objects of example id → tag or tags.
        protocol: `strict`, where ties are never wins, or `official`, as the benchmark's own script
            counts; the strict figures then stand beside its.
        threshold: score above which a caption counts as fitting (VALSE, VSR).
        dev_scores: scores of other pairs, as `scores`, by which the best threshold of yes/no
            judgements is chosen; None cross-fits it.
        partial: allow examples without scores.
        resamples: of the bootstrap.
        seed: of everything random.
        out: a run folder to write.
        overwrite: let `out` take the place of an earlier run.

    Raises:
        InputError: the scores do not fit the examples, or an option cannot be used.

    Example:
        >>> import contrapose as cp
        >>> run = cp.measure([[[2.0, 1.0], [0.0, 3.0]]] * 400, "winoground")
        >>> run.metrics["group"].value
        1.0
    """
    require_at_least(100, resamples=resamples)
    require_at_least(0, seed=seed)
    name, benchmark = resolve_benchmark(one_benchmark(examples))
    if isinstance(benchmark, Suite):
        parts = ", ".join(f"{name}/{part}" for part in benchmark.parts)
        raise InputError(f"{name} has parts of different shapes; name one of them: {parts}.")
    scale = require_choice("likelihood_as", likelihood_as, SCALES)
    request = MetricsRequest(
        benchmark=name,
        scores=local_path(scores) if isinstance(scores, str | Path) else scores,
        root=one_path(root),
        prior=local_path(prior) if isinstance(prior, str | Path) else prior,
        alpha=parse_alpha(alpha, prior=prior is not None),
        likelihood_as=scale,
        prior_as=require_choice("prior_as", prior_as, SCALES) or scale,
        by=list_words(by),
        tags=tuple(_tag_files(tags)),
        protocol=require_choice("protocol", protocol, ("strict", "official")),
        threshold=threshold,
        dev_scores=local_path(dev_scores) if isinstance(dev_scores, str | Path) else dev_scores,
        partial=partial,
        resamples=resamples,
        seed=seed,
    )
    target = one_path(out)
    if target is not None:
        Runs.require_target(target, overwrite=overwrite)
    run = Run(measure_score_file(request, benchmark))
    if target is not None:
        run.save(target, overwrite=overwrite)
    return run


def measure_columns(
    scores: PathLike, examples: BenchmarkInput, *, out: PathLike | None = None, **options: Any
) -> Runs:
    """Metrics of every score in a file that holds several for each example.

    TIFA160's file holds the scores of ten metrics beside people's ratings. A run is named by
    `FILE@SCORE`, which `measure`, `compare` and `rank` take as well.

    Args:
        scores: the file.
        examples: as in `measure`.
        out: a run folder to write, for all.
        options: as in `measure`.

    Raises:
        InputError: as in `measure`.

    Example:
        >>> import json
        >>> from pathlib import Path
        >>> import contrapose as cp
        >>> rows = {f"image {i}": {"rating": i % 5, "a": i, "b": -i} for i in range(50)}
        >>> _ = Path("rated.json").write_text(json.dumps(rows))
        >>> runs = cp.measure_columns("rated.json", "tifa160", partial=True)
        >>> [run.metrics["kendall"].value > 0 for run in runs]
        [True, False]
    """
    return measure_files([scores], examples, out=out, **options)


def _list_scores(file: Path) -> list[Path]:
    """Scores of a file: the file, or `FILE@SCORE` for each of several."""
    return [Path(f"{file}@{column}") for column in list_columns(file)] or [file]


def measure_files(
    scores: Sequence[PathLike],
    examples: BenchmarkInput,
    *,
    prior: PathLike | None = None,
    out: PathLike | None = None,
    overwrite: bool = False,
    **options: Any,
) -> Runs:
    """Metrics of several score files of one benchmark, with the options of `measure`.

    Args:
        scores: the files; of one with several scores for each example, each is measured.
        examples: as in `measure`.
        prior: of one file alone.
        out: one run folder for all.
        overwrite: let `out` take the place of an earlier run.
        options: of `measure`.

    Raises:
        InputError: as `measure` does, or a prior is given for several files.
    """
    if prior is not None and len(scores) > 1:
        raise InputError(
            f"{option('prior')} belongs to the captions of one file: measure the "
            f"{len(scores)} files of {option('scores')} one by one."
        )
    target = one_path(out)
    if target is not None:
        Runs.require_target(target, overwrite=overwrite)
    files = [path for file in scores for path in _list_scores(local_path(file))]
    runs = Runs(measure(file, examples, prior=prior, **options) for file in files)
    if len(runs) > 1:
        names = _file_names(files)
        runs = Runs(_name_run(run, name) for run, name in zip(runs, names, strict=True))
    if target is not None:
        runs.save(target, overwrite=overwrite)
    return runs


def _file_names(files: Sequence[Path]) -> list[str]:
    """Names of score files, distinct: the stem, or as much of the path as tells them apart."""
    columns = [split_column(file)[1] for file in files]
    if len({name for name in columns if name}) == len(files):
        return [str(name) for name in columns]
    for parts in range(1, max(len(file.parts) for file in files) + 1):
        names = [
            "/".join((*file.parts[-parts:-1], file.name if column else file.stem))
            for file, column in zip(files, columns, strict=True)
        ]
        if len(set(names)) == len(names):
            return names
    raise InputError(f"{option('scores')} names one file twice.")


def _name_run(run: Run, name: str) -> Run:
    results = run.results.model_copy(update={"model": name})
    return Run(replace(run.record, results=results))


def _tag_files(tags: Mapping[str, PathLike] | Words) -> Iterable[tuple[str, Path]]:
    """Names and files of tags; a file without a name is called as its stem is."""
    if isinstance(tags, Mapping):
        yield from ((name, Path(file)) for name, file in tags.items())
        return
    for text in list_words(tags):
        name, equals, file = text.partition("=")
        path = Path(file if equals else text)
        yield (name if equals else path.stem.removesuffix("_tags")), path
