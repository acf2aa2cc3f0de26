"""Boundary grounding: its files become examples of frames and two captions."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import contrapose as cp
from contrapose.data import Example
from contrapose.data.benchmarks import boundaries
from contrapose.data.video_frames import FrameImage
from contrapose.errors import InputError
from contrapose.files import ProblemList, Problems, StrictProblems
from contrapose.results.shapes import MeasureInput, measure
from contrapose.scores import Answers, build_frame
from examples.boundaries import boundary, write_boundaries
from tests.conftest import Cli
from tests.fakes import Fake
from tests.videos import encode_video, gray_frames

Reader = Callable[[Path, Problems], Iterator[Example]]


def read(root: Path, reader: Reader = boundaries.read) -> list[Example]:
    return list(reader(root, StrictProblems()))


def write(root: Path, records: Any) -> None:
    (root / "val.json").write_text(json.dumps(records))


def times(example: Example) -> list[float]:
    return [ref.source.time for ref in example.images if isinstance(ref.source, FrameImage)]


@pytest.fixture
def root(tmp_path: Path) -> Path:
    encode_video(tmp_path / "videos" / "v.mp4", gray_frames(20))  # 2 s
    record = boundary("v", 1, (0, 0.75, 1.3), "sits", "stands") | {"subject": "a man"}
    write(tmp_path, {"v": [record]})
    return tmp_path


def test_an_example_is_the_frames_of_a_video_and_two_captions(root: Path) -> None:
    (example,) = read(root)
    assert example.id == "v_1"
    assert times(example) == [i / 5 for i in range(10)]
    assert {ref.key for ref in example.images} == {"v"}
    assert example.texts == ("a man sits", "a man stands")
    assert example.match == ((True, False),) * 4 + ((False, True),) * 6
    assert example.tags == {
        "label": "Change of Place", "video": "v", "time": "0.75", "first": "0.0", "fps": "5.0",
    }  # fmt: skip


def test_a_segment_reaches_from_the_previous_to_the_next_boundary(root: Path) -> None:
    record = boundary("v", 1, (0.5, 0.75, 1.3), "a", "b")
    tiny = boundary("v", 2, (0.75, 0.76, 0.77), "a", "b")
    late = boundary("v", 3, (1.95, 1.97, 2.0), "a", "b")
    write(root, {"v": [record, tiny, late]})
    first, second, third = read(root, boundaries.read_segments)
    assert times(first) == [0.4, 0.6, 0.8, 1.0, 1.2, 1.4]
    assert first.tags["first"] == "0.4"
    assert times(second) == [0.6, 0.8]
    assert times(third) == [1.6, 1.8]


def test_boundaries_without_captions_are_no_tasks(root: Path) -> None:
    shot = boundary("v", 2, (0.75, 1.3, 2), "", "") | {"status_after": None}
    write(root, {"v": [boundary("v", 1, (0, 0.75, 1.3), "a", "b"), shot], "w": [shot]})
    assert [example.id for example in read(root)] == ["v_1"]


def test_the_annotations_end_stands_for_a_missing_video(root: Path) -> None:
    (root / "videos" / "v.mp4").unlink()
    (example,) = read(root)
    assert times(example) == [0.0, 0.2, 0.4, 0.6, 0.8, 1.0]


@pytest.mark.parametrize(
    ("change", "words"),
    [({"boundary_id": 3}, "boundary_id"), ({"next_timestamp": 1e9, "timestamp": 1e8}, "too long"),
     ({"status_before": "\ud800"}, "surrogate"), ({"timestamp": "soon"}, "finite number")],
)  # fmt: skip
def test_malformed_boundaries_are_named(root: Path, change: dict[str, Any], words: str) -> None:
    good = boundary("v", 1, (0, 0.75, 1.3), "a", "b")
    write(root, {"v": [good | change], "w": [good | {"boundary_id": "w_1"}]})
    with pytest.raises(InputError, match=words):
        read(root)
    problems = ProblemList()
    assert [one.id for one in boundaries.read(root, problems)] == ["w_1"]
    assert len(problems.problems) == 1


def test_a_video_name_stays_inside(root: Path) -> None:
    write(root, {"../../etc/passwd": [boundary("v", 1, (0, 0.75, 1.3), "a", "b")]})
    with pytest.raises(InputError, match="climbs out"):
        read(root)


def test_the_annotation_file_is_found(root: Path, tmp_path: Path) -> None:
    (root / "val.json").rename(root / "mine.json")
    assert len(read(root)) == 1
    (root / "more.json").write_text("{}")
    with pytest.raises(InputError, match="2 JSON files"):
        read(root)
    (root / "annotations").mkdir()
    (root / "mine.json").rename(root / "annotations" / "val.json")
    assert len(read(root)) == 1
    with pytest.raises(InputError, match="no JSON file"):
        read(root / "videos")


def test_real_annotations(shared: Path, tmp_path: Path) -> None:
    (tmp_path / "val.json").symlink_to(shared / "gebc" / "val.json")
    examples = read(tmp_path)
    assert len(examples) == 7279
    assert all(example.shape[0] >= 2 for example in examples)
    assert len({ref.key for example in examples for ref in example.images[:1]}) == 2082
    frame = build_frame(examples)
    question = MeasureInput(Answers(frame, np.zeros(frame.match.shape)), boundaries.CARD)
    chances = {
        name: round(100 * float(one.chance.mean()), 2)
        for name, one in measure(question).measures.items()
        if one.chance is not None
    }
    assert chances == {  # guessing; the paper's FIBER has 30.16 on average, and 60.01 within 3 s
        "mean_accuracy": 26.71, "within_0.1s": 2.24, "within_0.2s": 4.47, "within_0.5s": 11.07,
        "within_1s": 21.42, "within_1.5s": 30.94, "within_2s": 39.81, "within_2.5s": 48.04,
        "within_3s": 55.66,
    }  # fmt: skip


def test_unreadable_videos_and_boundaries_past_the_end_are_skipped(
    tmp_path: Path, cli: Cli
) -> None:
    annotations = write_boundaries(tmp_path, videos=3)
    past = boundary("video0", 9, (3.0, 5.0, 6.0), "a cat", "a dog")
    annotations["video0"].append(past)
    annotations["gone"] = [boundary("gone", 1, (0, 1, 2), "a cat", "a dog")]
    write(tmp_path, annotations)
    (tmp_path / "videos" / "video1.mp4").write_bytes(b"")
    (tmp_path / "videos" / "video2.mp4").write_bytes(b"no video at all")
    run = cp.evaluate(Fake(), on="boundaries", root=tmp_path, score="itc", cache=False)
    assert isinstance(run, cp.Run)
    assert run.results.examples == 2
    assert run.results.skipped is not None
    assert run.results.skipped.reasons == {
        "the video is empty: a video of 0 bytes": 2,
        "the video is no video that can be read": 2,
        "the video has no such frame": 1,
        "the video is not there": 1,
    }
    command = ("eval", "tiny-clip", "--on", "boundaries", "--root", tmp_path, "--no-cache")
    message = cli(*command, "--strict", "--quiet").refused()
    assert "6 examples" in message
    found = cli("check", "data", "boundaries", "--root", tmp_path)
    assert "no frame at" in found.out
    assert found.status == 1
