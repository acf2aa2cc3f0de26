"""From an example to its questions: what is shown, in which orders, and what answers mean."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

from contrapose.data import Example, Family
from contrapose.metrics.chat import UNPARSABLE
from contrapose.scoring.chat.reading import read_choice, read_pairing
from contrapose.scoring.chat.templates import EQBEN, PAIRED, ChatTemplate

CHOICES: tuple[Family, ...] = ("choice", "foil", "triple", "pairs")
"""Families in which an image has captions to choose among."""

BOTH = ((0, 1), (1, 0))


@dataclass(frozen=True, slots=True)
class Turn:
    """One question.

    Attributes:
        images: positions of the example's images, from left to right.
        text: the prompt.
        read: from a reply to the option chosen, by identity; −1 when it cannot be read.
    """

    images: tuple[int, ...]
    text: str
    read: Callable[[str], int]


@dataclass(frozen=True, slots=True)
class Round:
    """The same question with its options in every order.

    Attributes:
        turns: one an order.
        right: the right option.
        options: how many there are.
    """

    turns: tuple[Turn, ...]
    right: int
    options: int


def unfit_for_chat(score: str, template: ChatTemplate, family: Family) -> str:
    """Why a family cannot be asked with a prompt; empty when it can."""
    if template is EQBEN and family not in PAIRED:
        return f"{score} shows two images with two captions"
    if template is not EQBEN and family not in CHOICES:
        return f"{score} asks which of a few captions describes one image"
    return ""


def rounds_of(example: Example, template: ChatTemplate, family: Family) -> tuple[Round, ...] | str:
    """The questions about an example, or why there are none."""
    if template is EQBEN:
        return _pairing(example)
    if family == "triple":
        if len(example.texts) != 3:
            return "it is not an original, a hard negative and a hard positive"
        # Each of the two right captions against the wrong one.
        return tuple(_choice(example, template, 0, (right, 1), right) for right in (0, 2))
    captions = tuple(range(len(example.texts)))
    found: list[Round] = []
    for image, row in enumerate(example.match):
        if sum(row) != 1 or len(row) < 2:
            return "an image has not exactly one right and at least one wrong caption"
        found.append(_choice(example, template, image, captions, row.index(True)))
    return tuple(found)


def _choice(
    example: Example, template: ChatTemplate, image: int, captions: Sequence[int], right: int
) -> Round:
    """One image, its captions in every cyclic order: each stands once in each place.

    The k-th turn has the right caption in the k-th place. Options are numbered as `captions` are.
    """
    count, at = len(captions), list(captions).index(right)
    turns: list[Turn] = []
    for place in range(count):
        order = [(at - place + i) % count for i in range(count)]
        texts = [example.texts[captions[i]] for i in order]
        turns.append(Turn((image,), template.about(texts), partial(_chosen, order, texts)))
    return Round(tuple(turns), at, count)


def _pairing(example: Example) -> tuple[Round, ...] | str:
    """Two images side by side, two captions; option 0 gives each image the caption of its place."""
    match = tuple(map(tuple, example.match))
    if match not in (((True, False), (False, True)), ((False, True), (True, False))):
        return "it is not two images with one caption each"
    turns = [
        Turn(
            images,
            EQBEN.about([example.texts[j] for j in captions]),
            partial(_paired, images, captions),
        )
        for images in BOTH
        for captions in BOTH
    ]
    return (Round(tuple(turns), 0 if match[0][0] else 1, 2),)


def _chosen(order: Sequence[int], texts: Sequence[str], reply: str) -> int:
    place = read_choice(reply, texts)
    return UNPARSABLE if place == UNPARSABLE else order[place]


def _paired(images: Sequence[int], captions: Sequence[int], reply: str) -> int:
    read = read_pairing(reply)
    if read is None or read[0] == read[1]:
        return UNPARSABLE
    return int(captions[read[0] - 1] != images[0])
