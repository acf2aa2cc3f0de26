"""`diagnose`: explain failures by words, regions, and both."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Literal

from contrapose.api.inputs import (
    BenchmarkInput,
    Cache,
    ModelLike,
    PathLike,
    Words,
    list_models,
    one_benchmark,
    one_path,
    require_choice,
    scoring_options,
)
from contrapose.errors import InputError, option

if TYPE_CHECKING:
    from contrapose.diagnose.model_diagnosis import DiagnosisRun
    from contrapose.engine import Progress

SIDES = ("text", "image", "mutual", "all")
PLAYERS = ("groups", "words", "superpixels")
TAGGERS = ("textblob", "spacy")
REPORT = "report.html"


def diagnose(
    models: ModelLike | Iterable[ModelLike],
    on: BenchmarkInput,
    *,
    side: Literal["text", "image", "mutual", "all"] | None = None,
    players: Literal["groups", "words", "superpixels"] = "groups",
    baseline: str | None = None,
    score: str | None = None,
    root: PathLike | None = None,
    subset: Words = None,
    limit: int | None = None,
    groups: PathLike | None = None,
    regions: PathLike | None = None,
    superpixels: int | None = None,
    tagger: Literal["textblob", "spacy"] = "textblob",
    preset: str | None = None,
    device: str = "auto",
    dtype: str | None = None,
    batch_size: int | None = None,
    workers: int | None = None,
    cache: Cache = True,
    cache_use: Literal["reuse", "refresh", "only"] = "reuse",
    trust_remote_code: bool = False,
    out: PathLike | None = None,
    overwrite: bool = False,
    resamples: int = 10_000,
    seed: int = 0,
    offline: bool = False,
    progress: Progress | None = None,
) -> DiagnosisRun:
    """Hide words and regions, and see what a model reacts to when captions or images change.

    Args:
        models: a model string or a loaded model, or several.
        on: a benchmark's name, your file, a benchmark, or a list of `Example`s.
        side: words of two captions (`text`), regions of two images (`image`), both at once
            (`mutual`), or `all`; None is `all` where there are regions, else `text`.
        players: word groups and objects, every word by itself, or patches of the image.
        baseline: what stands in place of hidden words (`zero`, `pad`, `mask`, `delete`) and
            regions (`zero`, `mean`, `blur`, `noise`): a name, or one of each, as `delete,blur`.
        score: `itc`, `itm`, `lm` or `vqa`; None takes the first that the model gives.
        root: the benchmark's folder; None takes the cache, into which missing files are fetched.
        subset: parts of a suite, or values of the tag `subset`.
        limit: at most so many examples of each subset.
        groups: your own word groups, a `.jsonl` file with id, caption and spans.
        regions: your own regions, a `.jsonl` file or a folder of masks.
        superpixels: how many, where they are the players; None is 8.
        tagger: parts of speech of captions that follow no template.
        preset: `released` does as the authors' script of the text side.
        device: where models compute.
        dtype: `fp32`, `bf16` or `fp16`.
        batch_size: images, captions or pairs at once; None finds it.
        workers: threads that decode images; None is one a core.
        cache: as in `evaluate`.
        cache_use: as in `evaluate`.
        trust_remote_code: run code that comes with the weights.
        out: a folder for `diagnosis.json`, tables of examples and `report.html`.
        overwrite: let `out` take the place of an earlier diagnosis.
        resamples: of the bootstrap.
        seed: of everything random.
        offline: fetch nothing: without `root` the benchmark must be in the cache.
        progress: called with a description, what is done and what there is to do.

    Returns:
        `report` has the findings; `models` the games of each model.

    Raises:
        InputError: an unknown name, a file that cannot be used, a score or a baseline that a model
            has not, or no example with players.

    Example:
        >>> import contrapose as cp
        >>> run = cp.diagnose("tiny-clip", on="scenes", subset="swap-relation", limit=4,
        ...     side="text")
        >>> run.report.examples
        4
    """
    from contrapose.diagnose.model_diagnosis import (
        DiagnosisRun,
        require_diagnosis_folder,
        write_diagnosis,
    )
    from contrapose.diagnose.regions import DEFAULT_SUPERPIXELS
    from contrapose.diagnose.run import DiagnoseRequest, choose_baseline, diagnose_models

    shared = scoring_options(
        root=root, subset=subset, limit=limit, device=device, dtype=dtype,
        batch_size=batch_size, workers=workers, cache=cache, cache_use=cache_use,
        trust_remote_code=trust_remote_code, resamples=resamples, seed=seed,
        offline=offline,
    )  # fmt: skip
    require_superpixels(superpixels, players)
    request = DiagnoseRequest(
        benchmark=one_benchmark(on),
        side=require_choice("side", side, SIDES),
        players=require_choice("players", players, PLAYERS),
        superpixels=DEFAULT_SUPERPIXELS if superpixels is None else superpixels,
        baseline=choose_baseline(baseline, preset, seed),
        score=score,
        groups=one_path(groups),
        regions=one_path(regions),
        tagger=require_choice("tagger", tagger, TAGGERS),
        preset=preset,
        **shared,
    )
    chosen, _ = list_models(models)
    target = one_path(out)
    if target is not None:
        require_diagnosis_folder(target, overwrite=overwrite)
    run = diagnose_models(chosen, request, progress=progress)
    DiagnosisRun.render_html = _render_html
    if target is not None:
        from contrapose.report.html.diagnosis import build_diagnosis_page

        beside = build_diagnosis_page(run).named(REPORT)
        write_diagnosis(run, target, overwrite=overwrite, beside=beside)
    return run


def require_superpixels(superpixels: int | None, players: str) -> None:
    """Refuse a number of superpixels where they do not play.

    Raises:
        InputError: says what to pass.
    """
    if superpixels is not None and players != "superpixels":
        raise InputError(
            f"{option('superpixels')} says how many: pass {option('players', 'superpixels')} too."
        )


def _render_html(run: DiagnosisRun) -> str:
    from contrapose.api.display import render_parts
    from contrapose.report.diagnosis import diagnosis_tables

    return render_parts(diagnosis_tables(run.report))
