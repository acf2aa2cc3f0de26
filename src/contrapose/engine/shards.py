"""Shards of a run: which batches a process scores, and a tally of what it did.

Every process plans the whole run and cuts the same batches from it, without a word to the others.
Shard i of n scores every n-th batch. Neither free memory nor what the store holds moves a pair from
one shard to another. What a lost shard leaves out, a later run finds by planning again; a survey
names the shards that it belongs to.
"""

from __future__ import annotations

import operator
import os
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

from contrapose.errors import InputError, option

T = TypeVar("T")

IMAGES_PER_SHARD = 4
"""Images per shard from which on all batches of an image go to the same shard."""

MAX_SHARDS = 10**9
"""Largest number of shards."""

LAUNCHERS = (("RANK", "WORLD_SIZE"), ("SLURM_PROCID", "SLURM_NTASKS"))
"""Environment variables of torchrun and of Slurm: number of the process from 0, and processes."""

UNKNOWN_NOTE = "Scores of other shards were not looked up where they are very many."
"""Note of a shard that read its share of a large table alone."""

NAMED_SHARDS, NAMED_SPANS = 8, 16
"""Shards whose missing scores a message counts, and spans of numbers of others that it lists."""

LOCAL_RANKS = ("LOCAL_RANK", "SLURM_LOCALID")
"""Environment variables with the number of the process on its machine, from 0."""


@dataclass(frozen=True, slots=True)
class Shard:
    """Shard of a run, with a tally of its scores.

    Attributes:
        index: number of the shard, from 1.
        count: number of shards.
        scored: by label of the request, how many scores this process added to the store.
        waiting: by request, how many scores of other shards the store did not hold.
        notes: sentences for the user.
        share_only: whether scores of other shards are not used, and need not be read.
    """

    index: int
    count: int
    scored: Counter[str] = field(default_factory=Counter, compare=False)
    waiting: dict[tuple[str, ...], int] = field(default_factory=dict, compare=False)
    notes: dict[str, None] = field(default_factory=dict, compare=False)
    share_only: bool = field(default=False, compare=False)

    def take(self, batches: Sequence[T], images: Sequence[int] = ()) -> list[T]:
        """Return the batches of this shard.

        Args:
            batches: all batches of a request.
            images: the first image of each batch, where the captions of an image fill several
                batches and it should be encoded by one shard alone.
        """
        owners = assign_batches(len(batches), images, self.count)
        return [batch for batch, owner in zip(batches, owners, strict=True) if owner == self.index]

    def waits_for(self, score: str) -> bool:
        """Whether the store lacks scores of this type that other shards are to add."""
        return any(left and key[2].startswith(f"{score}:") for key, left in self.waiting.items())

    def report(self) -> ShardReport:
        """Report what was scored and what is left to others."""
        return ShardReport(
            self.index, self.count, dict(self.scored), sum(self.waiting.values()), tuple(self.notes)
        )


def assign_batches(batches: int, images: Sequence[int], count: int) -> list[int]:
    """Return the shard of each batch, from 1.

    Args:
        batches: number of batches.
        images: the first image of each, where one image should be encoded by one shard alone.
        count: number of shards.
    """
    number, before, owners = -1, None, []
    for image in images:
        number += image != before
        before = image
        owners.append(number)
    if number + 1 < IMAGES_PER_SHARD * count:
        owners = list(range(batches))
    return [1 + owner % count for owner in owners]


@dataclass(frozen=True, slots=True)
class LackingRequest:
    """Request of which scores are missing in the store.

    Attributes:
        label: the request in words, such as `itm: pairs`.
        missing: number of missing scores of each batch.
        images: the first image of each batch, as `assign_batches` takes them.
    """

    label: str
    missing: Sequence[int]
    images: Sequence[int]


@dataclass(frozen=True, slots=True)
class ShardSurvey(Shard):
    """Shard that takes no batch, and records what all shards left out.

    Attributes:
        lacking: the requests of which scores are missing.
        newest: of each table that was looked up, the newest part that a shard wrote, and the number
            of shards it tells.
    """

    index: int = 0
    count: int = 1
    lacking: list[LackingRequest] = field(default_factory=list, compare=False)
    newest: list[tuple[str, int]] = field(default_factory=list, compare=False)

    def require_complete(self) -> None:
        """Refuse a store in which scores are missing.

        Raises:
            InputError: some are; names the shards that they belong to, as the newest part counts
                them.
        """
        if not self.lacking:
            return
        _, count = max(self.newest)
        left: dict[int, Counter[str]] = {}
        for request in self.lacking:
            owners = assign_batches(len(request.missing), request.images, max(count, 1))
            for owner, missing in zip(owners, request.missing, strict=True):
                if missing:
                    left.setdefault(owner, Counter())[request.label] += missing
        lists = {
            owner: ", ".join(f"{number:,} ({label})" for label, number in some.items())
            for owner, some in sorted(left.items())
        }
        again = f"or leave out {option('merge')}, and this run scores what is missing"
        if not count:
            raise InputError(
                f"{lists[1]} are not in the cache, and no shard has written there what would tell "
                f"their number; run the shards, {again}."
            )
        clauses = [f"shard {owner} of {count} lacks {some}" for owner, some in lists.items()]
        others = len(clauses) - NAMED_SHARDS
        if others > 1:
            numbers = list(lists)[NAMED_SHARDS:]
            clauses[NAMED_SHARDS:] = [f"so do {others:,} others, {_join_spans(numbers)}"]
        them = "it" if len(lists) == 1 else "them"
        raise InputError(f"{'; '.join(clauses)}. Run {them} again, {again}.")


def _join_spans(numbers: Sequence[int]) -> str:
    """Join sorted numbers as spans, such as `3–5, 9`; an ellipsis stands for the last of many."""
    spans: list[list[int]] = []
    for number in numbers:
        if spans and number == spans[-1][1] + 1:
            spans[-1][1] = number
        else:
            spans.append([number, number])
    words = [f"{a}" if a == b else f"{a}–{b}" for a, b in spans[:NAMED_SPANS]]
    return ", ".join([*words, *(["…"] if len(spans) > NAMED_SPANS else [])])


@dataclass(frozen=True, slots=True)
class ShardReport:
    """Report of a shard.

    Attributes:
        index: number of the shard, from 1.
        count: number of shards.
        scored: by label, such as `itc: images`, the scores that this process added to the store.
        waiting: scores of other shards that were not in the store when this one read it.
        notes: sentences for the user.
    """

    index: int
    count: int
    scored: Mapping[str, int]
    waiting: int
    notes: tuple[str, ...] = ()

    def __str__(self) -> str:
        done = ", ".join(f"{count:,} ({label})" for label, count in self.scored.items() if count)
        words = f"shard {self.index} of {self.count}: scored {done or 'nothing new'}"
        if self.waiting:
            left = f"{self.waiting:,} of other shards were not in the cache yet"
        elif UNKNOWN_NOTE in self.notes:
            left = "its share is in the cache"
        else:
            left = "nothing is left to other shards"
        return " ".join((f"{words}; {left}.", *self.notes))


def parse_shard(given: str | Sequence[int] | None) -> Shard | None:
    """Parse a shard such as `2/8`, `(2, 8)` or `auto`, which reads torchrun's or Slurm's variables.

    Raises:
        InputError: it has another form, or no launcher has set its variables.
    """
    if given is None:
        return None
    if given == "auto":
        return _read_launcher(os.environ)
    index, count = _two_numbers(given)
    if not 1 <= index <= count <= MAX_SHARDS:
        most = min(max(count, 1), MAX_SHARDS)
        raise InputError(
            f"{option('shard')} counts from 1: 1/{most} to {most}/{most}, found {index}/{count}; "
            "auto reads the numbers of torchrun and Slurm."
        )
    return Shard(index, count)


def _two_numbers(given: str | Sequence[int]) -> tuple[int, int]:
    try:
        if isinstance(given, str):
            index, count = (int(word) for word in given.split("/"))
        elif any(isinstance(number, bool) for number in given):
            raise TypeError
        else:
            index, count = map(operator.index, given)
    except (TypeError, ValueError):
        raise InputError(
            f"{option('shard')} must be a shard and their number, such as 2/8, or auto; found "
            f"{given!r}."
        ) from None
    return index, count


def _read_launcher(environment: Mapping[str, str]) -> Shard:
    for rank, size in LAUNCHERS:
        if environment.get(rank) and environment.get(size):
            index, count = (_read_number(environment, name) for name in (rank, size))
            if not index < count:
                raise InputError(f"{rank}={index} and {size}={count} do not go together.")
            return Shard(index + 1, count)
    names = " or ".join("/".join(names) for names in LAUNCHERS)
    raise InputError(
        f"{option('shard', 'auto')} needs {names} in the environment, as torchrun and srun set "
        f"them; give the numbers, such as {option('shard', '2/8')}."
    )


def _read_number(environment: Mapping[str, str], name: str) -> int:
    words = environment[name].strip()
    if not words.isdecimal() or len(words) >= len(str(MAX_SHARDS)):
        raise InputError(
            f"{name}={environment[name]} is not a number from 0, which {option('shard', 'auto')} "
            "reads."
        )
    return int(words)


def shard_device(device: str, environment: Mapping[str, str] | None = None) -> str:
    """Return the device of a process that a launcher started: of several GPUs its own one.

    Args:
        device: as the user gave it; all but `auto` stay.
        environment: variables; None is those of this process.
    """
    environment = os.environ if environment is None else environment
    local = next((environment[name] for name in LOCAL_RANKS if name in environment), "")
    if device != "auto" or not local.isdecimal():
        return device
    try:
        import torch
    except ImportError:
        return device
    count = torch.cuda.device_count()
    return f"cuda:{int(local) % count}" if count > 1 else device
