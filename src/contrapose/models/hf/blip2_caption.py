"""BLIP-2 (Li et al., 2023) with its language model: queries that looked at the image, then text.

With OPT the queries stand before the text, and their keys and values are made once an image. With
Flan-T5 they are what the encoder reads, and the decoder's cross-attention keeps keys and values of
that; its relative positions are the same wherever a caption begins, so captions share a row too.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence
from transformers import Blip2ForConditionalGeneration, DynamicCache

from contrapose.errors import InputError
from contrapose.models.hf.blip_caption import NOISE
from contrapose.models.hf.caches import crossed, held, keys_and_values, split_heads
from contrapose.models.hf.captioner import Captioner
from contrapose.models.hf.wording import Wording, end_token, room, start_token
from contrapose.models.packing import logprobs, sums
from contrapose.models.precise import precise
from contrapose.models.seen import Seen

if TYPE_CHECKING:
    from contrapose.models.capabilities import Picture, QuestionTemplate, Sight
    from contrapose.models.hf.checkpoint import Checkpoint
    from contrapose.models.packing import Packed

NO_LIMIT = 512
"""Tokens of a caption, where neither network nor tokeniser has a limit."""
COMMON = (
    "lm is of the caption's tokens and its end, {end!r}, with no prompt before it.",
    "A question is put as “{question}”, as in the paper; vqa is log P of the answer's tokens "
    "alone.",
)
OPT_QUESTION = "Question: {} Answer:"
T5_QUESTION = "Question: {} Short answer:"


def load_captioner(checkpoint: Checkpoint) -> Blip2Captioner:
    """A BLIP-2 of the second stage.

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


class Blip2Captioner(Captioner):
    """`lm` and `vqa` by the language model behind the queries."""

    def __init__(
        self,
        checkpoint: Checkpoint,
        tokenizer: Any,
        *,
        start: object,
        context: int,
        question: str,
    ):
        end = end_token(checkpoint.name, checkpoint.config.text_config.eos_token_id)
        wording = Wording(
            checkpoint.name,
            tokenizer,
            start=start_token(checkpoint.name, start),
            end=end,
            context=min(context, tokenizer.model_max_length),
            cut=checkpoint.options.cut,
        )
        notes = [
            note.format(end=tokenizer.decode([end]), question=question.replace("{}", "…"))
            for note in COMMON
        ]
        network = checkpoint.model(Blip2ForConditionalGeneration)
        super().__init__(checkpoint, network, "BLIP-2", wording, noise=NOISE, notes=notes)
        self._language = network.language_model
        self._question = question

    def _asked(self, texts: Sequence[str], question: QuestionTemplate) -> list[str]:
        """The question about each caption, in the words that the model was asked in."""
        return [
            self._question.replace("{}", question.about(text)) for text in self.wording.kept(texts)
        ]

    def _queries(self, images: Sequence[Picture]) -> Tensor:
        """(n, q, width) what the language model is given of images."""
        queries: Tensor = self.network.get_image_features(self._pixels(images)).pooler_output
        return queries.to(self._dtype)

    def _words(self, states: Tensor) -> Tensor:
        logits: Tensor = self._language.lm_head(states)
        return logits

    def _table(self) -> Any:
        """That of the decoder: T5's encoder has one of its own."""
        decoder = getattr(self._language, "decoder", None) or self._language.model.decoder
        return decoder.embed_tokens


class Blip2Opt(Blip2Captioner):
    """With OPT, which continues a text that begins with the queries."""

    def __init__(self, checkpoint: Checkpoint):
        config, tokenizer = checkpoint.config, checkpoint.tokenizer()
        before = list(tokenizer("")["input_ids"])
        self._most = config.text_config.max_position_embeddings - config.num_query_tokens
        super().__init__(
            checkpoint,
            tokenizer,
            start=before[0] if before else config.text_config.bos_token_id,
            context=self._most - room(tokenizer, OPT_QUESTION),
            question=OPT_QUESTION,
        )

    @precise
    def answer_logprobs(
        self, images: Sequence[Sight], texts: Sequence[str], question: QuestionTemplate
    ) -> Tensor:
        """(n,) log P of the answer to the question about each caption."""
        sights, places = self._pairs(images, texts)
        asked = self._asked(texts, question)
        answer = self.wording.answer(f" {question.answer}")
        rows = [[self.wording.start, *row, *answer] for row in self.wording.bare(asked)]
        for text, row in zip(asked, rows, strict=True):
            self.wording.require(len(row), self._most, text)
        return sums(self._likely(sights, places, rows, [len(answer)] * len(rows)))

    def _see(self, images: Sequence[Picture]) -> Seen:
        cache = DynamicCache()
        self._language.model.decoder(
            inputs_embeds=self._queries(images), past_key_values=cache, use_cache=True
        )
        return Seen(keys_and_values(cache))

    def _read(self, packed: Packed, seen: Seen) -> Tensor:
        prefix = seen.tensors[0].shape[2]
        states: Tensor = self._language.model.decoder(
            input_ids=packed.tokens,
            position_ids=packed.places + prefix,
            attention_mask=packed.mask(self._dtype, prefix),
            past_key_values=held(seen.tensors),
            use_cache=True,
        )[0]
        return states


class Blip2T5(Blip2Captioner):
    """With Flan-T5, whose encoder reads the queries and, where there is one, the question."""

    def __init__(self, checkpoint: Checkpoint):
        config, tokenizer = checkpoint.config, checkpoint.tokenizer()
        super().__init__(
            checkpoint,
            tokenizer,
            start=config.text_config.decoder_start_token_id,
            context=NO_LIMIT,
            question=T5_QUESTION,
        )
        self._after: list[int] = list(tokenizer("")["input_ids"])

    @precise
    def answer_logprobs(
        self, images: Sequence[Sight], texts: Sequence[str], question: QuestionTemplate
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
        found = logprobs(self._words(states.flatten(0, 1)), targets)
        return found.view(len(rows), len(answer)).sum(dim=1).cpu()

    def _see(self, images: Sequence[Picture]) -> Seen:
        """The queries themselves, for questions; then keys and values for captions."""
        queries = self._queries(images)
        encoded, _ = self._encoded(queries, [self._after] * len(images))
        found = [queries]
        for block in self._language.decoder.block:
            attention = block.layer[1].EncDecAttention
            size = attention.key_value_proj_dim
            found += [split_heads(part(encoded), size) for part in (attention.k, attention.v)]
        return Seen(tuple(found))

    def _read(self, packed: Packed, seen: Seen) -> Tensor:
        keys = seen.tensors[1]
        states: Tensor = self._language.decoder(
            input_ids=packed.tokens,
            attention_mask=packed.mask(self._dtype),
            encoder_hidden_states=keys.new_zeros(1).expand(len(seen), keys.shape[2], 1),  # unread
            past_key_values=crossed(seen.tensors[1:]),
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
        """(n, q + l, width) states of queries and text, and (n, q + l) which of them are real."""
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
