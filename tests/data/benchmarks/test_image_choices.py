"""SPEC, SVO-Probes and ImageCoDe: several images for one caption, or several captions."""

from __future__ import annotations

import csv
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

import contrapose as cp
from contrapose.data import Example, find_single_benchmark
from contrapose.errors import InputError
from contrapose.files import ProblemList, Problems, StrictProblems


def read(name: str, root: Path, problems: Problems | None = None) -> list[Example]:
    data = find_single_benchmark(name).read(root, problems or StrictProblems())
    assert isinstance(data, Iterator)
    return list(data)


def write_json(path: Path, content: Any) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(content))


def test_spec_both_ways(tmp_path: Path) -> None:
    row = {"query": "images/1.png", "keys": ["one cat", "two cats", "no cat"], "label": 1}
    write_json(tmp_path / "data" / "count" / "image2text.json", [row])
    row = {"query": "two cats", "keys": ["images/1.png", "images/2.png"], "label": 0}
    write_json(tmp_path / "data" / "count" / "text2image.json", [row, row])
    (example,) = read("spec/image-to-text", tmp_path)
    assert (example.id, example.match) == ("count/0", ((False, True, False),))
    assert example.images[0].path == tmp_path / "data" / "count" / "images" / "1.png"
    example, other = read("spec/text-to-image", tmp_path)
    assert (example.shape, example.match) == ((2, 1), ((True,), (False,)))
    assert example.tags == {"subset": "count"}
    scores = np.array([[[0.1], [0.0]], [[0.0], [0.0]]])
    run = cp.measure(scores, "spec/text-to-image", root=tmp_path, resamples=100)
    assert run.metrics["image"].value == 1 / 2  # a tie is no win
    assert other.id == "count/1"


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"label": 3}, "0 to 2"),
        ({"label": -1}, "0 to 2"),
        ({"label": "x"}, "label"),
        ({"keys": ["only one"]}, "two or more"),
        ({"keys": ["a", 3, "b"]}, "keys"),
        ({"query": "../1.png"}, "climbs out"),
        ({"query": 7}, "query"),
    ],
)
def test_spec_malformed_rows(change: dict[str, Any], words: str, tmp_path: Path) -> None:
    row = {"query": "1.png", "keys": ["a", "b", "c"], "label": 0}
    write_json(tmp_path / "existence" / "image2text.json", [row, row | change])
    problems = ProblemList()
    assert len(read("spec/image-to-text", tmp_path, problems)) == 1
    (problem,) = problems.problems
    assert words in problem.message


def test_spec_needs_a_folder(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"image2text\.json in none of the folders"):
        read("spec/image-to-text", tmp_path)


COLUMNS = ("sentence", "pos_image_id", "neg_image_id", "subj_neg", "verb_neg", "obj_neg")


def write_probes(root: Path, *rows: tuple[object, ...]) -> None:
    with (root / "svo_probes.csv").open("w", newline="") as stream:
        csv.writer(stream).writerows((COLUMNS, *rows))


def test_svo_probes(tmp_path: Path) -> None:
    write_probes(
        tmp_path,
        ("a dog runs", 5, 6, False, True, False),
        ("a dog runs", 5, 7, True, False, False),
        ("A  dog runs", 5, 7, "true", "True", 0),
        ("a cat sits", 8, 5, 0, 0, 1),
    )
    examples = read("svo-probes", tmp_path)
    assert [e.tags["subset"] for e in examples] == ["verb", "subject", "several", "object"]
    assert examples[0].images[1].path == tmp_path / "images" / "6.jpg"
    scores = np.array([[0.9, 0.2], [0.9, 0.6], [0.9, 0.6], [0.5, 0.4]])[:, :, None]
    run = cp.measure(scores, "svo-probes", root=tmp_path, resamples=100)
    assert run.metrics["image"].value == 1
    # Distinct pairs of sentence and image: (dog, 5), (cat, 8); (dog, 6), (dog, 7), (cat, 5).
    assert run.metrics["accuracy_true"].value == 1
    assert run.metrics["accuracy_false"].value == pytest.approx(2 / 3)
    assert run.metrics["balanced_accuracy"].value == pytest.approx((1 + 2 / 3) / 2)
    run = cp.measure(5 * scores, "svo-probes", root=tmp_path, resamples=100)
    assert "balanced_accuracy" not in run.metrics
    run = cp.measure(scores, "svo-probes", root=tmp_path, threshold=0.3, resamples=100)
    assert run.metrics["accuracy_false"].value == pytest.approx(1 / 3)


def test_score_files_of_svo_probes(tmp_path: Path) -> None:
    write_probes(
        tmp_path,
        ("A dog runs", 5, 6, False, True, False),
        ("a dog runs", 5, 7, True, False, False),
        ("a cat sits", 8, 5, 0, 0, 1),
    )
    file = tmp_path / "model.json"
    scores = {"a dog runs|5": 1, "a dog  runs|6": 0, "a dog runs|7": 1, "a cat sits|8": 1}
    file.write_text(json.dumps(scores))
    with pytest.raises(InputError, match="partial"):
        cp.measure(file, "svo-probes", root=tmp_path)
    run = cp.measure(file, "svo-probes", root=tmp_path, partial=True, resamples=100)
    assert [run.metrics[name].value for name in ("accuracy_true", "accuracy_false")] == [1, 1 / 2]
    with pytest.raises(InputError, match="root"):
        cp.measure(file, "svo-probes")
    for bad, words in (
        ({**scores, "A dog runs|5": 1}, "twice"),
        ({**scores, "a dog runs": 1}, "<image id>"),
        ({**scores, "a cat sits|5": "yes"}, "finite number"),
        ({**scores, "a cat sits|5": None}, "finite number"),
    ):
        file.write_text(json.dumps(bad))
        with pytest.raises(InputError, match=words):
            cp.measure(file, "svo-probes", root=tmp_path, partial=True)


@pytest.mark.parametrize(
    ("row", "words"),
    [
        (("a dog", "five", 6, 0, 1, 0), "pos_image_id"),
        (("", 5, 6, 0, 1, 0), "sentence"),
        (("a dog", 5, 6, 0, "perhaps", 0), "True or False"),
        (("a dog", 5, 6, 0, 1), "5 fields"),
    ],
)
def test_svo_probes_malformed_rows(row: tuple[object, ...], words: str, tmp_path: Path) -> None:
    write_probes(tmp_path, ("a dog", 5, 6, 0, 1, 0), row)
    problems = ProblemList()
    assert len(read("svo-probes", tmp_path, problems)) == 1
    assert words in problems.problems[0].message


def test_imagecode_counts_images_by_their_numbers(tmp_path: Path) -> None:
    write_json(tmp_path / "valid_data.json", {"open-images-1": {"5": "a"}, "MSR-VTT-2": {"1": "b"}})
    folder = tmp_path / "image-sets" / "MSR-VTT-2"
    folder.mkdir(parents=True)
    for number in range(0, 100, 10):
        Image.new("RGB", (2, 2)).save(folder / f"img{number}.jpg")
    (folder / "notes.txt").write_text("")
    static, video = read("imagecode", tmp_path)
    assert static.images[5].key == "open-images-1/img5.jpg"
    assert [row[0] for row in static.match] == [i == 5 for i in range(10)]
    assert static.tags == {"kind": "static", "source": "Open Images", "set": "open-images-1"}
    assert video.images[9].path == folder / "img90.jpg"
    assert (video.id, video.tags["kind"]) == ("MSR-VTT-2/1", "video")
    (folder / "img20.jpg").unlink()
    with pytest.raises(InputError, match="holds 9 images"):
        read("imagecode", tmp_path)


@pytest.mark.parametrize(
    ("sets", "words"),
    [
        ({"a": {"10": "text"}}, "position '10'"),
        ({"a": {"x": "text"}}, "position 'x'"),
        ({"a": {"1": 7}}, "'1' must be text"),
        ({"a": {}}, "position: description"),
        ({"a": ["text"]}, "position: description"),
        ({"../a": {"1": "text"}}, "climbs out"),
    ],
)
def test_imagecode_malformed_sets(sets: Any, words: str, tmp_path: Path) -> None:
    write_json(tmp_path / "valid_data.json", {"b": {"0": "right"}, **sets})
    problems = ProblemList()
    assert [e.id for e in read("imagecode", tmp_path, problems)] == ["b/0"]
    assert words in problems.problems[0].message


def test_imagecode_as_released(shared: Path) -> None:
    examples = read("imagecode", shared / "imagecode")
    assert len(examples) == 2302 == sum(find_single_benchmark("imagecode").card.counts.values())
    assert {e.shape for e in examples} == {(10, 1)}
    kinds = [e.tags["kind"] for e in examples]
    assert (kinds.count("video"), kinds.count("static")) == (1872, 430)
