"""Word groups: object words O, relation words R and attribute words A; or every word by itself.

Where captions follow a template it says what each word is: those of `scenes`, and ARO's. Elsewhere
a part-of-speech tagger does: nouns are O, verbs and prepositions R, adjectives and numerals A. Or
the user gives the words' places in a file.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from contrapose.data import Example
from contrapose.data.groups import tagged_groups
from contrapose.data.tagging import WORD, Tagger
from contrapose.diagnose.players import Groups, Missing, Words
from contrapose.diagnose.spans import UserWords
from contrapose.diagnose.templates import TemplateWords
from contrapose.errors import InputError
from contrapose.models.masks import Span
from contrapose.world.benchmark import SceneImage, read_caption, scene_groups

Players = Literal["groups", "words", "superpixels"]
Preset = Literal["released"]


@dataclass(frozen=True, slots=True)
class SceneWords:
    """Word groups of the captions of `scenes`, by their grammar."""

    name: str = "the captions' grammar (scenes)"
    joint: bool = True

    def find(self, examples: Sequence[Example]) -> list[Sequence[Groups] | Missing]:
        """The groups of each caption; shuffled ones are read word by word."""
        return [[scene_groups(text) for text in example.texts] for example in examples]


@dataclass(frozen=True, slots=True)
class TaggedWords:
    """Word groups by parts of speech."""

    tagger: Tagger = "textblob"
    joint: bool = True

    @property
    def name(self) -> str:
        """Which tagger."""
        return f"parts of speech ({self.tagger})"

    def find(self, examples: Sequence[Example]) -> list[Sequence[Groups] | Missing]:
        """Nouns, verbs and prepositions, adjectives and numerals of each caption."""
        return [
            [tagged_groups(text, self.tagger) for text in example.texts] for example in examples
        ]


@dataclass(frozen=True, slots=True)
class EachWord:
    """Every word is a player; a word that comes again is told apart by its number."""

    name: str = "every word by itself"
    joint: bool = False

    def find(self, examples: Sequence[Example]) -> list[Sequence[Groups] | Missing]:
        """The words of each caption, marks left out."""
        return [[_each(text) for text in example.texts] for example in examples]


def _each(text: str) -> Groups:
    found: dict[str, tuple[Span, ...]] = {}
    seen: dict[str, int] = {}
    for match in WORD.finditer(text):
        word = match.group()
        if word[0].isalnum():
            seen[word] = seen.get(word, 0) + 1
            found[word if seen[word] == 1 else f"{word}·{seen[word]}"] = (match.span(),)
    return found


@dataclass(frozen=True, slots=True)
class UsualWords:
    """Each example by the template that its captions follow, and by the tagger where none does."""

    tagger: Tagger = "textblob"
    name: str = "the captions' templates, or parts of speech"
    joint: bool = True

    def find(self, examples: Sequence[Example]) -> list[Sequence[Groups] | Missing]:
        """The groups of each caption."""
        return [self._way(example).find([example])[0] for example in examples]

    def ways(self, examples: Sequence[Example]) -> list[str]:
        """Where the groups of examples come from, each once."""
        return list(dict.fromkeys(self._way(example).name for example in examples))

    def _way(self, example: Example) -> Words:
        if any(isinstance(ref.source, SceneImage) for ref in example.images) or any(
            read_caption(text) is not None for text in example.texts
        ):
            return SceneWords()
        templates = TemplateWords()
        if not isinstance(templates.find([example])[0], Missing):
            return templates
        return TaggedWords(self.tagger)


def words_for(
    players: Players = "groups",
    *,
    spans: Path | None = None,
    tagger: Tagger = "textblob",
    preset: str | None = None,
) -> Words:
    """Where word groups come from, as the user chose.

    Args:
        players: `words` makes every word a player.
        spans: the user's own file.
        tagger: for captions that follow no template.
        preset: `released` takes them as the authors' script does, which knows ARO alone.

    Raises:
        InputError: there is no such preset, or the file cannot be used.
    """
    if preset not in (None, "released"):
        raise InputError(f"there is no preset {preset!r}; there is 'released'.")
    if preset is not None:
        if spans is not None or players == "words":
            raise InputError("--preset released has word groups of its own.")
        return TemplateWords(released=True)
    if spans is not None:
        return UserWords.read(spans)
    return EachWord() if players == "words" else UsualWords(tagger)
