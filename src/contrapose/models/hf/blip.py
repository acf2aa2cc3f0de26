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
from contrapose.models.exact import exact_inference
from contrapose.models.hf.captioner import (
    GenerativeModel,
    HFCaptioner,
    make_cross_cache,
    split_heads,
)
from contrapose.models.hf.causal_inputs import (
    CausalTextInputs,
    require_end_token,
    require_start_token,
    reserve_question_tokens,
)
from contrapose.models.hf.fusion import LOG_ODDS_NOTE, FusionModel, log_odds, normalize_rows
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
        wording = CausalTextInputs(
            checkpoint.name,
            tokenizer,
            start=require_start_token(checkpoint.name, text.bos_token_id),
            end=require_end_token(checkpoint.name, text.sep_token_id),
            context=min(text.max_position_embeddings, tokenizer.model_max_length),
            cut=checkpoint.options.cut,
        )
        network = checkpoint.model(BlipForConditionalGeneration)
        super().__init__(
            checkpoint, network, "BLIP", wording, noise=BLIP_NOISE, notes=CAPTION_NOTES
        )

    def _see(self, images: Sequence[ImageLike]) -> EncodedImages:
        return EncodedImages((self.network.vision_model(self._pixels(images))[0],))

    def _keep(self, seen: EncodedImages) -> EncodedImages:
        return cache_cross_attention(self.network.text_decoder.bert, seen)

    def _read(self, packed: PackedCaptions, seen: EncodedImages) -> Tensor:
        return run_text_network(self.network.text_decoder.bert, packed, seen, causal=True)

    def _words(self, states: Tensor) -> Tensor:
        logits: Tensor = self.network.text_decoder.cls(states)
        return logits


def cache_cross_attention(text: Any, seen: EncodedImages) -> EncodedImages:
    """Cross-attention keys and values of images for every layer of a text network."""
    (tokens,) = seen.tensors
    found = []
    for layer in text.encoder.layer:
        attention = layer.crossattention.self
        size = attention.attention_head_size
        found += [split_heads(part(tokens), size) for part in (attention.key, attention.value)]
    return EncodedImages(tuple(found))


def run_text_network(
    text: Any, packed: PackedCaptions, seen: EncodedImages, *, causal: bool
) -> Tensor:
    """Hidden states (r, l, width) of a text network with cross-attention to images.

    Args:
        text: the library's text network.
        packed: what it reads.
        seen: tokens of each row's image, or its keys and values.
        causal: whether a token sees the earlier ones only.
    """
    tokens = seen.tensors[0]
    cache = None
    if len(seen.tensors) > 1:
        cache = make_cross_cache(seen.tensors)
        tokens = tokens.new_zeros(1).expand(len(seen), tokens.shape[2], 1)  # never read
    dtype = text.embeddings.word_embeddings.weight.dtype
    states: Tensor = text(
        input_ids=packed.tokens,
        position_ids=packed.places,
        attention_mask=packed.mask(dtype, causal=causal),
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
        self._most = min(text.max_position_embeddings, tokenizer.model_max_length)
        self._first = require_start_token(checkpoint.name, text.bos_token_id)
        wording = CausalTextInputs(
            checkpoint.name,
            tokenizer,
            start=require_start_token(checkpoint.name, tokenizer.cls_token_id),
            end=require_end_token(checkpoint.name, tokenizer.sep_token_id),
            context=self._most - reserve_question_tokens(tokenizer),
            cut=checkpoint.options.cut,
        )
        network = checkpoint.model(BlipForQuestionAnswering)
        super().__init__(checkpoint, network, "BLIP", wording, noise=BLIP_NOISE, notes=VQA_NOTES)

    @exact_inference
    def answer_logprobs(
        self, images: Sequence[AnyImage], texts: Sequence[str], question: QuestionTemplate
    ) -> Tensor:
        """(n,) log P of the answer to the question about each caption."""
        sights, places = self._pairs(images, texts)
        asked = [question.about(text) for text in self.wording.kept(texts)]
        rows = [[self.wording.start, *row, self.wording.end] for row in self.wording.bare(asked)]
        for text, row in zip(asked, rows, strict=True):
            self.wording.require(len(row), self._most, text)
        questions = self._questions(sights, places, rows)
        return self._answers(questions, self.wording.answer(question.answer))

    def _questions(
        self, sights: Sequence[AnyImage], places: Sequence[int], rows: Sequence[Sequence[int]]
    ) -> list[Tensor]:
        """Hidden states (l, width) of each question."""
        after = [[*row, self.wording.end] for row in rows]  # the last of a packed row is not read
        packed = pack(after, places, device=self._device)
        seen = self._gathered(sights).rows(packed.rows)
        states = packed.chosen(
            run_text_network(self.network.text_encoder, packed, seen, causal=False)
        )
        return list(torch.split(states, [len(row) for row in rows]))

    def _answers(self, questions: Sequence[Tensor], answer: Sequence[int]) -> Tensor:
        """(n,) log P of one answer to each question.

        Questions of one length go together: the library's cross-attention takes no notice of a
        mask, so that padding would be looked at.
        """
        alike: dict[int, list[int]] = {}
        for i, each in enumerate(questions):
            alike.setdefault(len(each), []).append(i)
        found = torch.empty(len(questions))
        for places in alike.values():
            together = torch.stack([questions[i] for i in places])
            found[places] = self._answer(together, answer)
        return found

    def _answer(self, questions: Tensor, answer: Sequence[int]) -> Tensor:
        count = len(questions)
        begun = torch.tensor([[self._first, *answer[:-1]]], device=self._device)
        decoder = self.network.text_decoder
        states = decoder.bert(
            input_ids=begun.expand(count, -1),
            encoder_hidden_states=questions,
            is_decoder=True,
            use_cache=False,
        )[0]
        targets = torch.tensor(answer, device=self._device).repeat(count)
        found = target_logprobs(decoder.cls(states.flatten(0, 1)), targets)
        return found.view(count, len(answer)).sum(dim=1).cpu()

    def _see(self, images: Sequence[ImageLike]) -> EncodedImages:
        return EncodedImages((self.network.vision_model(self._pixels(images))[0],))

    def _keep(self, seen: EncodedImages) -> EncodedImages:
        return cache_cross_attention(self.network.text_encoder, seen)


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
        distinct, places, tokens = self._pairs(images, texts)
        seen = self.network.vision_model(self._pixels(distinct))[0]
        with self._hiding(texts, tokens):
            read = self.network.text_encoder(**tokens, encoder_hidden_states=seen[places])[0]
        return log_odds(self.network.itm_head(read[:, 0]))

    @exact_inference
    def embed_images(self, images: Sequence[ImageLike]) -> Tensor:
        """Unit vectors (n, d)."""
        seen = self.network.vision_model(self._pixels(images))[0]
        return normalize_rows(self.network.vision_proj(seen[:, 0]))

    @exact_inference
    def embed_texts(self, texts: Sequence[str]) -> Tensor:
        """Unit vectors (n, d)."""
        tokens = self._tokens(texts)
        with self._hiding(texts, tokens):
            read = self.network.text_encoder(**tokens)[0]
        return normalize_rows(self.network.text_proj(read[:, 0]))
