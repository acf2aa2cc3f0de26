"""NegBench: multiple choice with kinds of captions, and galleries."""

from __future__ import annotations

import csv
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import contrapose as cp
from contrapose.data import Gallery, Suite, find_benchmark, find_single_benchmark
from contrapose.data.video_clips import VideoClip
from contrapose.errors import InputError
from contrapose.files import ProblemList, StrictProblems
from tests.videos import encode_video, gray_frames

ROW: dict[str, Any] = {
    "image_path": "data/coco/images/val2017/1.jpg",
    "correct_answer": 0,
    **{f"caption_{i}": f"caption {i}" for i in range(4)},
    "correct_answer_template": "negative",
}
COCO = "COCO_val_mcq_llama3.1_rephrased.csv"


def write_rows(path: Path, rows: list[dict[str, Any]]) -> None:
    path.parent.mkdir(exist_ok=True)
    with path.open("w", newline="") as file:
        writer = csv.DictWriter(file, list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)


def test_choices(tmp_path: Path) -> None:
    write_rows(tmp_path / "images" / COCO, [ROW])
    (example,) = find_single_benchmark("negbench/coco-mcq").read(tmp_path, StrictProblems())  # type: ignore[misc]
    assert example.texts == tuple(f"caption {i}" for i in range(4))
    assert example.tags == {"template": "negative"}
    assert example.images[0].path == tmp_path / "val2017" / "1.jpg"
    generated = {**ROW, "image_path": "data/syn/data/positive/7_img.png", "correct_answer": 1}
    write_rows(tmp_path / "synthetic_mcq_llama3.1_rephrased.csv", [generated])
    (example,) = find_single_benchmark("negbench/syn-mcq").read(tmp_path, StrictProblems())  # type: ignore[misc]
    assert example.match == ((False, True, False, False),)
    assert example.images[0].key == "positive/7_img.png"


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"correct_answer": 4}, "0 to 3"),
        ({"correct_answer": 1}, "stand first"),
        ({"caption_2": ""}, "caption_2"),
        ({"correct_answer_template": "other"}, "no kind"),
        ({"image_path": "a/"}, "no image"),
        ({"image_path": ".."}, "climbs"),
    ],
)
def test_malformed_rows(change: dict[str, Any], words: str, tmp_path: Path) -> None:
    write_rows(tmp_path / COCO, [{**ROW, **change}, ROW])
    benchmark = find_single_benchmark("negbench/coco-mcq")
    with pytest.raises(InputError, match=words):
        list(benchmark.read(tmp_path, StrictProblems()))  # type: ignore[arg-type]
    problems = ProblemList()
    kept = list(benchmark.read(tmp_path, problems))  # type: ignore[arg-type]
    assert len(kept) == len(problems.problems) == 1


def test_matrix_of_wrong_choices(tmp_path: Path) -> None:
    kinds = ["positive", "negative", "hybrid", "hybrid"]
    rows = [{**ROW, "correct_answer_template": kind} for kind in kinds]
    write_rows(tmp_path / COCO, rows)
    scores = np.zeros((4, 1, 4))
    for example, chosen in enumerate((0, 2, 3, 1)):
        scores[example, 0, chosen] = 1
    run = cp.measure(scores, "negbench/coco-mcq", root=tmp_path, resamples=100)
    assert run.metrics["accuracy"].value == 1 / 4
    for kind in ("positive", "negative", "hybrid"):
        assert run.metrics[f"wrong_{kind}"].value == 1 / 4
    assert run.subsets["negative"]["wrong_positive"].value == 1
    assert run.subsets["hybrid"]["wrong_negative"].value == 1 / 2


def test_videos(tmp_path: Path) -> None:
    row = {**ROW, "image_path": "video7.mp4"}
    write_rows(tmp_path / "videos" / "msr_vtt_mcq_rephrased_llama.csv", [row])
    (example,) = find_single_benchmark("negbench/msrvtt-mcq").read(tmp_path, StrictProblems())  # type: ignore[misc]
    (video,) = example.images
    assert isinstance(video.source, VideoClip)
    assert (video.key, video.source.path) == ("video7.mp4", tmp_path / "videos" / "video7.mp4")


def test_galleries(tmp_path: Path) -> None:
    rows = [
        {"filepath": f"data/val2017/{i}.jpg", "captions": f"['no {i}', \"isn't {i}\"]"}
        for i in (1, 2, 1)
    ]
    write_rows(tmp_path / "COCO_val_retrieval.csv", rows)
    gallery = find_single_benchmark("negbench/coco-retrieval").read(tmp_path, StrictProblems())
    assert isinstance(gallery, Gallery)
    assert [image.key for image in gallery.images] == ["1.jpg", "2.jpg"]
    assert gallery.texts[1] == "isn't 1"
    assert gallery.pairs == ((0, 0), (0, 1), (1, 2), (1, 3), (0, 4), (0, 5))
    for bad in ("", "[]", "__import__('os')", "[1]", "['a'"):
        write_rows(tmp_path / "COCO_val_retrieval.csv", [{**rows[0], "captions": bad}])
        with pytest.raises(InputError, match="captions"):
            find_single_benchmark("negbench/coco-retrieval").read(tmp_path, StrictProblems())


def test_parts() -> None:
    suite = find_benchmark("negbench")
    assert isinstance(suite, Suite)
    assert [part for part in suite.parts if part.endswith("mcq")] == [
        "coco-mcq", "voc-mcq", "syn-mcq", "msrvtt-mcq",
    ]  # fmt: skip


def test_galleries_of_videos(tmp_path: Path) -> None:
    pytest.importorskip("av")
    folder = tmp_path / "videos"
    for name, frames in (("video1", gray_frames(12)), ("video2", gray_frames(12)[::-1])):
        encode_video(folder / f"{name}.mp4", frames)
    (folder / "empty.mp4").touch()
    rows = [
        {"filepath": f"/theirs/all/{name}.mp4", "image_id": name, "captions": str([text])}
        for name, text in (("video1", "a"), ("video2", "b"), ("empty", "c"))
    ]
    for file in ("msr_vtt_retrieval.csv", "msr_vtt_retrieval_rephrased_llama.csv"):
        write_rows(folder / file, rows)
    for part in ("msrvtt-retrieval", "msrvtt-negated-retrieval"):
        gallery = find_single_benchmark(f"negbench/{part}").read(tmp_path, StrictProblems())
        assert isinstance(gallery, Gallery)
        assert [image.key for image in gallery.images] == ["video1.mp4", "video2.mp4", "empty.mp4"]
        assert gallery.pairs == ((0, 0), (1, 1), (2, 2))
    options: dict[str, Any] = {"root": tmp_path, "cache": False, "resamples": 100}
    run: Any = cp.evaluate("tiny-clip", on="negbench/msrvtt-retrieval", frames=2, **options)
    assert "mean of the scores of 2 frames" in run.results.notes[0]
    assert run.results.skipped is not None
    assert set(run.results.skipped.reasons) == {"the video is empty: a video of 0 bytes"}
