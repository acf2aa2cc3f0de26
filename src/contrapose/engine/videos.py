"""Videos of examples: frames in place of videos, and the mean of their scores.

Frames are ordinary images of the plan, so that batches and store need not know about videos. A
model that reads several frames at once is given a clip instead, whose content name tells the kind
of input: a score of one kind is never taken for one of another.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import chain
from typing import TYPE_CHECKING

import numpy as np

from contrapose.data import Example, ImageRef
from contrapose.data.example_columns import ExampleColumns, distinct_refs
from contrapose.data.video_clips import VideoClip, has_videos
from contrapose.errors import InputError, option
from contrapose.metrics import FloatArray, IntArray
from contrapose.models import Chat, FrameTiming, Model, VideoReader

if TYPE_CHECKING:
    from PIL.Image import Image

    from contrapose.models.capabilities import ImageLike

TURN_IMAGES = "images"
"""Form of a clip whose frames are the images of one turn."""


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
        if isinstance(self.examples, ExampleColumns):
            return int(np.diff(self.examples.image_starts).max())
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


@dataclass(frozen=True, slots=True, eq=False)
class FrameGallery:
    """Images of a gallery with the frames of videos in place of the videos.

    Attributes:
        images: the frames of all images, one after another; an image that is no video is one.
        starts: (n + 1,) position of each image's first frame, and the number of all frames.
    """

    images: tuple[ImageRef, ...]
    starts: IntArray

    @property
    def counts(self) -> IntArray:
        """(n,) number of frames of each image."""
        return np.diff(self.starts)

    def average(self, rows: FloatArray) -> FloatArray:
        """Average rows of frames (f, …) over each image (n, …); NaN makes the mean NaN."""
        if len(self.starts) == len(rows) + 1:
            return rows
        means: FloatArray = np.add.reduceat(rows, self.starts[:-1], axis=0)
        means /= self.counts.reshape(-1, *[1] * (rows.ndim - 1)).astype(rows.dtype)
        return means

    def expand_pairs(self, pairs: IntArray) -> tuple[IntArray, IntArray]:
        """Pairs (p, 2) of images and texts as pairs of frames and texts, and where each begins."""
        counts = self.counts[pairs[:, 0]]
        begins = np.concatenate([[0], np.cumsum(counts)[:-1]]).astype(np.int64)
        within = np.arange(int(counts.sum())) - np.repeat(begins, counts)
        frames = np.repeat(self.starts[pairs[:, 0]], counts) + within
        return np.stack([frames, np.repeat(pairs[:, 1], counts)], axis=1), begins


def expand_gallery(model: Model, images: Sequence[ImageRef]) -> FrameGallery:
    """Put frames in place of the videos of a gallery; those that cannot be read stay."""
    several = [_list_frames(model, ref) for ref in images]
    starts = np.cumsum([0, *map(len, several)], dtype=np.int64)
    return FrameGallery(tuple(frame for frames in several for frame in frames), starts)


def _list_frames(model: Model, ref: ImageRef) -> tuple[ImageRef, ...]:
    """Frames of a video, or one clip that the model reads at once."""
    if not isinstance(ref.source, VideoClip):
        return (ref,)
    clip = choose_form(model, ref.source)
    if clip.form:
        return (ImageRef(ref.key, source=clip),)
    try:
        return clip.list_frames(ref.key)
    except InputError:
        return (ref,)


def choose_form(model: Model, clip: VideoClip) -> VideoClip:
    """Clip with the number of frames and the form in which the model is given it.

    The form is empty where every frame is scored by itself.

    Raises:
        InputError: the model's video input cannot be used, or takes another number of frames.
    """
    needed = int(getattr(model, "frame_count", 0))
    if needed and clip.frames is None and not clip.times:
        clip = replace(clip, frames=needed)
    if not isinstance(model, VideoReader) or clip.alone or model.max_frames < 1:
        return clip
    if obstacle := getattr(model, "video_obstacle", ""):
        raise InputError(obstacle)
    if needed and clip.count != needed:
        other = "" if clip.times else f"{option('frames', needed)}, or "  # given times stay
        raise InputError(
            f"{model.name} reads {needed} frames of a video, and no other number: pass {other}"
            f"{option('frames', f'{clip.count}:mean')} to score every frame by itself."
        )
    fewest = 1 if model.video_input == "video" else 2
    if not fewest <= clip.count <= model.max_frames:
        return clip
    return replace(clip, form=model.video_input)


def choose_chat_form(model: Model, clip: VideoClip) -> VideoClip:
    """Clip in the form in which a chat model is shown it: a reply is about all frames at once.

    A model without a video input of its own is shown the frames as the images of one turn.

    Raises:
        InputError: the model's video input cannot be used.
    """
    chosen = choose_form(model, clip)
    return chosen if chosen.form else replace(chosen, form=TURN_IMAGES)


def show_videos(model: Model, examples: Sequence[Example]) -> Sequence[Example]:
    """Examples whose videos have the form in which a chat model is shown them.

    Raises:
        InputError: the model's video input cannot be used.
    """
    if not has_videos(examples):
        return examples

    def show(ref: ImageRef) -> ImageRef:
        if not isinstance(ref.source, VideoClip):
            return ref
        return ImageRef(ref.key, source=choose_chat_form(model, ref.source))

    return [replace(example, images=tuple(map(show, example.images))) for example in examples]


def prepare_video(model: Model, clip: VideoClip) -> ImageLike | tuple[Image, ...]:
    """Decode the frames of a clip and preprocess them for a model that reads several at once.

    Of a chat model without such an input the frames are the images of one turn.

    Raises:
        InputError: the video cannot be read, or the model reads no videos.
    """
    if isinstance(model, VideoReader) and clip.form == model.video_input and model.max_frames:
        return model.prepare_video(clip.read(), FrameTiming(*clip.timing()))
    if clip.form != TURN_IMAGES or not isinstance(model, Chat):
        raise InputError(f"{model.name} reads no videos.")
    return tuple(clip.read())


def describe_videos(
    model: Model,
    parts: Sequence[Sequence[Example]],
    images: Sequence[ImageRef] = (),
    *,
    chat: bool = False,
) -> str:
    """Describe how videos are scored, in a sentence without its period; empty without videos.

    Args:
        model: the model that scores.
        parts: the examples of several benchmarks.
        images: those of galleries.
        chat: whether the model is asked in words.
    """
    choose = choose_chat_form if chat else choose_form
    clips = [
        choose(model, ref.source)
        for ref in chain(*map(distinct_refs, filter(has_videos, parts)), images)
        if isinstance(ref.source, VideoClip)
    ]
    if not clips:
        return ""
    counts = sorted({clip.count for clip in clips})
    words = f"{counts[0]}" if len(counts) == 1 else f"{counts[0]} to {counts[-1]}"
    words += " frames" if counts[-1] > 1 else " frame"
    forms = {clip.form for clip in clips}
    if forms == {"video"}:
        return f"{model.name} reads {words} of a video at once, by its video input"
    if "" not in forms:
        return f"{model.name} reads {words} of a video at once, as images of one turn"
    if counts == [1]:
        return "the score of a video is that of 1 frame"
    mean = f"the score of a video is the mean of the scores of {words}"
    if forms != {""}:
        mean += f" where {model.name} cannot read them at once"
    elif isinstance(model, VideoReader) and model.video_input == TURN_IMAGES and not clips[0].alone:
        mean += f", since {model.name} reads at most {model.max_frames} as images of one turn"
    return mean
