"""Dual encoders of the transformers library: CLIP and its relatives, which differ in little."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from torch import Tensor
from torch.nn.functional import normalize

from contrapose.models.capabilities import ModelCard
from contrapose.models.hf.inputs import Captions, Pictures
from contrapose.models.hiding import word_embedding, zeroed
from contrapose.models.precise import precise

if TYPE_CHECKING:
    from PIL.Image import Image

    from contrapose.models.capabilities import Picture, Prepared
    from contrapose.models.hf.checkpoint import Checkpoint

ON_CPU, ELSEWHERE = 16, 64
"""Images or captions at once. On two cores an image takes a ViT-B/32 65 ms in batches of 16 and 92
in batches of 64, a caption about 10 in either."""


class DualEncoder:
    """Images and captions become vectors on their own, compared by their cosine (`itc`).

    Attributes:
        name: as the user would type it.
        fingerprint: of weights, configuration and preprocessing.
        batch_size: how many to give at once.
        card: what a user should know.
        text_masks: how it can hide words.
        pixel_mean: the colour that is zero for the network.
    """

    def __init__(
        self,
        checkpoint: Checkpoint,
        family: str,
        network: Any,
        captions: Captions,
        pictures: Pictures,
        notes: tuple[str, ...] = (),
    ):
        self.name = checkpoint.name
        self.fingerprint = checkpoint.fingerprint
        self.batch_size = ON_CPU if checkpoint.options.device == "cpu" else ELSEWHERE
        self._options = checkpoint.options
        self._network = network
        self._captions = captions
        self._pictures = pictures
        self._words = word_embedding(network.text_model)
        self.text_masks = captions.masks if self._words is not None else ()
        self.pixel_mean = pictures.mean
        self.card = ModelCard(
            family=family,
            parameters=network.num_parameters(),
            dtype=self._options.dtype,
            preprocessing=pictures.in_words(),
            context=captions.context,
            notes=(_scale(network), *notes),
        )

    @precise
    def embed_images(self, images: Sequence[Picture]) -> Tensor:
        """Unit vectors (n, d) in float32."""
        device, dtype = self._options.device, self._options.torch_dtype
        return self._unit(
            self._network.get_image_features(**self._pictures.stack(images, device, dtype))
        )

    @precise
    def embed_texts(self, texts: Sequence[str]) -> Tensor:
        """Unit vectors (n, d) in float32.

        Raises:
            InputError: a caption is empty, or too long.
        """
        tokens = self._captions.tensors(texts, self._options.device)
        with zeroed(self._words, self._captions.zeros(texts, tokens)):
            return self._unit(self._network.get_text_features(**tokens))

    def prepare_image(self, image: Image) -> Prepared:
        """An image as the network takes it, but for normalising."""
        return self._pictures.prepare(image)

    def normalise_image(self, prepared: Prepared) -> Prepared:
        """A prepared image, normalised."""
        return self._pictures.normalise(prepared)

    @property
    def context(self) -> int:
        """Most tokens of a caption, with start and end."""
        return self._captions.context

    @property
    def cuts(self) -> bool:
        """Whether longer captions are cut."""
        return self._captions.cut

    def token_counts(self, texts: Sequence[str]) -> list[int]:
        """Tokens of each caption before any cut, with start and end."""
        return self._captions.counts(texts)

    @staticmethod
    def _unit(found: Any) -> Tensor:
        return normalize(found.pooler_output.float(), dim=-1)


def _scale(network: Any) -> str:
    """What the model was trained to multiply the cosine with; ALIGN divides by a temperature."""
    if hasattr(network, "logit_scale"):
        factor = network.logit_scale.detach().float().exp().item()
    else:
        factor = 1 / network.temperature.detach().float().item()
    return f"itc is the bare cosine; in training it was multiplied by {factor:.4g}"
