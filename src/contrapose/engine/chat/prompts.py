"""Chat prompts: templates by name, images side by side, and an example's prompts in all orders.

A template's words are part of the prompt, and so of every reply's key in the store.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Self

from contrapose.data import Example, Family, ImageRef, open_images
from contrapose.engine.chat.parser import parse_choice, parse_pairing
from contrapose.errors import InputError
from contrapose.metrics.chat import UNPARSABLE

if TYPE_CHECKING:
    from PIL.Image import Image


@dataclass(frozen=True, slots=True)
class ChatTemplate:
    """Prompt template of a multiple-choice question.

    Attributes:
        name: after the colon of the score.
        text: its words; `{1}`, `{2}`, … stand for the captions. Of one that takes any number of
            captions, those for two.
        source: who asked so.
    """

    name: str
    text: str
    source: str

    def about(self, captions: Sequence[str]) -> str:
        """Fill in these captions, in this order."""
        text = self.text if self is EQBEN else _format_listing(len(captions))
        before, *pieces = text.split("{")
        for piece in pieces:
            number, _, rest = piece.partition("}")
            before += captions[int(number) - 1] + rest
        return before


def _format_listing(count: int) -> str:
    """Format SugarCrepe's prompt, space for space, for any number of captions."""
    options = "\n ".join(f"({i}) {{{i}}}" for i in range(1, count + 1))
    labels = [f"({i})" for i in range(1, count + 1)]
    last = f"{', '.join(labels[:-1])} or {labels[-1]}"
    return f"Which caption best describes the image?\n{options}\nOutput {last}."


EQBEN = ChatTemplate(
    "eqben",
    "There are two images (left and right). Now you have two captions: caption 1: {1}; caption 2: "
    "{2}. Please indicate which caption corresponds to the left image and which caption "
    'corresponds to the right one. The answer should follow the format: "#index for the left '
    'image; #index for the right image". For example, "1;2" represents that caption 1 corresponds '
    "to image left.",
    "Wang et al., EqBen, 2023, section 5.5",
)
SUGARCREPE = ChatTemplate(
    "sugarcrepe",
    _format_listing(2),
    "Hsieh et al., SugarCrepe, 2023, the prompt of its GPT-4V results",
)
TEMPLATES: Mapping[str, ChatTemplate] = {each.name: each for each in (EQBEN, SUGARCREPE)}

CHAT = "chat"
"""The score; after a colon may stand the prompt's name."""

PAIRED_FAMILIES: tuple[Family, ...] = ("pairs", "images")
"""Families of examples with two images and two captions."""


def is_chat(score: str) -> bool:
    """Whether a score is a multiple-choice chat prompt."""
    return score.partition(":")[0] == CHAT


def find_template(score: str, family: Family) -> ChatTemplate:
    """Find the template of a score; `chat` alone leaves it to the benchmark's family."""
    _, _, name = score.partition(":")
    return TEMPLATES[name] if name else EQBEN if family in PAIRED_FAMILIES else SUGARCREPE


MAX_PIXELS = 178_956_970
"""Pixels, as many as an image that is opened may have at the most."""


@dataclass(frozen=True, slots=True)
class SideBySide:
    """Image source: two images side by side without a gap, scaled to the same height.

    Attributes:
        left: the one image.
        right: the other.
        content: a name for what is shown, from the images' content ids.
    """

    left: ImageRef
    right: ImageRef
    content: str

    @classmethod
    def open_many(cls, sources: Sequence[Self]) -> list[Image]:
        """Compose many; an image that several show is opened once."""
        refs = list(dict.fromkeys(ref for each in sources for ref in (each.left, each.right)))
        opened = dict(zip(refs, open_images(refs), strict=True))
        return [join_images(opened[each.left], opened[each.right]) for each in sources]


def join_images(left: Image, right: Image) -> Image:
    """Join two images side by side.

    Raises:
        InputError: together they are too large.
    """
    from PIL import Image

    height = max(left.height, right.height)
    widths = [max(1, round(each.width * height / each.height)) for each in (left, right)]
    if sum(widths) * height > MAX_PIXELS:
        raise InputError("the two images are too large side by side; make them smaller.")
    whole = Image.new("RGB", (sum(widths), height))
    start = 0
    for each, width in zip((left, right), widths, strict=True):
        same = each.size == (width, height)
        scaled = each if same else each.resize((width, height), Image.Resampling.BICUBIC)
        whole.paste(scaled, (start, 0))
        start += width
    return whole


CHOICE_FAMILIES: tuple[Family, ...] = ("choice", "foil", "triple", "pairs")
"""Families in which an image has captions to choose among."""

BOTH_ORDERS = ((0, 1), (1, 0))


@dataclass(frozen=True, slots=True)
class ChatTurn:
    """One prompt of a round: images, text and reply parser.

    Attributes:
        images: positions of the example's images, from left to right.
        text: the prompt.
        read: from a reply to the option chosen, by identity; −1 when it cannot be read.
    """

    images: tuple[int, ...]
    text: str
    read: Callable[[str], int]


@dataclass(frozen=True, slots=True)
class ChatRound:
    """One multiple-choice question, with its options in every order.

    Attributes:
        turns: one an order.
        right: the right option.
        options: how many there are.
    """

    turns: tuple[ChatTurn, ...]
    right: int
    options: int


def explain_unfit(score: str, template: ChatTemplate, family: Family) -> str:
    """Explain why a template does not fit a benchmark family; empty when it does."""
    if template is EQBEN and family not in PAIRED_FAMILIES:
        return f"{score} shows two images with two captions"
    if template is not EQBEN and family not in CHOICE_FAMILIES:
        return f"{score} asks which of a few captions describes one image"
    return ""


def build_rounds(
    example: Example, template: ChatTemplate, family: Family
) -> tuple[ChatRound, ...] | str:
    """Build the questions about an example, or return why there are none."""
    if template is EQBEN:
        return _pairing_rounds(example)
    if family == "triple":
        if len(example.texts) != 3:
            return "it is not an original, a hard negative and a hard positive"
        # Each of the two right captions against the wrong one.
        return tuple(_choice_round(example, template, 0, (right, 1), right) for right in (0, 2))
    captions = tuple(range(len(example.texts)))
    found: list[ChatRound] = []
    for image, row in enumerate(example.match):
        if sum(row) != 1 or len(row) < 2:
            return "an image has not exactly one right and at least one wrong caption"
        found.append(_choice_round(example, template, image, captions, row.index(True)))
    return tuple(found)


def _choice_round(
    example: Example, template: ChatTemplate, image: int, captions: Sequence[int], right: int
) -> ChatRound:
    """Build the round of one image, its captions in every cyclic order.

    The k-th turn has the right caption in the k-th place. Options are numbered as `captions` are.
    """
    count, at = len(captions), list(captions).index(right)
    turns: list[ChatTurn] = []
    for place in range(count):
        order = [(at - place + i) % count for i in range(count)]
        texts = [example.texts[captions[i]] for i in order]
        turns.append(
            ChatTurn((image,), template.about(texts), partial(_parse_chosen, order, texts))
        )
    return ChatRound(tuple(turns), at, count)


def _pairing_rounds(example: Example) -> tuple[ChatRound, ...] | str:
    """Build the round of two images side by side and two captions, both in both orders."""
    match = tuple(map(tuple, example.match))
    if match not in (((True, False), (False, True)), ((False, True), (True, False))):
        return "it is not two images with one caption each"
    turns = [
        ChatTurn(
            images,
            EQBEN.about([example.texts[j] for j in captions]),
            partial(_parse_paired, images, captions),
        )
        for images in BOTH_ORDERS
        for captions in BOTH_ORDERS
    ]
    return (ChatRound(tuple(turns), 0 if match[0][0] else 1, 2),)


def _parse_chosen(order: Sequence[int], texts: Sequence[str], reply: str) -> int:
    place = parse_choice(reply, texts)
    return UNPARSABLE if place == UNPARSABLE else order[place]


def _parse_paired(images: Sequence[int], captions: Sequence[int], reply: str) -> int:
    read = parse_pairing(reply)
    if read is None or read[0] == read[1]:
        return UNPARSABLE
    return int(captions[read[0] - 1] != images[0])
