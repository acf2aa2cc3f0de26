"""How a score was asked: what makes it this number and not another, for results and for people."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from contrapose.results.outcomes import DEBIASED
from contrapose.results.schema import AlphaReport
from contrapose.scoring import SCORES, Asking, prior_words
from contrapose.scoring.scores import stored_as


def identity(asking: Asking, score: str, alphas: Iterable[AlphaReport]) -> dict[str, Any]:
    """What the score is called in the store, and the images of its prior."""
    base = DEBIASED.get(score, "lm" if score == "prior" else score)
    found: dict[str, Any] = {}
    if base in SCORES:
        found["stored_as"] = stored_as(asking.model, base, asking.question)
    prior = _prior(asking, score, alphas)
    return {**found, "prior": prior} if prior else found


def remarks(asking: Asking, score: str, alphas: Iterable[AlphaReport]) -> tuple[str, ...]:
    """What a reader should know of how the score was asked."""
    found = []
    if DEBIASED.get(score, score) == "vqa":
        asked = asking.question
        found.append(f"vqa is log P({asked.answer!r}) after the question {asked.text!r}")
    prior = _prior(asking, score, alphas)
    return (*found, f"the prior is under {prior}") if prior else tuple(found)


def _prior(asking: Asking, score: str, alphas: Iterable[AlphaReport]) -> str:
    """The images of the prior in words, each part's; empty where there is none."""
    if score == "prior":
        return prior_words(asking.prior, asking.model)
    return "; ".join(dict.fromkeys(alpha.prior for alpha in alphas))
