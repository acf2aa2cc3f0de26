"""Published figures, from the per-item scores they were computed from."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from contrapose.metrics import (
    auroc,
    combine,
    equivariance,
    group_score,
    image_score,
    interval,
    macro_mean,
    mean_of,
    pairwise_accuracy,
    text_score,
)

MATCH = np.eye(2, dtype=bool)
EQBEN = {
    "youcook2": (52.04, 50.84, 38.32),
    "gebc": (25.19, 22.66, 11.08),
    "ag": (32.49, 24.05, 13.70),
    "kubric_location": (None, None, 11.35),
    "kubric_counting": (None, None, 19.65),
    "kubric_attribute": (None, None, 69.60),
    "sd": (86.05, 88.63, 79.97),
}
SCORES = (text_score, image_score, group_score)


def winoground(shared: Path, model: str) -> np.ndarray:
    scores = np.full((400, 2, 2), np.nan)
    for line in (shared / "winoground_scores" / f"{model}.jsonl").read_text().splitlines():
        row = json.loads(line)
        example, caption, image = row["label"].split("_")
        scores[int(example), int(image[1:]), int(caption[1:])] = row["score"]
    return scores


@pytest.mark.parametrize(
    ("model", "ties", "figures"),
    [
        ("clip", "wrong", (30.75, 10.50, 8.00)),
        ("vilt", "wrong", (34.75, 14.00, 9.25)),
        ("human", "wrong", (89.50, 88.50, 85.50)),
        ("human", "right", (93.00, 91.75, 88.25)),
    ],
)
def test_winoground(shared: Path, model: str, ties: str, figures: tuple[float, ...]) -> None:
    scores = winoground(shared, model)
    found = [100 * f(scores, MATCH, ties=ties).mean() for f in SCORES]  # type: ignore[arg-type]
    assert [round(figure, 2) for figure in found] == list(figures)


def test_eqben(shared: Path) -> None:
    parts = [np.load(shared / "eqben_fiber" / f"{name}.npy") for name in EQBEN]
    scores = np.concatenate(parts)
    subset = np.repeat(np.arange(len(parts)), [len(part) for part in parts])
    assert len(scores) == 251_048
    outcomes = [f(scores, MATCH) for f in SCORES]
    for i, figures in enumerate(EQBEN.values()):
        for outcome, figure in zip(outcomes, figures, strict=True):
            if figure is not None:
                found = 100 * mean_of(outcome.values[subset == i]).value()
                assert round(found, 2) == figure
    # The average counts the three Kubric subsets as one.
    parents = [0, 1, 2, 3, 3, 3, 4]
    average = combine([macro_mean(o.values, subset, parents) for o in outcomes])
    assert round(100 * average.value(), 2) == 43.47
    low, high = interval(average)
    assert 0.425 < low < 0.4347 < high < 0.445
    spreads = [equivariance(part).summary()["text_std"] for part in parts]
    assert spreads[list(EQBEN).index("youcook2")] == pytest.approx(1.7336, abs=1e-4)
    by_parent = [
        np.mean([s for s, p in zip(spreads, parents, strict=True) if p == i]) for i in range(5)
    ]
    assert np.mean(by_parent) == pytest.approx(1.4975, abs=1e-4)
    assert equivariance(scores).summary()["text_std"] == pytest.approx(1.4656, abs=1e-4)


def test_valse_pairwise_accuracy_shows_a_language_prior(shared: Path) -> None:
    """A captioner that hardly sees the difference still wins on relations."""
    by_model = {}
    for model in ("x-vlm_4m", "clipcap_coco"):
        rows = [
            json.loads(line)
            for line in (shared / "valse" / "scores" / f"{model}.jsonl").read_text().splitlines()
        ]
        by_key = {row["label"]: row for row in rows}
        keys = [row["label"].removesuffix("_c") for row in rows if row["type"] == "caption"]
        scores = np.array([[by_key[f"{key}_{kind}"]["score"] for kind in "cf"] for key in keys])
        pieces = np.array([by_key[f"{key}_c"]["piece"] for key in keys])
        assert len(scores) == 7702
        by_model[model] = pairwise_accuracy(scores[pieces == "relations"]).mean()
        assert 0.5 < auroc(scores) < 1
    assert by_model["clipcap_coco"] > by_model["x-vlm_4m"] > 0.5
