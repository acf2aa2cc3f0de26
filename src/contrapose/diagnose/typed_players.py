"""Players of a single pair, typed on the command line.

Words as `O=cat,mat;R=on`, regions as `O1=10,20,60,90;O2=mask.png`.

Words as `O=cat,mat;R=on`, regions as `O1=10,20,60,90;O2=mask.png`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from contrapose.data import Example
from contrapose.diagnose.players import MissingPlayers, WordGroups, require_few_players
from contrapose.diagnose.user_regions import UserRegions
from contrapose.errors import InputError
from contrapose.models.masking.text import Span


@dataclass(frozen=True, slots=True)
class TypedWords:
    """Word groups typed as words; a word that occurs twice is hidden at both places.

    Attributes:
        words: by group.
    """

    words: Mapping[str, tuple[str, ...]]
    name: str = "--groups"
    joint: bool = True

    @classmethod
    def read(cls, text: str) -> TypedWords:
        """Parse `O=cat,mat;R=sits on`.

        Raises:
            InputError: it is not so written, or a group is empty.
        """
        words = {
            name: _split_words(name, value)
            for name, value in _parse_assignments(text, "--groups").items()
        }
        require_few_players(len(words), "groups of words")
        return cls(words)

    def find(self, examples: Sequence[Example]) -> list[Sequence[WordGroups] | MissingPlayers]:
        """Word groups of each caption.

        Raises:
            InputError: a caption has none of a group's words, or two groups share one.
        """
        return [[self._in(text) for text in example.texts] for example in examples]

    def _in(self, text: str) -> WordGroups:
        found: dict[str, tuple[Span, ...]] = {}
        taken: dict[Span, str] = {}
        for name, words in self.words.items():
            spans = [span for word in words for span in _find_word(word, text)]
            if not spans:
                raise InputError(f"--groups: {text!r} has none of the words of {name}.")
            for start, end in spans:
                for (begin, stop), other in taken.items():
                    if start < stop and begin < end and other != name:
                        raise InputError(f"--groups: {other} and {name} share words of {text!r}.")
                taken[start, end] = name
            found[name] = tuple(sorted(spans))
        return found


def parse_typed_regions(text: str, id_: str) -> UserRegions:
    """Parse regions from `O1=10,20,60,90;O2=mask.png`: boxes and mask files.

    Raises:
        InputError: it is not so written.
    """
    marked: dict[str, Any] = {}
    for name, value in _parse_assignments(text, "--regions").items():
        numbers = [part.strip() for part in value.split(",")]
        if all(re.fullmatch(r"-?\d+(\.\d+)?", part) for part in numbers):
            if len(numbers) != 4:
                raise InputError(f"--regions: the box of {name} must be x,y,width,height.")
            marked[name] = [float(part) for part in numbers]
        else:
            path = Path(value).resolve()
            marked[name] = str(path.relative_to(path.anchor))
    require_few_players(len(marked), "regions")
    return UserRegions(Path("--regions"), {(id_, 0): (marked, None)}, Path(Path.cwd().anchor))


def _parse_assignments(text: str, option: str) -> dict[str, str]:
    found: dict[str, str] = {}
    for part in filter(str.strip, text.split(";")):
        name, sign, value = (word.strip() for word in part.partition("="))
        if not sign or not name or not value:
            raise InputError(
                f"{option} must be a file, or NAME=…;NAME=…; found {part.strip()!r}, which names "
                "nothing."
            )
        if name in found:
            raise InputError(f"{option} names {name} twice.")
        found[name] = value
    if not found:
        raise InputError(f"{option} names no players.")
    return found


def _split_words(name: str, value: str) -> tuple[str, ...]:
    words = tuple(word.strip() for word in value.split(",") if word.strip())
    if not words:
        raise InputError(f"--groups: the group {name} is empty; leave it out.")
    return words


def _find_word(word: str, text: str) -> list[Span]:
    pattern = rf"(?<!\w){re.escape(word)}(?!\w)"
    return [match.span() for match in re.finditer(pattern, text, re.IGNORECASE)]
