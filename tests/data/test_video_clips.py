"""Videos in the place of images: times, spans, strips, and what cannot be read."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import contrapose as cp
from contrapose.data import content_id, find_single_benchmark, open_image
from contrapose.data.check import check_data
from contrapose.data.video_clips import VideoClip, VideoRef, has_videos, parse_frames, set_frames
from contrapose.errors import InputError
from contrapose.files import MalformedError
from tests.videos import (
    SIZE,
    cut_edit_list,
    decode_plainly,
    encode_video,
    frame_number,
    gray_frames,
)


@pytest.fixture(scope="module")
def video(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two seconds, twenty frames."""
    return encode_video(tmp_path_factory.mktemp("videos") / "gray.mp4", gray_frames(20))


def numbers(clip: VideoClip) -> list[int]:
    return [frame_number(image) for image in clip.read()]


def test_frames_are_the_middles_of_equal_parts(video: Path) -> None:
    assert numbers(VideoClip(video, 4)) == [2, 7, 12, 17]
    assert numbers(VideoClip(video, 2, start=1.0, end=1.4)) == [11, 13]
    assert numbers(VideoClip(video, 2, start=1.0, end=99.0)) == [12, 17]
    assert numbers(VideoClip(video, 3, start=4, end=10, unit="frames")) == [5, 7, 9]
    assert numbers(VideoClip(video, 3, times=(1.95, 0.0))) == [19, 0]
    refs = VideoClip(video, 2).list_frames("v")
    assert [frame_number(open_image(ref)) for ref in refs] == [5, 15]
    assert {ref.key for ref in refs} == {"v"}


@pytest.mark.parametrize("name", ["a.mp4", "a.mkv", "a.ts"])
def test_numbers_of_frames_at_a_variable_rate(tmp_path: Path, name: str) -> None:
    steps = np.random.default_rng(1).choice([0.02, 0.04, 0.1, 0.007, 0.3], 24)
    times = [3 + float(time) for time in np.cumsum(steps)]
    path = encode_video(tmp_path / name, gray_frames(24), times=times)
    assert [number for _, number in decode_plainly(path)] == list(range(24))
    whole = VideoClip(path, 24, unit="frames")
    assert numbers(whole) == list(range(24))
    assert numbers(VideoClip(path, 3, start=10, end=16, unit="frames")) == [11, 13, 15]
    assert numbers(VideoClip(path, 2, start=22, end=99, unit="frames")) == [22, 23]
    seconds, duration, _ = VideoClip(path, 3, start=10, end=16, unit="frames").timing()
    assert duration == pytest.approx(times[16] - times[10], abs=0.002)
    assert 0 <= seconds[0] <= seconds[-1] < duration
    part = VideoClip(path, 1, start=10.5, end=10.8, unit="frames").timing()
    assert part[1] == pytest.approx(times[11] - times[10], abs=0.002)
    with pytest.raises(InputError, match="it has 24 frames"):
        VideoClip(path, start=24, unit="frames").frame_times()


@pytest.mark.parametrize(("codec", "options"), [("mpeg4", {"bf": "2"}), ("libx264", None)])
def test_numbers_of_frames_where_avi_drops_some(
    tmp_path: Path, codec: str, options: dict[str, str] | None
) -> None:
    """AVI repeats a frame by an empty one; frames leave the decoder later than they enter it."""
    slots = [0, 1, 2, 3, 10, 11, 12, 13, 14, 30, 31, 32, 33, 34, 35, 36, 37, 38]
    path = encode_video(
        tmp_path / "a.avi",
        gray_frames(18),
        fps=1000,
        times=[slot / 1000 for slot in slots],
        codec=codec,
        options=options,
    )
    decoded = [number for _, number in decode_plainly(path)]
    assert len(decoded) == 18
    assert numbers(VideoClip(path, 18, unit="frames")) == decoded
    assert numbers(VideoClip(path, times=(0.0203, 0.0303))) == decoded[8:10]


@pytest.mark.parametrize("rate", [1000, 500])
@pytest.mark.parametrize(("name", "codec"), [("a.mkv", "libx264"), ("a.avi", "mpeg4")])
def test_numbers_of_frames_at_a_high_rate(tmp_path: Path, name: str, codec: str, rate: int) -> None:
    """The clock of .mkv counts milliseconds: the middle of a frame may be the next one's."""
    path = encode_video(tmp_path / name, gray_frames(20), fps=rate, codec=codec, keyframes=1)
    assert numbers(VideoClip(path, 20, unit="frames")) == list(range(20))
    assert numbers(VideoClip(path, 5, start=7, end=12, unit="frames")) == list(range(7, 12))


@pytest.mark.parametrize(("name", "codec"), [("a.mkv", "libx264"), ("a.avi", "mpeg4")])
def test_many_frames_of_a_short_video(tmp_path: Path, name: str, codec: str) -> None:
    """The last of them lies a part of a millisecond before the end."""
    path = encode_video(tmp_path / name, gray_frames(3), codec=codec, fps=25)
    counts = np.bincount(numbers(VideoClip(path, 300)))
    assert counts == pytest.approx([100, 100, 100], abs=4)


def test_numbers_of_frames_of_an_edit_list(tmp_path: Path) -> None:
    path = encode_video(tmp_path / "a.mp4", gray_frames(28), fps=25, keyframes=12)
    cut_edit_list(path, 0.56, 0.4)
    assert numbers(VideoClip(path, 10, unit="frames")) == list(range(14, 24))
    with pytest.raises(InputError, match="it has 10 frames"):
        VideoClip(path, start=12, unit="frames").frame_times()


@pytest.mark.parametrize(("start", "sound"), [(10, 0.0), (10, 14.0), (0, 4.0)])
@pytest.mark.parametrize(("name", "codec"), [("a.mkv", "libx264"), ("a.flv", "libx264")])
def test_frames_spread_over_a_video_and_not_its_sound(
    tmp_path: Path, name: str, codec: str, start: int, sound: float
) -> None:
    times = [start + i / 10 for i in range(20)]
    path = encode_video(tmp_path / name, gray_frames(20), codec=codec, times=times, sound=sound)
    for count in (1, 8, 13, 32):
        expected = [int((i + 0.5) * 20 / count) for i in range(count)]
        assert numbers(VideoClip(path, count)) == expected


def test_content_is_the_video_and_its_times(video: Path) -> None:
    first = content_id(VideoRef(video, frames=2))
    assert first == content_id(VideoRef(video, times=(0.5, 1.5), key="other"))
    assert first != content_id(VideoRef(video, frames=3))
    assert VideoRef(video, frames=2) == VideoRef(video, frames=2) != VideoRef(video, frames=3)
    assert cp.VideoRef is VideoRef


def test_a_strip_stands_for_the_video(video: Path) -> None:
    assert open_image(VideoRef(video, frames=3)).size == (3 * SIZE, SIZE)
    assert open_image(VideoRef(video, frames=20)).size == (7 * SIZE, SIZE)


@pytest.mark.parametrize(
    "options",
    [
        *({"frames": 0}, {"frames": 2.5}, {"frames": True}, {"frames": 20_000}, {"frames": "3"}),
        *({"start": 3.0, "end": 3.0}, {"start": -1.0}, {"start": True}, {"end": float("inf")}),
        *({"times": [float("nan")]}, {"times": [-1.0]}, {"times": "12"}, {"times": 5}),
        *({"times": []}, {"times": [0.5] * 10_000}, {"times": [True]}, {"times": {"a": 1}}),
        *({"times": [0.5, "1"]}, {"times": [1], "frames": 2, "start": 0.5}),
        *({"unit": "hours"}, {"unit": 5}, {"unit": ["frames"]}),
    ],
)
def test_python_and_files_refuse_the_same_values(tmp_path: Path, options: dict[str, Any]) -> None:
    with pytest.raises(MalformedError) as refused:
        VideoRef("a.mp4", **options)
    if options == {"frames": "3"}:  # text is a number where it comes from a table
        return
    file = tmp_path / "own.jsonl"
    row = {"id": "1", "video": "a.mp4", "texts": ["bright", "dark"], "right": 0, **options}
    file.write_text(json.dumps(row) + "\n")
    report = check_data(find_single_benchmark(str(file)), tmp_path)
    assert str(refused.value) in report.problems[0].message


def test_numbers_of_numpy_are_numbers(video: Path) -> None:
    times = np.linspace(0, 1, 3, dtype=np.float32)
    clip = VideoRef(video, times=times).source
    assert clip == VideoRef(video, times=[0.0, 0.5, 1.0]).source
    count: Any = np.int64(3)
    clip = VideoRef(video, frames=count, start=np.float64(1)).source
    assert clip == VideoClip(video, 3, start=1.0)


def test_videos_that_cannot_be_read(video: Path, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="is not there"):
        VideoClip(tmp_path / "none.mp4").frame_times()
    (tmp_path / "empty.mp4").touch()
    with pytest.raises(InputError, match="0 bytes"):
        VideoClip(tmp_path / "empty.mp4").frame_times()
    with pytest.raises(InputError, match="ends before the clip"):
        VideoClip(video, start=2.5).frame_times()
    with pytest.raises(InputError, match="no such frame"):
        VideoClip(video, times=(0.5, 7.0)).read()


def test_options(video: Path) -> None:
    assert parse_frames(4) == parse_frames("4") == (4, False)
    assert parse_frames("16:mean") == (16, True)
    for bad in ("0", "-1", "x", "4:", "4:max", "99999", ""):
        with pytest.raises(InputError, match="frames must be a number"):
            parse_frames(bad)
    example = cp.Example("1", (VideoRef(video),), ("a", "b"), ((True, False),))
    (changed,) = set_frames([example], 3, alone=True)
    assert changed.images[0].source == VideoClip(video, 3, alone=True)
    assert has_videos([changed])


def test_videos_in_a_file_of_the_user(video: Path, tmp_path: Path) -> None:
    encode_video(tmp_path / "a.mp4", gray_frames(4))
    (tmp_path / "bad.webm").write_bytes(b"no video")
    rows = [
        {"id": str(i), "image": name, "texts": ["bright", "dark"], "right": 0}
        for i, name in enumerate(("a.mp4", "bad.webm", "none.mp4"))
    ]
    file = tmp_path / "own.jsonl"
    file.write_text("".join(json.dumps(row) + "\n" for row in rows))
    report = check_data(find_single_benchmark(str(file)), tmp_path)
    assert report.images == 3
    assert report.opened == 1
    assert sorted(p.kind for p in report.problems) == ["missing video", "unreadable video"]
