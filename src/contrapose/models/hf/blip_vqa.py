"""BLIP (Li et al., 2022) that answers questions.

An encoder reads the question over the image, a decoder gives the probability of the answer.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import torch
from torch import Tensor
from transformers import BlipForQuestionAnswering

from contrapose.models.hf.blip_caption import NOISE, cross_keys, read
from contrapose.models.hf.captioner import Speaker
from contrapose.models.hf.wording import Wording, end_token, room, start_token
from contrapose.models.packing import logprobs, pack
from contrapose.models.precise import precise
from contrapose.models.seen import Seen

if TYPE_CHECKING:
    from contrapose.models.capabilities import Picture, QuestionTemplate, Sight
    from contrapose.models.hf.checkpoint import Checkpoint

NOTES = (
    "vqa is log P of the answer's tokens alone, without the end; the decoder begins with [DEC].",
    "Questions begin with [CLS], as in the library; the authors' code puts [ENC] there.",
    "The answer is lower-cased with all text: its tokeniser knows no capitals.",
)


class BlipAnswerer(Speaker):
    """`vqa` by question encoder and answer decoder; questions about one image share a pass."""

    def __init__(self, checkpoint: Checkpoint):
        text = checkpoint.config.text_config
        tokenizer = checkpoint.tokenizer()
        self._most = min(text.max_position_embeddings, tokenizer.model_max_length)
        self._first = start_token(checkpoint.name, text.bos_token_id)
        wording = Wording(
            checkpoint.name,
            tokenizer,
            start=start_token(checkpoint.name, tokenizer.cls_token_id),
            end=end_token(checkpoint.name, tokenizer.sep_token_id),
            context=self._most - room(tokenizer),
            cut=checkpoint.options.cut,
        )
        network = checkpoint.model(BlipForQuestionAnswering)
        super().__init__(checkpoint, network, "BLIP", wording, noise=NOISE, notes=NOTES)

    @precise
    def answer_logprobs(
        self, images: Sequence[Sight], texts: Sequence[str], question: QuestionTemplate
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
        self, sights: Sequence[Sight], places: Sequence[int], rows: Sequence[Sequence[int]]
    ) -> list[Tensor]:
        """(l, width) what is known of each question, at each of its tokens."""
        after = [[*row, self.wording.end] for row in rows]  # the last of a packed row is not read
        packed = pack(after, places, device=self._device)
        seen = self._gathered(sights).rows(packed.rows)
        states = packed.chosen(read(self.network.text_encoder, packed, seen, causal=False))
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
        found = logprobs(decoder.cls(states.flatten(0, 1)), targets)
        return found.view(count, len(answer)).sum(dim=1).cpu()

    def _see(self, images: Sequence[Picture]) -> Seen:
        return Seen((self.network.vision_model(self._pixels(images))[0],))

    def _keep(self, seen: Seen) -> Seen:
        return cross_keys(self.network.text_encoder, seen)
