"""Boundary grounding: measured by the engine as by hand, above chance for `tiny`."""

from __future__ import annotations

import json
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

import contrapose as cp
from contrapose.data import Example, ImageRef, in_memory_benchmark, open_images
from contrapose.data.benchmarks import boundaries
from contrapose.errors import InputError
from contrapose.files import StrictProblems
from contrapose.metrics import THRESHOLDS, boundary_grounding
from contrapose.models import Encoder, load_model
from contrapose.report.html import worst_failures
from contrapose.report.html.failure_cards import render_failure
from contrapose.results.shapes.boundaries import find_mistake
from examples.boundaries import write_boundaries
from tests.conftest import Cli
from tests.fakes import Fake

VIDEOS = 12


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("boundaries")
    write_boundaries(folder, videos=VIDEOS)
    return folder


@pytest.fixture(scope="module")
def run(root: Path) -> cp.Run:
    run = cp.evaluate("tiny", on="boundaries", root=root, score="itc", resamples=300, cache=False)
    assert isinstance(run, cp.Run)
    return run


def test_tiny_is_above_chance(run: cp.Run) -> None:
    assert (run.results.examples, run.results.clusters) == (2 * VIDEOS, VIDEOS)
    for name in ("mean_accuracy", "within_0.2s", "within_0.5s"):
        metric = run.metrics[name]
        assert metric.ci95 is not None
        assert metric.chance is not None
        assert metric.ci95[0] > metric.chance, (name, metric)
    assert run.metrics["error_seconds"].value < 1
    assert set(run.results.subsets) == {"Change of Place", "Change of Scene"}


def test_engine_equals_direct_calls(root: Path, run: cp.Run) -> None:
    """Scores of every frame by direct calls of the model give the same metrics."""
    model = load_model("tiny")
    assert isinstance(model, Encoder)
    before, after, times, truth, lengths = [], [], [], [], []
    chances = dict.fromkeys(THRESHOLDS, 0.0)
    examples = list(boundaries.read(root, StrictProblems()))
    vectors = {}
    for example in examples:
        if example.images not in vectors:
            vectors[example.images] = model.embed_images(open_images(example.images))
        images = np.asarray(vectors[example.images])
        texts = np.asarray(model.embed_texts(list(example.texts)))
        unit = [rows / np.linalg.norm(rows, axis=1, keepdims=True) for rows in (images, texts)]
        scores = unit[0].astype(np.float64) @ unit[1].astype(np.float64).T
        before += scores[:, 0].tolist()
        after += scores[:, 1].tolist()
        own_times = [i / 5 for i in range(len(images))]
        time = float(str(example.tags["time"]))
        times += own_times
        truth.append(time)
        lengths.append(len(images))
        middles = [(a + b) / 2 for a, b in pairwise(own_times)]
        for threshold in THRESHOLDS:
            near = [abs(middle - time) <= threshold + 1e-9 for middle in middles]
            chances[threshold] += sum(near) / len(near) / len(examples)
    offsets = np.concatenate([[0], np.cumsum(lengths)])
    outcomes = boundary_grounding(before, after, times, offsets, truth)
    for threshold in THRESHOLDS:
        name = f"within_{threshold:g}s"
        assert run.metrics[name].value == pytest.approx(outcomes[name].mean())
        assert run.metrics[name].chance == pytest.approx(chances[threshold])
    assert run.metrics["mean_accuracy"].value == pytest.approx(outcomes["average"].mean())


@pytest.mark.parametrize("score", ["itm", "lm"])
def test_other_scores(root: Path, score: str) -> None:
    run = cp.evaluate(Fake(), on="boundaries", root=root, score=score, limit=3, cache=False)
    assert isinstance(run, cp.Run)
    assert run.results.examples == 3
    assert 0 <= run.metrics["mean_accuracy"].value <= 1


def test_the_prior_of_captions_cancels(root: Path) -> None:
    with pytest.raises(InputError, match="no choice among captions"):
        cp.evaluate(
            Fake(), on="boundaries", root=root, score="lm", prior="noise:1", limit=2, cache=False
        )


def test_segments_have_fewer_frames_and_a_higher_chance(root: Path, run: cp.Run) -> None:
    other = cp.evaluate(Fake(), on="boundaries-segment", root=root, score="itc", cache=False)
    assert isinstance(other, cp.Run)
    chance, base = other.metrics["within_0.5s"].chance, run.metrics["within_0.5s"].chance
    assert chance is not None
    assert base is not None
    assert chance > base


def test_scores_are_cached_by_content(root: Path, tmp_path: Path) -> None:
    class Counting(Fake):
        calls = 0

        def embed_images(self, images):  # type: ignore[no-untyped-def]
            Counting.calls += len(images)
            return super().embed_images(images)

    for name in ("boundaries", "boundaries-segment"):
        cp.evaluate(Counting(), on=name, root=root, score="itc", cache=tmp_path, resamples=100)
        assert Counting.calls == 17 * VIDEOS  # 3.5 s at five a second, without the last half


def test_run_folders_score_files_comparison_and_report(
    root: Path, run: cp.Run, tmp_path: Path, cli: Cli
) -> None:
    run.save(tmp_path / "run")
    other = cp.evaluate(Fake(), on="boundaries", root=root, score="itc", cache=False)
    other.save(tmp_path / "other")
    scores = tmp_path / "run" / "scores.parquet"
    command = ("metrics", "boundaries", "--root", root, "--scores", scores, "--resamples", 300)
    again = json.loads(cli(*command, "--json").out)
    assert again["metrics"] == json.loads(run.results.model_dump_json())["metrics"]
    compared = cli("compare", tmp_path / "run", tmp_path / "other", "--resamples", 300)
    assert compared.status == 0
    assert "mean_accuracy" in compared.out
    assert "annotation files" in cli("metrics", "boundaries", "--scores", scores).refused()
    page = (tmp_path / "run" / "report.html").read_text()
    assert "mean accuracy" in page


def test_failure_cards_show_the_predicted_and_the_true_frames(root: Path) -> None:
    runs = cp.evaluate([Fake()], on="boundaries", root=root, score="itc", cache=False)
    failures = worst_failures([run.record for run in runs])
    assert failures
    for failure in failures:
        assert 3 <= len(failure.images) <= 4
        assert failure.scores.shape == (len(failure.images), 2)
        assert len(failure.texts) == 2
        assert failure.margin >= 0
        assert all(label.endswith(" s") for label in failure.labels)
        assert failure.labels[0] in render_failure(failure)


def test_a_mistake_is_the_lead_over_the_true_pair() -> None:
    match = np.array([[1, 0], [1, 0], [0, 1], [0, 1], [0, 1]], dtype=np.bool_)
    scores = np.array([[0.9, 0], [0.2, 0], [0, 0.4], [0.7, 0.3], [0, 0.8]])
    margin, frames = find_mistake(scores, match)
    assert margin == pytest.approx(1.5 - 0.6)
    assert frames.tolist() == [1, 2, 3, 4]
    margin, frames = find_mistake(np.where(match, 1.0, 0.0), match)
    assert margin == pytest.approx(1 - 2)  # both captions fit the true pair, one fits its neighbors
    assert frames.tolist() == [0, 1, 2]


def test_a_video_of_a_low_frame_rate_repeats_frames(tmp_path: Path) -> None:
    """A video of one frame a second: five frames are one image, and score alike."""
    write_boundaries(tmp_path, videos=1, lengths=(1, 1), fps=1)
    run = cp.evaluate("tiny", on="boundaries", root=tmp_path, score="itc", cache=False)
    assert isinstance(run, cp.Run)
    table = run.record.scores
    assert table is not None
    values = np.asarray(table["value"]).reshape(10, 2)  # frames × captions
    assert len(np.unique(values[:5], axis=0)) == len(np.unique(values[5:], axis=0)) == 1
    assert len(np.unique(values, axis=0)) == 2


def frames(count: int, tags: dict[str, str]) -> Example:
    refs = tuple(ImageRef("v", Path(f"{i}.png")) for i in range(count))
    return Example("a", refs, ("x", "y"), tuple((i < 2, i >= 2) for i in range(count)), tags)


def test_ties_never_win_and_chance_is_exact() -> None:
    bench = in_memory_benchmark(
        [frames(6, {"time": "0.4", "fps": "5", "first": "0.2"})], family="boundaries"
    )
    metrics = cp.measure(np.zeros((1, 6, 2)), bench).metrics
    # Pairs at 0.3, 0.5, 0.7, 0.9 and 1.1 s.
    chances = {"within_0.1s": 2 / 5, "within_0.2s": 2 / 5, "within_0.5s": 4 / 5, "within_1s": 1.0}
    for name, chance in chances.items():
        assert metrics[name].chance == pytest.approx(chance)
        assert metrics[name].value == float(chance == 1)
        assert metrics[name].ties == 1
    assert metrics["error_seconds"].value == pytest.approx(0.7)


@pytest.mark.parametrize(
    ("tags", "words"),
    [({}, "'fps'"), ({"fps": "5"}, "'time'"), ({"fps": "0", "time": "1"}, "'fps'"),
     ({"fps": "5", "time": "soon"}, "'time'"), ({"fps": "5", "time": "1", "first": "x"}, "first")],
)  # fmt: skip
def test_examples_need_times(tags: dict[str, str], words: str) -> None:
    bench = in_memory_benchmark([frames(3, tags)], family="boundaries")
    with pytest.raises(InputError, match=words):
        cp.measure(np.zeros((1, 3, 2)), bench)


def test_examples_need_two_frames_and_two_captions() -> None:
    tags = {"fps": "5", "time": "1"}
    with pytest.raises(InputError, match="two frames"):
        cp.measure(np.zeros((1, 1, 2)), in_memory_benchmark([frames(1, tags)], family="boundaries"))
    three = Example("a", frames(2, tags).images, ("x", "y", "z"), ((True, False, False),) * 2, tags)
    with pytest.raises(InputError, match="2 captions"):
        cp.measure(np.zeros((1, 2, 3)), in_memory_benchmark([three], family="boundaries"))
