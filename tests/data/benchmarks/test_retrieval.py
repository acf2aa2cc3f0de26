"""COCO and Flickr30k: three layouts, one gallery."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

import contrapose as cp
from contrapose.data import Gallery, find_single_benchmark, open_image
from contrapose.data.benchmarks.retrieval import read_coco, read_flickr
from contrapose.errors import InputError
from contrapose.evaluation.evaluate import evaluate_models
from contrapose.evaluation.parts import EvalRequest
from contrapose.files import ProblemList, Problems, StrictProblems
from tests.fakes import Fake


def write(path: Path, content: Any) -> Path:
    path.parent.mkdir(exist_ok=True)
    path.write_text(json.dumps(content, indent=0))
    return path


def karpathy(number: int, captions: int = 5, split: str = "test") -> dict[str, Any]:
    return {
        "filepath": "val2014",
        "filename": f"COCO_{number}.jpg",
        "split": split,
        "sentences": [{"raw": f"caption {number}.{i}", "tokens": []} for i in range(captions)],
    }


def test_karpathy(tmp_path: Path) -> None:
    images = [karpathy(1), karpathy(2, split="val"), karpathy(3, captions=7)]
    write(tmp_path / "dataset_coco.json", {"images": images, "dataset": "coco"})
    (tmp_path / "images" / "val2014").mkdir(parents=True)
    Image.new("RGB", (3, 3)).save(tmp_path / "images" / "val2014" / "COCO_3.jpg")
    gallery = read_coco(tmp_path, StrictProblems())
    assert [image.key for image in gallery.images] == ["val2014/COCO_1.jpg", "val2014/COCO_3.jpg"]
    assert open_image(gallery.images[1]).size == (3, 3)
    # The first five captions of an image count, whatever it has.
    assert len(gallery.texts) == 10
    assert gallery.texts[9] == "caption 3.4"
    assert gallery.pairs[4:6] == ((0, 4), (1, 5))
    assert gallery.templates == ()


def test_lists(tmp_path: Path) -> None:
    listed = [
        {"image": "flickr30k-images/1.jpg", "caption": ["a", "b"]},
        {"image": "2.jpg", "caption": ["c"]},
    ]
    write(tmp_path / "annotations" / "flickr30k_test.json", listed)
    (tmp_path / "flickr30k-images").mkdir()
    for name in ("1", "2"):
        Image.new("RGB", (3, 3)).save(tmp_path / "flickr30k-images" / f"{name}.jpg")
    gallery = read_flickr(tmp_path, StrictProblems())
    assert gallery.texts == ("a", "b", "c")
    assert gallery.pairs == ((0, 0), (0, 1), (1, 2))
    assert [open_image(image).size for image in gallery.images] == [(3, 3), (3, 3)]


def test_coco_captions(tmp_path: Path) -> None:
    content = {
        "info": {},
        "images": [{"id": 9, "file_name": "9.jpg"}, {"id": 4, "file_name": "4.jpg"}],
        "annotations": [
            {"image_id": 4, "id": 1, "caption": "four"},
            {"image_id": 9, "id": 2, "caption": "nine"},
            {"image_id": 4, "id": 3, "caption": "four again"},
        ],
    }
    write(tmp_path / "captions_val2017.json", content)
    gallery = read_coco(tmp_path, StrictProblems())
    assert [image.key for image in gallery.images] == ["9.jpg", "4.jpg"]
    assert gallery.texts == ("nine", "four", "four again")
    assert gallery.pairs == ((0, 0), (1, 1), (1, 2))


@pytest.mark.parametrize(
    ("bad", "what"),
    [
        ({**karpathy(2), "sentences": []}, "'sentences' must be a list with captions"),
        ({**karpathy(2), "sentences": [{"raw": ""}]}, "'raw' must be text"),
        ({**karpathy(2), "sentences": ["text"]}, "expected an object"),
        ({**karpathy(2), "filepath": "../.."}, "climbs out"),
        ({"filename": "x"}, "'split' is missing"),
        (7, "expected an object"),
    ],
)
def test_a_malformed_record(tmp_path: Path, bad: Any, what: str) -> None:
    content = {"images": [karpathy(1, 1), bad, karpathy(3, 1)]}
    path = write(tmp_path / "dataset_coco.json", content)
    with pytest.raises(InputError) as refused:
        read_coco(tmp_path, StrictProblems())
    start = 3 + json.dumps(karpathy(1, 1), indent=0).count("\n") + 1
    assert f"{path}, line {start}: " in str(refused.value)
    assert what in str(refused.value)
    problems = ProblemList()
    gallery = read_coco(tmp_path, problems)
    assert gallery.texts == ("caption 1.0", "caption 3.0")
    assert gallery.pairs == ((0, 0), (1, 1))
    assert len(problems.problems) == 1


def test_malformed_lists(tmp_path: Path) -> None:
    listed = [{"image": "1.jpg", "caption": "a"}, {"image": "2.jpg", "caption": ["c", None]}]
    write(tmp_path / "flickr30k_test.json", [*listed, {"image": "3.jpg", "caption": ["d"]}])
    problems = ProblemList()
    assert read_flickr(tmp_path, problems).texts == ("d",)
    assert [problem.message for problem in problems.problems] == [
        "record 0: 'caption' must be a list with captions.",
        "record 1: 'caption' must be text, found nothing.",
    ]


def test_coco_captions_without_images_and_images_without_captions(tmp_path: Path) -> None:
    content = {
        "images": [{"id": 1, "file_name": "1.jpg"}, {"id": 2, "file_name": "2.jpg"}],
        "annotations": [{"image_id": 2, "caption": "two"}, {"image_id": 3, "caption": "lost"}],
    }
    write(tmp_path / "captions_val2014.json", content)
    problems = ProblemList()
    gallery = read_coco(tmp_path, problems)
    assert gallery.texts == ("two",)
    assert "image 1.jpg has no caption" in problems.problems[0].message
    assert "1 captions belong to the image 3" in problems.problems[1].message


def test_files_without_a_gallery(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"holds none of dataset_coco\.json"):
        read_coco(tmp_path, StrictProblems())
    write(tmp_path / "dataset_coco.json", {"images": [karpathy(1, split="val")]})
    with pytest.raises(InputError, match="no image with captions"):
        read_coco(tmp_path, StrictProblems())
    write(tmp_path / "dataset_coco.json", [1])
    with pytest.raises(InputError, match="with the key 'images'"):
        read_coco(tmp_path, StrictProblems())


def rococo(number: int, right: int = 5) -> dict[str, Any]:
    captions = [f"right {number}.{i}" for i in range(right)]
    return {"image": f"val2014/{number}.jpg", "caption": [*captions, *[f"bad {number}"] * 5]}


def read_rococo(root: Path, problems: Problems) -> Gallery:
    gallery = find_single_benchmark("rococo/same-concept").read(root, problems)
    assert isinstance(gallery, Gallery)
    return gallery


def test_adversarial_captions_fit_no_image(tmp_path: Path) -> None:
    write(tmp_path / "annotations" / "same_concept.json", [rococo(1), rococo(2, 6), rococo(3, 7)])
    gallery = read_rococo(tmp_path, StrictProblems())
    assert [len([p for p in gallery.pairs if p[0] == i]) for i in range(3)] == [5, 6, 7]
    assert {gallery.texts[j] for i, j in gallery.distractors if i == 1} == {"bad 2"}
    assert len(gallery.distractors) == 15
    assert gallery.images[0].path == tmp_path / "val2014" / "1.jpg"
    write(tmp_path / "annotations" / "same_concept.json", [rococo(1), rococo(2, 4)])
    problems = ProblemList()
    assert len(read_rococo(tmp_path, problems).images) == 1
    assert "9 captions" in problems.problems[0].message
    write(tmp_path / "annotations" / "same_concept.json", [])
    with pytest.raises(InputError, match="no image"):
        read_rococo(tmp_path, StrictProblems())


def test_false_recall_and_the_drop(tmp_path: Path) -> None:
    write(tmp_path / "danger.json", [rococo(1), rococo(2), rococo(3)])
    scores = np.zeros((3, 30))
    scores[0, 2] = 3  # right
    scores[1, 11], scores[1, 5] = 2, 3  # an adversarial caption of another image is first
    scores[2, 0], scores[2, 20], scores[2, 25] = 5, 1, 4  # a caption of another image is first
    run = cp.measure(scores, "rococo/danger", root=tmp_path, resamples=100)
    values = {name: metric.value for name, metric in run.metrics.items()}
    assert values["image_to_text_r1"] == pytest.approx(1 / 3)
    assert values["plain_r1"] == pytest.approx(2 / 3)
    assert values["r1_drop"] == pytest.approx(1 / 3)
    assert values["false_recall"] == pytest.approx(1 / 3)
    scores[0, 5] = 3  # as high as the right one
    run = cp.measure(scores, "rococo/danger", root=tmp_path, resamples=100)
    assert run.metrics["false_recall"].value == pytest.approx(2 / 3)
    assert run.metrics["image_to_text_r1"].value == 0


def test_adversarial_captions_go_with_their_image(tmp_path: Path) -> None:
    write(tmp_path / "danger.json", [rococo(1), rococo(2), rococo(3)])
    (tmp_path / "val2014").mkdir()
    for name in ("1", "3"):
        Image.new("RGB", (3, 3)).save(tmp_path / "val2014" / f"{name}.jpg")
    request = EvalRequest(("rococo/danger",), ("itc",), root=tmp_path, resamples=100)
    (run,) = evaluate_models([Fake()], request)
    assert run.results.examples == 2
    assert run.results.skipped is not None
    assert run.results.skipped.examples == 6  # the image and its five captions
    (run,) = evaluate_models([Fake()], replace(request, limit=1))
    assert run.results.examples == 1
    assert "false_recall" in run.results.metrics
