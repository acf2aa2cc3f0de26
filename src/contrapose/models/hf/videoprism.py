"""VideoPrism (Zhao et al., 2024): a dual encoder of videos and captions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from PIL.Image import Image
from torch import Tensor
from transformers import VideoPrismClipModel

from contrapose.models.exact import exact_inference, normalize_rows
from contrapose.models.hf.base import FixedFrames
from contrapose.models.hf.checkpoint import refuse_architectures
from contrapose.models.hf.dual import TextTower
from contrapose.models.hf.inputs import ImageInputs, TextInputs
from contrapose.models.hf.vlm.processors import require_torchvision

if TYPE_CHECKING:
    from contrapose.models.capabilities import ImageLike
    from contrapose.models.hf.checkpoint import Checkpoint

UNSUPPORTED = {
    "VideoPrismVisionModel": "an encoder of videos alone",
    "VideoPrismForVideoClassification": "a classifier of videos",
}
PADDING_NOTE = "captions are padded to full length, since a token after the padding is read"


def load_videoprism(checkpoint: Checkpoint) -> VideoPrism:
    """Load a VideoPrism with a text encoder.

    Raises:
        InputError: it has none, it lacks weights, or torchvision is not installed.
    """
    refuse_architectures(checkpoint, UNSUPPORTED)
    require_torchvision(checkpoint.name)
    return VideoPrism(checkpoint)


class FrameInputs(ImageInputs):
    """Pixel tensors of single frames by the library's video processor."""

    def prepare(self, image: Image) -> Tensor:
        """Preprocess one frame to (1, channels, height, width)."""
        frame = np.array(image.convert("RGB"))[None]
        columns = self.processor(
            videos=[frame],
            input_data_format="channels_last",
            do_sample_frames=False,
            return_tensors="pt",
        )
        pixels: Tensor = columns["pixel_values_videos"][0]
        return pixels

    @property
    def mean(self) -> tuple[float, ...] | None:
        """Pixel mean (0 to 1) of the normalization; black where there is none."""
        return super().mean if self.processor.do_normalize else (0.0, 0.0, 0.0)


class VideoPrism(FixedFrames, TextTower):
    """VideoPrism: videos and captions are embedded separately, score `itc` is the cosine."""

    def __init__(self, checkpoint: Checkpoint):
        config = checkpoint.config
        text_inputs = TextInputs(
            checkpoint.name,
            checkpoint.tokenizer(),
            config.text_config.max_position_embeddings,
            cut=checkpoint.options.cut,
            padding="max_length",
        )
        processor: Any = checkpoint.video_processor()
        frames = int(config.vision_config.num_frames)
        super().__init__(
            checkpoint,
            checkpoint.model(VideoPrismClipModel),
            "VideoPrism",
            text_inputs,
            FrameInputs(processor),
            preprocessing=f"as {type(processor).__name__} of transformers does it",
            batch_size=4 if checkpoint.options.device == "cpu" else 16,
            notes=(
                f"A video is {frames} frames; an image is a video that stands still.",
                PADDING_NOTE,
            ),
        )
        self._set_frames(frames, checkpoint.options.video)

    @exact_inference
    def embed_images(self, images: Sequence[ImageLike]) -> Tensor:
        """Unit vectors (n, d) in float32."""
        videos = self.network.get_video_features(pixel_values_videos=self._pixels(images))
        return normalize_rows(videos.pooler_output.flatten(1))
