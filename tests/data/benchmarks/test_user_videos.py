"""Videos in user files: spans, frames and times in JSON lines, CSV and Parquet."""

from __future__ import annotations

import csv
import json
import re
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from contrapose.data import Example, Gallery
from contrapose.data.benchmarks.user_file import load_user_benchmark
from contrapose.data.images import ImageRef
from contrapose.data.video_clips import VideoClip, VideoRef
from contrapose.errors import InputError
from contrapose.evaluation.selection import select, with_frames
from contrapose.files import ProblemList, Problems, StrictProblems

CHOICE = {"texts": ["it opens", "it closes"], "right": 0}


def write_lines(folder: Path, *records: Any) -> Path:
    path = folder / "own.jsonl"
    path.write_text("".join(json.dumps(record) + "\n" for record in records))
    return path


def read_examples(path: Path, problems: Problems) -> list[Example]:
    data: Any = load_user_benchmark(path).read(path.parent, problems)
    return list(data)


def read(path: Path) -> list[Any]:
    """Images of each example."""
    return [example.images for example in read_examples(path, ProblemList())]


def refuse(folder: Path, record: Any) -> str:
    """Sentence by which a record is refused; one line, with the record's name."""
    path = write_lines(folder, record)
    problems = ProblemList()
    assert read_examples(path, problems) == []
    (problem,) = problems.problems
    assert "\n" not in problem.message
    assert len(problem.message) < 300
    return problem.message


def test_spans_of_json_lines(tmp_path: Path) -> None:
    path = write_lines(
        tmp_path,
        {"video": "v/a.mp4", "start": 2, "end": 6.5, "frames": 4, **CHOICE},
        {"image": "v/a.mp4", "times": [0.5, 1], **CHOICE},
        {"images": ["v/a.mp4"], "start": 3, "unit": "frames", **CHOICE},
        {"video": "any name", **CHOICE},
        {"image": "b.png", "start": "9:15", "frames": "all", **CHOICE},  # no fields of ours
        {"images": [{"video": "v/a.mp4", "end": 1}, {"image": "b.png"}, "v/a.mp4"],
         "texts": ["a", "b"], "match": [[1, 0], [0, 1], [0, 1]], "start": None},
    )  # fmt: skip
    clips = [tuple(ref.source for ref in images) for images in read(path)]
    video = tmp_path / "v/a.mp4"
    assert clips == [
        (VideoClip(video, frames=4, start=2.0, end=6.5),),
        (VideoClip(video, times=(0.5, 1.0)),),
        (VideoClip(video, start=3.0, unit="frames"),),
        (VideoClip(tmp_path / "any name"),),
        (None,),
        (VideoClip(video, end=1.0), None, VideoClip(video)),
    ]
    assert {ref.key for images in read(path)[:3] for ref in images} == {"v/a.mp4"}  # one cluster


def test_spans_of_csv_and_parquet(tmp_path: Path) -> None:
    rows = [
        {"image": "", "video": "a.mp4", "start": "2", "end": "6.5", "times": "", "frames": "3"},
        {"image": "", "video": "a.mp4", "start": "", "end": "", "times": "[0.5, 1]", "frames": ""},
        {"image": "b.png", "video": "", "start": "", "end": "", "times": "", "frames": ""},
    ]
    path = tmp_path / "own.csv"
    with path.open("w", newline="") as file:
        writer = csv.DictWriter(file, [*rows[0], "caption", "negative"])
        writer.writeheader()
        writer.writerows({**row, "caption": "it opens", "negative": "it closes"} for row in rows)
    expected = [
        (VideoRef(tmp_path / "a.mp4", frames=3, start=2.0, end=6.5),),
        (VideoRef(tmp_path / "a.mp4", times=(0.5, 1.0)),),
        (ImageRef("b.png", tmp_path / "b.png"),),
    ]
    assert read(path) == expected
    table = {
        "images": [[{"video": "a.mp4", "start": 2.0, "end": 6.5, "frames": 3, "image": None}]],
        "texts": [["it opens", "it closes"]],
        "right": [0],
    }
    parquet = tmp_path / "own.parquet"
    pq.write_table(pa.table(table), parquet)
    assert read(parquet) == expected[:1]


@pytest.mark.parametrize("name", ["image", "video"])
def test_files_whose_records_are_all_alike(tmp_path: Path, name: str) -> None:
    """These are read by columns where they can be, and spans are not among what can."""
    records = [{name: f"{i}.mp4", "start": i, "end": 9, **CHOICE} for i in range(3)]
    expected = [(VideoRef(tmp_path / f"{i}.mp4", start=float(i), end=9.0),) for i in range(3)]
    assert read(write_lines(tmp_path, *records)) == expected
    table = tmp_path / "own.parquet"
    pq.write_table(pa.Table.from_pylist(records), table)
    assert read(table) == expected


def test_a_gallery_of_spans(tmp_path: Path) -> None:
    path = write_lines(
        tmp_path,
        {"video": "a.mp4", "start": 0, "end": 2, "caption": "it opens"},
        {"video": "a.mp4", "start": 2, "end": 4, "caption": "it closes"},
        {"video": "a.mp4", "start": 0, "end": 2, "caption": "a door opens"},
    )
    gallery = load_user_benchmark(path).read(tmp_path, ProblemList())
    assert isinstance(gallery, Gallery)
    assert [ref.source for ref in gallery.images] == [
        VideoClip(tmp_path / "a.mp4", end=2.0),
        VideoClip(tmp_path / "a.mp4", start=2.0, end=4.0),
    ]
    assert gallery.pairs == ((0, 0), (0, 1), (1, 2))


@pytest.mark.parametrize(
    ("fields", "says"),
    [
        ({"start": -1}, "from 0 on"),
        ({"start": 5, "end": 5}, "end after its beginning"),
        ({"start": 1e400}, "finite number"),
        ({"start": 10**400}, "finite number"),
        ({"end": "soon"}, "finite number"),
        ({"end": True}, "finite number"),
        ({"frames": 0}, "from 1 to 9999"),
        ({"frames": 10**9}, "from 1 to 9999"),
        ({"frames": 2.5}, "whole number"),
        ({"times": []}, "list of 1 to 9999"),
        ({"times": [0] * 10_000}, "list of 1 to 9999"),
        ({"times": 3}, "list of 1 to 9999"),
        ({"times": ["1"]}, r"'times\[0\]' must be a finite number"),
        ({"times": [True]}, r"'times\[0\]' must be a finite number"),
        ({"times": [-1]}, "from 0 on"),
        ({"times": [10**400]}, r"'times\[0\]' must be a finite number"),
        ({"times": [1], "frames": 2, "start": 0}, "leave out 'start', 'frames'"),
        ({"unit": "hours"}, "seconds or frames"),
        ({"unit": ["frames"]}, "seconds or frames"),
        ({"image": "b.png"}, "two things"),
        ({"video": 5}, "video"),
        ({"video": "../../etc/a.mp4"}, "climbs out"),
        ({"video": "/etc/a.mp4"}, "is absolute"),
        ({"video": "x\0.mp4"}, "."),
        ({"video": None, "images": ["a.mp4", "b.mp4"], "start": 1}, "several images"),
        ({"video": None, "images": [{"video": "a.mp4", "begin": 1}]}, "unknown field 'begin'"),
        ({"video": None, "images": [{"image": "b.png", "end": 1}]}, "no video by its name"),
        ({"video": None, "images": [{}]}, "image"),
        ({"video": None, "images": [["a.mp4"]]}, "names, or objects"),
        ({"video": None, "images": [{"video": "a.mp4", "frames": 10**9}]}, "from 1 to 9999"),
    ],
)
def test_values_that_are_not_possible(tmp_path: Path, fields: dict[str, Any], says: str) -> None:
    assert re.search(says, refuse(tmp_path, {"video": "a.mp4", **CHOICE, **fields}))


def test_frames_of_the_command_count(tmp_path: Path) -> None:
    """A number that the user gives overrules that of the file; spans and given times stay."""
    path = write_lines(
        tmp_path,
        {"video": "a.mp4", "start": 1, "frames": 4, **CHOICE},
        {"video": "a.mp4", "times": [0.5], **CHOICE},
    )
    selection = select(str(path))
    ((_, data),) = with_frames(selection, 2, alone=False).parts.values()
    assert isinstance(data, list)
    clips = [example.images[0].source for example in data if isinstance(example, Example)]
    assert [(clip.count, clip.start) for clip in clips] == [(2, 1.0), (1, 0.0)]  # type: ignore[union-attr]


def test_strict_reading_names_file_and_line(tmp_path: Path) -> None:
    path = write_lines(
        tmp_path, {"video": "a.mp4", **CHOICE}, {"video": "a.mp4", "start": "x", **CHOICE}
    )
    with pytest.raises(InputError, match=r"own\.jsonl, line 2: .*'start'"):
        read_examples(path, StrictProblems())
