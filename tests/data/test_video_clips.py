"""Videos in the place of images: times, spans, strips, and what cannot be read."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import contrapose as cp
from contrapose.data import content_id, find_single_benchmark, open_image
from contrapose.data.check import check_data
from contrapose.data.video_clips import VideoClip, VideoRef, has_videos, parse_frames, set_frames
from contrapose.errors import InputError
from contrapose.files import MalformedError
from tests.videos import SIZE, encode_video, frame_number, gray_frames


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
    [{"frames": 0}, {"start": 3.0, "end": 3.0}, {"start": -1.0}, {"times": (float("nan"),)}],
)
def test_impossible_spans_are_refused(options: dict[str, float]) -> None:
    with pytest.raises(MalformedError):
        VideoRef("a.mp4", **options)  # type: ignore[arg-type]


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
