"""Tables that `contrapose metrics` prints."""

from __future__ import annotations

from contrapose.report import Table, results_tables
from contrapose.report.evaluation import evaluation_tables
from contrapose.report.results import strict_changes, tie_words
from contrapose.results import MetricValue, Results


def value(share: float, n: int) -> MetricValue:
    return MetricValue(value=share, ci95=(0.0, 1.0), n=n, chance=0.5, ties=0.0)


def results(parts: int) -> Results:
    return Results(
        contrapose="0",
        benchmark="mine",
        scores="s.csv",
        protocol="strict",
        aggregation="mean over examples",
        examples=10,
        clusters=None,
        resamples=100,
        seed=0,
        metrics={"accuracy": value(0.5, 10)},
        subsets={f"part {i}": {"accuracy": value(0.25, i)} for i in range(parts)},
        notes=("look out",),
    )


def test_few_parts_keep_their_order() -> None:
    headline, parts, note = results_tables(results(3))
    assert isinstance(headline, Table)
    assert isinstance(parts, Table)
    assert [row[0] for row in parts.rows] == ["part 0", "part 1", "part 2"]
    assert parts.rows[2] == ("part 2", "2", "25.00 (0.00–100.00)")
    assert note == "Note: look out."


def test_very_many_parts_are_cut_to_the_largest() -> None:
    _, parts, sentence, _ = results_tables(results(55))
    assert isinstance(parts, Table)
    assert [row[0] for row in parts.rows] == [f"part {i}" for i in range(54, 14, -1)]
    assert isinstance(sentence, str)
    assert "15 more" in sentence


def test_no_parts() -> None:
    assert len(results_tables(results(0))) == 2


def test_a_note_of_all_runs_stands_once() -> None:
    first = results(1).model_copy(update={"model": "a", "score": "itc", "notes": ("both", "one")})
    second = first.model_copy(update={"model": "b", "notes": ("both",)})
    notes = [note for note in evaluation_tables([first, second]) if isinstance(note, str)]
    assert [note for note in notes if "both" in note] == [f"Note on {first.benchmark}: both."]
    assert [note for note in notes if "one" in note] == [f"Note on {first.benchmark} (a itc): one."]
    alone = [note for note in evaluation_tables([second]) if isinstance(note, str)]
    assert alone == [f"Note on {first.benchmark} (b itc): both."]


def test_official_figures_that_equal_the_strict_ones_are_not_printed_twice() -> None:
    value = MetricValue(value=0.5, ci95=None, n=4, chance=0.25, ties=0.5)
    base = Results(
        contrapose="0", benchmark="toy", model="a", protocol="official", aggregation="mean",
        examples=4, clusters=None, resamples=100, seed=0, metrics={"text": value}, subsets={},
        strict={"text": value},
    )  # fmt: skip
    assert "the same as strict" in tie_words([base])
    lower = value.model_copy(update={"value": 0.25})
    changed = base.model_copy(update={"strict": {"text": lower}})
    assert strict_changes(changed) == ["text"]
    assert tie_words([changed]) == "official protocol"


def test_every_value_below_its_chance_is_marked() -> None:
    low = MetricValue(value=0.1, ci95=(0.05, 0.2), n=50, chance=0.25, ties=0.0)
    high = MetricValue(value=0.4, ci95=(0.3, 0.5), n=50, chance=0.25, ties=0.0)
    found = results(0).model_copy(
        update={
            "metrics": {"group": low, "text": high, "image": low, "brittleness": low},
            "subsets": {"one": {"text": high, "image": low}, "two": {"image": low}},
        }
    )
    headline, parts, *_ = results_tables(found)
    assert isinstance(headline, Table)
    assert isinstance(parts, Table)
    assert headline.marks == {(0, 1): "below", (2, 1): "below"}
    assert parts.marks == {(0, 3): "below", (1, 3): "below"}
    table = next(part for part in evaluation_tables([found], every=True) if isinstance(part, Table))
    assert list(table.marks.values()).count("below") == 4
