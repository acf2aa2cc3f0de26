"""Chat replies: strict parsing, since a guess would be counted as the model's answer.

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

Yes or no:

1. The reply begins with one of the two words.
2. The reply has one of the two words, and not the other.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence

from contrapose.files import parse_count
from contrapose.metrics.chat import UNPARSABLE

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
    number = parse_count(text)
    position = ord(text) - ord("a") if len(text) == 1 and number is None else (number or 0) - 1
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


def parse_yes_no(reply: str) -> int:
    """Parse a reply to a yes/no question: 0 for yes, 1 for no; −1 when unparsable."""
    words = re.findall(r"\w+", _normalize_reply(reply))
    said = [word for word in words if word in ("yes", "no")]
    if not said or (words[0] != said[0] and len(set(said)) > 1):
        return UNPARSABLE
    return 0 if said[0] == "yes" else 1
