"""Published figures from real score files, through the command line."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.conftest import Cli

SHAPES = Path(__file__).resolve().parents[2] / "examples" / "shapes"


def results(cli: Cli, *arguments: object) -> dict[str, Any]:
    said = cli("metrics", *arguments, "--json")
    assert said.status == 0, said
    found: dict[str, Any] = json.loads(said.out)
    return found


@pytest.mark.parametrize(
    ("model", "text", "image", "group"),
    [
        ("clip", 0.3075, 0.1050, 0.0800),
        ("vilt", 0.3475, 0.1400, 0.0925),
        ("human", 0.8950, 0.8850, 0.8550),
    ],
)
def test_winoground(
    cli: Cli, shared: Path, model: str, text: float, image: float, group: float
) -> None:
    found = results(cli, "winoground", "--scores", shared / f"winoground_scores/{model}.jsonl")
    assert found["benchmark"] == "winoground"
    metrics = found["metrics"]
    for name, value, chance in (
        ("text", text, 1 / 4),
        ("image", image, 1 / 4),
        ("group", group, 1 / 6),
    ):
        assert metrics[name]["value"] == pytest.approx(value, abs=1e-12)
        assert metrics[name]["chance"] == pytest.approx(chance)
        assert metrics[name]["n"] == 400
        low, high = metrics[name]["ci95"]
        assert low < value < high
    assert (metrics["text"]["ties"] > 0) == (model == "human")


def test_winoground_by_diwan_tags(cli: Cli, shared: Path) -> None:
    folder = shared / "winoground_scores"
    found = results(
        cli, "winoground", "--scores", folder / "clip.jsonl",
        "--tags", folder / "diwan_tags.json", "--by", "diwan",
    )  # fmt: skip
    sizes = {name: metrics["text"]["n"] for name, metrics in found["subsets"].items()}
    assert sizes == {
        "No Tag": 172, "Complex Reasoning": 78, "Unusual Image": 56, "Unusual Text": 50,
        "Ambiguously Correct": 46, "Visually Difficult": 38, "Non Minimal": 30,
    }  # fmt: skip


EQBEN = {
    "youcook2": (52.04, 50.84, 38.32),
    "gebc": (25.19, 22.66, 11.08),
    "ag": (32.49, 24.05, 13.70),
    "sd": (86.05, 88.63, 79.97),
}


def test_eqben(cli: Cli, shared: Path) -> None:
    found = results(cli, "eqben", "--scores", shared / "eqben_fiber", "--resamples", 100)
    for subset, published in EQBEN.items():
        values = [found["subsets"][subset][name]["value"] for name in ("text", "image", "group")]
        assert [round(100 * value, 2) for value in values] == list(published)
    groups = [found["subsets"][f"kubric_{part}"]["group"]["value"] for part in
              ("location", "counting", "attribute")]  # fmt: skip
    assert groups == pytest.approx([0.1135, 0.1965, 0.6960])
    assert found["subsets"]["kubric"]["group"]["value"] == pytest.approx(np.mean(groups))
    average = found["metrics"]["average"]
    fifteen = [
        found["subsets"][subset][name]["value"]
        for subset in (*EQBEN, "kubric")
        for name in ("text", "image", "group")
    ]
    assert average["value"] == pytest.approx(np.mean(fifteen))
    assert round(average["value"], 4) == 0.4347
    low, high = average["ci95"]
    assert low < average["value"] < high
    assert found["examples"] == 251_048
    micro = [
        100 * found["metrics"][f"{name}_micro"]["value"] for name in ("text", "image", "group")
    ]
    assert micro[0] == pytest.approx(36.6, abs=0.6)


@pytest.mark.parametrize("model", ["x-vlm_4m", "clipcap_coco"])
def test_valse(cli: Cli, shared: Path, model: str) -> None:
    path = shared / f"valse/scores/{model}.jsonl"
    pairs: dict[str, dict[int, dict[str, float]]] = {}
    for line in path.read_text().splitlines():
        row = json.loads(line)
        for part in {row["instrument"], row["piece"]}:
            pairs.setdefault(part, {}).setdefault(row["id"], {})[row["type"]] = row["score"]
    few = ("--resamples", 100)
    found = results(cli, "valse", "--scores", path, "--root", shared / "valse", *few)
    assert set(found["subsets"]) == set(pairs)
    for part, items in pairs.items():
        expected = np.mean([item["caption"] > item["foil"] for item in items.values()])
        metric = found["subsets"][part]["pairwise_accuracy"]
        assert metric["value"] == pytest.approx(expected)
        assert metric["n"] == len(items)
    assert found["examples"] == 7702
    assert found["clusters"] < 7702
    assert ("p_c" in found["metrics"]) == (model == "x-vlm_4m")
    without = results(cli, "valse", "--scores", path, *few)
    assert without["clusters"] is None
    assert without["metrics"]["pairwise_accuracy"]["value"] == pytest.approx(
        found["metrics"]["pairwise_accuracy"]["value"]
    )


def test_demo_shows_that_ties_are_not_wins(cli: Cli) -> None:
    found = results(
        cli, SHAPES / "examples.jsonl", "--scores", SHAPES / "bag-of-words.csv"
    )  # fmt: skip
    assert found["subsets"]["replace-colour"]["text"]["value"] == 1.0
    for subset in ("swap-attribute", "swap-sides"):
        assert found["subsets"][subset]["text"]["value"] == 0.0
        assert found["subsets"][subset]["text"]["ties"] == 1.0


def test_table_in_a_pipe_is_plain(cli: Cli, shared: Path) -> None:
    said = cli("metrics", "winoground", "--scores", shared / "winoground_scores/human.jsonl")
    assert said.status == 0
    lines = said.out.splitlines()
    assert lines[1].split() == ["metric", "value", "95", "%", "interval", "n", "chance", "ties"]
    assert lines[2].split()[:2] == ["text", "89.50"]
    assert not set(said.out) & set("─│┃━╭\x1b")


def test_same_seed_same_output(cli: Cli, shared: Path) -> None:
    path = shared / "winoground_scores/clip.jsonl"
    first = cli("metrics", "winoground", "--scores", path, "--json", "--seed", "3")
    again = cli("metrics", "winoground", "--scores", path, "--json", "--seed", "3")
    other = cli("metrics", "winoground", "--scores", path, "--json", "--seed", "4")
    assert first.out == again.out
    assert first.out != other.out


def test_layouts_say_the_same(cli: Cli, shared: Path, tmp_path: Path) -> None:
    """Label rows, wide rows, a general table, Parquet and an array give one answer."""
    source = shared / "winoground_scores/vilt.jsonl"
    scores = np.zeros((400, 2, 2))
    for line in source.read_text().splitlines():
        row = json.loads(line)
        example, caption, image = row["label"].replace("c", "").replace("i", "").split("_")
        scores[int(example), int(image), int(caption)] = row["score"]
    np.save(tmp_path / "scores.npy", scores)
    wide = [
        {"id": i, **{f"c{c}_i{j}": scores[i, j, c] for c in range(2) for j in range(2)}}
        for i in range(400)
    ]
    (tmp_path / "wide.jsonl").write_text("\n".join(map(json.dumps, wide)))
    general = [
        f"{i},{j},{c},{scores[i, j, c]!r}" for i in range(400) for j in range(2) for c in range(2)
    ]
    text = (
        "\n".join(["example,image,text,score", *general])
        .replace("np.float64(", "")
        .replace(")", "")
    )
    (tmp_path / "general.csv").write_text(text)
    cli("metrics", "winoground", "--scores", source, "--out", tmp_path / "run")
    expected = results(cli, "winoground", "--scores", source)["metrics"]
    for name in ("scores.npy", "wide.jsonl", "general.csv", "run/scores.parquet"):
        assert results(cli, "winoground", "--scores", tmp_path / name)["metrics"] == expected, name


def test_official_protocol_counts_as_the_official_script(cli: Cli, tmp_path: Path) -> None:
    """ARO's order sets take an argmax with the right caption first: a tie is right there."""
    rows = ["example,text,score"] + [f"{i},{j},1.0" for i in range(3) for j in range(5)]
    path = tmp_path / "ties.csv"
    path.write_text("\n".join(rows))
    arguments = ("aro-coco-order", "--scores", path, "--partial")
    strict = results(cli, *arguments)["metrics"]["accuracy"]
    both = results(cli, *arguments, "--protocol", "official")
    official = both["metrics"]["accuracy"]
    assert both["strict"]["accuracy"]["value"] == 0.0
    shown = cli("metrics", *arguments, "--protocol", "official")
    assert "strict" in shown.out.splitlines()[1]
    assert (strict["value"], strict["ties"]) == (0.0, 1.0)
    assert (official["value"], official["ties"]) == (1.0, 1.0)


def test_several_files_stand_side_by_side(cli: Cli, shared: Path, tmp_path: Path) -> None:
    files = [shared / f"winoground_scores/{name}.jsonl" for name in ("clip", "vilt")]
    arguments = ["metrics", "winoground", "--scores", files[0], "--scores", files[1]]
    said = cli(*arguments, "--resamples", 100, "--out", tmp_path / "both")
    assert said.status == 0, said
    header = said.out.splitlines()[1]
    assert header.index("clip") < header.index("vilt")
    row = next(line for line in said.out.splitlines() if line.split()[:2] == ["all", "text"])
    assert "30.75" in row
    assert "34.75" in row
    runs = json.loads(cli(*arguments, "--resamples", 100, "--json").out)["runs"]
    assert [run["metrics"]["text"]["value"] for run in runs] == [0.3075, 0.3475]
    folder = tmp_path / "both"
    both = cli("compare", f"{folder}@clip", f"{folder}@vilt", "--json", "--resamples", 100)
    assert json.loads(both.out)["metrics"]["text"]["difference"] == pytest.approx(0.04)
    assert "--prior" in cli(*arguments, "--prior", files[0]).refused()
    twice = ["metrics", "winoground", "--scores", files[0], "--scores", files[0]]
    assert "twice" in cli(*twice, "--resamples", 100).refused()
