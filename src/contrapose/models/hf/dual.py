"""Dual encoders of the transformers library: CLIP, ALIGN, AltCLIP, SigLIP and SigLIP 2.

The text network looks backwards only and is read at the end token, so that padding, whatever
there is of it, changes nothing: captions are padded to the longest of their batch.

The text network sees the padding and is read at the last place, so captions are always padded to
the full length, on the right and without a mask, as in training.

An image becomes at most as many patches as its processor says (256 unless it says otherwise), and
is padded to that number with a mask, so that neighbours in a batch change nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from torch import Tensor
from torch.nn.functional import normalize

from contrapose.models.capabilities import ModelCard
from contrapose.models.exact import exact_inference
from contrapose.models.hf.checkpoint import Checkpoint
from contrapose.models.hf.inputs import ImageInputs, TextInputs
from contrapose.models.masking.embeddings import find_word_embedding, zero_embeddings
from contrapose.models.masking.text import MaskedText, Span

if TYPE_CHECKING:
    from PIL.Image import Image

    from contrapose.models.capabilities import ImageLike, PreparedImage
    from contrapose.models.hf.checkpoint import Checkpoint

ON_CPU, ELSEWHERE = 16, 64
"""Images or captions at once. On two cores an image takes a ViT-B/32 65 ms in batches of 16 and 92
in batches of 64, a caption about 10 in either."""


class DualEncoder:
    """Dual encoder: images and captions are embedded separately, score `itc` is the cosine.

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
        captions: TextInputs,
        pictures: ImageInputs,
        notes: tuple[str, ...] = (),
    ):
        self.name = checkpoint.name
        self.fingerprint = checkpoint.fingerprint
        self.batch_size = ON_CPU if checkpoint.options.device == "cpu" else ELSEWHERE
        self._options = checkpoint.options
        self._network = network
        self._captions = captions
        self._pictures = pictures
        self._words = find_word_embedding(network.text_model)
        self.text_masks = captions.masks if self._words is not None else ()
        self.pixel_mean = pictures.mean
        self.card = ModelCard(
            family=family,
            parameters=network.num_parameters(),
            dtype=self._options.dtype,
            preprocessing=pictures.in_words(),
            context=captions.context,
            notes=(_describe_scale(network), *notes),
        )

    @exact_inference
    def embed_images(self, images: Sequence[ImageLike]) -> Tensor:
        """Unit vectors (n, d) in float32."""
        device, dtype = self._options.device, self._options.torch_dtype
        return self._unit(
            self._network.get_image_features(**self._pictures.stack(images, device, dtype))
        )

    @exact_inference
    def embed_texts(self, texts: Sequence[str]) -> Tensor:
        """Unit vectors (n, d) in float32.

        Raises:
            InputError: a caption is empty, or too long.
        """
        tokens = self._captions.tensors(texts, self._options.device)
        with zero_embeddings(self._words, self._captions.zeros(texts, tokens)):
            return self._unit(self._network.get_text_features(**tokens))

    def prepare_image(self, image: Image) -> PreparedImage:
        """Preprocess an image; normalization may be left to the device."""
        return self._pictures.prepare(image)

    def normalize_image(self, prepared: PreparedImage) -> PreparedImage:
        """Normalize a prepared image."""
        return self._pictures.normalise(prepared)

    @property
    def context(self) -> int:
        """Context length: most tokens of a caption, start and end included."""
        return self._captions.context

    @property
    def cuts(self) -> bool:
        """Whether longer captions are truncated."""
        return self._captions.cut

    def token_counts(self, texts: Sequence[str]) -> list[int]:
        """Number of tokens of each caption before truncation, start and end included."""
        return self._captions.counts(texts)

    @staticmethod
    def _unit(found: Any) -> Tensor:
        return normalize(found.pooler_output.float(), dim=-1)


def _describe_scale(network: Any) -> str:
    """Note on the logit scale of training; ALIGN divides by a temperature."""
    if hasattr(network, "logit_scale"):
        factor = network.logit_scale.detach().float().exp().item()
    else:
        factor = 1 / network.temperature.detach().float().item()
    return f"itc is the bare cosine; in training it was multiplied by {factor:.4g}"


def load_clip(checkpoint: Checkpoint) -> DualEncoder:
    """Load CLIP (Radford et al., 2021), or a checkpoint of its class such as MetaCLIP."""
    from transformers import CLIPModel

    captions = TextInputs(
        checkpoint.name,
        checkpoint.tokenizer(),
        checkpoint.config.text_config.max_position_embeddings,
        cut=checkpoint.options.cut,
        padding="longest",
    )
    return DualEncoder(
        checkpoint,
        "CLIP",
        checkpoint.model(CLIPModel),
        captions,
        ImageInputs(checkpoint.image_processor()),
    )


ALIGN_CONTEXT = 64
"""Tokens of a caption in training; the network has places for more."""


def load_align(checkpoint: Checkpoint) -> DualEncoder:
    """Load ALIGN (Jia et al., 2021): EfficientNet, and BERT read at its first token."""
    from transformers import AlignModel

    captions = TextInputs(
        checkpoint.name,
        checkpoint.tokenizer(),
        min(ALIGN_CONTEXT, checkpoint.config.text_config.max_position_embeddings),
        cut=checkpoint.options.cut,
        padding="longest",
    )
    return DualEncoder(
        checkpoint,
        "ALIGN",
        checkpoint.model(AlignModel),
        captions,
        ImageInputs(checkpoint.image_processor()),
    )


def load_altclip(checkpoint: Checkpoint) -> DualEncoder:
    """Load AltCLIP (Chen et al., 2022): CLIP's image encoder with multilingual XLM-RoBERTa."""
    from transformers import AltCLIPModel

    text, tokenizer = checkpoint.config.text_config, checkpoint.tokenizer()
    places = text.max_position_embeddings - text.pad_token_id - 1  # they begin after the padding's
    captions = TextInputs(
        checkpoint.name,
        tokenizer,
        min(tokenizer.model_max_length, places),
        cut=checkpoint.options.cut,
        padding="longest",
        shifts=True,
    )
    return DualEncoder(
        checkpoint,
        "AltCLIP",
        checkpoint.model(AltCLIPModel),
        captions,
        ImageInputs(checkpoint.image_processor()),
    )


GEMMA_VOCABULARY = 256_000
"""Tokens of Gemma's vocabulary, by which SigLIP 2 is known."""
LOWERCASE_NOTE = "captions are lower-cased, as SigLIP 2 was trained"


def load_siglip(checkpoint: Checkpoint) -> DualEncoder:
    """Load SigLIP (Zhai et al., 2023), or SigLIP 2 at a fixed resolution."""
    from transformers import SiglipModel

    captions, notes = make_siglip_inputs(checkpoint)
    return DualEncoder(
        checkpoint,
        "SigLIP 2" if notes else "SigLIP",
        checkpoint.model(SiglipModel),
        captions,
        ImageInputs(checkpoint.image_processor()),
        notes,
    )


def make_siglip_inputs(checkpoint: Checkpoint) -> tuple[TextInputs, tuple[str, ...]]:
    """Text inputs padded to full length, and notes for the model card."""
    tokenizer: Any = checkpoint.tokenizer()
    tokenizer.padding_side = "right"
    text = checkpoint.config.text_config
    named = type(tokenizer).__name__.startswith(("Gemma", "Siglip2"))
    second = named or text.vocab_size == GEMMA_VOCABULARY
    captions = (LowercaseTextInputs if second else TextInputs)(
        checkpoint.name,
        tokenizer,
        text.max_position_embeddings,
        cut=checkpoint.options.cut,
        padding="max_length",
        return_attention_mask=False,
    )
    return captions, (LOWERCASE_NOTE,) if second else ()


class LowercaseTextInputs(TextInputs):
    """Text inputs in lower case."""

    def _encode(self, texts: list[str], **arguments: Any) -> dict[str, list[list[int]]]:
        return super()._encode([text.lower() for text in texts], **arguments)

    def _given(self, text: MaskedText) -> tuple[str, Sequence[Span]]:
        """Lower-case caption with its mask spans; “İ” becomes two characters."""
        caption = text.caption
        places = [
            (len(caption[:start].lower()), len(caption[:end].lower())) for start, end in text.hidden
        ]
        return caption.lower(), places


def load_siglip2(checkpoint: Checkpoint) -> DualEncoder:
    """Load SigLIP 2 NaFlex (Tschannen et al., 2025), whose images keep their aspect ratio."""
    from transformers import Siglip2Model

    captions, notes = make_siglip_inputs(checkpoint)
    pictures = ImageInputs(checkpoint.image_processor())
    most = pictures.processor.max_num_patches
    return DualEncoder(
        checkpoint,
        "SigLIP 2",
        checkpoint.model(Siglip2Model),
        captions,
        pictures,
        (*notes, f"images keep their shape, in at most {most} patches"),
    )
