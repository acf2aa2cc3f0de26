"""Tables, claims and charts of the Harsanyi study, from kept answers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from contrapose.diagnose.metrics import FAMILIES
from studies.charts import Point, write_chart
from studies.harsanyi import INTERACTIONS, KINDS, LEVELS, MODELS, NOISES, SHORT, VERDICTS, correlate
from studies.harsanyi_claims import ABLE, CLAIMS
from studies.harsanyi_effects import (
    JUDGED,
    PLACES,
    Answers,
    FloatArray,
    answers_of,
    claim_effect,
    load_answers,
    part_rows,
)
from studies.verdict import claims_table, judge

LETTERS = {"dominates": "yes", "does not dominate": "no", "undecided": "?", "absent": "–"}
REPLACED = {
    "REPLACE an object": "replace-shape", "REPLACE a relation": "replace-relation",
    "REPLACE an attribute": "replace-color", "ADD an attribute": "add-attribute",
    "ADD an object": "add-object",
}  # fmt: skip


def report_study(place: Path, charts: Path | None = None) -> str:
    """All tables of the page, from kept answers; draws the charts where a folder is given."""
    answers = load_answers(place)
    findings = judge([(claim, claim_effect(answers, name)) for name, claim in CLAIMS.items()])
    split = next(i for i, name in enumerate(CLAIMS) if name.startswith("tiny"))
    sections = [
        "## Claims\n",
        "Validation: scorers whose fault is known\n",
        claims_table(findings[:split]),
        "\nThe paper's claims on the built-in models\n",
        claims_table(findings[split:]),
        f"\n## Fault × finding, noise {NOISES[0]}, {JUDGED} examples per part\n",
        confusion_table(answers, NOISES[0]),
        f"\n## Fault × finding, noise {NOISES[1]}, {JUDGED} examples per part\n",
        confusion_table(answers, NOISES[1]),
        "\n## Findings of the models, 100 examples per part\n",
        models_table(answers),
        "\n## Examples per part that a right finding needs\n",
        needed_table(answers),
        "\n## Dividends that a score is made of\n",
        dividend_table(answers),
    ]
    for kind, title in enumerate(KINDS):
        sections += [f"\n## Sensitivities (ρ) when {title}\n", metrics_table(answers, kind)]
    sections += ["\n## REPLACE and ADD, text side\n", replaced_table(answers)]
    if charts is not None:
        draw_charts(answers, charts)
    return "\n".join(sections)


def _table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [header, ["---"] * len(header), *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def confusion_table(answers: Answers, noise: float) -> str:
    """Verdicts over seeds, share and accuracy of every scorer and finding."""
    level = LEVELS.index(JUDGED)
    rows = []
    for arm, ables in ABLE.items():
        some = answers_of(answers, arm, noise) or answers_of(answers, arm)
        if some and len(some[0]["findings"]) > level:
            cells = _verdict_cells([answer["findings"][level] for answer in some])
            truths = ({True: "knows", False: "does not", None: "in part"}[able] for able in ables)
            rows.append(
                [arm, *(f"{truth}: {cell}" for truth, cell in zip(truths, cells, strict=True))]
            )
    return _table(("scorer", *INTERACTIONS), rows)


def models_table(answers: Answers) -> str:
    """Verdicts over seeds, share and accuracy of the models."""
    some = {model: answers_of(answers, model) for model in MODELS}
    rows = [
        [model, *_verdict_cells([answer["findings"][-1] for answer in seeds])]
        for model, seeds in some.items()
        if seeds
    ]
    return _table(("model", *INTERACTIONS), rows)


def _verdict_cells(findings: Sequence[NDArray[Any]]) -> list[str]:
    """Verdicts with their number of seeds, mean share and accuracy of each finding."""
    cells = np.array(findings, np.float64)
    texts = []
    for i in range(cells.shape[1]):
        verdicts = Counter(LETTERS[VERDICTS[int(code)]] for code in cells[:, i, 0])
        said = ", ".join(f"{word} {count}" for word, count in verdicts.most_common())
        share, right = np.nanmean(cells[:, i, 1]), np.nanmean(cells[:, i, 2])
        texts.append(f"{said}; {share:.2f}; {100 * right:.0f} %")
    return texts


def needed_table(answers: Answers) -> str:
    """Least examples per part from which on the right verdict comes in four seeds of five."""
    rows = []
    for arm, ables in ABLE.items():
        for noise in NOISES if arm != "noise" else NOISES[:1]:
            some = answers_of(answers, arm, noise)
            if not some:
                continue
            cells = np.array([answer["findings"] for answer in some], np.float64)
            levels = LEVELS[: cells.shape[1]]
            row = [arm, "–" if arm == "noise" else f"{noise}"]
            row += [
                "–" if able is None else _least_level(cells[:, :, i], able, levels)
                for i, able in enumerate(ables)
            ]
            rows.append(row)
    return _table(("scorer", "noise", *INTERACTIONS), rows)


def _least_level(cells: FloatArray, able: bool, levels: Sequence[int]) -> str:
    """Least level from which on four seeds of five are right and at most one is wrong.

    Args:
        cells: (seeds, levels, 4) findings.
        able: whether the scorer knows it.
        levels: examples per part.
    """
    right, wrong = (0, 1) if able else (1, 0)
    fine = [
        (cells[:, k, 0] == right).mean() >= 0.8 and (cells[:, k, 0] == wrong).sum() <= 1
        for k in range(len(levels))
    ]
    last = len(levels) - next((k for k, one in enumerate(reversed(fine)) if not one), len(fine))
    if last < len(levels):
        return str(levels[last])
    wrongs = (cells[:, -1, 0] == wrong).sum()
    return "wrong" if wrongs > 1 else "never"


def dividend_table(answers: Answers) -> str:
    """Shares of the squared dividends of the five patterns of words, over all comparisons."""
    rows = []
    for arm in (*ABLE, *MODELS):
        some = answers_of(answers, arm)
        if some:
            shares = np.mean([a["Q/share"].astype(np.float64).mean(axis=0) for a in some], axis=0)
            rows.append([arm, *(f"{share:.2f}" for share in shares)])
    return _table(("scorer", "O", "R", "A", "R&O", "A&O"), rows)


def metrics_table(answers: Answers, kind: int) -> str:
    """Fourteen metrics of every scorer and model on one kind of change, with ρ and accuracy."""
    arms = [arm for arm in (*ABLE, *MODELS) if answers_of(answers, arm)]
    columns: dict[str, list[str]] = {}
    right = []
    for arm in arms:
        some = answers_of(answers, arm)
        rho = np.array([answer["rho"][kind] for answer in some], np.float64)
        at = 0
        for family in FAMILIES:
            name = SHORT[family.name]
            for column, key in enumerate(family.keys):
                values = [
                    answer[f"{name}/q"][(answer[f"{name}/kind"] >> kind & 1) > 0][:, column]
                    for answer in some
                ]
                columns.setdefault(key, []).append(_cell(values, rho[:, at + column]))
            at += len(family.keys)
        outcomes = [answer["Q/right"][(answer["Q/kind"] >> kind & 1) > 0] for answer in some]
        right.append(f"{100 * np.concatenate(outcomes).mean():.0f} %")
    rows = [[key, *cells] for key, cells in columns.items() if set(cells) != {"–"}]
    return _table(("metric", *arms), [*rows, ["accuracy, captions", *right]])


def _cell(values: Sequence[NDArray[Any]], rho: FloatArray) -> str:
    known = [v[~np.isnan(v)].astype(np.float64) for v in values]
    means = [v.mean() for v in known if len(v)]
    if not means:
        return "–"
    shown = "–" if np.isnan(rho).all() else f"{np.nanmean(rho):+.2f}"
    return f"{np.mean(means):.3g} ({shown})"


def replaced_table(answers: Answers) -> str:
    """Sensitivities of the text side by change, with ρ for the models."""
    rows = []
    for title, part in REPLACED.items():
        for arm in (*MODELS, "oracle", "objects only", "bag of words", "text only", "noise"):
            some = [part_rows(answer, part) for answer in answers_of(answers, arm)]
            if not some:
                continue
            row = [title, arm]
            for column in range(5):
                rho = [
                    correlate(
                        answer["E/reward"].astype(np.float64),
                        answer["E/w"][:, column].astype(np.float64),
                    )
                    if "E/w" in answer
                    else np.nan
                    for answer in some
                ]
                row.append(_cell([answer["E/q"][:, column] for answer in some], np.array(rho)))
            outcomes = np.concatenate([answer["E/right"] for answer in some])
            rows.append([*row, f"{100 * outcomes.mean():.0f} %", str(len(outcomes))])
    return _table(("change", "scorer", *FAMILIES[0].keys, "accuracy", "n"), rows)


def draw_charts(answers: Answers, folder: Path) -> None:
    """Share against accuracy, findings by number of examples, and the paper's Figures 3 and 7."""
    folder.mkdir(parents=True, exist_ok=True)
    _draw_correlations(answers, folder)

    def points(interaction: int, arm: str) -> list[Point]:
        some = answers_of(answers, arm)
        cells = np.array([a["findings"][min(2, len(a["findings"]) - 1)] for a in some], np.float64)
        share = cells[:, interaction, 1]
        mean = float(np.nanmean(share))
        error = 2.78 * float(np.nanstd(share, ddof=1)) / np.sqrt(len(share))
        x = 100 * float(np.nanmean(cells[:, interaction, 2]))
        return [Point(x, mean, mean - error, mean + error)]

    for i, (name, title) in enumerate((
        ("relation", "Relation and object words when objects change places"),
        ("attribute", "Attribute and object words when attributes change hands"),
        ("objects", "The two objects of the image when only the relation changes"),
    )):  # fmt: skip
        write_chart(
            folder / f"harsanyi-{name}.svg",
            title,
            {arm: points(i, arm) for arm in (*ABLE, *MODELS) if len(answers_of(answers, arm)) > 1},
            x_label="accuracy on the same comparisons, % (chance: 50)",
            y_label="interaction share (noise: 0.5)",
            joined=False,
        )
    write_chart(
        folder / "harsanyi-examples.svg",
        "Oracle: findings that say so",
        {
            f"noise {noise}": _oracle_levels(answers, noise)
            for noise in NOISES
            if answers_of(answers, "oracle", noise)
        },
        x_label="examples per part",
        y_label='share of seeds and findings with "dominates"',
    )


def _draw_correlations(answers: Answers, folder: Path) -> None:
    """The paper's Figures 3 and 7 for the models: differences of scores by those of dividends."""
    for model in MODELS:
        answer = next(iter(answers_of(answers, model)), None)
        for number, name, title in (
            (3, "Q_R&O", "objects change places"), (7, "Q_A&O", "attributes change hands"),
        ):  # fmt: skip
            if answer is None:
                continue
            _, kind, columns = PLACES[name]
            rows = (answer["Q/kind"] >> kind & 1) > 0
            reward = answer["Q/reward"][rows]
            series = {}
            for column in columns:
                w = answer["Q/w"][rows][:, column]
                label = FAMILIES[0].keys[column].removeprefix("Q_")
                series[label] = [
                    Point(float(x), float(y))
                    for x, y in zip(w, reward, strict=True)
                    if not np.isnan(x)
                ]
            write_chart(
                folder / f"harsanyi-figure-{number}-{model}.svg",
                f"{model}: {title}",
                {label: points for label, points in series.items() if points},
                x_label="difference of the dividends, right less wrong",
                y_label="difference of the scores",
                joined=False,
                zero=True,
            )


def _oracle_levels(answers: Answers, noise: float) -> list[Point]:
    cells = np.array([a["findings"] for a in answers_of(answers, "oracle", noise)], np.float64)
    shares = (cells[..., 0] == 0).mean(axis=(0, 2))
    return [Point(float(n), float(share)) for n, share in zip(LEVELS, shares, strict=False)]
