"""Yes/no judgement: figures of public scores, thresholds of other examples, own data."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

import contrapose as cp
from contrapose.data import Example, ImageRef, in_memory_benchmark
from contrapose.errors import InputError
from contrapose.report.html import worst_failures
from contrapose.results.shapes import main_metric
from tests.conftest import Cli

FIGURES = {
    "x-vlm_16m": (64.28, 68.81),
    "blip2_itm_pretrain": (61.46, 65.44),
    "albef_4m": (57.31, 60.63),
}


@pytest.mark.parametrize("model", FIGURES)
def test_published_figures(model: str, shared: Path) -> None:
    file = shared / "vsr" / "v1" / "scores" / f"{model}_test.jsonl"
    run = cp.measure(file, "vsr", resamples=100)
    values = [round(100 * run.metrics[name].value, 2) for name in ("accuracy", "auroc")]
    assert values == list(FIGURES[model])
    rows = [json.loads(line) for line in file.read_text().splitlines()]
    yes = np.array([row["score"] >= 0.5 for row in rows])
    truth = np.array([row["label"] == 1 for row in rows])
    assert run.metrics["yes_share"].value == pytest.approx(yes.mean())
    sides = yes[truth].mean(), 1 - yes[~truth].mean()
    assert run.metrics["balanced_accuracy"].value == pytest.approx(np.mean(sides))
    if model == "albef_4m":
        rooted = cp.measure(file, "vsr", root=shared / "vsr" / "v1", resamples=100)
        assert rooted.metrics["auroc"].value == run.metrics["auroc"].value
        assert rooted.results.clusters == 1743


def test_files_of_other_splits(shared: Path) -> None:
    file = shared / "vsr" / "v1" / "scores" / "albef_4m_dev.jsonl"
    run = cp.measure(file, "vsr", resamples=100)
    assert run.results.examples == 1012
    assert any("dev split" in note for note in run.results.notes)
    with pytest.raises(InputError, match="another split or release"):
        cp.measure(file, "vsr", root=shared / "vsr" / "v1")
    with pytest.raises(InputError, match="2,195"):
        cp.measure(file, "vsr-v2")


def write_rows(path: Path, scores: list[float], labels: list[int]) -> Path:
    rows = [
        {"id": i, "label": label, "score": score, "relation": "on"}
        for i, (score, label) in enumerate(zip(scores, labels, strict=True))
    ]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def test_a_file_with_holes_is_refused_unless_partial(tmp_path: Path) -> None:
    file = write_rows(tmp_path / "a.jsonl", [0.9, 0.2, 0.4] * 5, [1, 0, 1] * 5)
    with pytest.raises(InputError, match="15 examples"):
        cp.measure(file, "vsr")
    run = cp.measure(file, "vsr", partial=True, resamples=100)
    assert run.metrics["accuracy"].value == pytest.approx(2 / 3)
    assert run.metrics["accuracy_true"].value == pytest.approx(1 / 2)
    assert run.metrics["best_threshold_accuracy"].value == 1
    assert run.metrics["best_threshold_accuracy"].chance == pytest.approx(2 / 3)
    assert run.metrics["accuracy"].chance == 1 / 2
    assert main_metric(run.metrics) == "best_threshold_accuracy"


def test_scores_of_any_scale_need_no_threshold(tmp_path: Path, cli: Cli) -> None:
    file = write_rows(tmp_path / "a.jsonl", [3.0, -2.0] * 10, [1, 0] * 10)
    result = cli("metrics", "vsr", "--scores", file, "--partial", "--resamples", "100", "--json")
    metrics = json.loads(result.out)["metrics"]
    assert set(metrics) == {"best_threshold_accuracy", "auroc"}
    assert metrics["auroc"]["value"] == 1
    run = cp.measure(file, "vsr", partial=True, threshold=4.0, resamples=100)
    assert run.metrics["accuracy"].value == 1 / 2
    assert run.metrics["yes_share"].value == 0


def examples(splits: str) -> list[Example]:
    """One example for each letter: d of the dev split, others of the test split."""
    return [
        Example(
            str(i),
            (ImageRef(f"{i}.png", Path(f"{i}.png")),),
            (f"caption {i}",),
            ((i % 2 == 0,),),
            {"split": "dev" if letter == "d" else "test"},
        )
        for i, letter in enumerate(splits)
    ]


def test_dev_examples_choose_the_threshold_and_do_not_count() -> None:
    scores = [[[0.9]], [[0.6]]] * 4 + [[[0.55]], [[0.1]]] * 6
    run = cp.measure(scores, examples("d" * 8 + "t" * 12), resamples=100)
    assert run.results.examples == 12
    assert any("8 dev examples" in note for note in run.results.notes)
    assert run.metrics["accuracy"].value == 1
    assert run.metrics["best_threshold_accuracy"].value == 1 / 2
    assert in_memory_benchmark(examples("tt")).card.family == "judgement"


def test_failures_are_those_at_the_best_threshold() -> None:
    """Cosines lie far below ½; a pair is a failure only on the wrong side of the threshold."""
    scores = [[[0.30 + i / 1000]] if i % 2 == 0 else [[0.10]] for i in range(40)]
    scores[4] = [[0.05]]
    run = cp.measure(scores, examples("t" * 40), resamples=100)
    failures = worst_failures([run.record])
    assert [failure.example for failure in failures] == ["4"]
    assert failures[0].margin > 0
    assert run.metrics["calibration_error"].ci95 is not None


def test_parts_of_one_label_have_no_area() -> None:
    cases = examples("t" * 24)
    tagged = [
        Example(c.id, c.images, c.texts, c.match, {"subset": "yes" if c.match[0][0] else "no"})
        for c in cases
    ]
    run = cp.measure([[[0.4]]] * 24, tagged, resamples=100)
    assert "auroc" not in run.results.subsets["yes"]
    assert run.metrics["auroc"].value == 1 / 2
    assert "balanced_accuracy" not in run.results.subsets["no"]


def test_several_captions_are_no_judgement() -> None:
    image = (ImageRef("a.png", Path("a.png")),)
    two = [Example("0", image, ("a", "b"), ((True, False),))]
    with pytest.raises(InputError, match="1 caption"):
        cp.measure([[[0.1, 0.2]]], in_memory_benchmark(two, family="judgement"))


def test_comparison_finds_the_benchmark_by_itself(shared: Path, cli: Cli) -> None:
    folder = shared / "vsr" / "v1" / "scores"
    files = [folder / f"{name}_test.jsonl" for name in ("albef_4m", "x-vlm_16m")]
    result = cli("compare", *files, "--resamples", "200", "--json")
    changes = json.loads(result.out)["metrics"]
    assert changes["best_threshold_accuracy"]["verdict"] == "better"
    area = changes["auroc"]
    assert area["verdict"] == "better"
    assert area["share"]
    assert round(100 * area["difference"], 2) == 8.18
    assert area["ci95"][0] < area["difference"] < area["ci95"][1]


def test_few_examples_give_no_verdict_on_areas() -> None:
    cases = examples("t" * 8)
    runs = [cp.measure([[[s]]] * 8, cases, resamples=100) for s in (0.2, 0.3)]
    change = cp.compare(*runs, metric="auroc").metrics["auroc"]
    assert (change.test, change.ci95, change.p) == ("too few", None, 1.0)


def test_own_file_and_a_match_logit(tmp_path: Path) -> None:
    """A logit of 0 is a probability of ½; labels may stand in a file of one's own."""
    colors = {"red": (255, 0, 0), "blue": (0, 0, 255)}
    rows = []
    for i, (name, color) in enumerate(list(colors.items()) * 6):
        Image.new("RGB", (8, 8), color).save(tmp_path / f"{i}.png")
        rows.append({"id": i, "image": f"{i}.png", "texts": ["red"], "label": name == "red"})
    file = tmp_path / "own.jsonl"
    file.write_text("".join(json.dumps(row) + "\n" for row in rows))

    def logit(image: Image.Image, text: str) -> float:
        return 2.0 if image.getpixel((0, 0)) == colors[text] else -1.0

    def probability(image: Image.Image, text: str) -> float:
        return 0.9 if image.getpixel((0, 0)) == colors[text] else 0.4

    for model in (logit, probability):
        run = cp.evaluate(model, on=file, resamples=100)
        assert isinstance(run, cp.Run)
        assert run.metrics["accuracy"].value == run.metrics["auroc"].value == 1
        assert run.metrics["yes_share"].value == 1 / 2
        assert ("calibration_error" in run.metrics) == (model is probability)


def test_threshold_of_a_dev_file(shared: Path, cli: Cli) -> None:
    """The best threshold of the dev scores is used on the test scores."""
    folder = shared / "vsr" / "v1" / "scores"
    for model in FIGURES:
        dev, test = (folder / f"{model}_{split}.jsonl" for split in ("dev", "test"))
        run = cp.measure(test, "vsr", dev_scores=dev, resamples=100)
        rows = [
            [json.loads(line) for line in file.read_text().splitlines()] for file in (dev, test)
        ]
        scores, truth = (
            [np.array([row[name] for row in some], dtype=float) for some in rows]
            for name in ("score", "label")
        )
        edges = [-np.inf, *np.sort(scores[0])]
        best = max(((scores[0] > edge) == truth[0]).mean() for edge in edges)
        limits = [edge for edge in edges if ((scores[0] > edge) == truth[0]).mean() == best]
        reached = {((scores[1] > edge) == truth[1]).mean() for edge in limits}
        value = run.metrics["best_threshold_accuracy"].value
        assert min(reached) - 2e-3 <= value <= max(reached) + 2e-3
        assert any("1,012 dev examples" in note for note in run.results.notes)
    refusal = cli("metrics", "vsr", "--scores", test, "--dev-scores", test).refused()
    assert "--dev-scores" in refusal
    with pytest.raises(InputError, match="dev_scores"):
        cp.measure(np.ones((400, 2, 2)), "winoground", dev_scores=dev)


def write_polls(folder: Path, labels: list[bool], replies: list[str]) -> Path:
    """POPE's questions of one setting, and answers in their order."""
    questions = [
        {"question_id": i, "image": f"{i}.jpg", "text": "Is there a cat?", "label": label}
        for i, label in enumerate("yes" if value else "no" for value in labels)
    ]
    (folder / "coco_pope_random.json").write_text("\n".join(map(json.dumps, questions)))
    answers = [{"question": "is there a cat?", "answer": reply} for reply in replies]
    (folder / "answers.json").write_text("\n".join(map(json.dumps, answers)))  # lines, as POPE's
    return folder / "answers.json"


def test_precision_recall_and_f1_of_replies(tmp_path: Path) -> None:
    labels = [True] * 6 + [False] * 6
    replies = ["Yes, there is.", "yes", "No.", "There is not, yes?", "A cat!", "Yes"]
    replies += ["No, sorry. Yes", "no", "Yes.", "A dog.", "There is no cat", "Yes"]
    file = write_polls(tmp_path, labels, replies)
    run = cp.measure(file, "pope/random", root=tmp_path, resamples=100)
    yes = [1, 1, 0, 0, 0, 1, 0, 0, 1, 0, 0, 1]
    hits = 3
    values = {
        "accuracy": (3 + 3) / 12,  # a reply with neither word is wrong, whatever the label
        "precision": hits / sum(yes),
        "recall": hits / 6,
        "f1": 2 * hits / (sum(yes) + 6),
        "yes_share": sum(yes) / 12,
    }
    assert {name: run.metrics[name].value for name in values} == pytest.approx(values)
    assert main_metric(run.metrics) == "accuracy"
    official = cp.measure(file, "pope/random", root=tmp_path, protocol="official", resamples=100)
    yes[4] = yes[9] = 1  # what has no “no” says yes
    assert official.metrics["precision"].value == pytest.approx(4 / 7)
    assert official.metrics["f1"].value == pytest.approx(2 * 4 / (7 + 6))
    assert official.metrics["accuracy"].value == pytest.approx((4 + 3) / 12)
    assert any("taken for yes" in note for note in official.results.notes)


def test_f1_is_compared_where_it_is_named(tmp_path: Path) -> None:
    labels = [i % 2 == 0 for i in range(40)]
    one = write_polls(tmp_path, labels, ["yes" if value else "no" for value in labels])
    first = cp.measure(one, "pope/random", root=tmp_path, resamples=100)
    other = write_polls(tmp_path, labels, ["yes"] * 40)
    second = cp.measure(other, "pope/random", root=tmp_path, resamples=100)
    plain = cp.compare(first, second, resamples=200)
    assert "f1" not in plain.metrics
    change = cp.compare(first, second, metric="f1", resamples=200).metrics["f1"]
    assert (change.a, change.b) == pytest.approx((1, 2 / 3))
    assert change.test == "paired-bootstrap"
