"""Flat submission arrays in the order of EqBen's shuffled list."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from tests.conftest import Cli

PAIRS = [(image, caption) for image in range(2) for caption in range(2)]


@pytest.fixture
def submission(tmp_path: Path) -> tuple[Path, Path, np.ndarray]:
    """A root with the list, the flat scores, and the same scores as (n, 2, 2)."""
    rng = np.random.default_rng(0)
    scores = rng.random((30, 2, 2))
    rows = [(7 + 2 * sample, image, caption, scores[sample, image, caption])
            for sample in range(30) for image, caption in PAIRS]  # fmt: skip
    order = rng.permutation(len(rows))
    listed = [
        {
            "image": f"eqbensd/{number}_{image}.png",
            "caption": f"caption {caption} of {number}",
            "private_info": {
                "dataset": "eqbensd",
                "sample_cnt": number,
                "name": f"c{caption}i{image}",
            },
        }
        for number, image, caption, _ in (rows[i] for i in order)
    ]
    root = tmp_path / "eqben"
    root.mkdir()
    (root / "ann_json_finegrained_random.json").write_text(json.dumps(listed))
    np.save(tmp_path / "flat.npy", np.array([rows[i][3] for i in order]))
    return root, tmp_path / "flat.npy", scores


def test_flat_submission_scores(
    cli: Cli, submission: tuple[Path, Path, np.ndarray], tmp_path: Path
) -> None:
    root, flat, scores = submission
    np.save(tmp_path / "sd.npy", scores)
    arguments = ("metrics", "eqben", "--root", root, "--json", "--scores")
    from_flat = json.loads(cli(*arguments, flat).out)
    from_array = json.loads(cli(*arguments, tmp_path / "sd.npy").out)
    assert from_flat["subsets"] == from_array["subsets"]
    assert from_flat["examples"] == 30


def test_a_list_of_another_length_is_refused(
    cli: Cli, submission: tuple[Path, Path, np.ndarray]
) -> None:
    root, flat, _ = submission
    np.save(flat, np.zeros(119))
    message = cli("metrics", "eqben", "--root", root, "--scores", flat).refused()
    assert "119 scores" in message
    assert "120 pairs" in message
