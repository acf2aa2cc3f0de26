"""From annotation files and scores to the headline, for every family of benchmarks."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from contrapose.data import ComposedSet, EditSet, Example, Gallery, find_single_benchmark
from contrapose.files import StrictProblems
from tests.conftest import Cli
from tests.evaluation.audit.benchmarks import copy_first


def read(name: str, root: Path) -> list[Example]:
    data = find_single_benchmark(name).read(root, StrictProblems())
    assert not isinstance(data, Gallery | EditSet | ComposedSet)
    return list(data)


def table(path: Path, examples: list[Example], scores: np.ndarray) -> Path:
    """A general table of one score a pair, in order."""
    pairs = [(e.id, i, j) for e in examples for i in range(e.shape[0]) for j in range(e.shape[1])]
    rows = (f"{n},{i},{j},{float(s)!r}" for (n, i, j), s in zip(pairs, scores, strict=False))
    path.write_text("\n".join(["example,image,text,score", *rows]))
    return path


def results(cli: Cli, *arguments: object) -> dict[str, Any]:
    said = cli("metrics", *arguments, "--json")
    assert said.status == 0, said
    found: dict[str, Any] = json.loads(said.out)
    return found


@pytest.mark.parametrize(
    ("name", "folder"),
    [
        ("sugarcrepe", "sugarcrepe"),
        ("sugarcrepe-pp", "sugarcrepe_pp"),
        ("hard-positives-replace", "hard_positives"),
        ("vl-checklist", "vl_checklist"),
        ("cola", "cola"),
        ("valse", "valse"),
    ],
)
def test_random_scores_are_at_chance(
    cli: Cli, shared: Path, tmp_path: Path, name: str, folder: str
) -> None:
    """A score that knows nothing lies within five standard errors of the chance level printed."""
    root = shared / folder
    if name != "vl-checklist":  # which has folders
        copy_first(root, tmp_path, 500)
        root = tmp_path
    examples = read(name, root)
    scores = np.random.default_rng(0).random(6 * len(examples))
    path = table(tmp_path / "random.csv", examples, scores)
    arguments = (name, "--scores", path, "--root", root, "--resamples", 200)
    found = results(cli, *arguments)
    assert found["examples"] == len(examples)
    checked = 0
    for metric in found["metrics"].values():
        if metric["chance"] is not None and metric["ties"] is not None:
            low, high = metric["ci95"]
            assert abs(metric["value"] - metric["chance"]) < 5 * (high - low) / 4
            checked += 1
    assert checked


def test_aro_relations_are_averaged_and_symmetric_ones_dropped(cli: Cli, tmp_path: Path) -> None:
    relations = ["on"] * 4 + ["eating"] * 2 + ["near"] * 3
    records = [
        {
            "image_id": str(i), "image_path": f"{i}.jpg", "relation_name": relation,
            "true_caption": "a dog on a mat", "false_caption": "a mat on a dog",
            "bbox_x": 0, "bbox_y": 0, "bbox_w": 9, "bbox_h": 9,
        }
        for i, relation in enumerate(relations)
    ]  # fmt: skip
    (tmp_path / "visual_genome_relation.json").write_text(json.dumps(records))
    right = [1, 1, 1, 0, 0, 0, 1, 1, 1]
    # The official arrays hold the false caption first.
    scores = np.array([[[0.0, 1.0]] if won else [[1.0, 0.0]] for won in right])
    np.save(tmp_path / "s.npy", scores)
    found = results(cli, "aro-relation", "--scores", tmp_path / "s.npy", "--root", tmp_path)
    assert found["metrics"]["accuracy"]["value"] == pytest.approx((3 / 4 + 0 / 2) / 2)
    assert found["metrics"]["accuracy_micro"]["value"] == pytest.approx(6 / 9)
    assert found["subsets"]["near"]["accuracy"]["value"] == 1.0


def test_crepe_by_complexity(cli: Cli, tmp_path: Path) -> None:
    for complexity in (4, 5):
        name = f"prod_vg_hard_negs_swap_complexity_{complexity}.csv"
        lines = ["image_id,caption,hard_negs,x,y,width,height"]
        lines += [f"{i},a,\"['b', 'c', 'd', 'e', 'f']\",0,0,9,9" for i in range(3)]
        (tmp_path / name).write_text("\n".join(lines))
    examples = read("crepe", tmp_path)
    assert len(examples) == 6
    first_right = np.tile([1.0, 0, 0, 0, 0, 0], 6)
    first_right[-6:] = [0.5, 0, 0, 0.75, 0, 0]
    path = table(tmp_path / "s.csv", examples, first_right)
    found = results(cli, "crepe", "--scores", path, "--root", tmp_path)
    assert found["subsets"]["4"]["accuracy"]["value"] == 1.0
    assert found["subsets"]["5"]["accuracy"]["value"] == pytest.approx(2 / 3)
    assert found["metrics"]["accuracy"]["chance"] == pytest.approx(1 / 6)
