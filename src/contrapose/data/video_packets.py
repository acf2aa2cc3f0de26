"""Packets of videos, read and not decoded: when each frame is shown, and where a video ends."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING

from contrapose.data.video_files import decoding_errors
from contrapose.errors import InputError

if TYPE_CHECKING:
    from av.container import InputContainer
    from av.packet import Packet
    from av.video.stream import VideoStream

SEEK_SECONDS = 2.0
"""A time this far ahead is reached by seeking at first, a nearer one by decoding on; a seek that
misses its aim goes as far back."""

VP8_SHOWN = 0x10
"""Bit of the first byte of a VP8 packet whose frame is shown; the others are only referred to."""

NO_TIMES = "has frames without timestamps; copy it into a container such as .mp4 or .mkv."


@dataclass(frozen=True, slots=True)
class PacketEnds:
    """Ends of what a container holds, in seconds of its clock.

    Attributes:
        video: end of the frame that is shown last.
        streams: end of the last packet of any stream.
    """

    video: float
    streams: float


def has_display_times(container: InputContainer) -> bool:
    """Whether a container says when frames are shown; AVI only has the order of decoding."""
    return "avi" not in container.format.name.split(",")


def has_sought_times(container: InputContainer) -> bool:
    """Whether frames have the right timestamps after a seek.

    A program stream (.mpg) gives timestamps to some packets only: those after a seek are guessed.
    """
    return container.format.name != "mpeg"


def list_timestamps(container: InputContainer, stream: VideoStream) -> list[int]:
    """List the timestamps of all frames that are shown, ascending, from the position on.

    Frames that an edit list leaves out are not among them.

    Raises:
        InputError: a frame has no timestamp.
    """
    shown = has_display_times(container)
    stamps = set()
    for packet in container.demux(stream):
        if packet.size and not packet.is_discard and not _is_hidden(packet, stream):
            stamp = packet.pts if shown else packet.dts
            if stamp is None:
                raise InputError(NO_TIMES)
            stamps.add(stamp)
    return sorted(stamps)


def read_last_ends(
    container: InputContainer, stream: VideoStream, shown: float
) -> PacketEnds | None:
    """Read where a video ends from its last packets, or None where no seek leads to them.

    From a keyframe on, no frame is shown before those that were decoded earlier. The seek goes
    further back until there is one, since sound may be longer than the video.

    Args:
        container: the open container; its position changes.
        stream: its video.
        shown: seconds of a frame that does not say how long it is shown.
    """
    if not has_sought_times(container):
        return None
    clock = stream.time_base or Fraction(1, 1000)
    length = (container.duration or 0) / 1e6
    begin = float((stream.start_time or 0) * clock)
    back = SEEK_SECONDS
    while back < length:
        aim = int((begin + length - back) / clock)
        try:
            container.seek(aim, stream=stream, backward=True)
        except decoding_errors():
            pass
        else:
            ends = read_ends(container, stream, shown)
            if ends is not None:
                return ends
        back *= 2
    return None


def read_ends(container: InputContainer, stream: VideoStream, shown: float) -> PacketEnds | None:
    """Read where a video ends from all packets that follow; None where no keyframe is among them.

    See `read_last_ends` for the arguments.
    """
    video, last = None, 0.0
    packets = container.demux()
    while True:
        try:
            packet = next(packets, None)
        except decoding_errors():  # a damaged end: the frames before it are shown
            packet = None
        if packet is None:
            return None if video is None else PacketEnds(video, max(last, video))
        if packet.pts is None or not packet.size:
            continue
        base = packet.time_base or Fraction(1, 1000)
        duration = float((packet.duration or 0) * base)
        if packet.stream_index != stream.index:
            last = max(last, float(packet.pts * base) + duration)
        elif not packet.is_discard and (packet.is_keyframe or video is not None):
            video = max(video or 0.0, float(packet.pts * base) + (duration or shown))


def _is_hidden(packet: Packet[VideoStream], stream: VideoStream) -> bool:
    """Whether a packet holds a frame of VP8 that is never shown."""
    return stream.codec_context.name == "vp8" and not bytes(packet)[0] & VP8_SHOWN
