"""For every check a model that fails it and nothing else."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from PIL import Image
from torch import Tensor

from contrapose.models import (
    EncodedImage,
    FrameTiming,
    ModelCard,
    Prompt,
    QuestionTemplate,
    Ragged,
    Reply,
)
from contrapose.models.masking.text import MaskedText, full_caption
from tests.models.conformance.good import WIDTH, Good

BROKEN: dict[str, list[type[Good]]] = {}
"""Check → models that fail it."""


def fails(check: str) -> Any:
    """Mark a model as failing a check."""

    def mark(kind: type[Good]) -> type[Good]:
        BROKEN.setdefault(check, []).append(kind)
        return kind

    return mark


@fails("name")
class Nameless(Good):
    def __init__(self) -> None:
        super().__init__()
        del self.name


@fails("fingerprint")
class EmptyFingerprint(Good):
    def __init__(self) -> None:
        super().__init__()
        self.fingerprint = ""


@fails("fingerprint-stable")
class NewFingerprint(Good):
    loads = itertools.count()

    def __init__(self) -> None:
        super().__init__()
        self.fingerprint = f"load {next(self.loads)}"


@fails("batch-size")
class NoBatches(Good):
    def __init__(self) -> None:
        super().__init__()
        self.batch_size = 0


@fails("batch-size")
class TrueBatches(Good):
    def __init__(self) -> None:
        super().__init__()
        self.batch_size = True


class Incapable:
    name, fingerprint, batch_size = "none", "none-1", 1


@fails("capability")
class HalfEncoder(Good):
    @property
    def embed_texts(self) -> Any:
        raise AttributeError


@fails("capability")
class NoNoise(Good):
    @property
    def noise_images(self) -> Any:
        raise AttributeError


@fails("card")
class WrongCard(Good):
    @property
    def card(self) -> ModelCard:
        return replace(super().card, dtype="float32")


@fails("card")
class OtherContext(Good):
    @property
    def card(self) -> ModelCard:
        return replace(super().card, context=77)


@fails("counted-tokens")
class UnsaidTokens(Good):
    def __init__(self) -> None:
        super().__init__()
        self.lm_tokens = " "


@fails("evaluation-mode")
class Training(Good):
    def __init__(self) -> None:
        super().__init__()
        self.head.train()


@fails("vectors-of-images")
class Squeezed(Good):
    def embed_images(self, images: Sequence[Any]) -> Tensor:
        return super().embed_images(images).squeeze(0)


class Several(Good):
    """Right: several vectors an image, and how they become one number."""

    pool = "max"

    def embed_images(self, images: Sequence[Any]) -> Tensor:
        one = super().embed_images(images)
        return torch.stack([one, one.flip(1)], dim=1)


@fails("vectors-of-images")
class Unpooled(Several):
    pool = None  # type: ignore[assignment]


@fails("vectors-of-captions")
class OtherWidth(Good):
    def embed_texts(self, texts: Sequence[str]) -> Tensor:
        return super().embed_texts(texts).repeat(1, 2)


@fails("logits")
class TwoLogits(Good):
    def match(self, images: Sequence[Any], texts: Sequence[str]) -> Tensor:
        return super().match(images, texts)[:, None].repeat(1, 2)


@fails("offsets")
class NoEnd(Good):
    def token_logprobs(self, images: Sequence[Any], texts: Sequence[str]) -> Ragged:
        right = super().token_logprobs(images, texts)
        return Ragged(right.values, right.offsets[:-1])


@fails("offsets")
class Short(Good):
    def token_logprobs(self, images: Sequence[Any], texts: Sequence[str]) -> Ragged:
        right = super().token_logprobs(images, texts)
        return Ragged(right.values, [min(each, 3) for each in right.offsets])


@fails("offsets")
class NoStart(Good):
    def text_logprobs(self, texts: Sequence[str]) -> Ragged:
        right = super().text_logprobs(texts)
        return Ragged(right.values, right.offsets[1:])


@fails("answers")
class YesAndNo(Good):
    def answer_logprobs(
        self, images: Sequence[Any], texts: Sequence[str], question: QuestionTemplate
    ) -> Tensor:
        right = super().answer_logprobs(images, texts, question)
        return torch.stack([right, (1 - right.exp()).log()], dim=1)


@fails("finite")
class Infinite(Good):
    def match(self, images: Sequence[Any], texts: Sequence[str]) -> Tensor:
        return super().match(images, texts) / 0


@fails("unit-vectors")
class LongVectors(Good):
    def embed_texts(self, texts: Sequence[str]) -> Tensor:
        return 20 * super().embed_texts(texts)


@fails("log-probabilities")
class Losses(Good):
    def token_logprobs(self, images: Sequence[Any], texts: Sequence[str]) -> Ragged:
        right = super().token_logprobs(images, texts)
        return Ragged(-right.values, right.offsets)


@fails("log-probabilities")
class Probabilities(Good):
    def answer_logprobs(
        self, images: Sequence[Any], texts: Sequence[str], question: QuestionTemplate
    ) -> Tensor:
        return super().answer_logprobs(images, texts, question).exp()


@fails("log-probabilities")
class Surprise(Good):
    def text_logprobs(self, texts: Sequence[str]) -> Ragged:
        right = super().text_logprobs(texts)
        return Ragged(-right.values, right.offsets)


@fails("deterministic")
class Restless(Good):
    calls = itertools.count()

    def match(self, images: Sequence[Any], texts: Sequence[str]) -> Tensor:
        return super().match(images, texts) * (1 + 1e-5 * (next(self.calls) % 2))


@fails("alone")
class BatchNorm(Good):
    def embed_texts(self, texts: Sequence[str]) -> Tensor:
        shift = 0.01 if len(texts) == 1 else 0.0
        ramp = shift * torch.arange(WIDTH)
        return torch.nn.functional.normalize(super().embed_texts(texts) + ramp, dim=-1)


@fails("order")
class Sorted(Good):
    """Sorts captions, as for padding, and does not put the answers back."""

    def match(self, images: Sequence[Any], texts: Sequence[str]) -> Tensor:
        order = sorted(range(len(texts)), key=lambda i: texts[i])
        right = super().match(images, texts)
        return right[order] if len(set(texts)) == len(texts) == 4 else right


@fails("padding")
class Padded(Good):
    """Padding is taken for words."""

    def token_logprobs(self, images: Sequence[Any], texts: Sequence[str]) -> Ragged:
        right = super().token_logprobs(images, texts)
        longest = max(self.token_counts(texts))
        return Ragged(right.values - 0.01 * (longest > 12), right.offsets)


@fails("pairing")
class ByCaption(Good):
    """Keeps the answer of each caption, whatever the image."""

    def match(self, images: Sequence[Any], texts: Sequence[str]) -> Tensor:
        right = super().match(images, texts)
        if len(set(texts)) == 1:
            return right
        return torch.stack([right[list(texts).index(text)] for text in texts])


@fails("lengths")
class Zipped(Good):
    def match(self, images: Sequence[Any], texts: Sequence[str]) -> Tensor:
        shorter = min(len(images), len(texts))
        return super().match(images[:shorter], texts[:shorter])


@fails("lengths")
class Broadcasts(Good):
    """One question about many images, or one image for many questions."""

    def answer_logprobs(
        self, images: Sequence[Any], texts: Sequence[str], question: QuestionTemplate
    ) -> Tensor:
        count = max(len(images), len(texts))
        images, texts = (list(each) * (count // len(each)) for each in (images, texts))
        return super().answer_logprobs(images, texts, question)


@fails("same-image")
class Misplaced(Good):
    """Looks at each image object once, and numbers the answers wrongly."""

    def looked(self, images: Sequence[Any]) -> Tensor:
        unique = list({id(image): image for image in images}.values())
        looked = super().looked(unique)
        return looked[[min(i, len(unique) - 1) for i in range(len(images))]]


@fails("tells-captions")
class Deaf(Good):
    text_masks: tuple[str, ...] = ()

    def match(self, images: Sequence[Any], texts: Sequence[str]) -> Tensor:
        self.words(texts)
        self.require_pairs(images, texts)
        return self.looked(images).sum(dim=1)


@fails("tells-images")
class Blind(Good):
    def token_logprobs(self, images: Sequence[Any], texts: Sequence[str]) -> Ragged:
        same = [torch.ones(3, 4, 4)] * len(images)
        return super().token_logprobs(same, texts)


@fails("untouched")
class Scribbles(Good):
    def embed_images(self, images: Sequence[Any]) -> Tensor:
        right = super().embed_images(images)
        for image in images:
            if isinstance(image, Image.Image) and image.size == (64, 64):
                red, *others = image.getpixel((33, 33))  # type: ignore[misc]
                image.putpixel((33, 33), (red ^ 1, *others))
        return right


@fails("untouched")
class Consumes(Good):
    def embed_texts(self, texts: Sequence[str]) -> Tensor:
        right = super().embed_texts(texts)
        if isinstance(texts, list):
            texts.clear()
        return right


@fails("empty-caption")
class TakesEmpty(Good):
    text_masks: tuple[str, ...] = ()

    def match(self, images: Sequence[Any], texts: Sequence[str]) -> Tensor:
        return super().match(images, [text.strip() or "nothing" for text in texts])


@fails("empty-caption")
class OtherError(Good):
    def embed_texts(self, texts: Sequence[str]) -> Tensor:
        if not all(map(str.strip, texts)):
            raise ValueError("empty")
        return super().embed_texts(texts)


@fails("odd-captions")
class Ascii(Good):
    def words(self, texts: Sequence[str]) -> list[Tensor]:
        for text in texts:
            text.encode("ascii")
        return super().words(texts)


@fails("token-counts")
class CountsOnce(Good):
    def token_counts(self, texts: Sequence[str]) -> list[int]:
        right = super().token_counts(texts)
        return [1, *right[1:]] if len(texts) == 3 and texts[2].count("red") == 9 else right

    def __init__(self) -> None:
        super().__init__()
        self.cuts = 0  # type: ignore[assignment]


@fails("context")
class OffByOne(Good):
    def words(self, texts: Sequence[str]) -> list[Tensor]:
        self.context -= 1
        try:
            return super().words(texts)
        finally:
            self.context += 1


@fails("long-caption")
class CutsInSilence(Good):
    text_masks: tuple[str, ...] = ()

    def words(self, texts: Sequence[str]) -> list[Tensor]:
        kept = [text[:1] and " ".join(text.split()[: self.context - 2]) for text in texts]
        return super().words(kept)


class Cuts(Good):
    """Right: cuts as it says."""

    def __init__(self) -> None:
        super().__init__()
        self.cuts = True


@fails("cut-caption")
class ReadsOn(Cuts):
    def words(self, texts: Sequence[str]) -> list[Tensor]:
        self.context *= 10
        try:
            return super().words(texts)
        finally:
            self.context //= 10


@fails("alone")
class Remembers(Good):
    """The caption before is still there."""

    def text_logprobs(self, texts: Sequence[str]) -> Ragged:
        right = super().text_logprobs(texts)
        return Ragged(right.values - 0.01 * (len(texts) > 1), right.offsets)


@fails("odd-images")
class Resized(Good):
    def prepare_image(self, image: Image.Image) -> Tensor:
        if min(image.size) < 2:
            raise ValueError("cannot tell the channels of (1, 1, 3)")
        return super().prepare_image(image)


@fails("prepared-images")
class PreparesOtherwise(Good):
    def prepare_image(self, image: Image.Image) -> Tensor:
        return super().prepare_image(image) * 0.5

    def looked(self, images: Sequence[Any]) -> Tensor:
        right = super().prepare_image
        return super().looked([i if isinstance(i, Tensor) else right(i) for i in images])


@fails("threads")
class OneThread(Good):
    def prepare_image(self, image: Image.Image) -> Tensor:
        worker = threading.current_thread() is not threading.main_thread()
        return super().prepare_image(image) + worker


@fails("noise-images")
class Unseeded(Good):
    calls = itertools.count()

    def noise_images(self, count: int, seed: int) -> list[Tensor]:
        return super().noise_images(count, next(self.calls))


@fails("noise-images")
class NotFinite(Good):
    def noise_images(self, count: int, seed: int) -> list[Tensor]:
        noise = super().noise_images(count, seed)
        noise[0][0, 0, 0] = np.nan
        return noise


@fails("noise-images")
class SameNoise(Good):
    def noise_images(self, count: int, seed: int) -> list[Tensor]:
        return super().noise_images(count, 0)


@fails("noise-images")
class OtherNoise(Good):
    """Says that its noise is of another mean than it is."""

    noise_mean = 2.0


@fails("encoded-images")
class Glances(Good):
    def encode_images(self, images: Sequence[Any]) -> list[EncodedImage]:
        return [EncodedImage(each.state.round()) for each in super().encode_images(images)]


@fails("encoded-images")
class LooksAtOne(Good):
    """Keeps one image, which is then the same for all."""

    def encode_images(self, images: Sequence[Any]) -> list[EncodedImage]:
        return [super().encode_images(images)[0]] * len(images)


@fails("videos")
class FirstFrame(Good):
    """Looks at one frame of a video."""

    def prepare_video(self, frames: Sequence[Image.Image], timing: FrameTiming) -> Tensor:
        return self.prepare_image(frames[0])


@fails("templates")
class AsksItsOwn(Good):
    def answer_logprobs(
        self, images: Sequence[Any], texts: Sequence[str], question: QuestionTemplate
    ) -> Tensor:
        own = QuestionTemplate(answer=question.answer)
        return super().answer_logprobs(images, texts, own)


@fails("templates")
class AlwaysYes(Good):
    def answer_logprobs(
        self, images: Sequence[Any], texts: Sequence[str], question: QuestionTemplate
    ) -> Tensor:
        return super().answer_logprobs(images, texts, QuestionTemplate(question.text))


@fails("replies")
class Silent(Good):
    def reply(self, prompts: Sequence[Prompt]) -> list[Reply]:
        return super().reply(prompts)[:1]


@fails("replies")
class BareText(Good):
    def reply(self, prompts: Sequence[Prompt]) -> list[Any]:
        return [each.text for each in super().reply(prompts)]


@fails("steady-replies")
class Warm(Good):
    """Says another thing every other time, whatever the batch."""

    def __init__(self) -> None:
        super().__init__()
        self.asked: dict[int, int] = {}

    def reply(self, prompts: Sequence[Prompt]) -> list[Reply]:
        self.asked[len(prompts)] = self.asked.get(len(prompts), 0) + 1
        turn = self.asked[4] if len(prompts) == 4 and self.asked[4] in (2, 3) else 0
        return [replace(each, text=f"{each.text} {turn}") for each in super().reply(prompts)]


@fails("replies-in-order")
class AsTheyCome(Good):
    """The first to be done is the first to be given."""

    def reply(self, prompts: Sequence[Prompt]) -> list[Reply]:
        return sorted(super().reply(prompts), key=lambda each: each.text)


@fails("text-masks")
class MasksByMagic(Good):
    text_masks = ("magic",)

    @staticmethod
    def hidden(text: MaskedText) -> Tensor:
        return Good.hidden(text)


@fails("hidden-words")
class MasksNothing(Good):
    @staticmethod
    def hidden(text: MaskedText) -> Tensor:
        return torch.zeros_like(Good.hidden(text))


@fails("hidden-words")
class MasksEverything(Good):
    @staticmethod
    def hidden(text: MaskedText) -> Tensor:
        return torch.ones_like(Good.hidden(text))


@fails("hidden-words")
class MasksByLetters(Good):
    """Hides a word by another, which is not the same for all words."""

    def words(self, texts: Sequence[str]) -> list[Tensor]:
        shown = []
        for text in texts:
            caption = full_caption(text)
            if isinstance(text, MaskedText):
                for start, end in text.hidden:
                    caption = f"{caption[:start]}{caption[start:end][::-1]}{caption[end:]}"
            shown.append(caption)
        return super().words(shown)


@fails("hidden-words")
class SaysHidden(Good):
    def token_logprobs(self, images: Sequence[Any], texts: Sequence[str]) -> Ragged:
        found = super().token_logprobs(images, texts)
        return Ragged(found.values - 0.25, found.offsets)
