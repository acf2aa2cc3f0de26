"""Dual encoders of the transformers library: CLIP, ALIGN, AltCLIP, SigLIP and SigLIP 2.

CLIP's text network is causal and read at the end token, so that padding to the longest caption of a
batch changes nothing, and needs no mask. SigLIP's is read at the last position and attends to
padding: captions are always padded to the full length, on the right and without a mask, as in
training. Images of SigLIP 2 NaFlex are padded with a mask to the processor's number of patches (256
by default).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from torch import Tensor

from contrapose.models.exact import exact_inference, normalize_rows
from contrapose.models.hf.base import EncoderModel
from contrapose.models.hf.checkpoint import Checkpoint
from contrapose.models.hf.inputs import ImageInputs, TextInputs
from contrapose.models.masking.text import MaskedText, Span

if TYPE_CHECKING:
    from contrapose.models.capabilities import ImageLike

ON_CPU, ELSEWHERE = 16, 64
"""Batch sizes. On two cores an image takes a ViT-B/32 65 ms in batches of 16 and 92 in batches of
64, a caption about 10 in either."""
ALIGN_CONTEXT = 64
"""Tokens of a caption in ALIGN's training; the network has positions for more."""
GEMMA_VOCABULARY = 256_000
"""Size of Gemma's vocabulary, by which SigLIP 2 is recognized."""
LOWERCASE_NOTE = "captions are lower-cased, as SigLIP 2 was trained"


class TextTower(EncoderModel):
    """Base of models that embed captions by a text encoder of their own."""

    @exact_inference
    def embed_texts(self, texts: Sequence[str]) -> Tensor:
        """Unit vectors (n, d) in float32.

        Raises:
            InputError: a caption is empty, or too long.
        """
        tokens = self._tokens(texts)
        with self._zero_masked(texts, tokens):
            return normalize_rows(self.network.get_text_features(**tokens).pooler_output)

    def _text_network(self) -> Any:
        return self.network.text_model


class DualEncoder(TextTower):
    """Dual encoder: images and captions are embedded separately, score `itc` is the cosine."""

    def __init__(
        self,
        checkpoint: Checkpoint,
        family: str,
        network: Any,
        text_inputs: TextInputs,
        notes: tuple[str, ...] = (),
    ):
        image_inputs = ImageInputs(checkpoint.image_processor())
        super().__init__(
            checkpoint,
            network,
            family,
            text_inputs,
            image_inputs,
            preprocessing=image_inputs.describe(),
            batch_size=ON_CPU if checkpoint.options.device == "cpu" else ELSEWHERE,
            notes=(_describe_scale(network), *notes),
        )

    @exact_inference
    def embed_images(self, images: Sequence[ImageLike]) -> Tensor:
        """Unit vectors (n, d) in float32."""
        output = self.network.get_image_features(**self._stack_images(images))
        return normalize_rows(output.pooler_output)


def _describe_scale(network: Any) -> str:
    """Note on the logit scale of training; ALIGN divides by a temperature."""
    if hasattr(network, "logit_scale"):
        factor = network.logit_scale.detach().float().exp().item()
    else:
        factor = 1 / network.temperature.detach().float().item()
    return f"itc is the bare cosine; in training it was multiplied by {factor:.4g}"


def _text_inputs(checkpoint: Checkpoint, tokenizer: Any, context: int, **more: Any) -> TextInputs:
    """Text inputs padded to the longest caption of a batch."""
    cut = checkpoint.options.cut
    return TextInputs(checkpoint.name, tokenizer, context, cut=cut, padding="longest", **more)


def load_clip(checkpoint: Checkpoint) -> DualEncoder:
    """Load CLIP (Radford et al., 2021), or a checkpoint of its class such as MetaCLIP."""
    from transformers import CLIPModel

    context = checkpoint.config.text_config.max_position_embeddings
    text_inputs = _text_inputs(
        checkpoint, checkpoint.tokenizer(), context, return_attention_mask=False
    )
    return DualEncoder(checkpoint, "CLIP", checkpoint.model(CLIPModel), text_inputs)


def load_align(checkpoint: Checkpoint) -> DualEncoder:
    """Load ALIGN (Jia et al., 2021): EfficientNet, and BERT read at its first token."""
    from transformers import AlignModel

    context = min(ALIGN_CONTEXT, checkpoint.config.text_config.max_position_embeddings)
    text_inputs = _text_inputs(checkpoint, checkpoint.tokenizer(), context)
    return DualEncoder(checkpoint, "ALIGN", checkpoint.model(AlignModel), text_inputs)


def load_altclip(checkpoint: Checkpoint) -> DualEncoder:
    """Load AltCLIP (Chen et al., 2022): CLIP's image encoder with multilingual XLM-RoBERTa."""
    from transformers import AltCLIPModel

    text, tokenizer = checkpoint.config.text_config, checkpoint.tokenizer()
    positions = text.max_position_embeddings - text.pad_token_id - 1  # they begin after padding's
    context = min(tokenizer.model_max_length, positions)
    text_inputs = _text_inputs(checkpoint, tokenizer, context, shifts=True)
    return DualEncoder(checkpoint, "AltCLIP", checkpoint.model(AltCLIPModel), text_inputs)


def load_siglip(checkpoint: Checkpoint) -> DualEncoder:
    """Load SigLIP (Zhai et al., 2023), or SigLIP 2 at a fixed resolution."""
    from transformers import SiglipModel

    text_inputs, notes = make_siglip_inputs(checkpoint)
    family = "SigLIP 2" if notes else "SigLIP"
    return DualEncoder(checkpoint, family, checkpoint.model(SiglipModel), text_inputs, notes)


def make_siglip_inputs(checkpoint: Checkpoint) -> tuple[TextInputs, tuple[str, ...]]:
    """Text inputs padded to full length, and notes for the model card."""
    tokenizer: Any = checkpoint.tokenizer()
    tokenizer.padding_side = "right"
    text = checkpoint.config.text_config
    named = type(tokenizer).__name__.startswith(("Gemma", "Siglip2"))
    second = named or text.vocab_size == GEMMA_VOCABULARY
    text_inputs = (LowercaseTextInputs if second else TextInputs)(
        checkpoint.name,
        tokenizer,
        text.max_position_embeddings,
        cut=checkpoint.options.cut,
        padding="max_length",
        return_attention_mask=False,
    )
    return text_inputs, (LOWERCASE_NOTE,) if second else ()


class LowercaseTextInputs(TextInputs):
    """Text inputs in lower case."""

    def _encode(self, texts: list[str], **arguments: Any) -> dict[str, list[list[int]]]:
        return super()._encode([text.lower() for text in texts], **arguments)

    def _tokenizer_text(self, text: MaskedText) -> tuple[str, Sequence[Span]]:
        """Lower-case caption with its mask spans; “İ” becomes two characters."""
        caption = text.caption
        spans = [
            (len(caption[:start].lower()), len(caption[:end].lower())) for start, end in text.hidden
        ]
        return caption.lower(), spans


def load_siglip2(checkpoint: Checkpoint) -> DualEncoder:
    """Load SigLIP 2 NaFlex (Tschannen et al., 2025), whose images keep their aspect ratio."""
    from transformers import Siglip2Model

    text_inputs, notes = make_siglip_inputs(checkpoint)
    most = checkpoint.image_processor().max_num_patches
    notes = (*notes, f"images keep their shape, in at most {most} patches")
    return DualEncoder(checkpoint, "SigLIP 2", checkpoint.model(Siglip2Model), text_inputs, notes)
