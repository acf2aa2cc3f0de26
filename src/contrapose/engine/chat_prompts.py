"""Chat prompts: templates by name, an example's prompts in all orders, and strict reply parsing.

A template's words are part of the prompt, and so of every reply's key in the store. Replies are
parsed by strict rules, since a guess would be counted as the model's answer.

One of several captions, numbered (1), (2), …; the first rule that fits decides:

1. The reply, or its first line, is a label and nothing more: `1`, `(2)`, `B`, `Caption 1.`,
   `Answer: (2)`, `The best caption is (1)`. A later line that is another label takes it back.
2. The reply is one of the captions, with or without its own label before it.
3. Anywhere in the reply one label and no other is named: in brackets, after "caption", "option",
   "answer" or "choice", or at the very start as `1.`, `1:` or `1)`; and no "not" stands before it.

Which caption belongs to the left image and which to the right one:

1. The reply, or its first line, is two labels: `1;2`, `#2; #1`, `(1, 2)`, `caption 2 and 1`.
2. The reply, or its first line, names each side once, each with its label before it or each with
   its label behind it: `Left: caption 2; right: caption 1`, `Caption 1 is the right image, caption
   2 the left`; and it has no "not".

By the last rules a reply with "neither", "none", "both", "cannot", "can't", "unable", "sorry" or
"refused" is not read.
Quotation marks, asterisks, capitals and space never matter. All else cannot be read.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Self

from contrapose.data import Example, ImageRef, open_images
from contrapose.errors import InputError
from contrapose.metrics.chat import UNPARSABLE

if TYPE_CHECKING:
    from PIL.Image import Image


@dataclass(frozen=True, slots=True)
class ChatTemplate:
    """Prompt template of a multiple-choice question.

    Attributes:
        name: its name, after the colon of the score.
        text: its words; `{1}`, `{2}`, … stand for the captions. Of a template for any number of
            captions, the words for two.
        source: the paper it comes from.
    """

    name: str
    text: str
    source: str

    def fill(self, captions: Sequence[str]) -> str:
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
TEMPLATES: Mapping[str, ChatTemplate] = {
    template.name: template for template in (EQBEN, SUGARCREPE)
}

CHAT = "chat"
"""The score; a template's name may follow after a colon."""


def is_chat(score: str) -> bool:
    """Whether a score is a multiple-choice chat prompt."""
    return score.partition(":")[0] == CHAT


def find_template(score: str, fitting: Sequence[str]) -> ChatTemplate:
    """Find the template of a score.

    Args:
        score: `chat`, or `chat:` and the name of a template.
        fitting: names of the templates that fit the benchmark; the first is the default.
    """
    _, _, name = score.partition(":")
    return TEMPLATES[name or next(iter(fitting), SUGARCREPE.name)]


MAX_PIXELS = 178_956_970
"""Largest number of pixels of a composed image, as of any image that is opened."""


@dataclass(frozen=True, slots=True)
class SideBySide:
    """Image source: two images side by side without a gap, scaled to the same height.

    Attributes:
        left: the left image.
        right: the right image.
        content: name of the composed image, from the content ids of both.
    """

    left: ImageRef
    right: ImageRef
    content: str

    @classmethod
    def open_many(cls, sources: Sequence[Self]) -> list[Image]:
        """Compose many; an image that several show is opened once."""
        refs = list(dict.fromkeys(ref for source in sources for ref in (source.left, source.right)))
        opened = dict(zip(refs, open_images(refs), strict=True))
        return [join_images(opened[source.left], opened[source.right]) for source in sources]


def join_images(left: Image, right: Image) -> Image:
    """Join two images side by side.

    Raises:
        InputError: together they are too large.
    """
    from PIL import Image

    height = max(left.height, right.height)
    widths = [max(1, round(image.width * height / image.height)) for image in (left, right)]
    if sum(widths) * height > MAX_PIXELS:
        raise InputError("the two images are too large side by side; make them smaller.")
    canvas = Image.new("RGB", (sum(widths), height))
    start = 0
    for image, width in zip((left, right), widths, strict=True):
        same = image.size == (width, height)
        scaled = image if same else image.resize((width, height), Image.Resampling.BICUBIC)
        canvas.paste(scaled, (start, 0))
        start += width
    return canvas


BOTH_ORDERS = ((0, 1), (1, 0))


@dataclass(frozen=True, slots=True)
class ChatTurn:
    """One prompt of a round: images, text and reply parser.

    Attributes:
        images: positions of the example's images, from left to right.
        text: the prompt.
        parse: from a reply to the chosen option's number; −1 when it cannot be parsed.
    """

    images: tuple[int, ...]
    text: str
    parse: Callable[[str], int]


@dataclass(frozen=True, slots=True)
class ChatRound:
    """One multiple-choice question, with its options in every order.

    Attributes:
        turns: one prompt for each order of the options.
        right: the right option.
        options: number of options.
    """

    turns: tuple[ChatTurn, ...]
    right: int
    options: int


def explain_unfit(score: str, template: ChatTemplate, fitting: Sequence[str]) -> str:
    """Explain why a template is not among the fitting ones; empty when it is."""
    if template.name in fitting:
        return ""
    if template is EQBEN:
        return f"{score} shows two images with two captions"
    return f"{score} asks which of a few captions describes one image"


def build_rounds(
    example: Example, template: ChatTemplate, options: Sequence[tuple[int, int]] = ()
) -> tuple[ChatRound, ...] | str:
    """Build the questions about an example, or return why there are none.

    Args:
        example: the images and captions.
        template: the prompt's template.
        options: right and wrong caption of each question; none asks about every image with all
            captions.
    """
    if template is EQBEN:
        return _pairing_rounds(example)
    if options:
        count = 1 + max(map(max, options))
        if len(example.texts) != count:
            return f"it has not exactly {count} captions"
        return tuple(_choice_round(example, template, 0, pair, pair[0]) for pair in options)
    captions = tuple(range(len(example.texts)))
    rounds: list[ChatRound] = []
    for image, row in enumerate(example.match):
        if sum(row) != 1 or len(row) < 2:
            return "an image has not exactly one right and at least one wrong caption"
        rounds.append(_choice_round(example, template, image, captions, row.index(True)))
    return tuple(rounds)


def _choice_round(
    example: Example, template: ChatTemplate, image: int, captions: Sequence[int], right: int
) -> ChatRound:
    """Build the round of one image, its captions in every cyclic order.

    The k-th turn lists the right caption as the k-th option; options are numbered as `captions`.
    """
    count, answer = len(captions), list(captions).index(right)
    turns: list[ChatTurn] = []
    for position in range(count):
        order = [(answer - position + i) % count for i in range(count)]
        texts = [example.texts[captions[i]] for i in order]
        turns.append(ChatTurn((image,), template.fill(texts), partial(_parse_chosen, order, texts)))
    return ChatRound(tuple(turns), answer, count)


def _pairing_rounds(example: Example) -> tuple[ChatRound, ...] | str:
    """Build the round of two images side by side and two captions, both in both orders."""
    match = tuple(map(tuple, example.match))
    if match not in (((True, False), (False, True)), ((False, True), (True, False))):
        return "it is not two images with one caption each"
    turns = [
        ChatTurn(
            images,
            EQBEN.fill([example.texts[j] for j in captions]),
            partial(_parse_paired, images, captions),
        )
        for images in BOTH_ORDERS
        for captions in BOTH_ORDERS
    ]
    return (ChatRound(tuple(turns), 0 if match[0][0] else 1, 2),)


def _parse_chosen(order: Sequence[int], texts: Sequence[str], reply: str) -> int:
    position = parse_choice(reply, texts)
    return UNPARSABLE if position == UNPARSABLE else order[position]


def _parse_paired(images: Sequence[int], captions: Sequence[int], reply: str) -> int:
    pairing = parse_pairing(reply)
    if pairing is None or pairing[0] == pairing[1]:
        return UNPARSABLE
    return int(captions[pairing[0] - 1] != images[0])


_LEAD = (
    r"(?:(?:the\s+)?(?:(?:correct|best|right)\s+)?"
    r"(?:answer|output|option|caption|choice)(?:\s+is\b|\s*:)?\s*)*"
)
_LABEL = r"(?:\(\s*([0-9]+|[a-z])\s*\)|\[\s*([0-9]+|[a-z])\s*\]|([0-9]+|[a-z]))"
_LABEL_ALONE = re.compile(rf"{_LEAD}{_LABEL}\s*[.!:;,)]*")
_LABEL_BEFORE = re.compile(
    rf"(?:caption|option|answer|choice)?\s*{_LABEL}\s*[.:)–-]?\s+(.+)", re.DOTALL
)
_MENTION = re.compile(
    r"[(\[]\s*([0-9]+|[a-z])\s*[)\]]"
    r"|\b(?:caption|option|answer|choice)\s*(?:is\s+|:\s*)?([0-9]+|[a-z])\b"
    r"|^([0-9]+|[a-z])[.:)](?=\s)"
)
_REFUSAL = re.compile(r"\b(?:neither|none|both|cannot|unable|sorry|refused)\b|\bcan't\b")
_NOT = re.compile(r"\bnot\b|n't\b")
_INDEX = r"[#(\[]*\s*(?:caption\s*)?[#(\[]*\s*([12])\s*[)\]]*"
_TWO = re.compile(
    rf"(?:(?:the\s+)?(?:answer|output)(?:\s+is|\s*:)?\s*)?{_INDEX}\s*(?:[;,/&]|\band\b)\s*{_INDEX}"
    r"\s*[.!]?"
)
_SIDES = re.compile(r"\b(left|right)\b|([0-9]+)")


def parse_choice(reply: str, captions: Sequence[str]) -> int:
    """Parse the caption that a reply chooses, by position in the prompt; −1 when unparsable."""
    text = _normalize_reply(reply)
    lines = _split_lines(text)
    labels = [_label_position(_LABEL_ALONE.fullmatch(line), len(captions)) for line in lines]
    if labels and labels[0] is not None:
        same = all(label in (None, labels[0]) for label in labels)
        return labels[0] if same else UNPARSABLE
    options, words = [_normalize_words(caption) for caption in captions], _normalize_words(text)
    if options.count(words) == 1:
        return options.index(words)
    match = _LABEL_BEFORE.fullmatch(text)
    if match and (rest := _normalize_words(match[4])) in options:
        label = _label_position(match, len(captions))
        return label if label is not None and options[label] == rest else UNPARSABLE
    return UNPARSABLE if _REFUSAL.search(text) else _find_single_label(text, len(captions))


def _find_single_label(text: str, count: int) -> int:
    """Find the one label that a reply mentions; −1 for none, several, or a negated one."""
    mentions = {_label_position(match, count): match.start() for match in _MENTION.finditer(text)}
    if len(mentions) != 1:
        return UNPARSABLE
    ((label, start),) = mentions.items()
    return UNPARSABLE if label is None or _NOT.search(text[:start]) else label


def parse_pairing(reply: str) -> tuple[int, int] | None:
    """Parse the captions, 1 or 2, given to the left and right image; None if unparsable.

    Both may be the same one: that is parsed, and is no pairing.
    """
    text = _normalize_reply(reply)
    lines = _split_lines(text)
    if not lines:
        return None
    for part in (" ".join(lines), lines[0]):
        if match := _TWO.fullmatch(part):
            return int(match[1]), int(match[2])
    if _REFUSAL.search(text) or _NOT.search(text):
        return None
    return _parse_sides(" ".join(lines)) or _parse_sides(lines[0])


def _parse_sides(text: str) -> tuple[int, int] | None:
    named = [side or label for side, label in _SIDES.findall(text)]
    if len(named) != 4:
        return None
    sides, labels = named[::2], named[1::2]
    if sides[0].isdecimal():
        sides, labels = labels, sides
    if set(sides) != {"left", "right"} or not set(labels) <= {"1", "2"}:
        return None
    of = dict(zip(sides, labels, strict=True))
    return int(of["left"]), int(of["right"])


def _label_position(match: re.Match[str] | None, count: int) -> int | None:
    """Return the position that a label names, a number or a letter; None if out of range."""
    if match is None:
        return None
    text = next(group for group in match.groups()[:3] if group is not None)
    position = int(text) - 1 if text.isdecimal() else ord(text) - ord("a")
    return position if 0 <= position < count else None


def _normalize_reply(text: str) -> str:
    """Normalize case, quotes, emphasis and spaces; line breaks are kept."""
    text = unicodedata.normalize("NFKC", text).casefold().replace("’", "'")
    text = re.sub(r"[*_`\"“”«»]", "", text)
    text = re.sub(r"(?<!\w)'|'(?!\w)", "", text)
    return "\n".join(" ".join(line.split()) for line in text.strip().split("\n"))


def _split_lines(text: str) -> list[str]:
    return [line for line in text.split("\n") if line]


def _normalize_words(text: str) -> str:
    """Reduce a text to its words, to compare captions by."""
    return " ".join(re.findall(r"\w+", _normalize_reply(text)))
