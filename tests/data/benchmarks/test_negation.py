"""NegRefCOCOg: crops of boxes. CC-Neg: converted files, and no pickle."""

from __future__ import annotations

import json
import pickle
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

import contrapose as cp
from contrapose.data import Example, find_single_benchmark, open_image
from contrapose.data.benchmarks import negation
from contrapose.errors import InputError
from contrapose.files import Problems, StrictProblems

BOXES = [[0.4, 0, 3.2, 4], [2, 1, 2, 2.6]]
ROW = {"image": "1.png", "phrase": "no hat", "ref_bbox": BOXES[0], "bbox_list": BOXES}


def read(name: str, root: Path, problems: Problems | None = None) -> list[Example]:
    data = find_single_benchmark(name).read(root, problems or StrictProblems())
    assert isinstance(data, Iterator)
    return list(data)


def test_boxes_are_cropped_as_pillow_does(tmp_path: Path) -> None:
    (tmp_path / "NegRefCOCOg.json").write_text(json.dumps([ROW]))
    (tmp_path / "train2014").mkdir()
    pixels = np.arange(6 * 5 * 3, dtype=np.uint8).reshape(5, 6, 3)
    whole = Image.fromarray(pixels)
    whole.save(tmp_path / "train2014" / "1.png")
    (example,) = read("negrefcocog", tmp_path)
    assert (example.texts, example.match) == (("no hat",), ((True,), (False,)))
    for ref, (x, y, width, height) in zip(example.images, BOXES, strict=True):
        expected = whole.crop((x, y, x + width, y + height))
        assert open_image(ref).tobytes() == expected.tobytes()


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"ref_bbox": [1, 1, 1, 1]}, "one of the boxes"),
        ({"bbox_list": BOXES[:1]}, "two or more"),
        ({"bbox_list": [BOXES[0], [1, 2, 3]]}, "four numbers"),
        ({"bbox_list": [BOXES[0], [1, 2, True, 4]]}, "four numbers"),
        ({"bbox_list": [BOXES[0], [1, 2, 0.1, 4]]}, "empty"),
        ({"bbox_list": [BOXES[0], [-3, 2, 8, 4]]}, "outside"),
        ({"bbox_list": [BOXES[0], [1e300, 2, 8, 4]]}, "inside"),
        ({"image": "../1.png"}, "climbs"),
        ({"phrase": ""}, "phrase"),
    ],
)
def test_malformed_references(change: dict[str, Any], words: str, tmp_path: Path) -> None:
    (tmp_path / "NegRefCOCOg.json").write_text(json.dumps([{**ROW, **change}]))
    with pytest.raises(InputError, match=words):
        read("negrefcocog", tmp_path)


def test_released_references(shared: Path) -> None:
    examples = read("negrefcocog", shared / "negrefcocog")
    assert len(examples) == 440
    assert {example.match for example in examples} == {((True,), (False,))}
    scores = np.zeros((440, 2, 1))
    strict = cp.measure(scores, "negrefcocog", resamples=100)
    official = cp.measure(scores, "negrefcocog", protocol="official", resamples=100)
    assert (strict.metrics["image"].value, official.metrics["image"].value) == (0, 1)


def test_converted_annotations(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(negation, "EVALUATED", 2)
    notes = [
        {"json": {"caption": f"cat {i}"}, "sop_data": {"negative-prompt": f"a dog, not cat {i}"}}
        for i in range(3)
    ]
    paths = [f"/workspace/datasets/cc3m/{i}.jpg" for i in range(3)]
    content = {"image_paths": paths, "annotations": notes, "num_ops": {"1": [0]}}
    (tmp_path / "ccneg.json").write_text(json.dumps(content))
    first, second = read("cc-neg", tmp_path)
    assert (first.id, first.texts) == ("0", ("cat 1", "a dog not cat 1"))
    assert second.images[0].key == "2.jpg"
    content["image_paths"] = paths[:1]
    (tmp_path / "ccneg.json").write_text(json.dumps(content))
    with pytest.raises(InputError, match="same length"):
        read("cc-neg", tmp_path)
    (tmp_path / "ccneg.json").unlink()
    (tmp_path / "ccneg.csv").write_text("image_path,caption,negative_prompt\n1.jpg,a cat,\n")
    with pytest.raises(InputError, match="negative_prompt"):
        read("cc-neg", tmp_path)


class _Trap:
    """Object that writes a file when it is unpickled."""

    def __init__(self, file: Path) -> None:
        self.file = file

    def __reduce__(self) -> tuple[Any, ...]:
        return Path.touch, (self.file,)


def test_a_pickle_is_never_opened(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"ccneg\.jsonl"):
        read("cc-neg", tmp_path)
    (tmp_path / "ccneg_preprocessed.pt").write_bytes(pickle.dumps(_Trap(tmp_path / "sprung")))
    with pytest.raises(InputError, match=r"convert it: .*weights_only=True"):
        read("cc-neg", tmp_path)
    assert not (tmp_path / "sprung").exists()
