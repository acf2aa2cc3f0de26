"""Example table: rows of all runs, true outcomes and counts, margins in units of the spread."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

import contrapose as cp
from contrapose.data import EditSet, Example, Gallery, ImageRef, file_maps
from contrapose.data.examples import EditQuery, query_examples, single_match
from contrapose.report.explorer import page
from contrapose.report.explorer.columns import MAIN, distinguish_runs
from contrapose.report.explorer.page import build_explorer
from contrapose.report.explorer.queries import ExampleQuery, find_rows
from contrapose.report.explorer.table import ExampleTable
from contrapose.report.html import build_report, write_report
from contrapose.results import Measurements
from contrapose.results.measures import Measure
from tests.fakes import patch
from tests.report.html.checks import explorer_data, results
from tests.report.html.test_failure_cards import CASES, SCORES, choice, make_run


def ids(table: ExampleTable, **words: object) -> list[str]:
    rows = find_rows(table, ExampleQuery(**words)).rows  # type: ignore[arg-type]
    return [table.keys[row][1] for row in rows.tolist()]


def test_every_example_with_outcome_margin_and_scores() -> None:
    table = ExampleTable([make_run(CASES, SCORES)])
    assert len(table) == len(CASES)
    assert table.runs[0].counts() == {"r": 1, "w": 5, "t": 1}
    spread = np.std([value for lines in SCORES.values() for line in lines for value in line])
    row = table.row(1)
    assert row["id"] == "swap/b"
    assert row["captions"] == ["right", "wrong"]
    assert row["match"] == ["10"]
    assert row["runs"][0]["scores"] == [[0.5, 0.9]]
    assert row["runs"][0]["margin"] == pytest.approx(-0.4 / spread, rel=1e-4)
    assert ids(table)[0] == "swap/b"
    assert ids(table, sort="best")[0] == "swap/c"
    assert ids(table, sort="order") == list(CASES)


def test_margin_counts_images_as_well_as_captions() -> None:
    pair = {"x": CASES["place/x"]}
    table = ExampleTable([make_run(pair, {"x": [[0.9, 0.1], [1.5, 1.6]]}, with_parts=False)])
    assert table.runs[0].margins[0] < 0  # every caption is right, and one image is not


def test_filters_and_pairs_of_outcomes() -> None:
    other = dict(SCORES) | {"swap/b": [[0.9, 0.1]], "swap/c": [[0.1, 0.2]]}
    table = ExampleTable([make_run(CASES, SCORES), make_run(CASES, other, "lm")])
    assert ids(table, outcome="r") == ["swap/c"]
    assert ids(table, outcome="t") == ["swap/d"]
    assert ids(table, part="place") == ["place/x"]
    assert ids(table, text="TWO") == ["place/x"]
    assert ids(table, text="swap/e") == ["swap/e"]
    assert ids(table, b=1, outcome="right-wrong") == ["swap/c"]
    assert ids(table, b=1, outcome="wrong-right") == ["swap/b"]
    assert ids(table, b=1, sort="gain")[0] == "swap/b"
    assert ids(table, b=1, sort="loss")[0] == "swap/c"
    counts = find_rows(table, ExampleQuery(b=1, outcome="r")).counts
    assert counts["w"] == 5
    assert (counts["right-wrong"], counts["wrong-right"], counts["right-right"]) == (1, 1, 0)


def test_skipped_examples_are_rows_with_their_reason() -> None:
    few = {name: case for name, case in CASES.items() if name != "swap/a"}
    run = make_run(few, SCORES)
    run = replace(run, spec={"skipped": {"swap/a": "the image is missing"}}, cases=CASES)
    table = ExampleTable([run])
    assert ids(table, outcome="s") == ["swap/a"]
    row = table.row(len(table) - 1)
    assert row["runs"][0]["why"] == "the image is missing"
    assert row["captions"] == ["right", "wrong"]


def test_outcomes_of_each_metric_and_of_the_main_one() -> None:
    measures = {
        "text": Measure(np.array([1.0, 1.0, 0.0]), np.ones(3, np.bool_)),
        "group": Measure(
            np.array([1.0, 0.0, 0.0]), np.ones(3, np.bool_), ties=np.array([False, False, True])
        ),
        "rank": Measure(np.array([3.0, 1.0, 2.0]), np.ones(3, np.bool_), better="lower"),
    }
    measured = Measurements(("a", "b", "c"), {"kind": ("x", "y", ("x", "y"))}, None, measures)
    run = replace(make_run({}, {}), scores=None, measured=measured, results=results("m", "itc"))
    table = ExampleTable([run])
    assert table.metrics == [MAIN, "text", "group"]
    assert [table.row(i)["runs"][0]["outcomes"] for i in range(3)] == ["rrr", "wrw", "twt"]
    assert ids(table, tag="kind", value="y") == ["b", "c"]
    assert table.describe()["tags"] == {"kind": [["x", 2], ["y", 2]]}


def test_examples_that_no_metric_judges_are_shown_too() -> None:
    rating = Measure(np.array([0.2, 3.5]), np.ones(2, np.bool_), better=None)
    measured = Measurements(("a", "b"), {}, None, {"rating": rating})
    run = replace(make_run({}, {}), scores=None, measured=measured)
    table = ExampleTable([run, run])
    assert ids(table) == ["a", "b"]
    assert table.runs[0].counts() == {"n": 2}
    counts = find_rows(table, ExampleQuery(b=1)).counts
    assert counts["wrong-wrong"] == 0


def test_each_part_of_a_suite_has_its_own_main_metric() -> None:
    first, second = np.array([True, False]), np.array([False, True])
    measures = {
        "pairs/text": Measure(np.array([1.0, 0.0]), first),
        "pairs/group": Measure(np.array([0.0, 0.0]), first),
        "choices/accuracy": Measure(np.array([0.0, 1.0]), second),
    }
    tags = {"part": ("pairs", "choices")}
    measured = Measurements(("pairs/a", "choices/b"), tags, None, measures)
    table = ExampleTable([replace(make_run({}, {}), scores=None, measured=measured)])
    assert table.metrics == [MAIN, "text", "group", "accuracy"]
    assert [table.row(i)["runs"][0]["outcomes"] for i in range(2)] == ["wrw-", "r--r"]


def test_runs_of_one_name_are_told_apart() -> None:
    run = make_run(CASES, SCORES)
    labels = [one.results.model for one in distinguish_runs([run, run])]
    assert labels == ["a (1)", "a (2)"]
    named = distinguish_runs([run, run], ["old", "new"])
    table = ExampleTable(named)
    assert [one.label for one in table.runs] == ["a (old) · itc", "a (new) · itc"]
    assert [one.model for one in table.runs] == ["a", "a"]  # as it can be asked again
    other = make_run(CASES, SCORES, "lm")
    assert distinguish_runs([run, other]) == [run, other]


def test_queries_have_their_images_and_captions() -> None:
    gallery = Gallery("g", (patch(1), patch(2)), ("one", "two", "three"), ((0, 0), (0, 1), (1, 2)))
    query = EditQuery("q", 0, "red", "blue", 0, 1, 1.0)
    edits = EditSet((patch(1),), ("a red cube", "a blue cube"), (0,), (query,))
    scores = np.array([[0.9, 0.8, 0.1], [0.5, 0.2, 0.4]])
    run = cp.measure(scores, gallery, resamples=100)
    table = ExampleTable([run.record])
    rows = {row["id"]: row for row in map(table.row, range(len(table)))}
    image, text = rows[f"image {patch(1).key}"], rows["text 2"]
    assert image["captions"] == ["one", "two"]
    assert len(image["images"]) == 1
    assert (text["captions"], text["match"]) == (["three"], ["1"])
    assert {row["runs"][0]["outcomes"][0] for row in rows.values()} == {"r", "w"}
    (shown,) = query_examples(edits).values()
    assert (shown.id, shown.texts) == ("q", ("red → blue: a blue cube",))


def test_runs_of_different_benchmarks_keep_their_rows_apart() -> None:
    one = make_run(CASES, SCORES)
    other = replace(one, results=results("a", "itc").model_copy(update={"benchmark": "b"}))
    table = ExampleTable([one, other])
    assert len(table) == 2 * len(CASES)
    assert len(ids(table, a=1)) == len(CASES)
    assert table.row(0)["runs"][1]["outcomes"] == "-"


@pytest.mark.parametrize(
    "words", [{"a": "7"}, {"b": "-2"}, {"sort": "x"}, {"outcome": "?"}, {"metric": "x"}, {"a": "x"}]
)
def test_words_without_meaning_are_refused(words: dict[str, str]) -> None:
    with pytest.raises(ValueError, match=r"meaning|invalid literal"):
        ExampleQuery.parse(words, ExampleTable([make_run(CASES, SCORES)]))


def test_a_file_for_too_many_examples_says_how_to_see_all(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(page, "MAX_ROWS", 5)
    monkeypatch.setattr(page, "HELD_ROWS", 3)
    data = explorer_data(build_report(make_run(CASES, SCORES), folder="runs/a").page)
    assert {row["id"] for row in data["rows"]} == {"swap/b", "place/x", "triple/t"}
    assert data["total"] == len(CASES)
    assert data["runs"][0]["counts"] == {"r": 1, "w": 5, "t": 1}
    assert "3 worst of 7" in data["about"]
    assert "contrapose view runs/a" in data["about"]


def test_the_worst_rows_are_the_first_of_all_in_order() -> None:
    table = ExampleTable([make_run(CASES, SCORES)])
    margins = np.array([0.5, np.nan, -1.0, 0.5, -1.0, np.nan, 0.5])
    table.runs = (replace(table.runs[0], margins=margins),)
    order = [2, 4, 0, 3, 6, 1, 5]
    for most in range(len(order) + 2):
        assert table.worst_first(most).tolist() == order[:most]


def test_thumbnails_are_the_same_in_threads(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = [tmp_path / f"{i}.png" for i in range(5)]
    for i, file in enumerate(files):
        Image.new("RGB", (8, 8), (40 * i, 0, 0)).save(file)
    files[3].write_bytes(b"no image")
    refs = [ImageRef(file.name, file) for file in files]
    alone = dict(page._encode_images(refs))
    monkeypatch.setattr(file_maps, "TRIAL_SECONDS", 0.0)
    monkeypatch.setattr(page, "QUICK_IMAGE", 0.0)
    monkeypatch.setattr(page, "FILES_PER_TASK", 1)
    assert dict(page._encode_images(refs)) == alone
    assert [alone[ref] is None for ref in refs] == [False, False, False, True, False]


def test_thumbnails_that_do_not_fit_are_files_beside_the_page(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(page, "MAX_INSIDE", 3000)
    write_report(make_run(CASES, SCORES), tmp_path / "report.html")
    data = explorer_data((tmp_path / "report.html").read_text(encoding="utf-8"))
    beside = [address for address in data["thumbnails"] if not address.startswith("data:")]
    assert 0 < len(beside) < len(data["thumbnails"]) == 4
    for address in beside:
        Image.open(tmp_path / address).verify()
    alone = build_explorer(ExampleTable([make_run(CASES, SCORES)]))
    assert len(alone.values["thumbnails"]) == 4 - len(beside)
    assert alone.images == {}


def test_images_that_cannot_be_opened_leave_the_captions(tmp_path: Path) -> None:
    gone = ImageRef("gone.png", tmp_path / "gone.png")
    cases = {
        "a": Example("a", (gone,), ("right", "wrong"), single_match(2, 0)),
        "b": choice("b"),
    }
    run = make_run(cases, {"a": [[0.1, 0.9]], "b": [[0.1, 0.8]]}, with_parts=False)
    rows = build_explorer(ExampleTable([run])).values["rows"]
    assert [row["images"] for row in rows] == [[-1], [0]]
    assert rows[0]["files"] == [str(gone.path)]


def test_a_page_never_starts_with_a_filter_that_leaves_nothing() -> None:
    start = {"b": 1, "sort": "loss", "outcome": "right-wrong"}

    def first(**changes: list[list[float]]) -> object:
        other = SCORES | {name.replace("_", "/"): scores for name, scores in changes.items()}
        table = ExampleTable([make_run(CASES, SCORES), make_run(CASES, other, "lm")])
        return build_explorer(table, start=start).values["start"]

    assert first(swap_c=[[0.1, 0.2]]) == start
    assert first(swap_b=[[0.9, 0.1]]) == start | {"outcome": "wrong-right", "sort": "gain"}
    assert first() == start | {"outcome": ""}
    table = ExampleTable([make_run(CASES, SCORES)])
    assert build_explorer(table, start={"sort": "close"}).values["start"] == {"sort": "close"}
