"""Which kinds of changed captions are learnt from."""

from __future__ import annotations

from collections.abc import Sequence

from contrapose.errors import InputError
from contrapose.files.near import did_you_mean
from contrapose.tune.data.rows import Rows, Saying


def only(rows: Rows, kinds: Sequence[str]) -> Rows:
    """The same images and captions with changes of some kinds alone.

    A name stands for the kind of that name and for those that begin with it and a hyphen: `swap`
    for `swap-attribute` and `swap-relation`. False changes and rewordings are chosen from alike; of
    a side on which no kind is named all are kept, so that `swap` alone leaves rewordings as they
    are.

    Raises:
        InputError: no change is of a kind that is named.
    """
    for name in kinds:
        if not any(_is(kind, name) for kind in rows.kinds):
            there = {*rows.kinds, *(kind.partition("-")[0] for kind in rows.kinds)}
            raise InputError(
                f"no caption has a change of kind {name!r}: {did_you_mean(name, there)}"
            )
    flat = [saying for row in rows.sayings for saying in row]
    chosen = [
        any(_is(kind, name) for saying in flat for _, kind in side(saying) for name in kinds)
        for side in (_negatives, _positives)
    ]

    def kept(saying: Saying) -> Saying:
        sides = [
            tuple((text, kind) for text, kind in made if any(_is(kind, name) for name in kinds))
            if some
            else made
            for made, some in zip((saying.negatives, saying.positives), chosen, strict=True)
        ]
        return Saying(saying.caption, *sides)

    return Rows(rows.images, [[kept(saying) for saying in row] for row in rows.sayings])


def _is(kind: str, name: str) -> bool:
    return kind == name or kind.startswith(f"{name}-")


def _negatives(saying: Saying) -> tuple[tuple[str, str], ...]:
    return saying.negatives


def _positives(saying: Saying) -> tuple[tuple[str, str], ...]:
    return saying.positives
