"""Claims of the study of priors and their verdicts, from the kept answers."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from studies.priors_analysis import (
    CEILING,
    GRID,
    PER_TOKEN,
    PRIOR,
    FloatArray,
    Margins,
    StudyAnswers,
    best_log_loss_alpha,
    hits,
    untestable,
)
from studies.priors_scores import TINY
from studies.priors_tests import HELD_OUT, MAIN, SWAPS
from studies.verdict import Claim, Effect, Finding, effect_of, judge, mean_effect

POINT = 0.01
TEMPERED = (0.0, 0.25, 0.5, 0.75, 1.0)
BALANCED = tuple(f"balanced {name}" for name in MAIN)
SKEWED = tuple(f"skewed {name}" for name in MAIN)

# The claims, written before the run. Tables are those of Lin et al. (2024).
LM_OVER_ITC = {
    part.name: Claim(f"`lm` beats `itc` on {part.name}", source="Table 1") for part in SWAPS
}
LM_OVER_ITM = {
    part.name: Claim(f"`lm` beats `itm` on {part.name}", source="Table 1") for part in SWAPS
}
COSTS = {
    name: Claim(f"scenario 1: α = 1 costs on {name}", "below", source="Table 2") for name in SKEWED
}
RAW_IS_BEST = Claim(
    "scenario 1: raw is within a point of cross-validated α", "within", POINT, source="Table 2"
)
HELPS = {
    name: Claim(f"scenario 2: α = 1 helps on {name}", source="Table 3")
    for name in (*BALANCED, "balanced replace-shape", HELD_OUT)
}
TEXT_SCORE = Claim("scenario 2: α = 1 raises the text score of 2 × 2 pairs", source="Table 3")
RETRIEVAL = {
    size: Claim(f"scenario 2: α = 1 raises R@1 among {count} captions", source="Table 3")
    for size, count in (("small", "100"), ("large", "1,000"))
}
CHOSEN = {
    name: Claim(
        f"{name} test: cross-validated α is less than a point below the better of 0 and 1",
        threshold=-POINT, source="Table 1",
    )
    for name in ("balanced", "skewed")
}  # fmt: skip
ALPHA_AS_PREDICTED = Claim(
    "tempered worlds: the best α (log loss, exact prior) is the predicted one",
    "within",
    0.2,
    (1.0, ""),
    "equation 7",
)
NEAR_BEST = Claim(
    "tempered worlds: the predicted α is less than a point below the best accuracy",
    threshold=-POINT, source="equation 7",
)  # fmt: skip
NOISE_IS_ENOUGH = Claim(
    "3 noise images are no worse a prior than 1,000 training images, by a point (text score)",
    threshold=-POINT, source="Table 6",
)  # fmt: skip
OWN_IMAGES = Claim("R@1: the gallery's own images beat noise as the prior", source="Table 7")
CONTROL = {
    name: Claim(
        f"control without a skewed prior: α = 1 changes {name} tests by less than a point",
        "within", POINT, source="equation 7",
    )
    for name in ("balanced", "skewed")
}  # fmt: skip


def gain(margins: Sequence[Margins], alpha: float = 1.0) -> Effect:
    """Accuracy at an α less raw accuracy."""
    return mean_effect([m.right(alpha) for m in margins], [m.right(0.0) for m in margins])


def judge_claims(answers: StudyAnswers) -> list[Finding]:
    """Judge every claim by the rule of `studies/verdict.py`."""
    judged: list[tuple[Claim, Effect | str]] = []
    for part in SWAPS:
        right = [a["right"].astype(np.float64) for a in answers.get(TINY, part.title)]
        for column, claim in ((0, LM_OVER_ITC[part.name]), (1, LM_OVER_ITM[part.name])):
            if min(np.mean([r[:, i].mean() for r in right]) for i in (2, column)) > CEILING:
                judged.append((claim, f"both are above {100 * CEILING:.0f} %"))
            else:
                judged.append((claim, mean_effect([r[:, 2] for r in right],
                                                  [r[:, column] for r in right])))  # fmt: skip
    for name, claim in {**COSTS, **HELPS}.items():
        margins = answers.margins("skewed", [name])
        judged.append((claim, untestable(margins) or gain(margins)))
    for names, name in ((BALANCED, "balanced"), (SKEWED, "skewed")):
        margins = answers.margins("skewed", names)
        chosen = [m.cross_validated()[0] for m in margins]
        raw, all_out = [m.right(0.0) for m in margins], [m.right(1.0) for m in margins]
        better = (
            raw if np.mean(np.concatenate(raw)) >= np.mean(np.concatenate(all_out)) else all_out
        )
        judged.append((CHOSEN[name], mean_effect(chosen, better)))
        if name == "skewed":
            judged.append((RAW_IS_BEST, untestable(margins) or mean_effect(chosen, raw)))
    pairs = answers.margins("skewed", BALANCED)
    judged.append(
        (
            TEXT_SCORE,
            untestable(pairs)
            or mean_effect([m.pair_right(1.0) for m in pairs], [m.pair_right(0.0) for m in pairs]),
        )
    )
    galleries = answers.get("skewed", "gallery")
    for size, claim in RETRIEVAL.items():
        ranks = f"{PRIOR} in {size}"
        judged.append(
            (claim, mean_effect(hits(galleries, ranks, 1.0), hits(galleries, ranks, 0.0)))
        )
    judged += [
        (ALPHA_AS_PREDICTED, alpha_error(answers)),
        (NEAR_BEST, loss_at_predicted(answers)),
    ]
    noise, train = (drawn_text_scores(answers, name) for name in ("noise:3", "train:1000"))
    judged.append((NOISE_IS_ENOUGH, mean_effect(noise, train)))
    own, other = (hits(galleries, f"{name} in large", 1.0) for name in ("gallery", "noise:10"))
    judged.append((OWN_IMAGES, mean_effect(own, other)))
    for names, name in ((BALANCED, "balanced"), (SKEWED, "skewed")):
        judged.append((CONTROL[name], gain(answers.margins("balanced", names))))
    return judge(judged)


def alpha_error(answers: StudyAnswers) -> Effect:
    """Best α (log loss) less the predicted one with the exact prior, mean over tempered worlds.

    Its slope on the predicted α is no test: captions without any evidence give a slope of 1 too,
    but a best α that is too low by 1.
    """
    seeds = [(m.margin, m.prior, m.exact) for m in answers.margins("skewed", BALANCED, "exact")]

    def error(margin: FloatArray, prior: FloatArray, exact: FloatArray) -> float:
        best = [best_log_loss_alpha(margin, prior, exact, a) - a for a in TEMPERED]
        return float(np.mean(best))

    return effect_of(seeds, error, resamples=100)


def loss_at_predicted(answers: StudyAnswers) -> Effect:
    """Accuracy at the predicted α less the best on the grid, mean over tempered worlds."""
    seeds = []
    for margins in answers.margins("skewed", BALANCED, "exact"):
        right = np.stack([margins.images_right(alpha) for alpha in GRID], axis=2)
        odds = np.stack([margins.odds(a) for a in TEMPERED], axis=1)
        seeds.append(((odds @ right).astype(np.float32),))
    predicted = [int(np.abs(GRID - a).argmin()) for a in TEMPERED]

    def loss(accuracy: NDArray[np.float32]) -> float:
        curves = accuracy.mean(axis=0, dtype=np.float64)
        return float(np.mean(curves[range(len(TEMPERED)), predicted] - curves.max(axis=1)))

    return effect_of(seeds, loss, resamples=100)


def drawn_text_scores(
    answers: StudyAnswers, prior: str, alpha: float = 1.0, form: int = PER_TOKEN
) -> list[FloatArray]:
    """Text scores at an α of each seed's examples, mean over draws of the prior."""
    return [
        np.mean([margins.pair_right(alpha) for margins in draws], axis=0)
        for draws in answers.draws(BALANCED, prior, form)
    ]
