"""Packets of videos: ends and frame times of many containers, against a plain decode."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from contrapose.data import video as video_module
from contrapose.data.video import list_frame_times, probe_video, read_frames
from contrapose.data.video_files import open_stream
from contrapose.data.video_packets import VP8_SHOWN, read_last_ends
from contrapose.errors import InputError
from tests.videos import cut_edit_list, decode_plainly, encode_video, frame_number, gray_frames

COUNT = 28
SECONDS = COUNT / 25

CONTAINERS = [
    ("a.mkv", "libx264"),
    ("a.webm", "libvpx"),
    ("a.flv", "libx264"),
    ("a.ts", "libx264"),
    ("a.mpg", "mpeg2video"),
    ("a.nut", "ffv1"),
    ("a.mp4", "libx264"),
    ("a.mov", "mpeg4"),
    ("a.wmv", "wmv2"),
]


@pytest.mark.parametrize("sought", [True, False])
@pytest.mark.parametrize(("first", "sound"), [(0, 0.0), (250, 0.0), (2, 2.2), (0, 9.0)])
@pytest.mark.parametrize(("name", "codec"), CONTAINERS)
def test_durations_are_those_of_the_frames(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    name: str,
    codec: str,
    first: int,
    sound: float,
    sought: bool,
) -> None:
    """Whatever the beginning, the sound, and whether a seek leads anywhere."""
    path = encode_video(
        tmp_path / name, gray_frames(COUNT), codec=codec, fps=25, first=first, sound=sound
    )
    if not sought:
        monkeypatch.setattr(video_module, "read_last_ends", lambda *_: None)
    assert probe_video(path).duration == pytest.approx(SECONDS, abs=0.002)
    assert list_frame_times(path) == pytest.approx([t for t, _ in decode_plainly(path)], abs=1e-6)


class CountedContainer:
    """Container that counts the packets that are read."""

    def __init__(self, container: Any) -> None:
        self.container = container
        self.count = 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self.container, name)

    def demux(self, *streams: Any) -> Iterator[Any]:
        for packet in self.container.demux(*streams):
            self.count += 1
            yield packet


@pytest.mark.parametrize("name", ["a.mkv", "a.flv", "a.ts"])
def test_the_end_of_a_long_video_is_sought(tmp_path: Path, name: str) -> None:
    path = encode_video(tmp_path / name, gray_frames(28) * 20, fps=10, keyframes=10)
    container, stream = open_stream(path)
    with container:
        counted: Any = CountedContainer(container)
        ends = read_last_ends(counted, stream, 0.1)
    assert ends is not None
    assert 0 < counted.count < 60


def test_a_file_that_is_cut_off_misses_its_frames(tmp_path: Path) -> None:
    path = encode_video(tmp_path / "a.mkv", gray_frames(COUNT), sound=3.0)
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])
    assert probe_video(path).duration > 2.5
    with pytest.raises(InputError, match="ends at"):
        read_frames(path, [2.4])


VARIABLE = [0.0, 0.1, 0.11, 0.9, 1.0, 1.04, 3.0, 3.1]


@pytest.mark.parametrize("name", ["a.mp4", "a.mkv", "a.ts"])
def test_frame_times_at_a_variable_rate(tmp_path: Path, name: str) -> None:
    path = encode_video(tmp_path / name, gray_frames(8), times=VARIABLE)
    assert list_frame_times(path) == pytest.approx(VARIABLE, abs=0.002)


def test_frames_that_an_edit_list_leaves_out_do_not_count(tmp_path: Path) -> None:
    path = encode_video(tmp_path / "a.mp4", gray_frames(COUNT), fps=25, keyframes=12)
    decoded = decode_plainly(cut_edit_list(path, 0.56, 0.4))
    assert [number for _, number in decoded] == list(range(14, 24))
    times = list_frame_times(path)
    assert times == pytest.approx([time for time, _ in decoded])
    assert [frame_number(image) for image in read_frames(path, times.tolist())] == list(
        range(14, 24)
    )


def test_hidden_frames_of_vp8_do_not_count(tmp_path: Path) -> None:
    import av

    shown = encode_video(tmp_path / "a.webm", gray_frames(COUNT), codec="libvpx")
    path = tmp_path / "hidden.webm"
    with av.open(str(shown)) as source, av.open(str(path), "w") as target:
        stream = target.add_stream_from_template(source.streams.video[0])
        for number, packet in enumerate(source.demux(video=0)):
            if packet.pts is None:
                continue
            packet.stream = stream
            target.mux(packet)
            if number == 7:  # once more, to be referred to only
                content = bytearray(bytes(packet))
                content[0] &= ~VP8_SHOWN
                hidden: Any = av.Packet(bytes(content))
                hidden.stream, hidden.time_base = stream, packet.time_base
                hidden.pts = hidden.dts = (packet.pts or 0) + 10
                target.mux(hidden)
    assert len(decode_plainly(path)) == COUNT
    container, opened = open_stream(path)
    with container:
        assert sum(packet.size > 0 for packet in container.demux(opened)) == COUNT + 1
    assert list_frame_times(path) == pytest.approx(np.arange(COUNT) / 10)
