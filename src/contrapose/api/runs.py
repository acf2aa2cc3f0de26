"""Runs: the scores, outcomes and metrics of models on benchmarks, in memory and on disk."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, overload

import numpy as np

from contrapose.errors import InputError, MissingExtraError
from contrapose.files import local_path
from contrapose.results.schema import MetricValue, Results
from contrapose.results.tables import RunRecord

if TYPE_CHECKING:
    from contrapose.api.inputs import PathLike
    from contrapose.engine import Progress, ShardReport


class Plot:
    """Plot as SVG, which a notebook shows.

    Attributes:
        svg: the drawing, with its own style sheet.
    """

    def __init__(self, svg: str):
        self.svg = svg

    def _repr_svg_(self) -> str:
        return self.svg

    def save(self, path: PathLike) -> None:
        """Write the drawing to a `.svg` file."""
        from contrapose.files import write_text

        write_text(Path(path), self.svg + "\n")


class Run:
    """Run: one model on one benchmark with one score.

    A notebook shows its tables. `results` has everything that is reported, as `results.json` does.

    Attributes:
        record: scores, outcomes and results as they are written to disk.
    """

    def __init__(self, record: RunRecord):
        self.record = record

    @property
    def results(self) -> Results:
        """Everything that is reported."""
        return self.record.results

    @property
    def model(self) -> str | None:
        """Name of the model; None where the scores were given."""
        return self.results.model

    @property
    def benchmark(self) -> str:
        """Name of the benchmark."""
        return self.results.benchmark

    @property
    def score(self) -> str | None:
        """Name of the score, such as `itc`; None where the scores were given."""
        return self.results.score

    @property
    def metrics(self) -> dict[str, MetricValue]:
        """Headline metrics by name: `.value`, `.ci95`, `.n`, `.chance` and `.ties`."""
        return self.results.metrics

    @property
    def subsets(self) -> dict[str, dict[str, MetricValue]]:
        """Metrics of every part or subset."""
        return self.results.subsets

    def examples(self) -> list[dict[str, Any]]:
        """Every example: `id`, `tags`, `captions`, `scores` (images × captions) and `outcomes`.

        Captions are None where they are not known, scores where units are queries of a gallery, an
        outcome where a metric is not defined.
        """
        record = self.record
        captions = {name: case.texts for name, case in record.cases.items()} or record.captions
        measured = record.measured
        matrices = _score_matrices(record)
        rows = []
        for i, name in enumerate(measured.ids):
            outcomes = {
                metric: float(measure.values[i]) if measure.where[i] else None
                for metric, measure in measured.measures.items()
                if measure.shown
            }
            tags = {tag: values[i] for tag, values in measured.tags.items()}
            rows.append(
                {
                    "id": name,
                    "tags": tags,
                    "captions": captions.get(name),
                    "scores": matrices.get(name),
                    "outcomes": outcomes,
                }
            )
        return rows

    def to_frame(self, of: Literal["metrics", "examples"] = "metrics") -> Any:
        """Pandas frame: a row for each part and metric, or for each example.

        Raises:
            MissingExtraError: pandas is not installed.
        """
        return Runs((self,)).to_frame(of)

    def plot(self) -> Plot:
        """Plot of the accuracy of every part, with intervals and chance."""
        return Runs((self,)).plot()

    def save(self, folder: PathLike, *, overwrite: bool = False) -> None:
        """Write a run folder: request, scores, examples, results and a report.

        Raises:
            InputError: the folder is taken, and not by a run that may be overwritten.
        """
        Runs((self,)).save(folder, overwrite=overwrite)

    def _repr_html_(self) -> str:
        return Runs((self,))._repr_html_()

    def __iter__(self) -> Iterator[Run]:
        """The run itself, so that one run and several can be gone through alike."""
        yield self

    def __repr__(self) -> str:
        named = " · ".join(filter(None, (self.model or self.results.scores, self.score)))
        values = ", ".join(f"{name} {value.value:.4g}" for name, value in self.metrics.items())
        return f"<Run of {named} on {self.benchmark}: {values}>"

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Run):
            return NotImplemented
        return self.results == other.results and self.examples() == other.examples()

    __hash__ = object.__hash__


class Runs(Sequence[Run]):
    """Several runs, in the order of models, benchmarks and scores.

    Attributes:
        shard: report of a shard, which scores and measures nothing; None otherwise.
    """

    def __init__(self, runs: Iterable[Run] = (), *, shard: ShardReport | None = None):
        self._runs, self.shard = tuple(runs), shard

    @overload
    def __getitem__(self, index: int) -> Run: ...
    @overload
    def __getitem__(self, index: slice) -> Runs: ...
    def __getitem__(self, index: int | slice) -> Run | Runs:
        return Runs(self._runs[index]) if isinstance(index, slice) else self._runs[index]

    def __len__(self) -> int:
        return len(self._runs)

    def __iter__(self) -> Iterator[Run]:
        return iter(self._runs)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Runs) and self._runs == other._runs

    __hash__ = object.__hash__

    def __repr__(self) -> str:
        return "\n".join(map(repr, self._runs)) or str(self.shard or "<no runs>")

    @property
    def results(self) -> list[Results]:
        """Everything that is reported, run by run."""
        return [run.results for run in self._runs]

    def choose(self, *words: str) -> Run:
        """The one run whose model, benchmark or score are these words.

        Raises:
            InputError: none, or more than one, has them.
        """
        from contrapose.results.runs import matches_choice

        fits = [
            run
            for run in self._runs
            if matches_choice((run.model, run.benchmark, run.score), words)
        ]
        if len(fits) != 1:
            names = "; ".join(_run_label(run) for run in self._runs)
            raise InputError(f"{len(fits)} runs are of {', '.join(words)}; there are: {names}.")
        return fits[0]

    def examples(self) -> list[dict[str, Any]]:
        """Every example of every run, as `Run.examples` has it, with the run's names."""
        return [{**_run_names(run), **row} for run in self._runs for row in run.examples()]

    def to_frame(self, of: Literal["metrics", "examples"] = "metrics") -> Any:
        """Pandas frame: a row for each run, part and metric, or for each run and example.

        Raises:
            MissingExtraError: pandas is not installed.
        """
        try:
            import pandas as pd
        except ImportError:
            raise MissingExtraError("pandas", "pandas", "A data frame") from None
        if of == "metrics":
            from contrapose.report.formats import result_rows

            return pd.DataFrame(list(result_rows(self.results)))
        if of != "examples":
            raise InputError(f"a frame is of metrics or of examples, not of {of!r}.")
        return pd.DataFrame([row for run in self._runs for row in _example_rows(run)])

    def plot(self) -> Plot:
        """Plot of the accuracy of every part, with intervals and chance, a series for each run."""
        from contrapose.api.display import draw_accuracies

        return Plot(draw_accuracies(self.results))

    def save(
        self,
        folder: PathLike,
        *,
        overwrite: bool = False,
        progress: Progress | None = None,
    ) -> None:
        """Write one run folder for all: request, scores, examples, results and a report.

        Args:
            folder: to write.
            overwrite: let it take the place of earlier runs.
            progress: called with a description, what is done and what there is to do.

        Raises:
            InputError: the folder is taken, and not by runs that may be overwritten.
        """
        from contrapose.engine.pace import report_phase
        from contrapose.report.html import build_report
        from contrapose.results.runs import REPORT, write_run

        records, target = [run.record for run in self._runs], local_path(folder)

        def build() -> Mapping[str, str | bytes]:
            with report_phase(progress, "building the report"):
                return build_report(records, folder=str(target), progress=progress).named(REPORT)

        with report_phase(progress, f"writing {target}"):
            write_run(records, target, overwrite=overwrite, beside=build)

    @staticmethod
    def require_target(folder: PathLike, *, overwrite: bool = False) -> None:
        """Check, before anything is computed, that runs can be written to this folder.

        Raises:
            InputError: the folder is taken, and not by runs that may be overwritten.
        """
        from contrapose.results.runs import require_run_target

        require_run_target(local_path(folder), overwrite=overwrite)

    def _repr_html_(self) -> str:
        from contrapose.api.display import render_tables

        return render_tables(self.results)


def load_run(folder: PathLike) -> Run:
    """Read back the run that `Run.save`, or `out` of `evaluate` or `measure`, wrote.

    Args:
        folder: a run folder; `FOLDER@tiny,lm` is one of several runs in it.

    Raises:
        InputError: it is no run folder, is damaged, or holds several runs of which none is named.

    Example:
        >>> import contrapose as cp
        >>> run = cp.evaluate("tiny-clip", on="scenes/replace-color", limit=10, out="runs/clip")
        >>> cp.load_run("runs/clip") == run
        True
    """
    from contrapose.results.runs import split_choice

    path, words = split_choice(Path(folder))
    runs = load_runs(path)
    if len(runs) == 1 and not words:
        return runs[0]
    if not words:
        names = "; ".join(_run_label(run) for run in runs)
        raise InputError(f"holds several runs; pass {path}@ and one of: {names}.", file=path)
    return runs.choose(*words)


def load_runs(folder: PathLike) -> Runs:
    """Read back all runs of a folder.

    Raises:
        InputError: it is no run folder, or is damaged.

    Example:
        >>> import contrapose as cp
        >>> runs = cp.evaluate(["tiny", "tiny-clip"], on="scenes/replace-color", score="itc",
        ...     limit=10, out="runs/two")
        >>> [run.model for run in cp.load_runs("runs/two")]
        ['tiny', 'tiny-clip']
    """
    from contrapose.results.runs import is_run, read_runs

    path = local_path(folder)
    if not is_run(path):
        raise InputError("is not a run folder." if path.exists() else "does not exist.", file=path)
    return Runs(Run(record) for record in read_runs(path))


def _run_label(run: Run) -> str:
    return ",".join(filter(None, _run_names(run).values()))


def _run_names(run: Run) -> dict[str, str | None]:
    return {"model": run.model, "benchmark": run.benchmark, "score": run.score}


def _example_rows(run: Run) -> Iterator[dict[str, Any]]:
    for row in run.examples():
        tags = {f"tag_{name}": value for name, value in row["tags"].items()}
        yield {**_run_names(run), "id": row["id"], **tags, **row["outcomes"]}


def _score_matrices(record: RunRecord) -> dict[str, list[list[float | None]]]:
    """Scores of every example as images × captions; None where a pair was not scored."""
    table = record.scores
    if table is None or not set(record.measured.ids) & set(table["example"]):
        return {}
    cells: dict[str, dict[tuple[int, int], float]] = {}
    for name, image, text, value in zip(
        table["example"], table["image"], table["text"], table["value"], strict=True
    ):
        if image is None or text is None or np.isnan(image) or np.isnan(text):
            return {}  # edit queries: images without captions
        cells.setdefault(name, {})[int(image), int(text)] = float(value)
    return {
        name: [
            [values.get((i, j)) for j in range(1 + max(j for _, j in values))]
            for i in range(1 + max(i for i, _ in values))
        ]
        for name, values in cells.items()
    }
