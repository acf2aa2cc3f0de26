"""Groups of options that several verbs share, each taken as one argument.

A verb that takes a group has an argument of the group's class, and `take_options` below the
decorator of its command. The panels of the help, and the order in them, are in `cli/help.py`.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence
from dataclasses import MISSING, dataclass, fields
from enum import Enum
from functools import wraps
from inspect import Parameter, Signature, signature
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal, get_type_hints

import typer

from contrapose.cli import options
from contrapose.cli.console import (
    echo_json,
    output_console,
    say_written,
    show,
    show_as,
    show_progress,
)

if TYPE_CHECKING:
    from contextlib import AbstractContextManager

    from contrapose.engine import Progress
    from contrapose.report import Table


@dataclass(frozen=True, kw_only=True)
class OptionGroup:
    """Options that several verbs share: every field is one option of the command line."""

    LOCAL: ClassVar[frozenset[str]] = frozenset()
    """Fields that are no arguments of the API."""

    def arguments(self) -> dict[str, Any]:
        """Arguments of the API's function, by name."""
        values = {one.name: getattr(self, one.name) for one in fields(self)}
        return {
            name: value.value if isinstance(value, Enum) else value
            for name, value in values.items()
            if name not in self.LOCAL
        }

    @classmethod
    def parameters(cls) -> list[Parameter]:
        """Parameters of a command, one for each field."""
        hints = get_type_hints(cls, include_extras=True)
        return [
            Parameter(
                one.name,
                Parameter.KEYWORD_ONLY,
                default=Parameter.empty if one.default is MISSING else one.default,
                annotation=hints[one.name],
            )
            for one in fields(cls)
        ]


def take_options(verb: Callable[..., None]) -> Callable[..., None]:
    """Let a verb take groups: each field of an argument of a group's class becomes an option."""
    hints = get_type_hints(verb, include_extras=True)
    groups: dict[str, type[OptionGroup]] = {}
    parameters: list[Parameter] = []
    for name, parameter in signature(verb).parameters.items():
        kind = hints[name]
        if isinstance(kind, type) and issubclass(kind, OptionGroup):
            groups[name] = kind
            parameters += kind.parameters()
        else:
            parameters.append(parameter.replace(kind=Parameter.KEYWORD_ONLY, annotation=kind))

    @wraps(verb)
    def call(**given: Any) -> None:
        for name, kind in groups.items():
            given[name] = kind(**{one.name: given.pop(one.name) for one in fields(kind)})
        verb(**given)

    call.__signature__ = Signature(parameters)  # type: ignore[attr-defined]
    call.__annotations__ = {one.name: one.annotation for one in parameters}
    return call


@dataclass(frozen=True, kw_only=True)
class SelectionOptions(OptionGroup):
    """Choice of a benchmark's examples."""

    root: options.Root = None
    subset: options.Subset = None
    limit: options.Limit = None
    offline: options.Offline = False

    def arguments(self) -> dict[str, Any]:
        """Arguments of the API's function; subsets may be separated by commas."""
        return super().arguments() | {"subset": options.words_option(self.subset)}


@dataclass(frozen=True, kw_only=True)
class IncludeOptions(OptionGroup):
    """The user's Python files, which run as soon as the options are read."""

    LOCAL = frozenset({"include"})

    include: options.Include = None

    def __post_init__(self) -> None:
        from contrapose.files import include

        for file in self.include or ():
            include(file)


@dataclass(frozen=True, kw_only=True)
class ModelOptions(IncludeOptions):
    """Loading of a model."""

    device: options.Device = "auto"
    dtype: options.Dtype = None
    trust_remote_code: options.TrustRemoteCode = False


@dataclass(frozen=True, kw_only=True)
class CacheOptions(OptionGroup):
    """Store of scores, vectors and replies."""

    cache: options.Cache = None
    no_cache: options.NoCache = False

    def arguments(self) -> dict[str, Any]:
        """Arguments of the API's function, for which no cache is False.

        Raises:
            InputError: both a folder and none.
        """
        values = super().arguments() | {"cache": options.cache_option(self.cache, self.no_cache)}
        del values["no_cache"]
        return values


@dataclass(frozen=True, kw_only=True)
class RunOptions(CacheOptions, ModelOptions):
    """Scoring of a benchmark by models, as eval, audit and diagnose do it."""

    batch_size: options.BatchSize = None
    cache_use: options.CacheUseOption = options.CacheUse.reuse


@dataclass(frozen=True, kw_only=True)
class StatisticsOptions(OptionGroup):
    """Bootstrap and seed."""

    resamples: options.Resamples = 10_000
    seed: options.Seed = 0


@dataclass(frozen=True, kw_only=True)
class ComparisonOptions(StatisticsOptions):
    """Paired tests of runs, as compare and rank do them."""

    on: Annotated[
        str | None,
        typer.Option(help="The benchmark, where the files do not tell: a name, or your own file."),
    ] = None
    root: Annotated[
        Path | None, typer.Option(help="The benchmark's folder, for clusters by image.")
    ] = None
    test: Annotated[
        Literal["midp", "exact"], typer.Option(help="Which of McNemar's tests for 0/1 outcomes.")
    ] = "midp"
    level: Annotated[
        float, typer.Option(min=0.0, max=1.0, help="Significance level, after Holm's correction.")
    ] = 0.05
    protocol: Annotated[Literal["strict", "official"], typer.Option(help="As in metrics.")] = (
        "strict"
    )
    threshold: Annotated[float | None, typer.Option(help="As in metrics.")] = None


def dump_json(value: object) -> str:
    """JSON of a manifest or report, for people and programs to read."""
    return json.dumps(value, indent=2, ensure_ascii=False)


@dataclass(frozen=True, kw_only=True)
class PrintOptions(OptionGroup):
    """Printing of a result: as tables, or as JSON."""

    LOCAL = frozenset({"as_json", "form", "quiet"})

    as_json: options.AsJson = False

    def show(
        self,
        to_json: Callable[[], str],
        tables: Callable[[], Sequence[Table | str]],
        rows: Callable[[], Iterable[Any]] | None = None,
    ) -> None:
        """Print a result in the form that was asked for; only that form is made.

        Args:
            to_json: the result as JSON.
            tables: tables and sentences.
            rows: the values for CSV.
        """
        if self.as_json:
            echo_json(to_json())
        else:
            show(output_console(), tables())


@dataclass(frozen=True, kw_only=True)
class FormatOptions(PrintOptions):
    """Printing of a result: as tables of a terminal or a document, as CSV or as JSON."""

    form: options.Format = None

    def __post_init__(self) -> None:
        options.require_one_format(self.as_json, self.form)

    def show(
        self,
        to_json: Callable[[], str],
        tables: Callable[[], Sequence[Table | str]],
        rows: Callable[[], Iterable[Any]] | None = None,
    ) -> None:
        """Print a result in the form that was asked for; only that form is made."""
        if self.as_json:
            echo_json(to_json())
        else:
            show_as(self.form, tables(), rows or (lambda: ()))


@dataclass(frozen=True, kw_only=True)
class OutputOptions(PrintOptions):
    """Printing and progress."""

    quiet: options.Quiet = False

    def show_progress(self) -> AbstractContextManager[Progress | None]:
        """Progress callback of the API; None when quiet."""
        return show_progress(quiet=self.quiet)

    def say_written(self, out: Path | None) -> None:
        """Say on standard error what was written, if anything was."""
        say_written(out, quiet=self.quiet)


@dataclass(frozen=True, kw_only=True)
class WriteOptions(OutputOptions):
    """Printing, progress, and whether an earlier result is replaced."""

    overwrite: options.Overwrite = False


@dataclass(frozen=True, kw_only=True)
class ResultOptions(FormatOptions, WriteOptions):
    """Printing and writing of measurements."""


@dataclass(frozen=True, kw_only=True)
class BuildOptions(WriteOptions):
    """Printing and writing of what is built, or of the plan alone."""

    dry_run: options.DryRun = False


@dataclass(frozen=True, kw_only=True)
class IndexOptions(ModelOptions):
    """An index to search, its model, and texts of the fusion `basic`."""

    model: options.IndexModel = None
    subjects: options.Subjects = None
    styles: options.Styles = None

    def arguments(self) -> dict[str, Any]:
        """Arguments of the API's function, with the texts of both files."""
        from contrapose.engine.corpora import read_texts

        files = {"subjects": self.subjects, "styles": self.styles}
        texts = {name: None if one is None else read_texts(one) for name, one in files.items()}
        return super().arguments() | texts
