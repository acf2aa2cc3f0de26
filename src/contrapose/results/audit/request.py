"""What an audit is asked to do."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from contrapose.results.evaluate import RESAMPLES
from contrapose.scoring import Noise, Policy, Prior


@dataclass(frozen=True, slots=True)
class AuditRequest:
    """What the user asked; the options of `contrapose audit` by the same names.

    Attributes:
        benchmark: a name as `find_benchmark` knows it.
        models: captioners whose own prior is taken.
        lm: the blind language model; None for none.
        lm_needed: whether it is an error when that one cannot be loaded, or only a note.
        root: the benchmark's folder.
        subsets: parts of a suite or values of the tag `subset`; none means all.
        limit: at most so many examples of each subset, the first ones.
        sample: at most so many examples of each subset, drawn at random.
        prior: the images of the captioners' prior.
        ngram_corpus: captions to fit the n-gram model to, a line each; None takes the benchmark's
            own, cross-fitted.
        likelihoods: a captioner's scores under the images, to compare with.
        device: where models compute.
        dtype: what they compute in; None is as the model's name says.
        batch_size: None takes each model's suggestion.
        cache: where answers are kept; None keeps them in memory alone.
        ask: what to do with what the cache knows.
        trust_remote_code: run code that comes with a model's weights.
        resamples: of the bootstrap.
        seed: of everything random.
    """

    benchmark: str
    models: tuple[str, ...] = ()
    lm: str | None = None
    lm_needed: bool = True
    root: Path | None = None
    subsets: tuple[str, ...] = ()
    limit: int | None = None
    sample: int | None = None
    prior: Prior = field(default_factory=Noise)
    ngram_corpus: Path | None = None
    likelihoods: Path | None = None
    device: str = "auto"
    dtype: str | None = None
    batch_size: int | None = None
    cache: Path | str | None = None
    ask: Policy = "missing"
    trust_remote_code: bool = False
    resamples: int = RESAMPLES
    seed: int = 0
