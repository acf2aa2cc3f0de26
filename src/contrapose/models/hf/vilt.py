"""ViLT (Kim et al., 2021): patches and words in one network, images in their own shapes."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import TYPE_CHECKING, cast

import torch
from torch import Tensor
from torch.nn import functional as F  # noqa: N812 - its usual name
from torch.nn.utils.rnn import pad_sequence
from transformers import ViltForImageAndTextRetrieval

from contrapose.models.exact import exact_inference
from contrapose.models.hf.base import NARROW_NOTE, FusionModel, widen
from contrapose.models.hf.checkpoint import refuse_architectures

if TYPE_CHECKING:
    from PIL.Image import Image

    from contrapose.models.capabilities import ImageLike, PreparedImage
    from contrapose.models.hf.checkpoint import Checkpoint

UNSUPPORTED = {
    "ViltForMaskedLM": "a model that fills in masked words",
    "ViltForQuestionAnswering": "a model that answers questions",
    "ViltForImagesAndTextClassification": "a classifier of two images and a sentence",
    "ViltForTokenClassification": "a classifier of words",
}
NOTES = (
    "Its itm is the logit of its one-way ranking head.",
    "Every patch of an image is used, in order; the library draws their order at random, and "
    "draws some of them where the configuration sets a limit.",
    NARROW_NOTE,
)


def load_vilt(checkpoint: Checkpoint) -> Vilt:
    """Load a ViLT tuned for retrieval.

    Raises:
        InputError: it is another model of the family, or lacks weights.
    """
    refuse_architectures(checkpoint, UNSUPPORTED)
    return Vilt(checkpoint)


class Vilt(FusionModel):
    """ViLT matcher: `itm` by the ranking head.

    The library's patch embedding draws random numbers and depends on the largest image of a batch:
    patches are therefore embedded here, image by image.
    """

    def __init__(self, checkpoint: Checkpoint):
        super().__init__(
            checkpoint,
            checkpoint.model(ViltForImageAndTextRetrieval),
            "ViLT",
            context=checkpoint.config.max_position_embeddings,
            notes=NOTES,
            processor_arguments={"do_pad": False},
        )

    def prepare_image(self, image: Image) -> PreparedImage:
        """Preprocess an image by the library's image processor, widened if too narrow."""
        return self.image_inputs.prepare(widen(image, self.image_inputs.processor))

    @exact_inference
    def match(self, images: Sequence[ImageLike], texts: Sequence[str]) -> Tensor:
        """Match logits (n,); the patches of each distinct image are embedded once."""
        distinct, indices, tokens = self._pair_inputs(images, texts)
        patches = self._patches(distinct)
        lengths = torch.tensor([len(states) for states in patches], device=self._device)
        padded = pad_sequence(patches, batch_first=True)
        mask = torch.arange(padded.shape[1], device=self._device) < lengths[:, None]
        with self._zero_masked(texts, tokens):
            logits: Tensor = self.network(
                **tokens, image_embeds=padded[indices], pixel_mask=mask[indices].long()
            ).logits
        return logits[:, 0].float()

    def _patches(self, images: Sequence[ImageLike]) -> list[Tensor]:
        """Patch embeddings (t + 1, width) of each image; equal sizes are batched."""
        prepared = self._prepare_images(images)
        by_shape: dict[torch.Size, list[int]] = defaultdict(list)
        for i, pixels in enumerate(prepared):
            by_shape[cast(Tensor, pixels).shape].append(i)
        patches: dict[int, Tensor] = {}
        for indices in by_shape.values():
            embedded = self._embed_patches(self._pixels([prepared[i] for i in indices]))
            patches.update(zip(indices, embedded, strict=True))
        return [patches[i] for i in range(len(prepared))]

    def _embed_patches(self, pixels: Tensor) -> Tensor:
        """Patch embeddings (n, t + 1, width) of equal-sized images, positions interpolated."""
        layer = self.network.vilt.embeddings
        patches: Tensor = layer.patch_embeddings(pixels)
        positions: Tensor = layer.position_embeddings
        side = self.network.config.image_size // self.network.config.patch_size
        grid = positions[:, 1:].transpose(1, 2).view(1, -1, side, side)
        grid = F.interpolate(grid, size=patches.shape[2:], mode="bilinear", align_corners=True)
        first = (layer.cls_token + positions[:, :1]).expand(len(pixels), -1, -1)
        return torch.cat([first, (patches + grid).flatten(2).transpose(1, 2)], dim=1)
