"""BLIP-2 (Li et al., 2023): Q-Former matcher, and captioner with OPT or Flan-T5.

With OPT the queries stand before the text, and their keys and values are made once an image. With
Flan-T5 they are what the encoder reads, and the decoder's cross-attention keeps keys and values of
that; its relative positions are the same wherever a caption begins, so captions share a row too.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Literal

import torch
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence
from transformers import Blip2ForConditionalGeneration, Blip2ForImageTextRetrieval, DynamicCache

from contrapose.errors import InputError
from contrapose.models.encoded_images import EncodedImages
from contrapose.models.exact import exact_inference
from contrapose.models.hf.blip import BLIP_NOISE
from contrapose.models.hf.captioner import (
    HFCaptioner,
    get_cache_tensors,
    make_cache,
    make_cross_cache,
    split_heads,
)
from contrapose.models.hf.causal_inputs import (
    CausalTextInputs,
    require_end_token,
    require_start_token,
    reserve_question_tokens,
)
from contrapose.models.hf.fusion import (
    LOG_ODDS_NOTE,
    FusionModel,
    log_odds,
    normalize_rows,
    refuse_architectures,
)
from contrapose.models.packing import sum_per_caption, target_logprobs

if TYPE_CHECKING:
    from contrapose.models.capabilities import AnyImage, ImageLike, QuestionTemplate
    from contrapose.models.hf.checkpoint import Checkpoint
    from contrapose.models.packing import PackedCaptions

DEFAULT_CONTEXT = 512
"""Tokens of a caption, where neither network nor tokeniser has a limit."""
CAPTION_NOTES = (
    "lm is of the caption's tokens and its end, {end!r}, with no prompt before it.",
    "A question is put as “{question}”, as in the paper; vqa is log P of the answer's tokens "
    "alone.",
)
OPT_QUESTION = "Question: {} Answer:"
T5_QUESTION = "Question: {} Short answer:"


def load_blip2_captioner(checkpoint: Checkpoint) -> Blip2Captioner:
    """Load BLIP-2 of the second stage, with OPT or T5.

    Raises:
        InputError: its language model is neither OPT nor T5, or weights or tokens are missing.
    """
    language = str(checkpoint.config.text_config.model_type)
    if language == "opt":
        return Blip2Opt(checkpoint)
    if language == "t5":
        return Blip2T5(checkpoint)
    raise InputError(
        f"{checkpoint.name} is a BLIP-2 with a language model of type {language!r}; known are "
        "those with OPT and with T5."
    )


class Blip2Captioner(HFCaptioner):
    """BLIP-2 with its language model: `lm` and `vqa` after the image queries."""

    def __init__(
        self,
        checkpoint: Checkpoint,
        tokenizer: Any,
        *,
        start: object,
        context: int,
        question: str,
    ):
        end = require_end_token(checkpoint.name, checkpoint.config.text_config.eos_token_id)
        wording = CausalTextInputs(
            checkpoint.name,
            tokenizer,
            start=require_start_token(checkpoint.name, start),
            end=end,
            context=min(context, tokenizer.model_max_length),
            cut=checkpoint.options.cut,
        )
        notes = [
            note.format(end=tokenizer.decode([end]), question=question.replace("{}", "…"))
            for note in CAPTION_NOTES
        ]
        network = checkpoint.model(Blip2ForConditionalGeneration)
        super().__init__(checkpoint, network, "BLIP-2", wording, noise=BLIP_NOISE, notes=notes)
        self._language = network.language_model
        self._question = question

    def _asked(self, texts: Sequence[str], question: QuestionTemplate) -> list[str]:
        """Questions about the captions in the model's question format."""
        return [
            self._question.replace("{}", question.about(text)) for text in self.wording.kept(texts)
        ]

    def _queries(self, images: Sequence[ImageLike]) -> Tensor:
        """(n, q, width) image queries that the language model reads."""
        queries: Tensor = self.network.get_image_features(self._pixels(images)).pooler_output
        return queries.to(self._dtype)

    def _words(self, states: Tensor) -> Tensor:
        logits: Tensor = self._language.lm_head(states)
        return logits

    def _table(self) -> Any:
        """Word embedding of the decoder; T5's encoder has one of its own."""
        decoder = getattr(self._language, "decoder", None) or self._language.model.decoder
        return decoder.embed_tokens


class Blip2Opt(Blip2Captioner):
    """BLIP-2 with OPT, which continues the image queries."""

    def __init__(self, checkpoint: Checkpoint):
        config, tokenizer = checkpoint.config, checkpoint.tokenizer()
        before = list(tokenizer("")["input_ids"])
        self._most = config.text_config.max_position_embeddings - config.num_query_tokens
        super().__init__(
            checkpoint,
            tokenizer,
            start=before[0] if before else config.text_config.bos_token_id,
            context=self._most - reserve_question_tokens(tokenizer, OPT_QUESTION),
            question=OPT_QUESTION,
        )

    @exact_inference
    def answer_logprobs(
        self, images: Sequence[AnyImage], texts: Sequence[str], question: QuestionTemplate
    ) -> Tensor:
        """(n,) log P of the answer to the question about each caption."""
        sights, places = self._pairs(images, texts)
        asked = self._asked(texts, question)
        answer = self.wording.answer(f" {question.answer}")
        rows = [[self.wording.start, *row, *answer] for row in self.wording.bare(asked)]
        for text, row in zip(asked, rows, strict=True):
            self.wording.require(len(row), self._most, text)
        return sum_per_caption(self._likely(sights, places, rows, [len(answer)] * len(rows)))

    def _see(self, images: Sequence[ImageLike]) -> EncodedImages:
        cache = DynamicCache()
        self._language.model.decoder(
            inputs_embeds=self._queries(images), past_key_values=cache, use_cache=True
        )
        return EncodedImages(get_cache_tensors(cache))

    def _read(self, packed: PackedCaptions, seen: EncodedImages) -> Tensor:
        prefix = seen.tensors[0].shape[2]
        states: Tensor = self._language.model.decoder(
            input_ids=packed.tokens,
            position_ids=packed.places + prefix,
            attention_mask=packed.mask(self._dtype, prefix),
            past_key_values=make_cache(seen.tensors),
            use_cache=True,
        )[0]
        return states


class Blip2T5(Blip2Captioner):
    """BLIP-2 with Flan-T5, whose encoder reads the queries and any question."""

    def __init__(self, checkpoint: Checkpoint):
        config, tokenizer = checkpoint.config, checkpoint.tokenizer()
        super().__init__(
            checkpoint,
            tokenizer,
            start=config.text_config.decoder_start_token_id,
            context=DEFAULT_CONTEXT,
            question=T5_QUESTION,
        )
        self._after: list[int] = list(tokenizer("")["input_ids"])

    @exact_inference
    def answer_logprobs(
        self, images: Sequence[AnyImage], texts: Sequence[str], question: QuestionTemplate
    ) -> Tensor:
        """(n,) log P of the answer to the question about each caption.

        The encoder reads queries and question together, each seeing the other, so that nothing but
        the queries is shared by the questions about an image.
        """
        sights, places = self._pairs(images, texts)
        rows = [[*row, *self._after] for row in self.wording.bare(self._asked(texts, question))]
        answer = self.wording.answer(question.answer)
        queries = self._gathered(sights).tensors[0][torch.tensor(places, device=self._device)]
        encoded, real = self._encoded(queries, rows)
        begun = torch.tensor([[self.wording.start, *answer[:-1]]], device=self._device)
        states = self._language.decoder(
            input_ids=begun.expand(len(rows), -1),
            encoder_hidden_states=encoded,
            encoder_attention_mask=real,
            use_cache=False,
        )[0]
        targets = torch.tensor(answer, device=self._device).repeat(len(rows))
        found = target_logprobs(self._words(states.flatten(0, 1)), targets)
        return found.view(len(rows), len(answer)).sum(dim=1).cpu()

    def _see(self, images: Sequence[ImageLike]) -> EncodedImages:
        """Image queries, for questions; then cross-attention keys and values, for captions."""
        queries = self._queries(images)
        encoded, _ = self._encoded(queries, [self._after] * len(images))
        found = [queries]
        for block in self._language.decoder.block:
            attention = block.layer[1].EncDecAttention
            size = attention.key_value_proj_dim
            found += [split_heads(part(encoded), size) for part in (attention.k, attention.v)]
        return EncodedImages(tuple(found))

    def _read(self, packed: PackedCaptions, seen: EncodedImages) -> Tensor:
        keys = seen.tensors[1]
        states: Tensor = self._language.decoder(
            input_ids=packed.tokens,
            attention_mask=packed.mask(self._dtype),
            encoder_hidden_states=keys.new_zeros(1).expand(len(seen), keys.shape[2], 1),  # unread
            past_key_values=make_cross_cache(seen.tensors[1:]),
            use_cache=True,
        )[0]
        return states

    def _table(self) -> Any:
        return self._language.decoder.embed_tokens

    def _words(self, states: Tensor) -> Tensor:
        if self._language.config.scale_decoder_outputs:
            states = states * self._language.model_dim**-0.5
        return super()._words(states)

    def _encoded(self, queries: Tensor, rows: Sequence[Sequence[int]]) -> tuple[Tensor, Tensor]:
        """Encoder states (n, q + l, width) of queries and text, and their padding mask."""
        before = queries.shape[1]
        texts = [torch.tensor(row, dtype=torch.long, device=self._device) for row in rows]
        tokens = pad_sequence(texts, batch_first=True)
        lengths = torch.tensor([before + len(row) for row in rows], device=self._device)
        real = torch.arange(before + tokens.shape[1], device=self._device) < lengths[:, None]
        words = self._language.get_input_embeddings()(tokens)
        states = self._language.encoder(
            inputs_embeds=torch.cat([queries, words.to(queries.dtype)], dim=1),
            attention_mask=real.long(),
        )[0]
        return states, real.long()


UNSUPPORTED = {"Blip2Model": "a captioner without its head"}
MATCHING_NOTES = (
    LOG_ODDS_NOTE,
    "Its itm is the mean over the queries' logits.",
    "An image has one vector a query: itc is the largest of their cosines with the caption's.",
    "The released models were trained on captions of at most 32 tokens.",
)


def load_blip2(checkpoint: Checkpoint) -> Blip2 | Blip2Captioner:
    """Load BLIP-2 of the first stage (Q-Former with matching head) or of the second.

    Raises:
        InputError: it is another model of the family, or lacks weights.
    """
    if "Blip2ForConditionalGeneration" in (checkpoint.config.architectures or ()):
        return load_blip2_captioner(checkpoint)
    refuse_architectures(checkpoint, UNSUPPORTED)
    if not checkpoint.config.qformer_config.use_qformer_text_input:
        raise InputError(
            f"{checkpoint.name} cannot match: its Q-Former reads no captions "
            "(use_qformer_text_input is off in its configuration)."
        )
    return Blip2(checkpoint)


class Blip2(FusionModel):
    """BLIP-2 Q-Former: `itm` by queries and caption jointly, `itc` by the best query.

    Attributes:
        pool: how the vectors of an image become one number with a caption's.
    """

    pool: Literal["max"] = "max"

    def __init__(self, checkpoint: Checkpoint):
        super().__init__(
            checkpoint,
            checkpoint.model(Blip2ForImageTextRetrieval),
            "BLIP-2",
            context=checkpoint.config.qformer_config.max_position_embeddings,
            notes=MATCHING_NOTES,
            tokenizer_arguments={"return_token_type_ids": False},
        )

    @exact_inference
    def match(self, images: Sequence[ImageLike], texts: Sequence[str]) -> Tensor:
        """Log-odds (n,) of a match; each distinct image is encoded once."""
        distinct, places, tokens = self._pairs(images, texts)
        seen = self.network.vision_model(self._pixels(distinct))[0][places]
        queries = self._queries(len(texts))
        count = queries.shape[1]
        with self._hiding(texts, tokens):
            embedded = self.network.embeddings(tokens["input_ids"], query_embeds=queries)
        read = self.network.qformer(
            query_embeds=embedded,
            query_length=count,
            attention_mask=torch.cat(
                [tokens["attention_mask"].new_ones(len(texts), count), tokens["attention_mask"]],
                dim=1,
            ),
            encoder_hidden_states=seen,
        )[0]
        head = self.network.itm_head
        return log_odds(head(read[:, :count].to(head.weight.dtype)).float().mean(dim=1))

    @exact_inference
    def embed_images(self, images: Sequence[ImageLike]) -> Tensor:
        """Unit vectors (n, q, d), one per query."""
        seen = self.network.vision_model(self._pixels(images))[0]
        found = self.network.qformer(
            query_embeds=self._queries(len(images)), encoder_hidden_states=seen
        )[0]
        projection = self.network.vision_projection
        return normalize_rows(projection(found.to(projection.weight.dtype)))

    @exact_inference
    def embed_texts(self, texts: Sequence[str]) -> Tensor:
        """Unit vectors (n, d)."""
        tokens = self._tokens(texts)
        with self._hiding(texts, tokens):
            embedded = self.network.embeddings(tokens["input_ids"])
        read = self.network.qformer(
            query_embeds=embedded,
            query_length=0,
            attention_mask=tokens["attention_mask"],
        )[0]
        projection = self.network.text_projection
        return normalize_rows(projection(read[:, 0].to(projection.weight.dtype)))

    def _queries(self, count: int) -> Tensor:
        queries: Tensor = self.network.query_tokens
        return queries.expand(count, -1, -1)
