"""REPLACE: the table as published, the safe way, and parity with the published file."""

from __future__ import annotations

from pathlib import Path

import pytest

from contrapose.build.captions import (
    apply_changes,
    parse_sentence,
    replacement_for_negative,
    replacements,
)
from contrapose.build.captions.replacements import CONDITIONS, load_rules
from studies.replace_parity import ARTICLE, Row, measure, rows_of
from tests.evaluation.audit.benchmarks import copy_first

ROWS = (
    ("relation", "kettle in kitchen", "kettle out of kitchen", "kettle within kitchen"),
    ("relation", "shed behind barn", "shed in front of barn", "shed to the rear of barn"),
    ("relation", "hens on top of cart", "hens below cart", "hens on cart"),
    ("relation", "well near mill", "well far from mill", "well next to mill"),
    ("relation", "well next to mill", "well far from mill", "well near mill"),
    ("relation", "mat under lamp", "mat above lamp", "mat beneath lamp"),
    ("relation", "oak by stream", "oak far from stream", "oak near stream"),
    ("relation", "gull above pier", "gull below pier", "gull on top of pier"),
    ("relation", "clown wearing wig", "clown kicking wig", "clown in wig"),
    ("relation", "clown wears wig", "clown kicking wig", "clown in wig"),
    ("relation", "nurse holding tray", "nurse biting tray", "nurse grasping tray"),
    ("relation", "judge sitting on stool", "judge leading stool", "judge seated on stool"),
    ("relation", "bell hanging from rope", "bell driving rope", "bell dangling from rope"),
    ("relation", "monk walking along wall", "monk kissing wall", "monk strolling along wall"),
    ("relation", "knight riding mule", "knight herding mule", "knight traveling on mule"),
    ("relation", "knight riding on mule", "knight herding mule", "knight traveling on mule"),
    ("attribute", "hoof OF standing mule", "hoof OF lying mule", "hoof OF upright mule"),
    ("attribute", "sitting judge", "crouching judge", "seated judge"),
    ("attribute", "walking monk", "lying monk", "strolling monk"),
    ("attribute", "eating mule", "driving mule", "ingesting mule"),
    ("attribute", "hanging bell", "resting bell", "dangling bell"),
    ("attribute", "looking gull", "playing gull", "gazing gull"),
    ("attribute", "barn HAS white gate", "barn HAS tan gate", "barn HAS ivory gate"),
    ("attribute", "black kettle", "teal kettle", "ebony kettle"),
    ("attribute", "blue kettle", "teal kettle", "sapphire kettle"),
    ("attribute", "brown kettle", "teal kettle", "chestnut kettle"),
    ("attribute", "red kettle", "teal kettle", "crimson kettle"),
    ("attribute", "green kettle", "teal kettle", "emerald kettle"),
    ("attribute", "silver kettle", "teal kettle", "metallic kettle"),
    ("attribute", "large kettle", "tiny kettle", "big kettle"),
    ("attribute", "small kettle", "huge kettle", "tiny kettle"),
    ("attribute", "long rope", "short rope", "lengthy rope"),
    ("attribute", "big kettle", "tiny kettle", "large kettle"),
    ("attribute", "huge kettle", "tiny kettle", "big kettle"),
    ("attribute", "wet quay", "sunny quay", "damp quay"),
    ("attribute", "smiling nurse", "sad nurse", "happy nurse"),
    ("attribute", "old mill", "young mill", "aged mill"),
    ("attribute", "clear sky", "cloudy sky", "unclouded sky"),
    ("attribute", "young monk", "old monk", "youthful monk"),
)
"""Rows in the form of the published file: one for every pair that the paper's tables list."""


@pytest.mark.parametrize(("half", "caption", "negative", "positive"), ROWS)
def test_replacements_equal_published_rows(
    half: str, caption: str, negative: str, positive: str
) -> None:
    made = replacement_for_negative(caption, negative, role=half)  # type: ignore[arg-type]
    assert made is not None
    assert made.text == positive
    assert made.kind == f"replace-{half}"
    assert apply_changes(caption, made.changes) == positive


def test_every_published_pair_has_a_row() -> None:
    """Of a verb only the form that the paper's tables list."""
    words = {(half, word) for half, caption, _, _ in ROWS for word in caption.split()}
    words |= {("relation", "on top of"), ("relation", "next to")}
    listed = {
        (entry.kind, " ".join(entry.words), entry.to) for entry in load_rules() if entry.published
    }
    others = {to for kind, word, to in listed if (kind, word) not in words}
    assert others == {
        "grasp", "grasps", "grasped", "dangle", "dangles", "dangled", "stroll", "strolls",
        "strolled", "travel", "travels", "traveled", "ingest", "ingests", "ingested", "gaze",
        "gazes", "gazed",
    }  # fmt: skip


def test_replacement_follows_the_negative() -> None:
    caption = "white gate ON red barn"
    first = replacement_for_negative(caption, "tan gate ON red barn")
    second = replacement_for_negative(caption, "white gate ON tan barn")
    assert first is not None
    assert second is not None
    assert (first.text, second.text) == ("ivory gate ON red barn", "white gate ON crimson barn")


def test_words_inside_words_do_not_match() -> None:
    made = replacement_for_negative("wetsuit ON smiling man", "wetsuit ON sad man")
    assert made is not None
    assert made.text == "wetsuit ON happy man"
    assert replacement_for_negative("covered wagon", "closed wagon") is None


@pytest.mark.parametrize(
    ("caption", "expected"),
    [
        ("a clown in a coat", {"a clown wearing a coat"}),
        ("a mop in a bucket", {"a mop within a bucket", "a mop in a pail"}),
        ("a mop in front of a door", set()),
        ("a nurse in the background", set()),
        ("a nurse holds a tray", {"a nurse grasps a tray"}),
        ("a nurse held a tray", {"a nurse grasped a tray"}),
        ("a couple holding hands", set()),
        ("a nurse walking a dog", set()),
        ("a nurse walking on a beach", {"a nurse strolling on a beach"}),
        ("a nurse walks on a beach", {"a nurse strolls on a beach"}),
        ("a nurse riding a wave", {"a nurse traveling on a wave"}),
        ("a nurse riding down a street", {"a nurse traveling down a street"}),
        ("a white boat", {"an ivory boat"}),
        ("A white boat", {"An ivory boat"}),
        ("a white nurse", set()),
        ("a black and white photo", {"a black and white photograph"}),
        ("a glass of red wine", set()),
        ("clear glass", set()),
        ("a clear sky", {"an unclouded sky"}),
        ("a 5 year old boy", set()),
        ("an old mill", {"an aged mill"}),
        ("a house surrounded by trees", {"a house encircled by trees"}),
        ("a bike made by hand", set()),
        ("a plate sitting on a table", {"a plate sitting upon a table"}),
        ("a shelf holding a plate", set()),
        ("a strange looking dog", set()),
        ("the inside view of a barn", set()),
        ("one dog wears a coat while one sits", set()),
        ("two men in sunglasses", {"two guys in sunglasses", "two men wearing sunglasses"}),
        ("a nurse wearing sunglasses", {"a nurse in sunglasses", "a nurse wearing shades"}),
        ("a guy and a man", set()),
        (
            "people on a couch",
            {
                "individuals on a couch",
                "people on a sofa",
                "people upon a couch",
            },
        ),
        ("a nurse wearing a coat and waving", {"a nurse dressed in a coat and waving"}),
        ("a hand tossed pizza", set()),
        ("a lime green wall", set()),
        ("a clock hung on a wall", set()),
        ("a photo by Ann", {"a photograph by Ann"}),
        ("a dog catching a Frisbee", set()),
        ("in the middle of a field", {"in the center of a field"}),
    ],
)
def test_safe_style(caption: str, expected: set[str]) -> None:
    assert {one.text for one in replacements(parse_sentence(caption))} == expected


def test_table_names_known_conditions_only() -> None:
    for entry in load_rules():
        assert {*entry.only, *entry.unless} <= set(CONDITIONS)
        assert " ".join(entry.words) != entry.to


def test_misses_are_sorted() -> None:
    rows = [Row("attribute", "a white gate", "a tan gate", "a ivory gate"),
            Row("attribute", "white gate", "tan gate", "ivory gate")]  # fmt: skip
    rates, misses = measure(rows)
    assert rates["published"]["all"] == 0.5
    assert rates["articles kept"]["all"] == 1
    assert [miss.why for miss in misses] == [ARTICLE]


def test_parity_with_the_published_file(shared: Path, tmp_path: Path) -> None:
    """One row in ten: the study reads them all."""
    copy_first(shared / "hard_positives", tmp_path, step=10)
    rows = list(rows_of(tmp_path))
    assert len(rows) == 2745
    rates, misses = measure(rows)
    assert rates["published"]["all"] >= 0.99
    assert rates["articles kept"]["all"] >= 0.997
    assert rates["articles kept"]["attribute"] >= 0.99
    assert sum(miss.why == ARTICLE for miss in misses) > len(misses) / 2
