"""Videos of examples: frames in place of videos, and the mean of their scores.

Frames are ordinary images of the plan, so that batches and store need not know about videos. Only a
model that reads several frames at once is given a video whole.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from contrapose.data import Example, ImageRef
from contrapose.data.video_clips import VideoClip, has_videos
from contrapose.errors import InputError
from contrapose.metrics import FloatArray, IntArray
from contrapose.models import Model, VideoReader

if TYPE_CHECKING:
    from contrapose.models.capabilities import ImageLike


@dataclass(frozen=True, slots=True, eq=False)
class FrameExamples:
    """Examples with the frames of videos in place of the videos.

    Attributes:
        examples: the examples; an image that is no video is one frame.
        owners: (k, frames) which image of the example a frame belongs to, −1 where there is no
            frame; None where no image is a video.
    """

    examples: Sequence[Example]
    owners: IntArray | None = None

    @property
    def width(self) -> int:
        """Largest number of frames of an example."""
        if self.owners is not None:
            return int(self.owners.shape[1])
        return max(len(example.images) for example in self.examples)

    def average(self, scores: FloatArray, images: int) -> FloatArray:
        """Average (k, frames, captions) scores over the frames of each image.

        Args:
            scores: of the frames; NaN makes the mean NaN.
            images: the largest number of images of an example.
        """
        if self.owners is None:
            return scores
        means = np.full((len(scores), images, scores.shape[2]), np.nan)
        for image in range(images):
            mask = self.owners == image
            counts = mask.sum(axis=1)[:, None]
            totals = np.where(mask[:, :, None], scores, 0.0).sum(axis=1)
            np.divide(totals, counts, out=means[:, image], where=counts > 0)
        return means


def expand_videos(model: Model, examples: Sequence[Example]) -> FrameExamples:
    """Put frames in place of videos; a video that cannot be read stays, and is skipped later."""
    if not has_videos(examples):
        return FrameExamples(examples)
    frames_of: dict[ImageRef, tuple[ImageRef, ...]] = {}
    expanded: list[Example] = []
    owners: list[list[int]] = []
    for example in examples:
        for ref in example.images:
            if ref not in frames_of:
                frames_of[ref] = _list_frames(model, ref)
        several = [frames_of[ref] for ref in example.images]
        expanded.append(
            replace(
                example,
                images=tuple(frame for frames in several for frame in frames),
                match=tuple(
                    row for row, frames in zip(example.match, several, strict=True) for _ in frames
                ),
            )
        )
        owners.append([i for i, frames in enumerate(several) for _ in frames])
    table = np.full((len(examples), max(map(len, owners))), -1, dtype=np.int64)
    for i, row in enumerate(owners):
        table[i, : len(row)] = row
    return FrameExamples(expanded, table)


def _list_frames(model: Model, ref: ImageRef) -> tuple[ImageRef, ...]:
    if not isinstance(ref.source, VideoClip) or _is_read_whole(model, ref.source):
        return (ref,)
    try:
        return ref.source.list_frames(ref.key)
    except InputError:
        return (ref,)


def _is_read_whole(model: Model, clip: VideoClip) -> bool:
    """Whether a model is given all frames of a clip at once."""
    count = len(clip.times) or clip.frames
    return isinstance(model, VideoReader) and not clip.alone and 1 < count <= model.max_frames


def prepare_video(model: Model, clip: VideoClip) -> ImageLike:
    """Decode the frames of a clip and preprocess them for a model that reads several at once.

    Raises:
        InputError: the video cannot be read, or the model reads no videos.
    """
    if not isinstance(model, VideoReader):
        raise InputError(f"{model.name} reads no videos.")
    return model.prepare_video(clip.read())


def describe_videos(model: Model, examples: Sequence[Example]) -> str:
    """Describe how videos are scored, in a sentence without its period; empty without videos."""
    clips = [
        ref.source
        for example in examples
        for ref in example.images
        if isinstance(ref.source, VideoClip)
    ]
    if not clips:
        return ""
    counts = sorted({len(clip.times) or clip.frames for clip in clips})
    words = f"{counts[0]}" if len(counts) == 1 else f"{counts[0]} to {counts[-1]}"
    if all(_is_read_whole(model, clip) for clip in clips):
        return f"{model.name} reads {words} frames of a video at once"
    return f"the score of a video is the mean of the scores of {words} frames"
