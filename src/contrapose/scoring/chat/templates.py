"""The prompts, by name; their words are part of what was asked, and of every answer's key."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from contrapose.data import Family


@dataclass(frozen=True, slots=True)
class ChatTemplate:
    """A prompt.

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
        """The prompt with these captions, in this order."""
        text = self.text if self is EQBEN else _listing(len(captions))
        before, *pieces = text.split("{")
        for piece in pieces:
            number, _, rest = piece.partition("}")
            before += captions[int(number) - 1] + rest
        return before


def _listing(count: int) -> str:
    """SugarCrepe's prompt, space for space, for any number of captions."""
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
    "sugarcrepe", _listing(2), "Hsieh et al., SugarCrepe, 2023, the prompt of its GPT-4V results"
)
TEMPLATES: Mapping[str, ChatTemplate] = {each.name: each for each in (EQBEN, SUGARCREPE)}

CHAT = "chat"
"""The score; after a colon may stand the prompt's name."""

PAIRED: tuple[Family, ...] = ("pairs", "images")
"""Families of examples with two images and two captions."""


def is_chat(score: str) -> bool:
    """Whether a score is a multiple choice asked in words."""
    return score.partition(":")[0] == CHAT


def template_for(score: str, family: Family) -> ChatTemplate:
    """The prompt of a score; `chat` alone leaves it to the benchmark's family."""
    _, _, name = score.partition(":")
    return TEMPLATES[name] if name else EQBEN if family in PAIRED else SUGARCREPE
