"""Effects of the claims of the Harsanyi study, from kept answers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from studies.harsanyi import LEVELS, MODELS, NOISES, PART_NAMES, VERDICTS, correlate
from studies.harsanyi_claims import ABLE, CLAIMS
from studies.kept import Answer, KeptAnswers
from studies.verdict import Effect, effect_of, mean_effect

FloatArray = NDArray[np.float64]
Answers = Mapping[tuple[str, float], Mapping[int, Answer]]
"""By arm with its noise (0 for models), and by seed."""

JUDGED = 200
"""Examples per part at which findings are counted."""
RESAMPLES = 200
PLACES: Mapping[str, tuple[str, int, tuple[int, int, int]]] = {
    "Q_R&O": ("Q", 0, (3, 0, 1)),
    "Q_A&O": ("Q", 1, (4, 0, 2)),
    "D_O1&O2": ("D", 2, (2, 0, 1)),
    "Q_T:R&O->I:O1&O2": ("QI", 2, (2, 0, 1)),
    "D_I:O1&O2->T:R&O": ("DT", 2, (2, 0, 1)),
}
"""Family, kind and columns (interaction, then its parts) of each finding."""


def load_answers(place: Path) -> dict[tuple[str, float], dict[int, Answer]]:
    """Kept answers by arm and noise, and by seed."""
    answers: dict[tuple[str, float], dict[int, Answer]] = {}
    for key, answer in KeptAnswers(place).items():
        answers.setdefault((key["arm"], key.get("noise", 0.0)), {})[key["seed"]] = answer
    return {arm: dict(sorted(seeds.items())) for arm, seeds in answers.items()}


def answers_of(answers: Answers, arm: str, noise: float = NOISES[0]) -> list[Answer]:
    """Answers of an arm, one for each seed; models have no noise of their own."""
    return list(answers.get((arm, 0.0 if arm in MODELS else noise), {}).values())


def rows_of(answer: Answer, interaction: str) -> FloatArray:
    """(c, 3) sensitivities of an interaction and its parts on the examples of its kind."""
    name, kind, columns = PLACES[interaction]
    rows = (answer[f"{name}/kind"] >> kind & 1).astype(bool)
    values = answer[f"{name}/q"][rows][:, columns].astype(np.float64)
    return np.asarray(values[~np.isnan(values).any(axis=1)])


def interaction_share(values: FloatArray) -> float:
    """Share of the interaction among the three mean sensitivities."""
    means = values.mean(axis=0)
    return float(means[0] / means.sum()) if means.sum() else float("nan")


def claim_effect(answers: Answers, name: str) -> Effect | str:
    """Effect of a claim, or the reason why it cannot be tested."""
    arm, _, what = name.partition(" ")
    if arm in MODELS:
        return _model_effect(answers_of(answers, arm), what)
    if name in ("named", "false", "read"):
        return _verdict_effect(answers, name)
    arm = {
        "objects": "objects only", "bag": "bag of words", "direction": "no direction",
        "loudest": "first noun loudest", "text": "text only",
    }.get(arm, arm)  # fmt: skip
    return _share_effect(answers, name, arm, what)


def _share_effect(answers: Answers, name: str, arm: str, what: str) -> Effect | str:
    """Effect on a scorer's share of squared dividends, or on its interaction share."""
    mine = answers_of(answers, arm)
    if len(mine) < 2:
        return "not run"
    if what == "R":
        shares = [answer["Q/share"][:, 1].astype(np.float64) for answer in mine]
        return mean_effect(shares, [np.zeros_like(share) for share in shares])
    key = {"QI": "Q_T:R&O->I:O1&O2"}.get(what, what)
    values = [(rows_of(answer, key),) for answer in mine]
    if CLAIMS[name].side == "within":
        return effect_of(values, lambda q: interaction_share(q) - 0.5, resamples=RESAMPLES)
    if CLAIMS[name].threshold == 0:
        paired = []
        for (some,), answer in zip(values, answers_of(answers, "noise"), strict=True):
            other = rows_of(answer, key)
            least = min(len(some), len(other))
            paired.append((some[:least], other[:least]))
        return effect_of(
            paired, lambda a, b: interaction_share(a) - interaction_share(b), resamples=RESAMPLES
        )
    return effect_of(values, interaction_share, resamples=RESAMPLES)


def _verdict_effect(answers: Answers, name: str) -> Effect | str:
    """Share of the cells scorer × finding that are right, over all levels of noise."""
    level = LEVELS.index(JUDGED)
    per_seed: dict[int, list[float]] = {}
    for (arm, _), seeds in answers.items():
        for seed, answer in seeds.items():
            if arm not in ABLE or len(answer["findings"]) <= level:
                continue
            for able, row in zip(ABLE[arm], answer["findings"][level], strict=True):
                if able is None or (name == "false" and able):
                    continue
                verdict, low = VERDICTS[int(row[0])], row[3]
                outcome = {
                    "named": verdict == ("dominates" if able else "does not dominate"),
                    "false": verdict == "dominates",
                    "read": (verdict == "dominates" and low > 0.5) == able,
                }[name]
                per_seed.setdefault(seed, []).append(float(outcome))
    if len(per_seed) < 2:
        return "not run"
    outcomes = [np.array(values) for values in per_seed.values()]
    return mean_effect(outcomes, [np.zeros_like(values) for values in outcomes])


def part_rows(answer: Answer, part: str) -> Answer:
    """Columns of the comparisons of one part of REPLACE or ADD."""
    rows = answer["E/part"] == PART_NAMES.index(part)
    return {name: column[rows] for name, column in answer.items() if name.startswith("E/")}


def _model_effect(answers: Sequence[Answer], what: str) -> Effect | str:
    if len(answers) < 2:
        return "not run"
    kinds = {
        "T1": "Q_R&O", "T4": "Q_A&O", "T2": "D_O1&O2", "T3a": "Q_T:R&O->I:O1&O2",
        "T3b": "D_I:O1&O2->T:R&O",
    }  # fmt: skip
    if what in kinds:
        sign = 1 if what in ("T1", "T4") else -1
        values = [(rows_of(answer, kinds[what]),) for answer in answers]
        return effect_of(values, lambda q: sign * _lead(q), resamples=RESAMPLES)
    if what in ("F3", "F7"):
        _, kind, columns = PLACES["Q_R&O" if what == "F3" else "Q_A&O"]
        arrays = []
        for answer in answers:
            rows = (answer["Q/kind"] >> kind & 1).astype(bool)
            w = answer["Q/w"][rows][:, columns].astype(np.float64)
            arrays.append((answer["Q/reward"][rows].astype(np.float64), w))
        return effect_of(arrays, _correlation_lead, resamples=RESAMPLES)
    part, first, second = {
        "T5o": ("replace-shape", (0,), 3), "T5r": ("replace-relation", (1, 3), 0),
        "T6": ("replace-color", (2, 4), 0), "T8": ("add-attribute", (2, 4), 0),
        "T7": ("add-object", (0,), 1),
    }[what]  # fmt: skip
    tables = []
    for answer in answers:
        q = part_rows(answer, part)["E/q"].astype(np.float64)[:, (*first, second)]
        tables.append((q[~np.isnan(q).any(axis=1)],))
    if min(len(table) for (table,) in tables) < 10:
        return "fewer than 10 such comparisons have all the players"
    return effect_of(tables, _least_lead, resamples=RESAMPLES)


def _lead(values: FloatArray) -> float:
    """Mean of the interaction less the larger mean of its parts."""
    means = values.mean(axis=0)
    return float(means[0] - means[1:].max())


def _least_lead(values: FloatArray) -> float:
    """Smallest mean of all columns but the last, less that of the last."""
    means = values.mean(axis=0)
    return float(means[:-1].min() - means[-1])


def _correlation_lead(reward: FloatArray, w: FloatArray) -> float:
    """ρ of the interaction less the larger of its parts."""
    rho = np.nan_to_num([correlate(reward, column) for column in w.T])
    return float(rho[0] - rho[1:].max())
