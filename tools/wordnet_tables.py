"""Tables of the caption builder that come from WordNet: synonyms and compound nouns.

`python tools/wordnet_tables.py /usr/share/wordnet` writes `tables/wordnet.json` of the package. The
folder is that of Debian's package wordnet-base, or `dict` of WordNet 3.0.

The pairs below were chosen by hand from the words that captions use most. A pair is accepted only
if both words share a sense that is among the `SENSES` most frequent senses of each; the table
records that sense and how often it is tagged in WordNet's corpus. A compound noun is an adjective
in common use and a noun that name one kind of thing: “hot dog”, “polar bear”.
"""

from __future__ import annotations

import json
import sys
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

TABLE = Path(__file__).resolve().parent.parent / "src/contrapose/build/captions/tables/wordnet.json"
SENSES = 3
MIN_COUNT = 1
"""How often the adjective of a compound must be tagged in WordNet's corpus."""
COMPOUND_FILES = frozenset((5, 6, 13, 15, 17, 20, 27))
"""Lexicographer files of animals, artifacts, food, places, objects, plants, substances."""
LITERAL = frozenset(
    ("old man", "small boat", "young bird", "old woman", "big house", "holding pen")
)
"""Compounds that captions mean word by word."""
COLORS = frozenset(
    ("white", "black", "blue", "brown", "red", "green", "yellow", "orange", "pink", "purple",
     "gray", "grey")
)  # fmt: skip
COLORED_THINGS = frozenset(
    ("bear", "bean", "bread", "cabbage", "cheese", "fox", "light", "onion", "panda", "pepper",
     "rice", "squash", "sugar", "tea", "whale", "wine", "water")
)  # fmt: skip
"""Nouns that a color makes a compound of; other colors are what they say (“black tie”)."""
CORPUS_CODES = {"1": "noun", "2": "verb", "3": "adj", "5": "adj"}

WORN: Mapping[str, Any] = {"only": {"previous": ["wearing", "wears"]}}
CHOSEN: tuple[tuple[str, str, str, Mapping[str, Any]], ...] = (
    ("noun", "airplane", "plane", {}),
    ("noun", "plane", "airplane", {}),
    ("noun", "automobile", "car", {}),
    ("noun", "car", "automobile", {}),
    ("noun", "baby", "infant", {}),
    ("noun", "backpack", "rucksack", {}),
    ("noun", "bicycle", "bike", {}),
    ("noun", "bicyclist", "cyclist", {}),
    ("noun", "bucket", "pail", {}),
    ("noun", "bush", "shrub", {}),
    ("noun", "cellphone", "mobile phone", {}),
    ("noun", "child", "kid", {}),
    ("noun", "couch", "sofa", {}),
    ("noun", "cyclist", "bicyclist", {}),
    ("noun", "donut", "doughnut", {}),
    ("noun", "doughnut", "donut", {}),
    ("noun", "forest", "woods", {"only": {"previous": ["the"]}}),
    ("noun", "glasses", "eyeglasses", WORN),
    ("noun", "infant", "baby", {}),
    ("noun", "kid", "child", {}),
    ("noun", "luggage", "baggage", {}),
    ("noun", "necktie", "tie", {}),
    ("noun", "ocean", "sea", {}),
    ("noun", "person", "individual", {}),
    ("noun", "photo", "photograph", {}),
    ("noun", "photograph", "photo", {}),
    ("noun", "puppy", "pup", {}),
    ("noun", "restaurant", "eatery", {}),
    ("noun", "shop", "store", {}),
    ("noun", "sofa", "couch", {}),
    ("noun", "stone", "rock", {}),
    ("noun", "store", "shop", {}),
    ("noun", "sunglasses", "shades", WORN),
    ("noun", "sunset", "sundown", {}),
    ("noun", "surfer", "surfboarder", {}),
    ("noun", "television", "TV", {}),
    ("noun", "tv", "television", {}),
    ("noun", "vegetable", "veggie", {}),
    ("noun", "woods", "forest", {"only": {"previous": ["the"]}}),
    ("verb", "attempt", "try", {"only": {"next": ["to"]}}),
    ("verb", "cross", "traverse", {"only": {"object": ["place"]}}),
    ("verb", "crouch", "squat", {"only": {"intransitive": True}}),
    ("verb", "decorate", "adorn", {"only": {"next": ["with"]}}),
    ("verb", "embrace", "hug", {"only": {"object": ["person", "animal"]}}),
    ("verb", "gather", "assemble", {
        "only": {"intransitive": True, "subject": ["person"]},
        "unless": {"next": ["up"]},
    }),
    ("verb", "hug", "embrace", {"only": {"object": ["person", "animal"]}}),
    ("verb", "leap", "jump", {"only": {"intransitive": True}}),
    ("verb", "perform", "do", {"only": {"object": ["feat"]}}),
    ("verb", "do", "perform", {"only": {"object": ["feat"]}}),
    ("verb", "speak", "talk", {"only": {"next": ["to", "with", "on", "into"]}}),
    ("verb", "squat", "crouch", {"only": {"intransitive": True}}),
    ("verb", "talk", "speak", {"only": {"next": ["to", "with", "on", "into"]}}),
    ("verb", "try", "attempt", {"only": {"next": ["to"]}}),
    ("adj", "blond", "blonde", {"only": {"attributive": True}}),
    ("adj", "blonde", "blond", {"only": {"attributive": True}}),
    ("adj", "gray", "grey", {}),
    ("adj", "grey", "gray", {}),
    ("adj", "muddy", "mucky", {"only": {"attributive": True}}),
    ("adj", "older", "elderly", {
        "only": {"attributive": True, "head": ["person"]},
        "unless": {"previous": ["two", "three", "other"]},
    }),
    ("adj", "rocky", "stony", {"only": {"attributive": True}}),
    ("adj", "snowy", "snow-covered", {
        "only": {"attributive": True, "head": ["place"]}, "unless": {"next": ["day", "weather"]},
    }),
    ("adj", "snow-covered", "snowy", {"only": {"attributive": True, "head": ["place"]}}),
    ("adj", "teenage", "teenaged", {"only": {"attributive": True, "head": ["person"]}}),
    ("adj", "wide", "broad", {
        "only": {"attributive": True},
        "unless": {"next": ["eyed", "angle", "open", "variety", "screen"]},
    }),
)  # fmt: skip
"""Part of speech, word, synonym, and the conditions of `replacements.py`."""


@dataclass(frozen=True, slots=True)
class WordNet:
    """One part of speech of WordNet.

    Attributes:
        senses: of every lemma its synsets, the most frequent first.
        words: of every synset its lexicographer file and its words.
        counts: tagged occurrences by lemma and sense number.
    """

    senses: Mapping[str, tuple[str, ...]]
    words: Mapping[str, tuple[int, tuple[str, ...]]]
    counts: Mapping[tuple[str, int], int]

    def count(self, word: str) -> int:
        """Tagged occurrences of a word in all its senses."""
        return sum(self.counts.get((word, i + 1), 0) for i in range(len(self.senses.get(word, ()))))


def read_wordnet(folder: Path, part: str) -> WordNet:
    """Read the index, the data and the corpus counts of a part of speech."""
    senses: dict[str, tuple[str, ...]] = {}
    for line in (folder / f"index.{part}").read_text("utf-8").splitlines():
        if not line.startswith(" "):
            fields = line.split()
            start = 6 + int(fields[3])
            senses[fields[0]] = tuple(fields[start : start + int(fields[2])])
    words: dict[str, tuple[int, tuple[str, ...]]] = {}
    for line in (folder / f"data.{part}").read_text("utf-8").splitlines():
        if not line.startswith(" "):
            fields = line.partition("|")[0].split()
            end = 4 + 2 * int(fields[3], 16)
            lemmas = tuple(word.partition("(")[0] for word in fields[4:end:2])
            words[fields[0]] = int(fields[1]), lemmas
    counts: Counter[tuple[str, int]] = Counter()
    for line in (folder / "cntlist.rev").read_text("utf-8").splitlines():
        key, sense, count = line.split()
        lemma, _, rest = key.partition("%")
        if CORPUS_CODES.get(rest[0]) == part:
            counts[lemma, int(sense)] += int(count)
    return WordNet(senses, words, counts)


def find_shared_sense(wordnet: WordNet, word: str, other: str) -> tuple[str, int, int]:
    """Synset of two words, and how often each is tagged with it.

    Raises:
        SystemExit: they share none of their most frequent senses.
    """
    lemmas = [word.lower().replace(" ", "_"), other.lower().replace(" ", "_")]
    lists = [wordnet.senses.get(lemma, ())[:SENSES] for lemma in lemmas]
    for synset in lists[0]:
        if synset in lists[1]:
            first, second = (
                wordnet.counts.get((lemma, senses.index(synset) + 1), 0)
                for lemma, senses in zip(lemmas, lists, strict=True)
            )
            return synset, first, second
    raise SystemExit(f"{word} and {other} share none of their {SENSES} most frequent senses.")


def list_compounds(nouns: WordNet, adjectives: WordNet) -> list[str]:
    """Compound nouns of an adjective in common use and a noun."""
    compounds = []
    for lemma, synsets in nouns.senses.items():
        first, _, last = lemma.partition("_")
        common = adjectives.count(first) >= MIN_COUNT or first.endswith("ing")
        colored = first in COLORS and last not in COLORED_THINGS
        if not last or "_" in last or not common or colored:
            continue
        named = [nouns.words[synset] for synset in synsets]
        thing = any(file in COMPOUND_FILES and lemma in words for file, words in named)
        if thing and last in nouns.senses and f"{first} {last}" not in LITERAL:
            compounds.append(f"{first} {last}")
    return sorted(compounds)


def build_table(folder: Path, licence: str) -> dict[str, Any]:
    """Table of synonyms and compounds, with its source and licence."""
    parts = {part: read_wordnet(folder, part) for part in ("noun", "verb", "adj")}
    entries = []
    for part, word, other, conditions in CHOSEN:
        synset, count, other_count = find_shared_sense(parts[part], word, other)
        entries.append({
            {"noun": "noun", "verb": "verb", "adj": "phrase"}[part]: word, "to": other,
            "kind": {"noun": "object", "verb": "relation", "adj": "attribute"}[part],
            "class": "synonym", "synset": f"{synset}-{part[0]}", "counts": [count, other_count],
            **conditions,
        })  # fmt: skip
    return {
        "about": "Synonyms and compound nouns of WordNet 3.0, written by tools/wordnet_tables.py. "
        "synset: the shared sense; counts: how often each word is tagged with it in its corpus.",
        "licence": licence,
        "entries": entries,
        "compounds": list_compounds(parts["noun"], parts["adj"]),
    }  # fmt: skip


def read_licence(folder: Path) -> str:
    """Licence text at the head of WordNet's files, which all copies must carry."""
    lines = []
    for line in (folder / "index.noun").read_text("utf-8").splitlines():
        if not line.startswith(" "):
            break
        lines.append(line.split(maxsplit=1)[1] if len(line.split()) > 1 else "")
    return " ".join(" ".join(lines).split())


def main(arguments: list[str]) -> None:
    """Write the table, one entry per line."""
    if len(arguments) not in (1, 2):
        raise SystemExit("usage: python tools/wordnet_tables.py WORDNET_FOLDER [TABLE]")
    folder = Path(arguments[0])
    if not (folder / "index.noun").is_file():
        raise SystemExit(f"{folder} holds no WordNet: index.noun is missing.")
    table = build_table(folder, read_licence(folder))
    rows = [json.dumps(entry, ensure_ascii=False) for entry in table["entries"]]
    head = {name: table[name] for name in ("about", "licence")}
    text = json.dumps(head, indent=2, ensure_ascii=False)[:-2]
    text += ',\n  "entries": [\n    ' + ",\n    ".join(rows) + "\n  ],\n"
    text += '  "compounds": "' + " | ".join(table["compounds"]) + '"\n}\n'
    target = Path(arguments[1]) if len(arguments) > 1 else TABLE
    target.write_text(text, "utf-8")


if __name__ == "__main__":
    main(sys.argv[1:])
