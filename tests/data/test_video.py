from __future__ import annotations

import wave
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image

from contrapose.data.video import (
    _VideoReader,
    find_frames,
    frame_time,
    list_frame_times,
    probe_video,
    read_frames,
    uniform_times,
)
from contrapose.errors import InputError, MissingExtraError
from tests.videos import SIZE, decode_plainly, encode_video, frame_number, gray_frames

COUNT = 28


@pytest.fixture(scope="module")
def video(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return encode_video(tmp_path_factory.mktemp("videos") / "gray.mp4", gray_frames(COUNT))


def test_probe(video: Path) -> None:
    info = probe_video(video)
    assert (info.fps, info.width, info.height) == (10, 64, 64)
    assert info.duration == pytest.approx(2.8, abs=0.01)


@settings(max_examples=15, deadline=None)
@given(order=st.permutations(range(COUNT)), shift=st.floats(0, 0.098))
def test_frames_are_exact_in_any_order(video: Path, order: list[int], shift: float) -> None:
    some = order[:9]
    images = read_frames(video, [i / 10 + shift for i in some])
    assert [frame_number(image) for image in images] == some


@pytest.mark.parametrize(
    ("name", "codec"),
    [
        ("a.mkv", "libx264"),
        ("a.avi", "mpeg4"),
        ("a.mp4", "mpeg4"),
        ("a.ts", "libx264"),
        ("a.mpg", "mpeg2video"),
        ("a.webm", "libvpx"),
        ("a.flv", "libx264"),
    ],
)
def test_containers_and_codecs(tmp_path: Path, name: str, codec: str) -> None:
    path = encode_video(tmp_path / name, gray_frames(COUNT), codec=codec, fps=25)
    numbers = [0, 27, 3, 14, 13]
    images = read_frames(path, [frame_time(i, 25) for i in numbers])
    assert [frame_number(image) for image in images] == numbers
    images = read_frames(path, [i / 25 for i in numbers])
    assert [frame_number(image) for image in images] == numbers


def test_long_jumps_seek_to_the_right_frame(tmp_path: Path) -> None:
    path = encode_video(tmp_path / "slow.mp4", gray_frames(COUNT), fps=1, keyframes=4)
    times = [0.2, 9.99, 20.5, 27.9, 5.0, 16.0]
    assert [frame_number(image) for image in read_frames(path, times)] == [0, 9, 20, 27, 5, 16]


@pytest.mark.parametrize(
    ("name", "codec", "options"),
    [
        ("a.ts", "mpeg4", {"bf": "0"}),
        ("a.m2ts", "mpeg4", None),
        ("a.mpg", "mpeg2video", {"bf": "2"}),
        ("a.mkv", "libx264", {"x264-params": "intra-refresh=1:keyint=20:bframes=0"}),
        ("a.mkv", "libx264", {"x264-params": "open-gop=1:bframes=3:b-pyramid=normal:keyint=20"}),
    ],
)
def test_seeks_between_keyframes(
    tmp_path: Path, name: str, codec: str, options: dict[str, str] | None
) -> None:
    """A seek may lead to a frame that lacks what it refers to, or to times that are guessed."""
    random = np.random.default_rng(2)
    noise = random.integers(-60, 61, (SIZE, SIZE, 1))
    brightness = 80 + 10 * (np.arange(250) % 10)
    frames = [Image.fromarray((noise + i).repeat(3, 2).astype(np.uint8)) for i in brightness]
    path = encode_video(tmp_path / name, frames, codec=codec, fps=25, keyframes=40, options=options)
    decoded = decode_plainly(path)
    assert len(decoded) == 250
    times = [frame_time(i, 25) for i in random.permutation(240)[:40].tolist()]
    ends = [next(i for i in range(250) if decoded[i][0] > time) for time in times]
    for images in ([read_frames(path, [time])[0] for time in times], read_frames(path, times)):
        assert [frame_number(image) for image in images] == [decoded[end - 1][1] for end in ends]


def test_far_keyframes_are_not_decoded_from_for_every_frame(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = encode_video(tmp_path / "a.mp4", gray_frames(COUNT) * 20, keyframes=10_000)
    decoded = []
    decode_on = _VideoReader._decode_on

    def count(reader: _VideoReader) -> Iterator[Any]:
        for frame in decode_on(reader):
            decoded.append(frame.pts)
            yield frame

    monkeypatch.setattr(_VideoReader, "_decode_on", count)
    images = read_frames(path, uniform_times(56.0, count=16))
    expected = [(35 * i + 17) % COUNT for i in range(16)]
    assert [frame_number(image) for image in images] == expected
    assert len(decoded) < 2 * COUNT * 20


def test_variable_frame_rate(tmp_path: Path) -> None:
    times = [0.0, 0.1, 0.9, 1.0, 3.0, 3.1]
    path = encode_video(tmp_path / "variable.mp4", gray_frames(6), times=times)
    images = read_frames(path, [0.05, 0.5, 0.89, 0.95, 2.9, 3.0])
    assert [frame_number(image) for image in images] == [0, 1, 1, 2, 3, 4]


def test_times_without_a_frame_are_refused_one_by_one(video: Path) -> None:
    first, end, negative, last = find_frames(video, [0.0, 2.9, -1.0, 2.75])
    assert isinstance(first, Image.Image)
    assert isinstance(last, Image.Image)
    assert isinstance(end, InputError)
    assert "ends at 2.80 s" in end.message
    assert "2.90 s" in end.message
    assert isinstance(negative, InputError)
    with pytest.raises(InputError, match="ends at"):
        read_frames(video, [0.0, 2.9])


def test_smaller_frames(video: Path) -> None:
    assert read_frames(video, [0.0], side=16)[0].size == (16, 16)
    assert read_frames(video, [0.0], side=640)[0].size == (64, 64)


def _sound(path: Path) -> None:
    with wave.open(str(path), "wb") as file:
        file.setnchannels(1)
        file.setsampwidth(2)
        file.setframerate(8000)
        file.writeframes(b"\0\0" * 800)


def test_files_that_are_no_video(tmp_path: Path, video: Path) -> None:
    empty, text, playlist = (tmp_path / name for name in ("empty.mp4", "text.mp4", "list.mp4"))
    empty.touch()
    text.write_text("no video at all" * 100)
    playlist.write_text(f"#EXTM3U\n#EXTINF:2.8,\n{video}\n#EXT-X-ENDLIST\n")
    cut = tmp_path / "cut.mp4"
    cut.write_bytes(video.read_bytes()[:2000])
    half, other = tmp_path / "half.mp4", tmp_path / "other.gif"
    half.write_bytes(video.read_bytes()[: video.read_bytes().index(b"moov") + 150])
    gray_frames(1)[0].save(other, save_all=True, append_images=gray_frames(3))
    for path, words in (
        (tmp_path / "none.mp4", "does not exist"),
        (tmp_path, "folder"),
        (empty, "0 bytes"),
        (text, "no video that can be read"),
        (playlist, "no video that can be read"),
        (cut, "no video that can be read"),
        (half, "incomplete or damaged"),
        (other, "no video that can be read .*its format is none of mov, mp4"),
    ):
        with pytest.raises(InputError, match=words):
            probe_video(path)
        with pytest.raises(InputError, match=words):
            find_frames(path, [0.0])


def test_sound_alone(tmp_path: Path) -> None:
    import av

    path = tmp_path / "sound.mkv"
    _sound(tmp_path / "sound.wav")
    with av.open(str(tmp_path / "sound.wav")) as source, av.open(str(path), "w") as target:
        stream = target.add_stream_from_template(source.streams.audio[0])
        for packet in source.demux():
            if packet.dts is not None:
                packet.stream = stream
                target.mux(packet)
    with pytest.raises(InputError, match="holds no video"):
        probe_video(path)


def test_damaged_frames_are_refused_or_skipped(tmp_path: Path) -> None:
    path = encode_video(tmp_path / "damaged.mkv", gray_frames(COUNT))
    content = bytearray(path.read_bytes())
    middle = len(content) // 2
    content[middle : middle + 400] = bytes(400)
    path.write_bytes(content)
    frames = find_frames(path, [0.05, 2.65])
    assert isinstance(frames[0], Image.Image)
    assert frame_number(frames[0]) == 0


def test_frames_behind_damage_do_not_depend_on_the_others(tmp_path: Path) -> None:
    import av

    options = {"bf": "0"}
    path = encode_video(tmp_path / "damaged.mp4", gray_frames(COUNT), keyframes=5, options=options)
    with av.open(str(path)) as container:
        damaged = [packet for packet in container.demux(video=0) if packet.size][11]
        start, size = damaged.pos or 0, damaged.size
    content = bytearray(path.read_bytes())
    content[start : start + size] = b"\xff" * size
    path.write_bytes(content)
    before, at, behind = find_frames(path, [0.95, 1.15, 1.75])
    assert isinstance(at, InputError)
    assert isinstance(before, Image.Image)
    assert isinstance(behind, Image.Image)
    assert (frame_number(before), frame_number(behind)) == (9, 17)


@pytest.mark.parametrize("name", ["a.mp4", "a.mkv", "a.ts"])
def test_changed_bytes_are_refused_in_a_sentence(tmp_path: Path, name: str) -> None:
    content = encode_video(tmp_path / name, gray_frames(12)).read_bytes()
    random = np.random.default_rng(0)
    path = tmp_path / f"changed{name}"
    for turn in range(25):
        bytes_ = bytearray(content)
        for at in random.integers(0, len(content), (1, 5, 50)[turn % 3]):
            bytes_[at] = int(random.integers(256))
        path.write_bytes(bytes_[: None if turn % 4 else len(content) * 2 // 3])
        try:
            probe_video(path)
            find_frames(path, [0.0, 0.9, 0.3, 99.0])
        except InputError:
            continue


def test_pixel_limit(video: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CONTRAPOSE_MEGAPIXELS", "0.001")
    with pytest.raises(InputError, match="too large"):
        read_frames(video, [0.0])


def test_without_the_extra(video: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "av", None)
    with pytest.raises(MissingExtraError, match=r"\[video\]"):
        probe_video(video)


def test_uniform_times() -> None:
    assert uniform_times(1.0, fps=5) == [0.0, 0.2, 0.4, 0.6, 0.8]
    assert uniform_times(0.3, fps=10) == [0.0, 0.1, 0.2]
    assert uniform_times(2.0, count=2) == [0.5, 1.5]
    for wrong in ({}, {"fps": 0.0}, {"count": 0}, {"fps": 1.0, "count": 1}):
        with pytest.raises(InputError):
            uniform_times(1.0, **wrong)


@pytest.mark.parametrize("codec", ["libx264", "mpeg4", "mjpeg"])
@pytest.mark.parametrize("opened", ["0", "1"])
def test_order_of_frames_in_avi(tmp_path: Path, codec: str, opened: str) -> None:
    """AVI has no presentation timestamps: frames come at the constant rate, in order."""
    options = {"x264-params": f"open-gop={opened}:bframes=3:b-pyramid=normal"}
    path = encode_video(
        tmp_path / "a.avi",
        gray_frames(COUNT),
        codec=codec,
        options=options if codec == "libx264" else {"bf": "2"} if codec == "mpeg4" else None,
        pixels="yuvj420p" if codec == "mjpeg" else "yuv420p",
    )
    decoded = [number for _, number in decode_plainly(path)]
    assert len(decoded) == COUNT
    order = np.random.default_rng(0).permutation(COUNT).tolist()
    images = read_frames(path, [i / 10 for i in order])
    assert [frame_number(image) for image in images] == [decoded[i] for i in order]
    assert list_frame_times(path) == pytest.approx(np.arange(COUNT) / 10)
