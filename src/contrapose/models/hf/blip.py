"""BLIP (Li et al., 2022): matcher and dual encoder, captioner, and question answering.

An encoder reads the question over the image, a decoder gives the probability of the answer.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor
from transformers import (
    BlipForConditionalGeneration,
    BlipForImageTextRetrieval,
    BlipForQuestionAnswering,
)

from contrapose.models.encoded_images import EncodedImages
from contrapose.models.exact import exact_inference, normalize_rows
from contrapose.models.hf.base import LOG_ODDS_NOTE, FusionModel, log_odds
from contrapose.models.hf.captioner import (
    GenerativeModel,
    HFCaptioner,
    make_cross_cache,
    split_heads,
)
from contrapose.models.hf.inputs import (
    CausalTextInputs,
    require_end_token,
    require_start_token,
    reserve_question_tokens,
)
from contrapose.models.packing import pack, target_logprobs

if TYPE_CHECKING:
    from contrapose.models.capabilities import AnyImage, ImageLike, QuestionTemplate
    from contrapose.models.hf.checkpoint import Checkpoint
    from contrapose.models.packing import PackedCaptions

BLIP_NOISE = (1.0, 0.25)
"""Mean and standard deviation of noise for BLIP and BLIP-2 (Lin et al., 2024, appendix B)."""
CAPTION_NOTES = (
    "lm is of the caption's tokens and its end, [SEP]; it begins with [DEC], as when the library "
    "generates. No prompt stands before it; the authors' captioners were fine-tuned after "
    "“a picture of”.",
    "The label smoothing of the library's loss is no part of lm.",
)


class BlipCaptioner(HFCaptioner):
    """BLIP captioner: `lm` by the text decoder with cross-attention to the image."""

    def __init__(self, checkpoint: Checkpoint):
        text = checkpoint.config.text_config
        tokenizer = checkpoint.tokenizer()
        text_inputs = CausalTextInputs(
            checkpoint.name,
            tokenizer,
            start=require_start_token(checkpoint.name, text.bos_token_id),
            end=require_end_token(checkpoint.name, text.sep_token_id),
            context=min(text.max_position_embeddings, tokenizer.model_max_length),
            cut=checkpoint.options.cut,
        )
        network = checkpoint.model(BlipForConditionalGeneration)
        super().__init__(
            checkpoint, network, "BLIP", text_inputs, noise=BLIP_NOISE, notes=CAPTION_NOTES
        )

    def _encode(self, images: Sequence[ImageLike]) -> EncodedImages:
        return EncodedImages((self.network.vision_model(self._pixels(images))[0],))

    def _make_reusable(self, encoded: EncodedImages) -> EncodedImages:
        return cache_cross_attention(self.network.text_decoder.bert, encoded)

    def _decode(self, packed: PackedCaptions, encoded: EncodedImages) -> Tensor:
        return run_text_network(self.network.text_decoder.bert, packed, encoded, causal=True)

    def _logits(self, states: Tensor) -> Tensor:
        logits: Tensor = self.network.text_decoder.cls(states)
        return logits


def cache_cross_attention(text: Any, encoded: EncodedImages) -> EncodedImages:
    """Cross-attention keys and values of images for every layer of a text network."""
    (tokens,) = encoded.tensors
    tensors: list[Tensor] = []
    for layer in text.encoder.layer:
        attention = layer.crossattention.self
        size = attention.attention_head_size
        tensors += [split_heads(part(tokens), size) for part in (attention.key, attention.value)]
    return EncodedImages(tuple(tensors))


def run_text_network(
    text: Any, packed: PackedCaptions, encoded: EncodedImages, *, causal: bool
) -> Tensor:
    """Hidden states (r, l, width) of a text network with cross-attention to images.

    Args:
        text: the library's text network.
        packed: its input tokens.
        encoded: image tokens of each row, or their keys and values.
        causal: whether attention is causal.
    """
    tokens = encoded.tensors[0]
    cache = None
    if len(encoded.tensors) > 1:
        cache = make_cross_cache(encoded.tensors)
        tokens = tokens.new_zeros(1).expand(len(encoded), tokens.shape[2], 1)  # never read
    dtype = text.embeddings.word_embeddings.weight.dtype
    states: Tensor = text(
        input_ids=packed.tokens,
        position_ids=packed.positions,
        attention_mask=packed.additive_mask(dtype, causal=causal),
        encoder_hidden_states=tokens,
        past_key_values=cache,
        is_decoder=causal,
        use_cache=False,
    )[0]
    return states


VQA_NOTES = (
    "vqa is log P of the answer's tokens alone, without the end; the decoder begins with [DEC].",
    "Questions begin with [CLS], as in the library; the authors' code puts [ENC] there.",
    "The answer is lower-cased with all text: its tokeniser knows no capitals.",
)


class BlipAnswerer(GenerativeModel):
    """BLIP for VQA: question encoder and answer decoder; questions of an image share a pass."""

    def __init__(self, checkpoint: Checkpoint):
        text = checkpoint.config.text_config
        tokenizer = checkpoint.tokenizer()
        self._context = min(text.max_position_embeddings, tokenizer.model_max_length)
        self._start = require_start_token(checkpoint.name, text.bos_token_id)
        text_inputs = CausalTextInputs(
            checkpoint.name,
            tokenizer,
            start=require_start_token(checkpoint.name, tokenizer.cls_token_id),
            end=require_end_token(checkpoint.name, tokenizer.sep_token_id),
            context=self._context - reserve_question_tokens(tokenizer),
            cut=checkpoint.options.cut,
        )
        network = checkpoint.model(BlipForQuestionAnswering)
        super().__init__(
            checkpoint, network, "BLIP", text_inputs, noise=BLIP_NOISE, notes=VQA_NOTES
        )

    @exact_inference
    def answer_logprobs(
        self, images: Sequence[AnyImage], texts: Sequence[str], question: QuestionTemplate
    ) -> Tensor:
        """(n,) log P of the answer to the question about each caption."""
        distinct, indices = self._deduplicate_pairs(images, texts)
        questions = [question.about(text) for text in self.text_inputs.truncate(texts)]
        rows = [
            [self.text_inputs.start, *row, self.text_inputs.end]
            for row in self.text_inputs.token_ids(questions)
        ]
        for text, row in zip(questions, rows, strict=True):
            self.text_inputs.check_question(text, len(row), self._context)
        states = self._question_states(distinct, indices, rows)
        return self._answer_logprobs(states, self.text_inputs.answer_ids(question.answer))

    def _question_states(
        self, distinct: Sequence[AnyImage], indices: Sequence[int], rows: Sequence[Sequence[int]]
    ) -> list[Tensor]:
        """Hidden states (l, width) of each question."""
        # The packer drops the last token of a caption, which is only predicted.
        packed = pack([[*row, self.text_inputs.end] for row in rows], indices, device=self._device)
        encoded = self._gather(distinct).select(packed.row_images)
        states = packed.select(
            run_text_network(self.network.text_encoder, packed, encoded, causal=False)
        )
        return list(torch.split(states, [len(row) for row in rows]))

    def _answer_logprobs(self, questions: Sequence[Tensor], answer: Sequence[int]) -> Tensor:
        """(n,) log P of one answer to each question.

        Questions are batched by length: the library's cross-attention ignores a padding mask.
        """
        by_length: dict[int, list[int]] = {}
        for i, states in enumerate(questions):
            by_length.setdefault(len(states), []).append(i)
        logprobs = torch.empty(len(questions))
        for indices in by_length.values():
            batch = torch.stack([questions[i] for i in indices])
            logprobs[indices] = self._answer_batch(batch, answer)
        return logprobs

    def _answer_batch(self, questions: Tensor, answer: Sequence[int]) -> Tensor:
        count = len(questions)
        inputs = torch.tensor([[self._start, *answer[:-1]]], device=self._device)
        decoder = self.network.text_decoder
        states = decoder.bert(
            input_ids=inputs.expand(count, -1),
            encoder_hidden_states=questions,
            is_decoder=True,
            use_cache=False,
        )[0]
        targets = torch.tensor(answer, device=self._device).repeat(count)
        logprobs = target_logprobs(decoder.cls(states.flatten(0, 1)), targets)
        return logprobs.view(count, len(answer)).sum(dim=1).cpu()

    def _encode(self, images: Sequence[ImageLike]) -> EncodedImages:
        return EncodedImages((self.network.vision_model(self._pixels(images))[0],))

    def _make_reusable(self, encoded: EncodedImages) -> EncodedImages:
        return cache_cross_attention(self.network.text_encoder, encoded)


MATCHING_NOTES = (
    LOG_ODDS_NOTE,
    "Captions begin with [CLS] for both scores, as in the library; the authors' retrieval code "
    "puts [ENC] there for itm.",
    "The released models were trained on captions of at most 35 tokens.",
)


def load_blip(checkpoint: Checkpoint) -> Blip | BlipCaptioner | BlipAnswerer:
    """Load BLIP as captioner, as answerer, or else as matcher.

    Raises:
        InputError: it lacks weights.
    """
    kinds = checkpoint.config.architectures or ()
    if "BlipForConditionalGeneration" in kinds:
        return BlipCaptioner(checkpoint)
    if "BlipForQuestionAnswering" in kinds:
        return BlipAnswerer(checkpoint)
    return Blip(checkpoint)


class Blip(FusionModel):
    """BLIP matcher: `itm` by cross-attention over the image, `itc` by the projections."""

    def __init__(self, checkpoint: Checkpoint):
        super().__init__(
            checkpoint,
            checkpoint.model(BlipForImageTextRetrieval),
            "BLIP",
            context=checkpoint.config.text_config.max_position_embeddings,
            notes=MATCHING_NOTES,
            tokenizer_arguments={"return_token_type_ids": False},
        )

    @exact_inference
    def match(self, images: Sequence[ImageLike], texts: Sequence[str]) -> Tensor:
        """Log-odds (n,) of a match; each distinct image is encoded once."""
        distinct, indices, tokens = self._pair_inputs(images, texts)
        image_states = self.network.vision_model(self._pixels(distinct))[0]
        with self._zero_masked(texts, tokens):
            text_states = self.network.text_encoder(
                **tokens, encoder_hidden_states=image_states[indices]
            )[0]
        return log_odds(self.network.itm_head(text_states[:, 0]))

    @exact_inference
    def embed_images(self, images: Sequence[ImageLike]) -> Tensor:
        """Unit vectors (n, d)."""
        image_states = self.network.vision_model(self._pixels(images))[0]
        return normalize_rows(self.network.vision_proj(image_states[:, 0]))

    @exact_inference
    def embed_texts(self, texts: Sequence[str]) -> Tensor:
        """Unit vectors (n, d)."""
        tokens = self._tokens(texts)
        with self._zero_masked(texts, tokens):
            text_states = self.network.text_encoder(**tokens)[0]
        return normalize_rows(self.network.text_proj(text_states[:, 0]))
