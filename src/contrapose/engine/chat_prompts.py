"""Chat prompts: templates by name, and an example's prompts in all orders.

A template's words are part of the prompt, and so of every reply's key in the store.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Self

from contrapose.data import Example, ImageRef, open_images
from contrapose.data.video_clips import VideoClip, has_video_images
from contrapose.engine.chat_replies import parse_choice, parse_pairing, parse_yes_no
from contrapose.engine.videos import TURN_IMAGES
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

    def fill(self, captions: Sequence[str], ref: ImageRef | None = None) -> str:
        """Fill in these captions, in this order; a caption that is a question is asked itself.

        Args:
            captions: the captions.
            ref: what is asked about; of a video the prompt says that it is one.
        """
        form = ref.source.form if ref is not None and isinstance(ref.source, VideoClip) else None
        frames = FRAMES_OF_A_VIDEO if form == TURN_IMAGES else ""
        if self is YES_NO and captions[0].rstrip().endswith("?"):
            return f"{frames}{captions[0].rstrip()} {ASK_YES_NO}"
        text = self.text if self in (EQBEN, YES_NO) else _format_listing(len(captions))
        if form is not None:
            text = frames + text.replace("image", "video")
        before, *pieces = text.split("{")
        for piece in pieces:
            number, _, rest = piece.partition("}")
            before += captions[int(number) - 1] + rest
        return before


FRAMES_OF_A_VIDEO = "These are frames of a video, in order.\n"
"""Beginning of a prompt with the frames of a video as images."""


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
ASK_YES_NO = "Please answer yes or no."
YES_NO = ChatTemplate(
    "yes-no",
    'Does this image show "{1}"? ' + ASK_YES_NO,
    "the benchmark's own questions, or whether the image shows a caption",
)
TEMPLATES: Mapping[str, ChatTemplate] = {
    template.name: template for template in (EQBEN, SUGARCREPE, YES_NO)
}


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
    if template is YES_NO:
        return f"{score} asks about one image and one caption or question"
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
    if template is YES_NO:
        return _yes_no_rounds(example)
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
        text = template.fill(texts, example.images[image])
        turns.append(ChatTurn((image,), text, partial(_parse_chosen, order, texts)))
    return ChatRound(tuple(turns), answer, count)


def _yes_no_rounds(example: Example) -> tuple[ChatRound, ...] | str:
    """Build the round of one image and one caption: option 0 is yes, option 1 no."""
    if example.shape != (1, 1):
        return "it is not one image with one caption"
    turn = ChatTurn((0,), YES_NO.fill(example.texts, example.images[0]), parse_yes_no)
    return (ChatRound((turn,), 0 if example.match[0][0] else 1, 2),)


def _pairing_rounds(example: Example) -> tuple[ChatRound, ...] | str:
    """Build the round of two images side by side and two captions, both in both orders."""
    match = tuple(map(tuple, example.match))
    if match not in (((True, False), (False, True)), ((False, True), (True, False))):
        return "it is not two images with one caption each"
    if has_video_images(example.images):
        return "a video cannot stand beside another image"
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
