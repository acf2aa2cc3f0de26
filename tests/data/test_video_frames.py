from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from PIL import Image

from contrapose.data import content_id, open_images, video_frames
from contrapose.data.check import check_data
from contrapose.data.registry import find_single_benchmark
from contrapose.data.video import find_frames
from contrapose.data.video_frames import VideoFolder, frame_ref, video_digest
from contrapose.errors import InputError
from contrapose.files import MalformedError
from examples.boundaries import write_boundaries
from tests.videos import encode_video, frame_number, gray_frames


@pytest.fixture(scope="module")
def video(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return encode_video(tmp_path_factory.mktemp("videos") / "gray.mp4", gray_frames(20))


def test_frames_of_several_videos_come_in_order(
    video: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = encode_video(tmp_path / "other.mp4", list(reversed(gray_frames(20))))
    opened: list[Path] = []

    def counted(path: Path, times: list[float]) -> list[Image.Image | InputError]:
        opened.append(path)
        return find_frames(path, times)

    monkeypatch.setattr(video_frames, "find_frames", counted)
    times = [(video, 1.5), (other, 0.3), (video, 0.2), (other, 0.0), (video, 1.5)]
    refs = [frame_ref("v", path, time) for path, time in times]
    assert [frame_number(image) for image in open_images(refs)] == [15, 16, 2, 19, 15]
    assert opened == [video, other]  # each is decoded once


def test_content_is_the_videos_bytes_and_the_time(video: Path, tmp_path: Path) -> None:
    copy = Path(shutil.copy(video, tmp_path / "copy.mp4"))
    first = content_id(frame_ref("a", video, 0.2))
    assert first == content_id(frame_ref("b", copy, 0.2))
    assert first != content_id(frame_ref("a", video, 0.4))
    copy.write_bytes(copy.read_bytes() + b"\0")
    assert first != content_id(frame_ref("b", copy, 0.2))


def test_what_cannot_be_read_has_a_reason(video: Path, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="not there"):
        video_digest(tmp_path / "none.mp4")
    with pytest.raises(InputError, match=r"no such frame \(ends at 2.00 s"):
        open_images([frame_ref("v", video, 0.1), frame_ref("v", video, 5.0)])
    (tmp_path / "empty.mp4").touch()
    with pytest.raises(InputError, match="0 bytes"):
        open_images([frame_ref("v", tmp_path / "empty.mp4", 0.0)])


def test_names_of_kinetics(tmp_path: Path) -> None:
    for name in ("a.mp4", "b_000012_000022.mkv", "c_1_2.webm", "d.txt", "a_000001_000002.mp4"):
        (tmp_path / name).touch()
    (tmp_path / "running").mkdir()
    for name in ("e_000001_000011.mp4", "a.mp4"):
        (tmp_path / "running" / name).touch()
    folder = VideoFolder(tmp_path)
    assert folder.path("e") == tmp_path / "running" / "e_000001_000011.mp4"
    assert folder.path("a") == tmp_path / "a.mp4"
    assert folder.path("a").name == "a.mp4"
    assert folder.path("b").name == "b_000012_000022.mkv"
    assert folder.path("c_1_2").name == "c_1_2.webm"
    assert folder.path("c_1_2.webm").name == "c_1_2.webm"
    assert folder.path("d") == tmp_path / "d.mp4"
    assert VideoFolder(tmp_path / "none").path("a") == tmp_path / "none" / "a.mp4"
    with pytest.raises(MalformedError):
        folder.path("../x")


def test_check_decodes_each_video_once_and_names_it_once(tmp_path: Path) -> None:
    write_boundaries(tmp_path, videos=4)
    (tmp_path / "videos" / "video1.mp4").write_bytes(b"")
    (tmp_path / "videos" / "video2.mp4").unlink()
    report = check_data(find_single_benchmark("boundaries"), tmp_path)
    assert [(p.kind, p.file.name) for p in report.problems if p.file] == [
        ("unreadable video", "video1.mp4"),
        ("missing video", "video2.mp4"),
    ]
    assert (sum(report.examples.values()), report.images, report.opened) == (8, 68, 34)
