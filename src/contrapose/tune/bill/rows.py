"""A panel of one's own pairs: those that were held out of training."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from contrapose.tune.bill.panel import Collector, Opened, Panel, Trial, require_tests
from contrapose.tune.data.rows import Rows

if TYPE_CHECKING:
    from PIL.Image import Image

SWAPPED = ("swap", "exchange", "order", "shuffle", "trigram", "noun", "rewrite-exchange")
REPLACED = ("replace", "attribute", "object", "relation", "number", "rewrite-contrast")
MOST = 1000
"""Images at most; more would not change a verdict."""


def rows_panel(rows: Rows, model: Any = None, source: str = "held-out pairs") -> Panel:
    """Choices between each caption and its negatives, triples, retrieval, and close pairs.

    Args:
        rows: what was held out.
        model: gives vectors of captions, by which close pairs are found, the same before and after;
            without it there are none.
        source: what the rows are, in words.

    Raises:
        InputError: there is nothing to ask.
    """
    count = min(len(rows), MOST)
    found = Collector()
    choices: dict[str, list[tuple[list[object], list[str]]]] = {}
    triples: list[tuple[list[object], list[str]]] = []
    for row in range(count):
        for saying in rows.sayings[row]:
            for text, kind in saying.negatives:
                choices.setdefault(_group(kind), []).append(([row], [saying.caption, text]))
            if saying.negatives and saying.positives:
                three = [saying.caption, saying.negatives[0][0], saying.positives[0][0]]
                triples.append(([row], three))
    firsts = [rows.sayings[row][0].caption for row in range(count)]
    tests: list[Trial] = [
        found.test(name, "choice", choices[name])
        for name in ("swaps", "replacements", "other changes")
        if name in choices
    ]
    if model is not None and count > 3:
        pairs = _close(model, firsts)
        close = [([i, j], [firsts[i], firsts[j]]) for i, j in pairs if firsts[i] != firsts[j]]
        if close:
            tests.append(found.test("close pairs", "pairs", close))
    if triples:
        tests.append(found.test("hard positives", "triple", triples))
    distinct = list({text: row for row, text in reversed(list(enumerate(firsts)))}.items())
    own = [([row], [text]) for text, row in sorted(distinct, key=lambda each: each[1])]
    if len(own) > 1:
        tests.append(found.test("retrieval", "gallery", own))
    keys = list(found.pictures)

    def opened(some: Sequence[object]) -> list[Image]:
        return rows.images.open([int(str(key)) for key in some])

    return require_tests(Panel(source, Opened(keys, opened), list(found.captions), tests))


def split(rows: Rows, share: float, seed: int) -> tuple[Rows, Rows]:
    """What is learnt from, and what is held out: at least one image of each where there are two."""
    order = np.random.default_rng((seed, 3)).permutation(len(rows))
    held = min(max(1, round(share * len(rows))), len(rows) - 1) if len(rows) > 1 else 0
    return rows.take(sorted(order[held:].tolist())), rows.take(sorted(order[:held].tolist()))


def _group(kind: str) -> str:
    names: Mapping[str, tuple[str, ...]] = {"swaps": SWAPPED, "replacements": REPLACED}
    for name, beginnings in names.items():
        if kind.startswith(beginnings):
            return name
    return "other changes"


def _close(model: Any, captions: Sequence[str]) -> list[tuple[int, int]]:
    """Each image with the one whose caption reads nearest; every pair once."""
    size = max(1, model.batch_size)
    vectors = np.concatenate(
        [
            model.embed_texts(captions[start : start + size]).float().cpu().numpy()
            for start in range(0, len(captions), size)
        ]
    )
    cosines = vectors @ vectors.T
    np.fill_diagonal(cosines, -np.inf)
    for i, text in enumerate(captions):  # the same text is no other caption
        cosines[i, [j for j, other in enumerate(captions) if other == text]] = -np.inf
    nearest = cosines.argmax(axis=1)
    pairs = {(min(i, int(j)), max(i, int(j))) for i, j in enumerate(nearest) if i != j}
    return sorted(pairs)
