"""BLIP-2 (Li et al., 2023): Q-Former matcher, and captioner with OPT or Flan-T5.

With OPT the image queries are a prefix of the text, and their keys and values are computed once per
image. With Flan-T5 the encoder reads the queries, and the decoder's cross-attention keys and values
are computed once; its positions are relative, so captions can share a row there too.
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
from contrapose.models.exact import exact_inference, normalize_rows
from contrapose.models.hf.base import LOG_ODDS_NOTE, FusionModel, log_odds
from contrapose.models.hf.blip import BLIP_NOISE
from contrapose.models.hf.captioner import (
    HFCaptioner,
    get_cache_tensors,
    make_cache,
    make_cross_cache,
    split_heads,
)
from contrapose.models.hf.checkpoint import refuse_architectures
from contrapose.models.hf.inputs import (
    CausalTextInputs,
    require_end_token,
    require_start_token,
    reserve_question_tokens,
)
from contrapose.models.packing import sum_per_caption, target_logprobs

if TYPE_CHECKING:
    from contrapose.models.capabilities import AnyImage, ImageLike, QuestionTemplate
    from contrapose.models.hf.checkpoint import Checkpoint
    from contrapose.models.packing import PackedCaptions

DEFAULT_CONTEXT = 512
"""Context length where neither the network nor the tokenizer has a limit."""
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
        text_inputs = CausalTextInputs(
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
        super().__init__(checkpoint, network, "BLIP-2", text_inputs, noise=BLIP_NOISE, notes=notes)
        self._language = network.language_model
        self._question = question

    def _format_questions(self, texts: Sequence[str], question: QuestionTemplate) -> list[str]:
        """Questions about the captions in the model's question format."""
        return [
            self._question.replace("{}", question.about(text))
            for text in self.text_inputs.truncate(texts)
        ]

    def _queries(self, images: Sequence[ImageLike]) -> Tensor:
        """(n, q, width) image queries that the language model reads."""
        queries: Tensor = self.network.get_image_features(self._pixels(images)).pooler_output
        return queries.to(self._dtype)

    def _logits(self, states: Tensor) -> Tensor:
        logits: Tensor = self._language.lm_head(states)
        return logits

    def _word_embedding(self) -> Any:
        """Word embedding of the decoder; T5's encoder has one of its own."""
        decoder = getattr(self._language, "decoder", None) or self._language.model.decoder
        return decoder.embed_tokens


class Blip2Opt(Blip2Captioner):
    """BLIP-2 with OPT, which continues the image queries."""

    def __init__(self, checkpoint: Checkpoint):
        config, tokenizer = checkpoint.config, checkpoint.tokenizer()
        before = list(tokenizer("")["input_ids"])
        self._context = config.text_config.max_position_embeddings - config.num_query_tokens
        super().__init__(
            checkpoint,
            tokenizer,
            start=before[0] if before else config.text_config.bos_token_id,
            context=self._context - reserve_question_tokens(tokenizer, OPT_QUESTION),
            question=OPT_QUESTION,
        )

    @exact_inference
    def answer_logprobs(
        self, images: Sequence[AnyImage], texts: Sequence[str], question: QuestionTemplate
    ) -> Tensor:
        """(n,) log P of the answer to the question about each caption."""
        distinct, indices = self._deduplicate_pairs(images, texts)
        questions = self._format_questions(texts, question)
        answer = self.text_inputs.answer_ids(f" {question.answer}")
        rows = [
            [self.text_inputs.start, *row, *answer] for row in self.text_inputs.token_ids(questions)
        ]
        for text, row in zip(questions, rows, strict=True):
            self.text_inputs.check_question(text, len(row), self._context)
        return sum_per_caption(self._score_rows(distinct, indices, rows, [len(answer)] * len(rows)))

    def _encode(self, images: Sequence[ImageLike]) -> EncodedImages:
        cache = DynamicCache()
        self._language.model.decoder(
            inputs_embeds=self._queries(images), past_key_values=cache, use_cache=True
        )
        return EncodedImages(get_cache_tensors(cache))

    def _decode(self, packed: PackedCaptions, encoded: EncodedImages) -> Tensor:
        prefix = encoded.tensors[0].shape[2]
        states: Tensor = self._language.model.decoder(
            input_ids=packed.tokens,
            position_ids=packed.positions + prefix,
            attention_mask=packed.additive_mask(self._dtype, prefix),
            past_key_values=make_cache(encoded.tensors),
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
        self._end_tokens: list[int] = list(tokenizer("")["input_ids"])

    @exact_inference
    def answer_logprobs(
        self, images: Sequence[AnyImage], texts: Sequence[str], question: QuestionTemplate
    ) -> Tensor:
        """(n,) log P of the answer to the question about each caption.

        The encoder attends from queries to question and back, so that questions about one image
        share nothing but the queries.
        """
        distinct, indices = self._deduplicate_pairs(images, texts)
        questions = self._format_questions(texts, question)
        rows = [[*row, *self._end_tokens] for row in self.text_inputs.token_ids(questions)]
        answer = self.text_inputs.answer_ids(question.answer)
        queries = self._gather(distinct).tensors[0][torch.tensor(indices, device=self._device)]
        encoded, real = self._run_encoder(queries, rows)
        inputs = torch.tensor([[self.text_inputs.start, *answer[:-1]]], device=self._device)
        states = self._language.decoder(
            input_ids=inputs.expand(len(rows), -1),
            encoder_hidden_states=encoded,
            encoder_attention_mask=real,
            use_cache=False,
        )[0]
        targets = torch.tensor(answer, device=self._device).repeat(len(rows))
        logprobs = target_logprobs(self._logits(states.flatten(0, 1)), targets)
        return logprobs.view(len(rows), len(answer)).sum(dim=1).cpu()

    def _encode(self, images: Sequence[ImageLike]) -> EncodedImages:
        """Image queries, for questions; then cross-attention keys and values, for captions."""
        queries = self._queries(images)
        encoded, _ = self._run_encoder(queries, [self._end_tokens] * len(images))
        tensors = [queries]
        for block in self._language.decoder.block:
            attention = block.layer[1].EncDecAttention
            size = attention.key_value_proj_dim
            tensors += [split_heads(part(encoded), size) for part in (attention.k, attention.v)]
        return EncodedImages(tuple(tensors))

    def _decode(self, packed: PackedCaptions, encoded: EncodedImages) -> Tensor:
        keys = encoded.tensors[1]
        states: Tensor = self._language.decoder(
            input_ids=packed.tokens,
            attention_mask=packed.additive_mask(self._dtype),
            encoder_hidden_states=keys.new_zeros(1).expand(
                len(encoded), keys.shape[2], 1
            ),  # unread
            past_key_values=make_cross_cache(encoded.tensors[1:]),
            use_cache=True,
        )[0]
        return states

    def _word_embedding(self) -> Any:
        return self._language.decoder.embed_tokens

    def _logits(self, states: Tensor) -> Tensor:
        if self._language.config.scale_decoder_outputs:
            states = states * self._language.model_dim**-0.5
        return super()._logits(states)

    def _run_encoder(self, queries: Tensor, rows: Sequence[Sequence[int]]) -> tuple[Tensor, Tensor]:
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
        pool: how the cosines of an image's vectors with a caption's become one score.
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
        distinct, indices, tokens = self._pair_inputs(images, texts)
        image_states = self.network.vision_model(self._pixels(distinct))[0][indices]
        queries = self._queries(len(texts))
        count = queries.shape[1]
        with self._zero_masked(texts, tokens):
            embedded = self.network.embeddings(tokens["input_ids"], query_embeds=queries)
        states = self.network.qformer(
            query_embeds=embedded,
            query_length=count,
            attention_mask=torch.cat(
                [tokens["attention_mask"].new_ones(len(texts), count), tokens["attention_mask"]],
                dim=1,
            ),
            encoder_hidden_states=image_states,
        )[0]
        head = self.network.itm_head
        return log_odds(head(states[:, :count].to(head.weight.dtype)).float().mean(dim=1))

    @exact_inference
    def embed_images(self, images: Sequence[ImageLike]) -> Tensor:
        """Unit vectors (n, q, d), one per query."""
        image_states = self.network.vision_model(self._pixels(images))[0]
        states = self.network.qformer(
            query_embeds=self._queries(len(images)), encoder_hidden_states=image_states
        )[0]
        projection = self.network.vision_projection
        return normalize_rows(projection(states.to(projection.weight.dtype)))

    @exact_inference
    def embed_texts(self, texts: Sequence[str]) -> Tensor:
        """Unit vectors (n, d)."""
        tokens = self._tokens(texts)
        with self._zero_masked(texts, tokens):
            embedded = self.network.embeddings(tokens["input_ids"])
        states = self.network.qformer(
            query_embeds=embedded,
            query_length=0,
            attention_mask=tokens["attention_mask"],
        )[0]
        projection = self.network.text_projection
        return normalize_rows(projection(states[:, 0].to(projection.weight.dtype)))

    def _queries(self, count: int) -> Tensor:
        queries: Tensor = self.network.query_tokens
        return queries.expand(count, -1, -1)
