"""`audit`: how much of a benchmark is solved without its images."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from contrapose.api.inputs import (
    BenchmarkInput,
    Cache,
    PathLike,
    Words,
    list_words,
    one_benchmark,
    one_path,
    require_at_least,
    require_report_folder,
    scoring_options,
)
from contrapose.engine import Progress, parse_prior
from contrapose.evaluation.audit import AuditRequest, audit_examples
from contrapose.files import new_folder, write_text
from contrapose.results.schema import AuditReport

if TYPE_CHECKING:
    from contrapose.engine import Prior

RESULTS, REPORT = "audit.json", "report.html"


def audit(
    benchmark: BenchmarkInput,
    *,
    model: Words = None,
    lm: str | None = None,
    root: PathLike | None = None,
    subset: Words = None,
    limit: int | None = None,
    sample: int | None = None,
    prior: Prior | str = "noise:3",
    ngram_corpus: PathLike | None = None,
    likelihoods: PathLike | None = None,
    device: str = "auto",
    dtype: str | None = None,
    batch_size: int | None = None,
    cache: Cache = True,
    cache_use: Literal["reuse", "refresh", "only"] = "reuse",
    trust_remote_code: bool = False,
    out: PathLike | None = None,
    overwrite: bool = False,
    resamples: int = 10_000,
    seed: int = 0,
    offline: bool = False,
    progress: Progress | None = None,
) -> AuditReport:
    """Solve a benchmark without its images: by a language model, priors, length and n-grams.

    Args:
        benchmark: its name, your file, a benchmark, or a list of `Example`s.
        model: captioners whose prior is taken, under `prior`.
        lm: the blind language model: `lm:smollm2`, `lm:ORG/NAME`, `lm:FOLDER`, or `none`; None
            takes `lm:smollm2` where it is installed.
        root: the benchmark's folder; no images are needed. None takes the cache, into which
            annotations are fetched.
        subset: parts of a suite, or values of the tag `subset`.
        limit: at most so many examples of each subset, the first ones.
        sample: at most so many examples of each subset, drawn at random.
        prior: the images of a captioner's prior: `noise:3`, or `images:DIR[:COUNT]`.
        ngram_corpus: captions to fit the n-gram model to, a line each; None takes the benchmark's
            own, cross-fitted.
        likelihoods: a captioner's scores under the images, to compare with.
        device: where models compute.
        dtype: `fp32`, `bf16` or `fp16`.
        batch_size: captions at once; None finds it.
        cache: as in `evaluate`.
        cache_use: as in `evaluate`.
        trust_remote_code: run code that comes with the weights.
        out: a folder for `audit.json` and `report.html`.
        overwrite: let `out` take the place of an earlier audit.
        resamples: of the bootstrap.
        seed: of everything random.
        offline: fetch nothing: without `root` the benchmark must be in the cache.
        progress: called with a description, what is done and what there is to do.

    Raises:
        InputError: there is no such benchmark, or it has no choice among captions.

    Example:
        >>> import contrapose as cp
        >>> report = cp.audit("scenes-skewed/replace-color", lm="none", limit=20)
        >>> [score.score for score in report.scores]
        ['ngram', 'length']
    """
    from contrapose.models.names import DEFAULT_LANGUAGE_MODEL

    shared = scoring_options(
        root=root, subset=subset, limit=limit, device=device, dtype=dtype,
        batch_size=batch_size, cache=cache, cache_use=cache_use,
        trust_remote_code=trust_remote_code, resamples=resamples, seed=seed,
        offline=offline,
    )  # fmt: skip
    require_at_least(1, sample=sample)
    request = AuditRequest(
        benchmark=one_benchmark(benchmark),
        models=list_words(model),
        lm=None if lm == "none" else lm or DEFAULT_LANGUAGE_MODEL,
        lm_needed=lm is not None,
        sample=sample,
        prior=parse_prior(prior, seed=seed) if isinstance(prior, str) else prior,
        ngram_corpus=one_path(ngram_corpus),
        likelihoods=one_path(likelihoods),
        **shared,
    )
    target = one_path(out)
    if target is not None:
        require_report_folder(target, RESULTS, "audit", overwrite=overwrite)
    report, records = audit_examples(request, progress=progress)
    if target is not None:
        from contrapose.report.audit import build_audit_page

        with new_folder(target, overwrite=overwrite) as folder:
            write_text(folder / RESULTS, report.model_dump_json(indent=2) + "\n")
            build_audit_page(report, records).write(folder / REPORT)
    return report


def _render_html(report: AuditReport) -> str:
    from contrapose.api.display import render_parts
    from contrapose.report.audit import audit_tables

    return render_parts(audit_tables(report))


AuditReport.render_html = _render_html
