"""What a language model is asked: one task a kind. The first two are the paper's own words."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

from contrapose.build.captions.change import Rewrite
from contrapose.build.captions.verify import one_word, same_bag

LONGEST_SWAP = 15
"""Words of a caption that is asked to be swapped: less than so many, as in the paper."""

OPENING = re.compile(
    r"^(?:sure|certainly|here(?:'s| is)|of course)[^:\n]*:|^(?:output|answer|caption|sentence)\s*:",
    re.IGNORECASE,
)
QUOTES = "\"'“”‘’`* "


@dataclass(frozen=True, slots=True)
class Task:
    """One kind of rewriting.

    Attributes:
        kind: its name.
        keeps: whether the meaning stays: a hard positive.
        prompt: the question, with the caption in place of `{caption}`.
        check: what makes a rewrite of what came back, or raises `DoubtError`.
        takes: whether a caption can be asked at all.
    """

    kind: str
    keeps: bool
    prompt: str
    check: Callable[[str, str], Rewrite]
    takes: Callable[[str], bool]

    def asked(self, caption: str, doubts: tuple[str, ...] = ()) -> str:
        """The question about a caption, and what was wrong with earlier answers."""
        text = self.prompt.format(caption=caption.strip())
        for doubt in doubts:
            text += f"\n(An earlier answer was not accepted: {doubt}.)"
        return text


def cleaned(reply: str) -> str:
    """The sentence of a reply: its first line with words, without an opening and quotes."""
    for line in reply.strip().splitlines():
        text = OPENING.sub("", line.strip(QUOTES)).strip(QUOTES)
        if any(sign.isalnum() for sign in text):
            return text
    return ""


def _has_and(caption: str) -> bool:
    words = caption.lower().split()
    return "and" in words and len(words) < LONGEST_SWAP


def _several(caption: str) -> bool:
    return len(caption.split()) > 3


SYNONYM = (
    "Replace one word in this sentence with a synonym, without changing the meaning of the "
    "sentence. Only output the changed sentence. {caption}"
)
SWAP = (
    'Swap the words around the word "and" in a sentence without changing the meaning. Only respond '
    "with the changed sentence. Input: three giraffes and two antelope Output: two antelopes and "
    "three giraffes Input: a blue and white stained glass clock shows the time Output: a white and "
    "blue stained glass clock shows the time Input: a mixture of rice and broccoli are put "
    "together Output: a mixture of broccoli and rice are put together Input: a bathroom with a "
    "sink, toilet and shower Output: a bathroom with a sink, shower and toilet Input: there is "
    "a man wearing glasses and holding a wine bottle Output: there is a man "
    "holding a wine bottle and wearing glasses Input: {caption} Output:"
)
CONTRAST = (
    "Replace one word in this image caption with another word of the same sort, so that the "
    "caption is fluent and likely but no longer true of the same image. Only output the changed "
    "caption. {caption}"
)
EXCHANGE = (
    "Let two words of this image caption, such as two nouns or two adjectives, change places, so "
    "that the caption describes another image. Use exactly the same words. Only output the changed "
    "caption. {caption}"
)


def _task(kind: str, prompt: str, *, keeps: bool, order: bool) -> Task:
    verify = same_bag if order else one_word
    takes = _has_and if order and keeps else _several
    return Task(kind, keeps, prompt, lambda old, new: verify(old, new, kind, keeps=keeps), takes)


TASKS: dict[str, Task] = {
    task.kind: task
    for task in (
        _task("rewrite-synonym", SYNONYM, keeps=True, order=False),
        _task("rewrite-swap", SWAP, keeps=True, order=True),
        _task("rewrite-contrast", CONTRAST, keeps=False, order=False),
        _task("rewrite-exchange", EXCHANGE, keeps=False, order=True),
    )
}
