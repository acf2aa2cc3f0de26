"""Report of the study of priors: tables and charts, all from the kept answers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from studies.kept import KeptAnswers
from studies.priors_analysis import (
    JOINT,
    PER_TOKEN,
    PRIOR,
    FloatArray,
    Margins,
    StudyAnswers,
    best_log_loss_alpha,
    best_on_grid,
    hits,
    prior_gap,
    untestable,
)
from studies.priors_claims import (
    BALANCED,
    SKEWED,
    TEMPERED,
    drawn_text_scores,
    gain,
    judge_claims,
)
from studies.priors_scores import ALPHAS, TINY
from studies.priors_tests import LEVELS, PARTS, SWAPS
from studies.verdict import Effect, claims_table, mean_effect

SOURCES = ("noise:3", "noise:10", "noise:100", "train:3", "train:10", "train:100", "train:1000")


def report(kept: KeptAnswers, docs: Path | None = None) -> str:
    """Make every table of the page; with `docs`, write the charts there too."""
    answers = StudyAnswers(kept)
    sections: list[tuple[str, Callable[[StudyAnswers], str]]] = [
        ("Claims", lambda kept: claims_table(judge_claims(kept))),
        ("Tests", _tests_table),
        ("By strength of evidence", _levels_table),
        ("Tempered worlds", _tempered_table),
        ("Pairs of two images and two captions", _pairs_table),
        ("Galleries", _gallery_table),
        ("Sources of the prior", _sources_table),
        ("Control", _control_table),
        ("Scores of tiny", _scores_table),
        ("Training", _training_table),
    ]
    if docs is not None:
        from studies.priors_charts import write_charts

        write_charts(answers, docs)
    return "\n\n".join(f"## {title}\n\n{make(answers)}" for title, make in sections)


def _tests_table(answers: StudyAnswers) -> str:
    rows = []
    for part in PARTS:
        margins = answers.margins("skewed", [part.title])
        right = np.concatenate([m.margin.ravel() > 0 for m in margins])
        favored = np.concatenate([m.favor.ravel() > 0 for m in margins])
        chosen, alphas = zip(*(m.cross_validated() for m in margins), strict=True)
        curve = np.mean([m.curve() for m in margins], axis=0)
        rows.append(
            (
                part.title, str(sum(len(m.margin) for m in margins)),
                _percent(favored.mean()), _percent(right.mean()),
                _percent(_mean(right[favored])), _percent(_mean(right[~favored])),
                _percent(np.mean([m.right(1.0).mean() for m in margins])), _points(gain(margins)),
                _percent(np.nanmean(np.concatenate(chosen))), f"{np.mean(alphas):.2f}",
                f"{best_on_grid(curve):.2f}", untestable(margins) or "yes",
            )
        )  # fmt: skip
    header = (
        "test", "examples", "prior alone", "raw", "raw, prior right", "raw, prior wrong", "α = 1",
        "α = 1 less raw", "cross-validated", "its α", "best α", "testable",
    )  # fmt: skip
    return _table(header, rows)


def _levels_table(answers: StudyAnswers) -> str:
    rows = []
    for i, level in enumerate(LEVELS):
        row = [f"{level:g}"]
        for names in (BALANCED, SKEWED):
            margins = [only_level(m, i) for m in answers.margins("skewed", names)]
            raw = np.mean([m.right(0.0).mean() for m in margins])
            row += [_percent(raw), _points(gain(margins))]
        rows.append(row)
    header = (
        "color kept", "balanced: raw", "α = 1 less raw", "skewed: raw", "α = 1 less raw",
    )  # fmt: skip
    return _table(header, rows)


def only_level(margins: Margins, level: int) -> Margins:
    """The examples at one level of evidence."""
    some = margins.level == level
    return Margins(
        margins.margin[some], margins.prior[some], margins.exact[some], margins.level[some],
        margins.image[some],
    )  # fmt: skip


def tempered_alphas(answers: StudyAnswers, prior: str) -> list[tuple[float, FloatArray, float]]:
    """For each tempered world its a, the best α (log loss) of each seed, and by accuracy."""
    margins = answers.margins("skewed", BALANCED, prior)
    rows = []
    for a in TEMPERED:
        best = [best_log_loss_alpha(m.margin, m.prior, m.exact, a) for m in margins]
        curve = np.mean([m.curve(a) for m in margins], axis=0)
        rows.append((a, np.array(best), best_on_grid(curve)))
    return rows


def _tempered_table(answers: StudyAnswers) -> str:
    exact, train = (tempered_alphas(answers, prior) for prior in ("exact", PRIOR))
    rows = [
        (
            f"{a:g}", _spread(best), f"{by_accuracy:.2f}", _spread(trained), f"{its_accuracy:.2f}"
        )
        for (a, best, by_accuracy), (_, trained, its_accuracy) in zip(exact, train, strict=True)
    ]  # fmt: skip
    header = (
        "predicted α", "exact prior: least log loss", "best accuracy",
        "training images: least log loss", "best accuracy",
    )  # fmt: skip
    return _table(header, rows)


def _pairs_table(answers: StudyAnswers) -> str:
    rows = []
    for name in (*BALANCED, "balanced replace-shape"):
        margins = answers.margins("skewed", [name])
        image = np.mean([m.image.mean() for m in margins])
        raw, out = ([m.pair_right(alpha) for m in margins] for alpha in (0.0, 1.0))
        chosen = [m.pairs_cross_validated() for m in margins]
        groups = [
            np.mean([(m.pair_right(alpha) * m.image).mean() for m in margins])
            for alpha in (0.0, 1.0)
        ]
        rows.append(
            (
                name, _percent(np.mean(np.concatenate(raw))),
                _percent(np.mean(np.concatenate(out))), _points(mean_effect(out, raw)),
                _percent(np.nanmean(np.concatenate(chosen))), _percent(image),
                _percent(groups[0]), _percent(groups[1]),
            )
        )  # fmt: skip
    header = (
        "pairs", "text score, raw", "α = 1", "α = 1 less raw", "cross-validated", "image score",
        "group score, raw", "α = 1",
    )  # fmt: skip
    return _table(header, rows)


def _gallery_table(answers: StudyAnswers) -> str:
    rows = []
    for arm in ("skewed", "balanced"):
        galleries = answers.get(arm, "gallery")
        for size, count in (("small", "100"), ("large", "1,000")):
            for prior in ("exact", PRIOR, "noise:10", "gallery"):
                column = f"{prior} in {size}"
                raw, out = (hits(galleries, column, alpha) for alpha in (0.0, 1.0))
                values = [np.mean(np.concatenate(hits(galleries, column, a))) for a in ALPHAS]
                rows.append(
                    (arm, count, prior, *map(_percent, values), _points(mean_effect(out, raw)))
                )
    header = (
        "trained on", "captions", "prior", *(f"R@1, α = {alpha:g}" for alpha in ALPHAS),
        "α = 1 less raw",
    )  # fmt: skip
    return _table(header, rows)


def _sources_table(answers: StudyAnswers) -> str:
    rows = []
    for source in SOURCES:
        for form, name in ((PER_TOKEN, "per token"), (JOINT, "joint")):
            seeds = answers.draws(BALANCED, source, form)
            slopes, correlations, gains, spreads = [], [], [], []
            for draws in seeds:
                some = [np.polyfit(m.exact, m.prior, 1)[0] for m in draws]
                slopes.append(np.mean(some))
                correlations.append(np.mean([np.corrcoef(m.exact, m.prior)[0, 1] for m in draws]))
                gained = [(m.right(1.0) - m.right(0.0)).mean() for m in draws]
                gains.append(np.mean(gained))
                spreads.append(np.std(gained, ddof=1) if len(gained) > 1 else np.nan)
            spread = np.mean(spreads)
            rows.append(
                (
                    source, name, f"{np.mean(slopes):.2f}", f"{np.mean(correlations):.2f}",
                    f"{100 * np.mean(gains):+.1f}",
                    "–" if np.isnan(spread) else f"{100 * spread:.1f}",
                    _percent(np.mean(np.concatenate(
                        drawn_text_scores(answers, source, form=form)))),
                )
            )  # fmt: skip
    header = (
        "prior", "form", "slope on the exact one", "correlation", "α = 1 less raw",
        "deviation over draws", "text score at α = 1",
    )  # fmt: skip
    return _table(header, rows)


def _control_table(answers: StudyAnswers) -> str:
    rows = []
    for names, title in ((BALANCED, "balanced"), (SKEWED, "skewed")):
        for name in names:
            margins = answers.margins("balanced", [name])
            curve = np.mean([m.curve() for m in margins], axis=0)
            raw = np.mean([m.right(0.0).mean() for m in margins])
            rows.append(
                (
                    name, title, _percent(raw), _points(gain(margins)),
                    f"{best_on_grid(curve):.2f}",
                    f"{100 * (curve.max() - raw):.1f}", _points(prior_gap(margins)),
                )
            )  # fmt: skip
    header = (
        "test", "world", "raw", "α = 1 less raw", "best α", "its gain",
        "raw, prior right less wrong",
    )  # fmt: skip
    return _table(header, rows)


def _scores_table(answers: StudyAnswers) -> str:
    rows = []
    for part in SWAPS:
        right = [a["right"].astype(np.float64) for a in answers.get(TINY, part.title)]
        means = np.mean([r.mean(axis=0) for r in right], axis=0)
        effect = mean_effect([r[:, 2] for r in right], [r[:, 0] for r in right])
        rows.append((part.name, *map(_percent, means), _points(effect)))
    return _table(("balanced test", "`itc`", "`itm`", "`lm`", "`lm` less `itc`"), rows)


def _training_table(answers: StudyAnswers) -> str:
    rows = []
    for arm in ("skewed", "balanced"):
        runs, times = answers.get(arm, "training"), answers.get(arm, "time")
        rows.append(
            (
                arm, str(len(runs)), f"{np.mean([run['steps'] for run in runs]):.0f}",
                f"{np.mean([run['scenes'] for run in runs]):,.0f}",
                f"{np.mean([run['lm'] for run in runs]):.3f}",
                f"{np.mean([run['seconds'] for run in runs]):.0f}",
                f"{np.mean([time['seconds'] for time in times]):.0f}",
            )
        )  # fmt: skip
    header = (
        "trained on", "seeds", "steps", "scenes", "loss per token", "seconds of training",
        "seconds in all",
    )  # fmt: skip
    return _table(header, rows)


def _mean(values: FloatArray) -> float:
    return float(values.mean()) if len(values) else float("nan")


def _percent(value: float | np.floating[Any]) -> str:
    return "–" if np.isnan(value) else f"{100 * value:.1f}"


def _points(effect: Effect) -> str:
    low, high = effect.interval
    return f"{100 * effect.mean:+.1f} ({100 * low:+.1f} to {100 * high:+.1f})"


def _spread(values: FloatArray) -> str:
    return f"{values.mean():.2f} ± {values.std(ddof=1):.2f}"


def _table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [header, ["---"] * len(header), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)
