"""Tables and pictures of the hard-positive study, from its kept answers."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import numpy as np

from studies.charts import Point, write_chart
from studies.kept import KeptAnswers
from studies.positives_claims import HN, SCENES, SEEN, StudyAnswers, effects, seen_and_unseen
from studies.positives_photos import ARMS as PHOTO_ARMS
from studies.positives_photos import PART as PHOTOS
from studies.positives_photos import SETS
from studies.positives_scenes import NEGATIVE_KINDS, REWORDING_KINDS
from studies.positives_tuning import ARMS, BEFORE, DOSES
from studies.verdict import claims_table, judge

PERCENT = {
    "c>n>p": "oversensitive",
    "p>n>c": "undersensitive",
    "original": "original",
    "augmented": "augmented",
    "given original": "given",
}
COSINES = ("s(c)", "s(n)", "s(p)")
OTHER = {
    "R@1 t→i": "text_to_image_r1",
    "R@5 t→i": "text_to_image_r5",
    "R@1 i→t": "image_to_text_r1",
    "reworded R@1 t→i": "reworded_text_to_image_r1",
    "naming": "naming",
}
PHOTO_OTHER = {name: OTHER[name] for name in ("R@1 t→i", "R@5 t→i", "R@1 i→t")}
LEAST_CELL = 20
"""Fewest triples of a cell of the table of kinds, over all seeds."""


def report_lines(kept: KeptAnswers) -> Iterator[str]:
    """Lines of the whole report: headings and Markdown tables."""
    answers = StudyAnswers(kept)
    yield "## Claims\n"
    yield claims_table(judge(effects(answers)))
    if answers.has(SCENES, BEFORE):
        seeds = answers.seeds(SCENES, BEFORE)
        least = min(len(answer["order"]) for answer in seeds)
        yield f"\n## Arms on scenes ({len(seeds)} seeds, {least:,} triples or more in each)\n"
        yield _arm_table(answers, SCENES, [BEFORE, *ARMS], OTHER)
        yield "\n## Oversensitivity by kind of rewording (c>n>p, %)\n"
        yield _kind_table(answers)
    if answers.has(SCENES, "plain", HN):
        yield "\n## Rise of c>n>p from plain tuning to HN, q = 1, in points\n"
        yield _rise_table(answers)
    if answers.has(SCENES, HN, *SEEN.values()):
        yield "\n## Rewordings of kinds in tuning and not (c>n>p, %)\n"
        yield _unseen_table(answers)
    if (SCENES, "blind") in answers.answers:
        yield "\n## Negatives told blind (%, n-gram model of the tuning captions)\n"
        yield _blind_table(answers)
    if answers.has(PHOTOS, "plain"):
        seeds = answers.seeds(PHOTOS, "plain")
        least = min(len(answer["order"]) for answer in seeds)
        yield f"\n## Arms on photographs ({len(seeds)} seeds, {least:,} triples or more in each)\n"
        yield _arm_table(answers, PHOTOS, list(PHOTO_ARMS), PHOTO_OTHER)
        yield "\n## Negatives of photographs told blind\n"
        yield _photo_blind_table(answers)


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in lines)


def _mean(answers: StudyAnswers, part: str, arm: str, measure: str) -> tuple[float, float]:
    """Mean over seeds of an arm's measure, and their standard deviation."""
    values = [float(np.nanmean(column)) for column in answers.column(part, arm, measure)]
    return float(np.mean(values)), float(np.std(values, ddof=1)) if len(values) > 1 else 0.0


def _arm_table(
    answers: StudyAnswers, part: str, arms: Sequence[str], other: Mapping[str, str]
) -> str:
    rows = []
    for arm in arms:
        if (part, arm) not in answers.answers:
            continue
        cells = [arm]
        for measure in PERCENT.values():
            mean, spread = _mean(answers, part, arm, measure)
            cells.append(f"{100 * mean:.1f} ± {100 * spread:.1f}")
        cells += [f"{_mean(answers, part, arm, measure)[0]:.3f}" for measure in COSINES]
        cells += [f"{100 * _mean(answers, part, arm, it)[0]:.1f}" for it in other.values()]
        rows.append(cells)
    return _table(["arm", *PERCENT, *COSINES, *other], rows)


SHOWN = ("plain", "hn, q=0", "hn, q=1", "hp+hn, q=1", "infonce-hn, q=1")


def _kind_table(answers: StudyAnswers) -> str:
    kinds = np.concatenate(answers.rewordings(SCENES))
    arms = [arm for arm in (BEFORE, *SHOWN) if (SCENES, arm) in answers.answers]
    values = {arm: np.concatenate(answers.column(SCENES, arm, "oversensitive")) for arm in arms}
    rows = []
    for kind in REWORDING_KINDS:
        at = kinds == kind
        if at.any():
            shares = [f"{100 * float(values[arm][at].mean()):.1f}" for arm in arms]
            rows.append([kind, f"{int(at.sum()):,}", *shares])
    return _table(["rewording", "triples", *arms], rows)


def _rise_table(answers: StudyAnswers) -> str:
    kinds = np.concatenate(answers.rewordings(SCENES))
    names = np.array(NEGATIVE_KINDS)
    negative = names[np.concatenate([it["negative"] for it in answers.seeds(SCENES, "examples")])]
    hard, plain = (
        np.concatenate(answers.column(SCENES, arm, "oversensitive")) for arm in (HN, "plain")
    )
    rows = []
    for name in NEGATIVE_KINDS:
        cells = [name]
        for kind in REWORDING_KINDS:
            at = (negative == name) & (kinds == kind)
            few = int(at.sum()) < LEAST_CELL
            cells.append("–" if few else f"{100 * float((hard - plain)[at].mean()):+.0f}")
        rows.append(cells)
    return _table(["negative", *REWORDING_KINDS], rows)


def _unseen_table(answers: StudyAnswers) -> str:
    seen, unseen, hard = seen_and_unseen(answers)
    rows = [
        [name, f"{100 * float(np.mean([np.nanmean(it) for it in column])):.1f}"]
        for name, column in (
            ("HN, q = 1", hard),
            ("HP+HN, kinds not in tuning", unseen),
            ("HP+HN, kinds in tuning", seen),
        )
    ]
    return _table(["arm", "c>n>p"], rows)


def blind_accuracy(answers: StudyAnswers) -> dict[str, float]:
    """Blind accuracy of the negatives at every dose, of judged negatives and of rewordings."""
    seeds = answers.seeds(SCENES, "blind")
    return {
        name: float(np.mean([np.mean(answer[name].astype(float)) for answer in seeds]))
        for name in seeds[0]
    }


def _blind_table(answers: StudyAnswers) -> str:
    words = {"judged": "judged negatives", "rewordings": "judged rewordings"}
    rows = [
        [words.get(name, f"negatives, {name}"), f"{100 * value:.1f}"]
        for name, value in blind_accuracy(answers).items()
    ]
    return _table(["set", "caption preferred"], rows)


def _photo_blind_table(answers: StudyAnswers) -> str:
    (answer,) = answers.seeds(PHOTOS, "blind")
    rows = [
        [name, f"{len(answer[name]):,}", f"{100 * float(answer[name].mean()):.1f}"] for name in SETS
    ]
    return _table(["set of negatives", "negatives", "caption preferred"], rows)


def write_charts(kept: KeptAnswers, folder: Path) -> list[Path]:
    """Write the pictures of the page; gives their files."""
    answers = StudyAnswers(kept)
    files = []
    folder.mkdir(parents=True, exist_ok=True)
    if (SCENES, "blind") in answers.answers and answers.has(SCENES, HN, "hn, q=0"):
        files.append(folder / "positives-dose.svg")
        blind = blind_accuracy(answers)
        write_chart(
            files[-1],
            "Oversensitivity by how well the negatives of tuning are told without the image",
            {
                losses: [
                    _point(answers, SCENES, f"{losses}, q={dose:g}", 100 * blind[f"q={dose:g}"])
                    for dose in DOSES
                ]
                for losses in ("hn", "hp+hn", "infonce-hn")
                if answers.has(SCENES, *(f"{losses}, q={dose:g}" for dose in DOSES))
            },
            x_label="blind accuracy of the negatives, %",
            y_label="c>n>p, %",
        )
    for part, arms, name, title in (
        (SCENES, TRADE_OFF, "trade-off", "What an arm gains on negatives, and how oversensitive"),
        (PHOTOS, tuple(PHOTO_ARMS), "photos", "The same on photographs: heads on frozen encoders"),
    ):
        if not answers.has(part, "plain"):
            continue
        files.append(folder / f"positives-{name}.svg")
        series: dict[str, list[Point]] = {}
        for arm in arms:
            if (part, arm) in answers.answers:
                x = 100 * _mean(answers, part, arm, "original")[0]
                label = arm.removesuffix(", q=1")
                series.setdefault(_losses_of(arm), []).append(_point(answers, part, arm, x, label))
        write_chart(
            files[-1], title, series,
            x_label="accuracy on negatives (original), %", y_label="c>n>p, %", joined=False,
        )  # fmt: skip
    return files


TRADE_OFF = (
    BEFORE, "plain", "hp", "hn, q=0", "hn, q=1", "infonce-hn, q=1", "infonce-hn+hn, q=1",
    "hp+hn, q=0", "hp+hn, q=1", "hp:hn 1:4, q=1", "hp:hn 4:1, q=1", "hp-even+hn, q=1",
    "infonce-hn+hp, q=1", "svlc, q=1",
)  # fmt: skip
"""Arms on the chart of gain and oversensitivity; those without a dose have q = 1."""


def _losses_of(arm: str) -> str:
    """Series of an arm: which hard captions it learns from."""
    if "hn" not in arm and arm != "svlc, q=1":
        return "no hard negatives"
    return "negatives and positives" if re.search("hp|svlc", arm) else "hard negatives alone"


def _point(answers: StudyAnswers, part: str, arm: str, x: float, name: str = "") -> Point:
    """Oversensitivity of an arm with the spread of its seeds."""
    mean, spread = _mean(answers, part, arm, "oversensitive")
    return Point(x, 100 * mean, 100 * (mean - spread), 100 * (mean + spread), name)
