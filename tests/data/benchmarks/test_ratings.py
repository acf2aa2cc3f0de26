"""Ratings: rows and malformed rows of four benchmarks, and the figures of the released files."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import contrapose as cp
from contrapose import metrics
from contrapose.data import Example, find_single_benchmark
from contrapose.errors import InputError
from contrapose.files import ProblemList, Problems, StrictProblems

TIFA = {
    "text_id": "coco_1",
    "image_path": "coco_1_mini_dalle.jpg",
    "text": "a cat",
    "human_scores": [4, 5],
    "human_avg": 4.5,
    "bleu": 0.1,
}
DSG = {"t2i_model": "mini-dalle", "item_id": "tifa160_1", "source_id": "coco_1", "answer": "3"}
SEETRUE = {"image": "1.png", "text": "a cat", "label": "1", "dataset_source": "editbench"}
GENAI = {"prompt": "a cat", "models": {"SDXL_Base": [1, 2, 3], "DALLE_3": [4, 5, 3]}}


def read(name: str, root: Path, problems: Problems | None = None) -> list[Example]:
    data = find_single_benchmark(name).read(root, problems or StrictProblems())
    assert isinstance(data, Iterator)
    return list(data)


def write_table(path: Path, rows: list[dict[str, str]]) -> None:
    text = io.StringIO()
    table = csv.DictWriter(text, list(rows[0]))
    table.writeheader()
    table.writerows(rows)
    path.write_text(text.getvalue())


def write(name: str, root: Path, rows: list[dict[str, Any]]) -> None:
    """Write rows as the released file of a benchmark has them."""
    if name == "seetrue":
        write_table(root / "SeeTRUE.csv", rows)
    elif name == "dsg-tifa160":
        write_table(root / "tifa160-likert-anns.csv", rows)
        (root / "tifa160.json").write_text(json.dumps({"coco_1_mini_dalle": TIFA}))
    elif name == "genai-bench":
        content = {f"{i:05}": row for i, row in enumerate(rows)}
        (root / "genai_image.json").write_text(json.dumps(content))
    else:
        content = {f"coco_1_mini_dalle{'x' * i}": row for i, row in enumerate(rows)}
        (root / "tifa160.json").write_text(json.dumps(content))


def test_tifa(tmp_path: Path) -> None:
    write("tifa160", tmp_path, [TIFA])
    (example,) = read("tifa160", tmp_path)
    assert (example.id, example.texts) == ("coco_1_mini_dalle", ("a cat",))
    assert example.tags == {
        "rating": "4.5",
        "raters": "2",
        "prompt": "coco_1",
        "generator": "mini_dalle",
        "source": "coco",
    }


def test_dsg_joins_the_people(tmp_path: Path) -> None:
    write("dsg-tifa160", tmp_path, [DSG, {**DSG, "answer": "5"}, {**DSG, "t2i_model": "sd1dot1"}])
    first, second = read("dsg-tifa160", tmp_path)
    assert (first.id, first.texts) == ("coco_1_mini_dalle", ("a cat",))
    assert (first.tags["rating"], first.tags["raters"]) == ("4.0", "2")
    assert second.id == "coco_1_stable_diffusion_v1_1"
    (tmp_path / "tifa160.json").unlink()
    with pytest.raises(InputError, match="dsg-1k-anns"):
        read("dsg-tifa160", tmp_path)
    write_table(tmp_path / "dsg-1k-anns.csv", [{"item_id": "tifa160_1", "text": "a dog"}])
    assert read("dsg-tifa160", tmp_path)[0].texts == ("a dog",)


def test_seetrue(tmp_path: Path) -> None:
    write("seetrue", tmp_path, [SEETRUE, {**SEETRUE, "label": "0"}])
    first, second = read("seetrue", tmp_path)
    assert (first.id, first.match, second.match) == ("0", ((True,),), ((False,),))
    assert first.tags == {"subset": "editbench", "prompt": "a cat"}


def test_genai_is_in_the_order_of_the_released_code(tmp_path: Path) -> None:
    write("genai-bench", tmp_path, [GENAI, GENAI])
    (tmp_path / "genai_skills.json").write_text(json.dumps({"counting": [1], "basic": [0, 1]}))
    examples = read("genai-bench", tmp_path)
    assert [example.id for example in examples] == [
        "DALLE_3/00000",
        "DALLE_3/00001",
        "SDXL_Base/00000",
        "SDXL_Base/00001",
    ]
    assert [example.tags["rating"] for example in examples] == ["4.0", "4.0", "2.0", "2.0"]
    assert examples[1].tags["skill"] == ("counting", "basic")
    assert examples[0].images[0].path == tmp_path / "DALLE_3" / "00000.jpeg"
    (tmp_path / "genai_skills.json").write_text("[1]")
    with pytest.raises(InputError, match="skills"):
        read("genai-bench", tmp_path)


@pytest.mark.parametrize(
    ("name", "row", "change", "words"),
    [
        ("tifa160", TIFA, {"human_scores": []}, "list of ratings"),
        ("tifa160", TIFA, {"human_scores": [4, "high"]}, "human_scores"),
        ("tifa160", TIFA, {"human_scores": [1, 2]}, "not the mean"),
        ("tifa160", TIFA, {"image_path": "../../x.jpg"}, "climbs"),
        ("tifa160", TIFA, {"text": " "}, "text"),
        ("dsg-tifa160", DSG, {"answer": ""}, "answer"),
        ("dsg-tifa160", DSG, {"t2i_model": "imagen"}, "generator"),
        ("dsg-tifa160", DSG, {"source_id": "coco_2", "item_id": "?"}, "prompt"),
        ("seetrue", SEETRUE, {"label": "2"}, "0 or 1"),
        ("seetrue", SEETRUE, {"image": "/etc/passwd"}, "absolute|climbs|folder"),
        ("genai-bench", GENAI, {"models": []}, "models"),
        ("genai-bench", GENAI, {"models": {"DALLE_3": 3}}, "list of ratings"),
        ("genai-bench", GENAI, {"models": {"../x": [3]}}, "climbs"),
    ],
)
def test_malformed_rows(
    name: str, row: dict[str, Any], change: dict[str, Any], words: str, tmp_path: Path
) -> None:
    write(name, tmp_path, [{**row, **change}, row])
    with pytest.raises(InputError, match=words):
        read(name, tmp_path)
    problems = ProblemList()
    kept = read(name, tmp_path, problems)
    assert len(problems.problems) == 1
    assert len(kept) == (2 if name == "genai-bench" else 1)


RELEASED = {
    "meteor": (0.33965916777485317, 0.27407599432086477),
    "clipscore_vitb32": (0.3318181645103688, 0.2314458979024208),
    "tifa_mplug-large": (0.5967201059577838, 0.4717164648720951),
}
"""Printed by the released notebook: np.corrcoef, which it calls Spearman, and Kendall's τ."""


def test_released_figures(shared: Path) -> None:
    folder = shared / "ratings"
    for name in ("tifa160", "dsg-tifa160", "seetrue"):
        assert len(read(name, folder)) == sum(find_single_benchmark(name).card.counts.values())
    examples = read("tifa160", folder)
    people = [float(str(example.tags["rating"])) for example in examples]
    content = json.loads((folder / "tifa160.json").read_text())
    for metric, (pearson, kendall) in RELEASED.items():
        scores = [content[example.id][metric] for example in examples]
        assert metrics.kendall_tau(scores, people) == pytest.approx(kendall)
        assert metrics.correlation_of(scores, people).value() == pytest.approx(pearson)


def test_scores_of_one_benchmark_with_ratings_of_another(shared: Path) -> None:
    folder = shared / "ratings"
    run = cp.measure(
        folder / "tifa160.json@bleu", "dsg-tifa160", root=folder, by="generator", resamples=100
    )
    assert run.metrics["kendall"].value == pytest.approx(0.18267, abs=1e-4)
    assert (run.results.clusters, len(run.subsets)) == (160, 5)


def test_seetrue_rows_with_a_score_need_no_files(tmp_path: Path) -> None:
    rows = [
        {**SEETRUE, "label": str(i % 2), "text": f"t{i % 12}", "score": str(i % 2 + (i % 7) / 10)}
        for i in range(60)
    ]
    write_table(tmp_path / "scores.csv", rows)
    run = cp.measure(tmp_path / "scores.csv", "seetrue", partial=True, resamples=100)
    assert run.metrics["auroc"].value == 1
    assert run.results.clusters == 12
    assert set(run.subsets) == {"editbench"}
