from __future__ import annotations

import os
from pathlib import Path

import pytest
from PIL import Image, ImageDraw

from contrapose.build.video.filters import FrameFilters
from contrapose.build.video.sources import (
    CandidatePair,
    Moment,
    VideoLibrary,
    VideoSettings,
    make_pairs,
    make_sources,
)
from contrapose.errors import InputError
from tests.videos import encode_video

COUNT = 10
EVERYTHING = FrameFilters(blur=0, duplicates=-1)


def bar(position: int) -> Image.Image:
    """A frame whose white bar tells its number."""
    image = Image.new("RGB", (64, 64), "black")
    ImageDraw.Draw(image).rectangle([6 * position, 0, 6 * position + 5, 63], fill="white")
    return image


def number(image: Image.Image | Path) -> int:
    assert isinstance(image, Image.Image)
    row = image.convert("L").crop((0, 30, 60, 31)).resize((COUNT, 1), Image.Resampling.BOX)
    values = [int(row.getpixel((i, 0))) for i in range(COUNT)]  # type: ignore[arg-type]
    return values.index(max(values))


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> VideoLibrary:
    root = tmp_path_factory.mktemp("videos")
    frames = [bar(i) for i in range(COUNT)]
    encode_video(root / "a.mp4", frames, fps=5)
    encode_video(root / "train" / "405" / "b.webm", frames[:3], codec="libvpx", fps=5)
    encode_video(root / "c_000010_000020.mp4", frames[:3], fps=5)
    for name in ("one", "two"):
        encode_video(root / name / "d.mp4", frames[:3], fps=5)
    (root / "empty.mp4").touch()
    (root / "frames" / "e.mp4").mkdir(parents=True)
    for i in (1, 4):
        bar(i).save(root / "frames" / "e.mp4" / f"{i:06d}.jpg", quality=95)
    return VideoLibrary(root)


def by_number(first: int, second: int, caption: str = "x") -> CandidatePair:
    one, other = (Moment(f"{i + 1:06d}", number=i) for i in (first, second))
    return CandidatePair((one, other), (f"{caption} {first}", f"{caption} {second}"), {"o": "x"})


def by_time(first: float, second: float) -> CandidatePair:
    one, other = (Moment(f"{time:09.3f}", time=time) for time in (first, second))
    return CandidatePair((one, other), (f"at {first}", f"at {second}"))


def test_names_of_videos(folder: VideoLibrary) -> None:
    root = folder.root
    assert folder.find_video("a.mp4") == root / "a.mp4"
    assert folder.find_video("a") == root / "a.mp4"
    assert folder.find_video("b") == root / "train" / "405" / "b.webm"
    assert folder.find_video("c") == root / "c_000010_000020.mp4"
    for name, words in (
        ("x", "no video"),
        ("d", "more than once"),
        ("../a.mp4", "climbs out"),
        ("/etc/passwd", "absolute"),
        ("", "empty"),
    ):
        with pytest.raises(InputError, match=words):
            folder.find_video(name)
    with pytest.raises(InputError, match="not a folder"):
        VideoLibrary(root / "nothing")


def test_links_are_followed_once(tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere" / "a.mp4").touch()
    (tmp_path / "videos").mkdir()
    (tmp_path / "videos" / "more").symlink_to(tmp_path / "elsewhere")
    (tmp_path / "elsewhere" / "back").symlink_to(tmp_path / "videos")
    path = VideoLibrary(tmp_path / "videos").find_video("a")
    assert path == tmp_path / "videos" / "more" / "a.mp4"


def test_frames_by_number_and_by_time(folder: VideoLibrary) -> None:
    settings = VideoSettings(EVERYTHING)
    made = make_pairs("a.mp4", [by_number(0, 9), by_number(3, 4)], folder, settings)
    numbers = [[number(image.image) for image in pair.images] for pair in made.pairs]
    assert numbers == [[0, 9], [3, 4]]
    assert made.pairs[0].tags == {"video": "a.mp4", "o": "x"}
    assert made.problems == ()
    made = make_pairs("a", [by_time(0.25, 1.99)], folder, settings)
    assert [number(image.image) for image in made.pairs[0].images] == [1, 9]


def test_another_frame_rate(folder: VideoLibrary) -> None:
    settings = VideoSettings(EVERYTHING, fps=10)
    made = make_pairs("a.mp4", [by_number(0, 8), by_number(0, 30)], folder, settings)
    assert [number(image.image) for image in made.pairs[0].images] == [0, 4]
    assert len(made.pairs) == 1
    (problem,) = made.problems
    assert "ends at 2.00 s" in problem
    assert "frame 000031 at 10 frames a second" in problem
    assert str(folder.root) not in problem
    assert made.notes == ("has 5 frames a second, and they were numbered at 10",)
    assert make_pairs("a.mp4", [by_number(0, 8)], folder, VideoSettings(fps=5)).notes == ()


def test_times_past_the_end(folder: VideoLibrary) -> None:
    made = make_pairs(
        "a", [by_time(0.1, 1.5), by_time(0.1, 9.0)], folder, VideoSettings(EVERYTHING)
    )
    assert len(made.pairs) == 1
    assert made.counts == {"both frames read": 1}
    assert "no frame at 9.00 s" in made.problems[0]


@pytest.mark.parametrize(
    ("name", "words"), [("empty", "0 bytes"), ("missing", "no video"), ("../a", "climbs out")]
)
def test_videos_that_cannot_be_read(folder: VideoLibrary, name: str, words: str) -> None:
    made = make_pairs(name, [by_time(0.1, 0.5)], folder, VideoSettings(EVERYTHING))
    assert made.pairs == []
    assert words in made.problems[0]


def test_frames_that_are_images_already(folder: VideoLibrary) -> None:
    pairs = [
        CandidatePair((Moment("000001", number=0), Moment("000004", number=3)), ("a", "b")),
        CandidatePair((Moment("000001", number=0), Moment("000002", number=1)), ("a", "c")),
    ]
    made = make_pairs("e.mp4", pairs, folder, VideoSettings(EVERYTHING))
    assert [number(image.image) for image in made.pairs[0].images] == [1, 4]
    assert made.counts == {"both frames read": 1}
    assert "000002" in made.problems[0]


@pytest.mark.parametrize("name", ["a.mp4", "e.mp4"])
def test_smaller_images(folder: VideoLibrary, name: str) -> None:
    made = make_pairs(name, [by_number(0, 3)], folder, VideoSettings(EVERYTHING, side=30))
    image = made.pairs[0].images[0].image
    assert isinstance(image, Image.Image)
    assert image.size == (30, 30)


def test_filters_are_counted_in_order(folder: VideoLibrary) -> None:
    settings = VideoSettings(FrameFilters(faces=True, blur=1.0, duplicates=2), per_video=1)
    pairs = [by_number(0, 5), by_number(2, 7), by_number(3, 30)]
    # the same frame under two times
    pairs.append(by_time(0.81, 0.82))
    made = make_pairs("a.mp4", pairs, folder, settings)
    assert dict(made.counts) == {
        "both frames read": 3, "no faces": 3, "sharp": 3, "no near-duplicates": 2, "drawn": 1,
    }  # fmt: skip
    blurred = VideoSettings(FrameFilters(blur=1e6, duplicates=-1))
    assert dict(make_pairs("a.mp4", pairs, folder, blurred).counts) == {
        "both frames read": 3, "sharp": 0,
    }  # fmt: skip


def test_fingerprints_follow_files_and_annotations(tmp_path: Path) -> None:
    (tmp_path / "a.mp4").write_bytes(b"x")
    folder, settings = VideoLibrary(tmp_path), VideoSettings()

    def fingerprint(caption: str = "x") -> str:
        (source,) = make_sources({"a": ([by_number(0, 1, caption)], {})}, folder, settings)
        return source.fingerprint

    first = fingerprint()
    assert fingerprint() == first
    assert fingerprint("y") != first
    os.utime(tmp_path / "a.mp4", ns=(1, 1))
    assert fingerprint() != first


def test_counts_before_a_frame_is_read(folder: VideoLibrary) -> None:
    pairs = [by_number(0, 1)]
    sources = make_sources(
        {"a": (pairs, {"chosen": 3}), "missing": (pairs, {"chosen": 2})}, folder, VideoSettings()
    )
    assert [source.ready for source in sources] == [True, False]
    assert [dict(source.counts) for source in sources] == [
        {"videos": 1, "videos in the folder": 1, "chosen": 3, "pairs of frames": 1},
        {"videos": 1, "videos in the folder": 0, "chosen": 2, "pairs of frames": 1},
    ]
