"""`evaluate`: score models on benchmarks."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Literal

from contrapose.api.inputs import (
    BenchmarkInput,
    Cache,
    ModelLike,
    PathLike,
    Words,
    list_benchmarks,
    list_models,
    list_words,
    one_model,
    one_path,
    parse_alpha,
    require_choice,
    scoring_options,
)
from contrapose.api.runs import Run, Runs
from contrapose.data.video_clips import parse_frames
from contrapose.engine import (
    Progress,
    parse_prior,
    parse_question_template,
    parse_shard,
    shard_device,
)
from contrapose.errors import InputError, option
from contrapose.evaluation.evaluate import evaluate_models
from contrapose.evaluation.parts import EvalRequest
from contrapose.files import parse_count

if TYPE_CHECKING:
    from pathlib import Path

    from contrapose.engine import Prior
    from contrapose.models import Model

DEFAULT_PRIOR = "noise:3"


def evaluate(
    models: ModelLike | Iterable[ModelLike],
    on: BenchmarkInput | Iterable[BenchmarkInput],
    *,
    score: Words = None,
    root: PathLike | None = None,
    subset: Words = None,
    limit: int | None = None,
    device: str = "auto",
    dtype: str | None = None,
    batch_size: int | None = None,
    workers: int | None = None,
    cache: Cache = True,
    cache_use: Literal["reuse", "refresh", "only"] = "reuse",
    strict: bool = False,
    common: bool = False,
    long: Literal["skip", "cut"] = "skip",
    rerank: int | str | None = None,
    trust_remote_code: bool = False,
    prior: Prior | str | None = None,
    alpha: float | str | None = None,
    question: str | None = None,
    answer: str | None = None,
    prompt: str | None = None,
    oracle: ModelLike | None = None,
    protocol: Literal["strict", "official"] = "strict",
    frames: int | str | None = None,
    shard: str | tuple[int, int] | None = None,
    merge: bool = False,
    engine: Literal["local", "ray"] = "local",
    out: PathLike | None = None,
    overwrite: bool = False,
    resamples: int = 10_000,
    seed: int = 0,
    offline: bool = False,
    progress: Progress | None = None,
) -> Run | Runs:
    """Score models on benchmarks: metrics with intervals, chance and ties.

    Args:
        models: a model string, a loaded model, a function `f(image, text) -> float`, or several.
        on: a benchmark's name, your file, a benchmark, a list of `Example`s, a gallery, or several
            of these.
        score: `itc`, `itm`, `lm`, `vqa`, `prior`, `blind`, `chat`, a fusion of composed or edit
            queries such as `itc:sum` or `itc:delta`, or several; None takes all that a model gives
            and that see the image, without `chat`.
        root: the benchmark's folder, or one with a folder of each benchmark's name; None takes the
            cache, into which files that are missing are fetched.
        subset: parts of a suite, or values of the tag `subset`.
        limit: at most so many examples of each subset.
        device: where models compute; `auto` takes CUDA where there is some.
        dtype: `fp32`, `bf16` or `fp16`.
        batch_size: images, captions or pairs at once; None finds it.
        workers: threads that decode images, None is one a core; or workers of Ray.
        cache: where scores are stored: a folder or URL; True is the user's cache folder, False
            stores nothing. The scores of a function are never stored.
        cache_use: `reuse` stored scores, `refresh` them, or use `only` them.
        strict: refuse to skip examples.
        common: measure every model on the examples, images and captions that none of them skipped.
        long: `skip` captions that are longer than a model reads, or `cut` them.
        rerank: in galleries `itm` and `lm` rank the so many captions of highest `itc`; `all` ranks
            every one; None decides by the gallery's size.
        trust_remote_code: run code that comes with the weights.
        prior: also report `lm` and `vqa` without this prior, as `lm-alpha` and `vqa-alpha`:
            `noise:3`, `images:DIR[:COUNT]` or `gallery[:COUNT]`.
        alpha: how much of the prior: a number from 0 to 1, or `auto`.
        question: what `vqa` asks; `{}` stands for the caption.
        answer: the answer whose probability `vqa` is; None is Yes.
        prompt: the text between image and caption of `lm`, for chat models; None takes the
            model's own. It is part of the score's name in the store.
        oracle: who decides whether an image fits the target of an edit query: a model with `itm`,
            `vqa` or `itc`, or a `.npy` file of probabilities, images × captions; None is the
            benchmark's own.
        protocol: `strict`, where ties are never wins, or `official`, as each benchmark's own script
            counts; the strict figures then stand beside its.
        frames: frames of each video of a benchmark of videos; `8:mean` scores every frame by
            itself also where a model reads several at once. None takes the benchmark's own.
        shard: score this share alone, into `cache`, and measure nothing: `(2, 8)` or `"2/8"`,
            counted from 1, or `auto`, which reads the variables of torchrun or Slurm. A later call
            without it measures, and scores what no shard did.
        merge: measure what shards have scored into `cache`, and score nothing: where scores are
            missing, the error names the shards that lack them.
        engine: `local`, or `ray`, on whose workers the model scores, into `cache`.
        out: a run folder to write.
        overwrite: let `out` take the place of an earlier run.
        resamples: of the bootstrap.
        seed: of everything random.
        offline: fetch nothing: without `root` the benchmark must be in the cache.
        progress: called with a description, what is done and what there is to do.

    Returns:
        A `Run`; `Runs`, in the order of models, benchmarks and scores, where there are several or
        where lists were given. Of a shard `Runs` without any, whose `shard` says what was scored.

    Raises:
        InputError: an unknown name, a score that a model cannot give, or nothing to ask.

    Example:
        >>> import contrapose as cp
        >>> def brightness(image, text):
        ...     return sum(image.resize((1, 1)).getpixel((0, 0))) * ("bright" in text)
        >>> run = cp.evaluate(brightness, on="scenes/replace-color", limit=10)
        >>> run.model, run.score, run.results.examples
        ('brightness', 'itm', 10)
    """
    chosen, several_models = list_models(models)
    benchmarks, several_benchmarks = list_benchmarks(on)
    shared = scoring_options(
        root=root, subset=subset, limit=limit, dtype=dtype,
        device=shard_device(device) if shard == "auto" else device,
        batch_size=batch_size, workers=workers, cache=cache, cache_use=cache_use,
        trust_remote_code=trust_remote_code, resamples=resamples, seed=seed,
        offline=offline,
    )  # fmt: skip
    if prior is None and alpha is not None:
        prior = DEFAULT_PRIOR
    request = EvalRequest(
        benchmarks=benchmarks,
        scores=list_words(score),
        strict=strict,
        common=common,
        long=require_choice("long", long, ("skip", "cut")),
        rerank=_parse_rerank(rerank),
        prior=parse_prior(prior, seed=seed) if isinstance(prior, str) else prior,
        alpha=parse_alpha(alpha, prior=prior is not None),
        question=parse_question_template(question, answer),
        prompt=prompt,
        oracle=None if oracle is None else one_model(oracle),
        protocol=require_choice("protocol", protocol, ("strict", "official")),
        tokens=True,
        frames=None if frames is None else parse_frames(frames),
        shard=parse_shard(shard),
        merge=merge,
        engine=require_choice("engine", engine, ("local", "ray")),
        **shared,
    )
    target = one_path(out)
    if request.shard is not None:
        return _score_shard(chosen, request, target, progress)
    if target is not None:
        Runs.require_target(target, overwrite=overwrite)
    records = evaluate_models(chosen, request, progress=progress)
    runs = Runs(Run(record) for record in records)
    if target is not None:
        runs.save(target, overwrite=overwrite, progress=progress)
    several = several_models or several_benchmarks or not (score is None or isinstance(score, str))
    return runs if several or len(runs) != 1 else runs[0]


def _score_shard(
    models: Sequence[str | Model],
    request: EvalRequest,
    target: Path | None,
    progress: Progress | None,
) -> Runs:
    """Score the share of a shard.

    Raises:
        InputError: a run folder is to be written, or there is no shared store.
    """
    if target is not None:
        raise InputError(
            f"a shard measures nothing and writes no run folder; leave out {option('out')}, and "
            "give it to the run that makes the table."
        )
    evaluate_models(models, request, progress=progress)
    return Runs(shard=None if request.shard is None else request.shard.report())


def _parse_rerank(rerank: int | str | None) -> int | None:
    """Number of candidates to rerank per query; 0 for all, None when left out."""
    if rerank is None or isinstance(rerank, int):
        return rerank
    if rerank == "all":
        return 0
    number = parse_count(rerank)
    if number is None:
        raise InputError(f"{option('rerank')} must be a number or all, found {rerank!r}.")
    return number
