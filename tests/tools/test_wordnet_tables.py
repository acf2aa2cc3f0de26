"""The tables from WordNet: shared senses, compounds, licence; what the package carries."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from contrapose.build.captions.lexicon import compound_nouns, load_table
from tools import wordnet_tables

LICENCE = "  1 This database is provided under a license.  \n"
INDEX = {
    "noun": (
        "dog n 1 0 1 1 00000001",
        "hound n 1 0 1 1 00000001",
        "hot_dog n 1 0 1 0 00000002",
        "black_dog n 1 0 1 0 00000003",
    ),
    "verb": ("run v 1 0 1 1 00000004",),
    "adj": ("hot a 1 0 1 1 00000005", "black a 1 0 1 1 00000006"),
}
DATA = {
    "noun": (
        "00000001 05 n 02 dog 0 hound 0 000 | an animal",
        "00000002 13 n 01 hot_dog 0 000 | a food",
        "00000003 05 n 01 black_dog 0 000 | an animal",
    ),
    "verb": ("00000004 38 v 01 run 0 000 00 | to run",),
    "adj": ("00000005 00 a 01 hot 0 000 | hot", "00000006 00 a 01 black(a) 0 000 | black"),
}
COUNTS = ("dog%1:05:00:: 1 7", "hound%1:05:00:: 1 2", "hot%3:00:00:: 1 3", "black%3:00:00:: 1 3")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name, parts in (("index", INDEX), ("data", DATA)):
        for part, lines in parts.items():
            (tmp_path / f"{name}.{part}").write_text(LICENCE + "\n".join(lines) + "\n")
    (tmp_path / "cntlist.rev").write_text("\n".join(COUNTS) + "\n")
    return tmp_path


def test_a_table(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(wordnet_tables, "CHOSEN", (("noun", "dog", "hound", {}),))
    wordnet_tables.main([str(folder), str(folder / "table.json")])
    table = json.loads((folder / "table.json").read_text())
    (entry,) = table["entries"]
    assert (entry["noun"], entry["to"], entry["kind"]) == ("dog", "hound", "object")
    assert (entry["synset"], entry["counts"]) == ("00000001-n", [7, 2])
    assert table["compounds"] == "hot dog"
    assert "license" in table["licence"]


def test_words_without_a_shared_sense(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(wordnet_tables, "CHOSEN", (("noun", "dog", "hot dog", {}),))
    with pytest.raises(SystemExit, match="share none"):
        wordnet_tables.main([str(folder), str(folder / "table.json")])
    with pytest.raises(SystemExit, match="no WordNet"):
        wordnet_tables.main([str(folder / "none")])


def test_the_table_of_the_package() -> None:
    table = load_table("wordnet.json")
    pairs = {
        (entry.get("noun") or entry.get("verb") or entry["phrase"], entry["to"])
        for entry in table["entries"]
    }
    assert pairs == {(word, other) for _, word, other, _ in wordnet_tables.CHOSEN}
    assert "Princeton University" in table["licence"]
    assert {"hot dog", "polar bear", "living room"} <= compound_nouns()
