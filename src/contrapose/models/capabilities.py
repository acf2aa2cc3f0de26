"""Capabilities of a model as protocols: a class that has the methods is a model, no base class.

Every model has a name and a fingerprint, and one or more scoring methods. Scores must not depend on
the batch: the same pair in another batch gets the same number to 1e-4. A model refuses an empty
caption with an `InputError`, and one beyond its context length unless it was loaded with
`,long=cut`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias, runtime_checkable

from contrapose.arrays import Ragged
from contrapose.errors import InputError

if TYPE_CHECKING:
    from PIL.Image import Image
    from torch import Tensor

    from contrapose.resize_crop import ResizeCrop

    PreparedImage: TypeAlias = Tensor | Mapping[str, Tensor]
    """One image as `prepare_image` of the same model returns it: pixels, or named tensors."""
    ImageLike: TypeAlias = Image | PreparedImage
    """Input image: decoded RGB, or prepared already."""
    AnyImage: TypeAlias = "ImageLike | EncodedImage"
    """Input image: decoded, prepared or encoded already."""


PIXELS = "pixel_values"
"""Name of the pixels among the named tensors of a prepared image."""

UNSTORED = "unstored:"
"""Prefix of the fingerprint of a model whose scores are kept in memory and never stored."""


@dataclass(frozen=True, slots=True, eq=False)
class EncodedImage:
    """An image that a model has encoded, as the `encode_images` of the same model returns it.

    Attributes:
        state: private to the model: image tokens, or keys and values.
    """

    state: Any


@runtime_checkable
class Model(Protocol):
    """Base protocol: name, fingerprint and default batch size of a model."""

    @property
    def name(self) -> str:
        """The canonical name, as the user would type it."""

    @property
    def fingerprint(self) -> str:
        """Hash of weights, configuration and preprocessing: the same numbers, the same hash."""

    @property
    def batch_size(self) -> int:
        """Default number of images, captions or pairs per call."""


@runtime_checkable
class ImagePreparer(Protocol):
    """A model whose image preprocessing can run ahead, in other threads."""

    def prepare_image(self, image: Image) -> PreparedImage:
        """Preprocess one image on the CPU, thread-safe; given wherever an image may be."""


@runtime_checkable
class CropPreparer(ImagePreparer, Protocol):
    """A model that may prepare images by a resize and a crop alone, as other processes can."""

    @property
    def resize_crop(self) -> ResizeCrop | None:
        """Steps whose bytes (3, h, w) are the prepared image; None where it does anything else."""


@runtime_checkable
class TokenCounter(Protocol):
    """A model that counts the tokens of captions and states its context length."""

    @property
    def context(self) -> int:
        """Context length: most tokens of a caption, special tokens included."""

    @property
    def cuts(self) -> bool:
        """Whether longer captions are truncated; otherwise they are refused."""

    def token_counts(self, texts: Sequence[str]) -> Sequence[int]:
        """Number of tokens of each caption before truncation, special tokens included."""


@runtime_checkable
class CaptionTokenizer(Protocol):
    """A model that gives the token ids of captions."""

    def token_ids(self, texts: Sequence[str]) -> Sequence[Sequence[int]]:
        """Token ids of each text before truncation, without special tokens."""


@dataclass(frozen=True, slots=True)
class ModelCard:
    """Model card: family, size, dtype, preprocessing and limits.

    Attributes:
        family: such as `CLIP` or `BLIP`.
        parameters: number of parameters.
        dtype: of its computation: `fp32`, `bf16` or `fp16`.
        preprocessing: description of the image preprocessing.
        context: context length, most tokens of a caption; None where there is no limit.
        notes: limits of the model and differences from its paper, one sentence per note.
    """

    family: str
    parameters: int
    dtype: str
    preprocessing: str
    context: int | None
    notes: tuple[str, ...] = ()


@runtime_checkable
class CardProvider(Protocol):
    """A model that has a model card."""

    @property
    def card(self) -> ModelCard:
        """The model card."""


@runtime_checkable
class Encoder(Model, Protocol):
    """A dual encoder: images and captions are embedded separately (score `itc`).

    A model with several vectors per image, such as BLIP-2, has an attribute `pool = "max"`: its
    score is the largest cosine of an image vector with the caption's vector.
    """

    def embed_images(self, images: Sequence[ImageLike]) -> Tensor:
        """(n, d) vectors of unit length; (n, q, d) where the model has a `pool`."""

    def embed_texts(self, texts: Sequence[str]) -> Tensor:
        """(n, d) vectors of unit length."""


@runtime_checkable
class Matcher(Model, Protocol):
    """A fusion encoder: one network reads image and caption jointly (score `itm`).

    A model whose logits are scaled cosines, above 0 for most pairs, has an attribute
    `matches_by_cosine = True`: 0 is then no threshold between yes and no.
    """

    def match(self, images: Sequence[ImageLike], texts: Sequence[str]) -> Tensor:
        """(n,) logits, the i-th image with the i-th caption.

        Images that are the same object need be encoded only once.
        """


def has_cosine_match(model: Model) -> bool:
    """Whether the match logits of a model are scaled cosines."""
    return bool(getattr(model, "matches_by_cosine", False))


@runtime_checkable
class Captioner(Model, Protocol):
    """A model that gives a caption's probability, token by token (scores `lm` and `prior`)."""

    @property
    def lm_tokens(self) -> str:
        """Tokens that the log-probabilities cover, such as `caption+end`.

        Part of the score's identity: numbers over other tokens are another score.
        """

    def token_logprobs(self, images: Sequence[AnyImage], texts: Sequence[str]) -> Ragged:
        """Log P(t_k | t_<k, I) of each counted token, the i-th image with the i-th caption.

        Images that are the same object need be encoded only once.
        """

    def noise_images(self, count: int, seed: int) -> Sequence[ImageLike]:
        """Content-free images for the prior: Gaussian noise in the normalised pixel space."""


@runtime_checkable
class PromptedCaptioner(Captioner, Protocol):
    """A captioner that puts a prompt before captions, such as a chat model."""

    def with_prompt(self, prompt: str) -> Captioner:
        """Return the model with another prompt, which is part of its `lm_tokens`."""


@runtime_checkable
class ImageCacher(Protocol):
    """A captioner or answerer that can encode an image once for many captions.

    The engine uses it for the images of a prior, under which every caption is scored.
    """

    def encode_images(self, images: Sequence[ImageLike]) -> Sequence[EncodedImage]:
        """Encode images, independently of any caption.

        The results may be given wherever an image may, to the same effect.
        """


@dataclass(frozen=True, slots=True)
class QuestionTemplate:
    """A yes-or-no question about a caption.

    Attributes:
        text: the question; `{}` stands for the caption.
        answer: the answer whose probability is the score.
    """

    text: str = 'Does this figure show "{}"? Please answer yes or no.'
    answer: str = "Yes"

    def about(self, caption: str) -> str:
        """The question about one caption."""
        return self.text.replace("{}", caption)


@runtime_checkable
class Answerer(Model, Protocol):
    """A model that answers questions about an image (score `vqa`; Lin et al., VQAScore, 2024)."""

    def answer_logprobs(
        self, images: Sequence[AnyImage], texts: Sequence[str], question: QuestionTemplate
    ) -> Tensor:
        """(n,) log P(answer | image, question about the caption), tokens of the answer summed."""

    def noise_images(self, count: int, seed: int) -> Sequence[ImageLike]:
        """Content-free images for the prior: Gaussian noise in the normalised pixel space."""


@runtime_checkable
class Language(Model, Protocol):
    """A language model: a caption's probability without any image (score `blind`)."""

    @property
    def lm_tokens(self) -> str:
        """Tokens that the log-probabilities cover."""

    def text_logprobs(self, texts: Sequence[str]) -> Ragged:
        """Log P(t_k | t_<k) of each counted token of each caption."""


@dataclass(frozen=True, slots=True, eq=False)
class Prompt:
    """One turn of a chat: images first, in this order, then text."""

    images: tuple[ImageLike, ...]
    text: str


@dataclass(frozen=True, slots=True)
class Reply:
    """Reply of a chat model.

    Attributes:
        text: the words.
        first: log-probabilities of the likeliest first tokens, where the model gives them.
        tokens_in: tokens of the prompt, where known.
        tokens_out: tokens of the reply, where known.
    """

    text: str
    first: Mapping[str, float] = field(default_factory=dict)
    tokens_in: int = 0
    tokens_out: int = 0


@runtime_checkable
class Chat(Model, Protocol):
    """A chat model: text prompts with images in, text out (score `chat`)."""

    def reply(self, prompts: Sequence[Prompt]) -> Sequence[Reply]:
        """One reply per prompt, decoded greedily (temperature 0), a few tokens at most."""


def mark_arrived(error: BaseException, positions: Sequence[int]) -> None:
    """Mark on the error of a model call the inputs whose answers arrived before it.

    The model keeps these answers. Called with one of the inputs alone, it gives its answer and
    does not compute it again, so that an answer which costs money or minutes is not lost.
    """
    vars(error)["arrived"] = tuple(positions)


def arrived_positions(error: BaseException) -> tuple[int, ...]:
    """Positions of the inputs whose answers arrived before a model call failed; mostly none."""
    positions: tuple[int, ...] = vars(error).get("arrived", ())
    return positions


PREVIEW_LENGTH = 40
"""Characters of a caption that an error shows."""


def check_caption(name: str, text: str, count: int, added: int, context: int | None) -> None:
    """Refuse a caption that is empty, unreadable, or longer than the context.

    Args:
        name: of the model.
        text: the caption.
        count: number of its tokens, special tokens included.
        added: number of special tokens.
        context: context length; None where longer captions are truncated.

    Raises:
        InputError: it is empty, without a known token, or too long.
    """
    if not text.strip():
        raise InputError("a caption is empty.")
    if count <= added:
        raise InputError(f"{name} reads nothing in the caption {text[:PREVIEW_LENGTH]!r}.")
    if context is not None and count > context:
        raise InputError(
            f"the caption {text[:PREVIEW_LENGTH]!r}… has {count} tokens and {name} reads "
            f"{context}: shorten it, or load the model with ,long=cut."
        )


def check_pairs(name: str, images: Sequence[object], texts: Sequence[str]) -> None:
    """Refuse unequal numbers of images and captions.

    Raises:
        InputError: there are not as many images as captions.
    """
    if len(images) != len(texts):
        raise InputError(
            f"{name} scores pairs: {len(images)} images were given with {len(texts)} captions."
        )
