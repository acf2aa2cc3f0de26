"""Minimal pairs from videos: scene graphs, event boundaries, and steps (methods, section 7)."""

from contrapose.build.video.boundaries import pair_events, read_events
from contrapose.build.video.filters import BLUR, DUPLICATES, MOTION_WORDS, FrameFilters
from contrapose.build.video.graph import TEMPLATE, pair_graph, parse_template, read_graph
from contrapose.build.video.sources import VideoLibrary, VideoSettings, make_sources
from contrapose.build.video.steps import pair_steps, read_steps

__all__ = [
    "BLUR",
    "DUPLICATES",
    "MOTION_WORDS",
    "TEMPLATE",
    "FrameFilters",
    "VideoLibrary",
    "VideoSettings",
    "make_sources",
    "pair_events",
    "pair_graph",
    "pair_steps",
    "parse_template",
    "read_events",
    "read_graph",
    "read_steps",
]
