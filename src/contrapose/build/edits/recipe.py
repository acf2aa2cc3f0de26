"""Recipe of edit pairs: restricted lists of words, and the caption pairs drawn from them.

A rule has sentence templates with slots, one of which changes, and groups of words that go
together: an elephant becomes a camel, not a shrimp, and both stand in the desert. The lists of
EqBen are those of its figure 15, with three slips of the pen mended.
"""

from __future__ import annotations

import hashlib
import json
import math
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import Any

import numpy as np

from contrapose.errors import InputError, option
from contrapose.files import (
    MalformedError,
    did_you_mean,
    is_valid_unicode,
    local_path,
    read_json,
)

SLOT = re.compile(r"\{(\w*)\}")
MOST_VALUES = 10_000
"""Most words of one slot in one group."""
LONGEST_VALUE = 300
"""Characters of a template or a word."""
MOST_SHUFFLED = 1 << 20
"""Combinations up to which they are shuffled; of more than that they are drawn one by one."""


@dataclass(frozen=True, slots=True)
class EditRule:
    """Rule of caption pairs.

    Attributes:
        kind: of change, such as `object`.
        changes: slot in which the two captions differ.
        templates: sentences with slots in braces.
        groups: words of every slot that go together; an empty word leaves its slot out.
    """

    kind: str
    changes: str
    templates: tuple[str, ...]
    groups: tuple[Mapping[str, tuple[str, ...]], ...]

    def without_bare(self) -> EditRule:
        """Rule that never leaves out the slot that changes."""
        groups = tuple(
            {**group, self.changes: tuple(filter(None, group[self.changes]))}
            for group in self.groups
        )
        kept = tuple(group for group in groups if len(group[self.changes]) > 1)
        return EditRule(self.kind, self.changes, self.templates, kept)

    def group_sizes(self) -> list[int]:
        """Number of caption pairs of every group."""
        return [
            math.comb(len(group[self.changes]), 2)
            * sum(
                math.prod(len(group[slot]) for slot in _fixed_slots(template, self.changes))
                for template in self.templates
            )
            for group in self.groups
        ]


@dataclass(frozen=True, slots=True)
class EditPrompt:
    """Two captions that differ in one slot, and the seed of their images.

    Attributes:
        id: name of the pair in its build.
        kind: of change.
        captions: the two captions.
        values: words of the slot that changes; empty where it is left out.
        seed: of both images.
    """

    id: str
    kind: str
    captions: tuple[str, str]
    values: tuple[str, str]
    seed: int

    @property
    def instruction(self) -> str:
        """Instruction that turns the first image into the second."""
        old, new = self.values
        if not old:
            return f"make it {new}"
        return f"change {old} to {new}" if new else f"make it no longer {old}"


@dataclass(frozen=True, slots=True)
class EditRecipe:
    """Recipe of caption pairs.

    Attributes:
        source: where the lists are from.
        rules: of all kinds.
    """

    source: str
    rules: tuple[EditRule, ...]

    def kinds(self) -> tuple[str, ...]:
        """Kinds of change, in the order of the rules."""
        return tuple(dict.fromkeys(rule.kind for rule in self.rules))

    def restrict(self, kinds: Sequence[str], *, bare: bool = True) -> EditRecipe:
        """Recipe of some kinds.

        Args:
            kinds: those that stay; none means all.
            bare: whether a caption may leave out the slot that changes, and so be true of both
                images.

        Raises:
            InputError: a kind is not known, or no caption pair is left.
        """
        for kind in kinds:
            if kind not in self.kinds():
                hint = did_you_mean(kind, self.kinds())
                raise InputError(f"{option('kinds')} has no {kind!r} in these lists: {hint}")
        rules = [rule for rule in self.rules if not kinds or rule.kind in kinds]
        if not bare:
            rules = [rule.without_bare() for rule in rules]
        rules = [rule for rule in rules if rule.groups]
        if not rules:
            raise InputError("the lists give no two captions that differ.")
        return EditRecipe(self.source, tuple(rules))

    def count_pairs(self) -> dict[str, int]:
        """Number of different caption pairs of every kind."""
        counts: Counter[str] = Counter()
        for rule in self.rules:
            counts[rule.kind] += sum(rule.group_sizes())
        return {kind: counts[kind] for kind in self.kinds()}

    def draw(self, number: int, seed: int) -> list[EditPrompt]:
        """Draw caption pairs, the kinds in turn; the first caption is either of the two.

        No pair of captions comes twice before all of its kind have come once. The first pairs of a
        longer draw are those of a shorter one.
        """
        streams = {kind: _PairStream(self, kind, seed) for kind in self.kinds()}
        prompts = []
        for index in range(number):
            kind = self.kinds()[index % len(streams)]
            captions, values = streams[kind].draw()
            pair_seed = _derive_seed(seed, index)
            prompts.append(EditPrompt(f"{kind}-{index:05}", kind, captions, values, pair_seed))
        return prompts


def load_recipe(lists: Path | str | None, default: str = "eqben") -> EditRecipe:
    """Load lists: a JSON file, or built-in ones by name.

    Raises:
        InputError: the file cannot be read, or holds no lists.
    """
    if lists is None or str(lists) in BUILT_IN:
        name = default if lists is None else str(lists)
        text = files(__package__).joinpath("lists", f"{name}.json").read_text(encoding="utf-8")
        return _parse_recipe(json.loads(text), Path(f"{name}.json"))
    path = local_path(lists)
    return _parse_recipe(read_json(path), path)


BUILT_IN = ("eqben", "scenes")
"""Names of the built-in lists."""


class _PairStream:
    """Endless draw of the caption pairs of one kind, each once before any comes again."""

    def __init__(self, recipe: EditRecipe, kind: str, seed: int):
        self._rules = [rule for rule in recipe.rules if rule.kind == kind]
        self._sizes = [rule.group_sizes() for rule in self._rules]
        self._total = sum(map(sum, self._sizes))
        digest = hashlib.blake2b(f"{seed}/{kind}".encode(), digest_size=8).digest()
        self._rng = np.random.default_rng(int.from_bytes(digest, "big"))
        self._left: list[int] = []

    def draw(self) -> tuple[tuple[str, str], tuple[str, str]]:
        """Two captions and the two words in which they differ."""
        if not self._left and self._total <= MOST_SHUFFLED:
            self._left = self._rng.permutation(self._total).tolist()
        position = self._left.pop() if self._left else int(self._rng.integers(self._total))
        captions, values = self._find_pair(position)
        if self._rng.integers(2):
            return (captions[1], captions[0]), (values[1], values[0])
        return captions, values

    def _find_pair(self, position: int) -> tuple[tuple[str, str], tuple[str, str]]:
        for rule, sizes in zip(self._rules, self._sizes, strict=True):
            for group, size in zip(rule.groups, sizes, strict=True):
                if position < size:
                    return _pair_at(rule, group, position)
                position -= size
        raise IndexError(position)


def _pair_at(
    rule: EditRule, group: Mapping[str, tuple[str, ...]], position: int
) -> tuple[tuple[str, str], tuple[str, str]]:
    """Caption pair number `position` of a group."""
    changed = group[rule.changes]
    pairs = math.comb(len(changed), 2)
    position, pair = divmod(position, pairs)
    old, new = _combination(changed, pair)
    for template in rule.templates:
        slots = _fixed_slots(template, rule.changes)
        size = math.prod(len(group[slot]) for slot in slots)
        if position >= size:
            position -= size
            continue
        words = {}
        for slot in slots:
            position, choice = divmod(position, len(group[slot]))
            words[slot] = group[slot][choice]
        first, second = (
            fill_template(template, {**words, rule.changes: value}) for value in (old, new)
        )
        return (first, second), (old, new)
    raise IndexError(position)


def _combination(values: Sequence[str], position: int) -> tuple[str, str]:
    """Pair number `position` of all pairs of different values."""
    first = 0
    while position >= (row := len(values) - first - 1):
        position -= row
        first += 1
    return values[first], values[first + 1 + position]


def fill_template(template: str, words: Mapping[str, str]) -> str:
    """Sentence of a template: slots filled, spaces tidied, the first letter large."""
    text = " ".join(SLOT.sub(lambda slot: words[slot[1]], template).split())
    text = re.sub(r" ([.,;!?])", r"\1", text)
    return text[:1].upper() + text[1:]


def _fixed_slots(template: str, changes: str) -> list[str]:
    """Slots of a template, each once, but for the one that changes."""
    return [slot for slot in dict.fromkeys(SLOT.findall(template)) if slot != changes]


def _derive_seed(seed: int, index: int) -> int:
    """Seed of a pair, of 31 bits, which every generator takes."""
    digest = hashlib.blake2b(f"{seed}:{index}".encode(), digest_size=4).digest()
    return int.from_bytes(digest, "big") >> 1


def _parse_recipe(value: Any, path: Path) -> EditRecipe:
    """Parse lists.

    Raises:
        InputError: says what is wrong in which rule.
    """
    try:
        _require_fields(value, "the file", required=("rules",), optional=("source",))
        rules = value["rules"]
        if not isinstance(rules, list) or not rules:
            raise MalformedError("rules must be a list of rules.")
        source = _parse_text(value.get("source", path.name), "source")
        parsed = tuple(_parse_rule(rule, f"rule {i + 1}") for i, rule in enumerate(rules))
    except MalformedError as error:
        raise InputError(str(error), file=path) from None
    return EditRecipe(source, parsed)


def _parse_rule(value: Any, where: str) -> EditRule:
    _require_fields(value, where, required=("kind", "changes", "templates", "groups"))
    changes = _parse_text(value["changes"], f"{where}: changes")
    kind = _parse_text(value["kind"], f"{where}: kind")
    if not re.fullmatch(r"[\w-]{1,40}", kind):
        raise MalformedError(f"{where}: kind must be one word of letters, found {kind!r}.")
    templates = _parse_texts(value["templates"], f"{where}: templates")
    groups = value["groups"]
    if not isinstance(groups, list) or not groups:
        raise MalformedError(f"{where}: groups must be a list of objects with words.")
    parsed = []
    for number, group in enumerate(groups, 1):
        name = f"{where}, group {number}"
        if not isinstance(group, dict):
            raise MalformedError(f"{name} must be an object of slots with their words.")
        words = {slot: _parse_texts(listed, f"{name}, {slot}") for slot, listed in group.items()}
        for template in templates:
            slots = SLOT.findall(template)
            if changes not in slots:
                raise MalformedError(f"{where}: {template!r} lacks {{{changes}}}, which changes.")
            for slot in slots:
                if slot not in words:
                    raise MalformedError(f"{name} has no words for {{{slot}}} of {template!r}.")
        if len(words[changes]) < 2:
            raise MalformedError(f"{name}: {changes} changes, and has fewer than two words.")
        _require_distinct(templates, changes, words, name)
        parsed.append(words)
    return EditRule(kind, changes, templates, tuple(parsed))


def _require_distinct(
    templates: Sequence[str], changes: str, words: Mapping[str, tuple[str, ...]], name: str
) -> None:
    """Require that the words of the slot that changes give different sentences.

    Raises:
        MalformedError: two of them do not.
    """
    first = {slot: listed[0] for slot, listed in words.items()}
    for template in templates:
        seen: dict[str, str] = {}
        for word in words[changes]:
            text = fill_template(template, {**first, changes: word})
            if text in seen:
                raise MalformedError(f"{name}: {seen[text]!r} and {word!r} give the same caption.")
            seen[text] = word


def _require_fields(
    value: Any, where: str, *, required: tuple[str, ...], optional: tuple[str, ...] = ()
) -> None:
    if not isinstance(value, dict):
        raise MalformedError(f"{where} must be an object, with {', '.join(required)}.")
    for name in required:
        if name not in value:
            raise MalformedError(f"{where} has no {name}.")
    for name in value:
        if name not in (*required, *optional):
            hint = did_you_mean(name, (*required, *optional))
            raise MalformedError(f"{where} has an unknown field {name!r}: {hint}")


def _parse_texts(value: Any, where: str) -> tuple[str, ...]:
    if not isinstance(value, list) or not 1 <= len(value) <= MOST_VALUES:
        raise MalformedError(f"{where} must be a list of 1 to {MOST_VALUES:,} texts.")
    texts = tuple(_parse_text(text, where) for text in value)
    doubles = [text for text, count in Counter(texts).items() if count > 1]
    if doubles:
        raise MalformedError(f"{where} has {doubles[0]!r} twice.")
    return texts


def _parse_text(value: Any, where: str) -> str:
    right = isinstance(value, str) and len(value) <= LONGEST_VALUE
    if not right or not is_valid_unicode(value) or not (value.isprintable() or not value):
        raise MalformedError(
            f"{where} must be text on one line, of at most {LONGEST_VALUE} characters."
        )
    return str(value)
