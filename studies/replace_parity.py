"""Does the table of replacements give the published hard positives? Kamath et al. (2024), REPLACE.

    python studies/replace_parity.py --root ../shared/data/hard_positives [--misses 20] [--json]

Each row of the benchmark has a caption, a hard negative and a hard positive. Given the first two
(the negative tells which words the row is about) the table must give the third, to the letter:

1. as published: the authors' pairs, taken wherever they stand, with “a” and “an” repaired, which
   the authors did not do;
2. the same without that repair;
3. the safe way, which `contrapose build pairs` takes: pairs of our own beside the published ones,
   and each only where it keeps the meaning. It departs from the published file on purpose;
4. from the caption alone: whether the published one is among all that the table makes of it.

Misses of the first are sorted by what happened. SWAP has no published file here; the examples that
the paper prints are compared with what we make of them.
"""

from __future__ import annotations

import argparse
import json
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from contrapose.build.captions import (
    parse_sentence,
    replacement_for_negative,
    replacements,
    swap_conjuncts,
)
from contrapose.build.captions.replacements import load_rules
from contrapose.data.benchmarks.hard_positives import read_replace
from contrapose.files import StrictProblems

Half = Literal["relation", "attribute"]

ARTICLE = "article: published with “a” before a vowel, or “an” before none"
INSIDE = "inside a word: published with letters of another word replaced"
ELSEWHERE = "elsewhere: published with another word replaced than the negative's"
PARTICLE = "preposition: published with “traveling on” before another preposition"
OTHER = "other"

PRINTED_SWAPS = (
    ("A cabinet setting with green vases and a wooden backboard",
     "A cabinet setting with a wooden backboard and green vases"),
    ("A couch and a television in a room", "A television and a couch in a room"),
    ("An older gentleman in a white shirt and black bow tie",
     "An older gentleman in a black bow tie and white shirt"),
    ("Two giraffes standing next to one another with trees and bushes near them",
     "Two giraffes standing next to one another with bushes and trees near them"),
    ("a lady wearing snow skis and a man holding snow skis",
     "a man holding snow skis and a lady wearing snow skis"),
    ("An adorable little girl wearing sunglasses and holding a stack of frisbee",
     "An adorable little girl holding a stack of frisbee and wearing sunglass"),
    ("three giraffes and two antelope", "two antelopes and three giraffes"),
    ("a blue and white stained glass clock shows the time",
     "a white and blue stained glass clock shows the time"),
    ("a mixture of rice and broccoli are put together",
     "a mixture of broccoli and rice are put together"),
    ("a bathroom with a sink, toilet and shower", "a bathroom with a sink, shower and toilet"),
    ("there is a man wearing glasses and holding a wine bottle",
     "there is a man holding a wine bottle and wearing glasses"),
)  # fmt: skip
"""Captions and swaps of the paper's supplement, sections D.1 and D.3."""


@dataclass(frozen=True, slots=True)
class Row:
    """A row of the benchmark."""

    half: Half
    caption: str
    negative: str
    positive: str


@dataclass(frozen=True, slots=True)
class Miss:
    """A row whose published hard positive is not what the table gives."""

    row: Row
    ours: str | None
    why: str


def rows_of(root: Path) -> Iterator[Row]:
    """The rows of both halves."""
    for example in read_replace(root, StrictProblems()):
        half: Half = "relation" if example.tags["subset"] == "relations" else "attribute"
        yield Row(half, *example.texts)


def measure(rows: Sequence[Row]) -> tuple[dict[str, dict[str, Any]], list[Miss]]:
    """How many rows each way gives, and what the first one misses."""
    right: dict[str, Counter[str]] = {name: Counter() for name in WAYS}
    misses: list[Miss] = []
    for row in rows:
        ours = _beside(row)
        kept = _beside(row, articles=False)
        any_of = replacements(
            parse_sentence(row.caption), "published", articles=False, role=row.half
        )
        found = {
            "published": ours == row.positive,
            "articles kept": kept == row.positive,
            "safe": _beside(row, style="safe") == row.positive,
            "caption alone": any(one.text == row.positive for one in any_of),
        }
        for name, hit in found.items():
            right[name][row.half] += hit
        if not found["published"]:
            misses.append(Miss(row, ours, _why(row, kept)))
    counts = Counter(row.half for row in rows)
    return {
        name: {
            **{half: right[name][half] / counts[half] for half in counts},
            "all": right[name].total() / len(rows),
        }
        for name in WAYS
    }, misses


def _beside(
    row: Row, *, style: Literal["safe", "published"] = "published", articles: bool = True
) -> str | None:
    made = replacement_for_negative(
        row.caption, row.negative, style, articles=articles, role=row.half
    )
    return None if made is None else made.text


def _why(row: Row, kept: str | None) -> str:
    if kept == row.positive:
        return ARTICLE
    sentence = parse_sentence(row.caption)
    if any(one.text == row.positive for one in replacements(sentence, "published", articles=False)):
        return ELSEWHERE
    if "traveling on" in row.positive:
        return PARTICLE
    pairs = {(" ".join(entry.words), entry.to) for entry in load_rules() if entry.published}
    if any(
        row.caption.replace(old, new) == row.positive and row.caption.count(old) > _whole(row, old)
        for old, new in pairs
    ):
        return INSIDE
    return OTHER


def _whole(row: Row, word: str) -> int:
    return row.caption.split().count(word)


WAYS = {
    "published": "as published, articles repaired",
    "articles kept": "as published, articles kept",
    "safe": "the safe way",
    "caption alone": "the caption alone, any of the table's",
}


def main(words: Sequence[str] | None = None) -> None:
    """Print the rates and the misses."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--root", type=Path, required=True, help="the benchmark's folder")
    parser.add_argument("--misses", type=int, default=20, help="misses shown of each sort")
    parser.add_argument("--json", action="store_true", help="print everything as JSON")
    arguments = parser.parse_args(words)
    rows = list(rows_of(arguments.root))
    rates, misses = measure(rows)
    swaps = [(old, new, made and made.text) for old, new in PRINTED_SWAPS
             for made in [swap_conjuncts(parse_sentence(old))]]  # fmt: skip
    if arguments.json:
        print(json.dumps({
            "rows": len(rows), "rates": rates,
            "misses": [{"why": miss.why, "caption": miss.row.caption, "negative": miss.row.negative,
                        "published": miss.row.positive, "ours": miss.ours} for miss in misses],
            "swaps": [{"caption": old, "printed": new, "ours": ours} for old, new, ours in swaps],
        }, indent=1, ensure_ascii=False))  # fmt: skip
        return
    print(f"{len(rows):,} rows")
    for name, rate in rates.items():
        halves = ", ".join(f"{half} {100 * value:.2f} %" for half, value in rate.items())
        print(f"{WAYS[name]}: {halves}")
    print(f"\n{len(misses)} misses as published with articles repaired:")
    for why, count in Counter(miss.why for miss in misses).most_common():
        print(f"\n{count} × {why}")
        for miss in [miss for miss in misses if miss.why == why][: arguments.misses]:
            print(f"  {miss.row.caption!r}: {miss.row.positive!r}, ours {miss.ours!r}")
    same = sum(new == ours for _, new, ours in swaps)
    refused = sum(ours is None for _, _, ours in swaps)
    print(f"\nSWAP: {same} of the paper's {len(swaps)} printed swaps, {refused} refused")
    for old, new, ours in swaps:
        if ours != new:
            print(f"  {old!r}: {new!r}, ours {ours!r}")


if __name__ == "__main__":
    main()
