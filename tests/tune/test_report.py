"""The report of a tuning run: evaluation on a panel, the bill, and the guard."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
import torch

from contrapose import metrics
from contrapose.data import Example, Gallery, ImageRef, example_columns
from contrapose.errors import InputError
from contrapose.losses import Dividend
from contrapose.results.measures import Measure, Measurements
from contrapose.tune.feed import mask_players
from contrapose.tune.panels import TrainingImage, make_pairs_panel, make_panel
from contrapose.tune.report import Evaluator, Guard, make_bill, parse_guards, read_metrics
from tests.tune.small import Painted, small_rows, small_student

Better = Any


def part(clusters: Any = None, **metric_values: Any) -> Measurements:
    """Measurements of metrics whose values are given, with the direction after a value list."""
    measures = {}
    for name, given in metric_values.items():
        values, better = given if isinstance(given, tuple) else (given, "higher")
        array = np.array(values, dtype=np.float64)
        measures[name] = Measure(array, np.ones(len(array), dtype=np.bool_), better=better)
    count = len(next(iter(measures.values())).values)
    groups = None if clusters is None else np.asarray(clusters)
    return Measurements(tuple(map(str, range(count))), {}, groups, measures)


def test_verdicts() -> None:
    k = 60
    noise = np.random.default_rng(0).normal(size=k)
    before = {
        "p": part(
            up=[0.0] * k, down=[1.0] * k, brittle=([0.0] * k, "lower"), still=[0.0, 1.0] * (k // 2),
            score=noise, neither=(noise, None),
        )
    }  # fmt: skip
    after = {
        "p": part(
            up=[1.0] * k, down=[0.0] * k, brittle=([1.0] * k, "lower"), still=[1.0, 0.0] * (k // 2),
            score=noise + 1, neither=(noise, None),
        )
    }  # fmt: skip
    bill = make_bill(before, after, model="m", objective="hn", source="here")
    assert {item.name: item.verdict for item in bill.items} == {
        "p/up": "better", "p/down": "worse", "p/brittle": "worse", "p/still": "no evidence",
        "p/score": "better",
    }  # fmt: skip
    assert bill.item("p/up").test == "mcnemar-midp"
    assert bill.item("p/score").test == "paired-bootstrap"
    assert bill.item("p/score").difference == pytest.approx(1.0)
    written = json.loads(json.dumps(bill.as_dict()))
    assert written["items"][1]["difference"] == -1.0


def test_the_correction_counts_all_parts() -> None:
    before = {str(i): part(a=[0.0] * 12) for i in range(8)}
    after = {str(i): part(a=[1.0] * (6 * (i == 0)) + [0.0] * (12 - 6 * (i == 0))) for i in range(8)}
    item = make_bill(before, after).item("0/a")
    plain = metrics.mcnemar([0] * 12, [1] * 6 + [0] * 6, method="midp").p
    assert item.p == plain < 0.05
    assert item.p_holm == pytest.approx(min(1.0, 8 * plain))
    assert item.verdict == "no evidence"


def test_examples_of_one_image_are_drawn_together() -> None:
    clusters, values = np.repeat(np.arange(3), 20), np.repeat([0.0, 0.0, 1.0], 20)
    bill = make_bill({"p": part(clusters, a=np.zeros(60))}, {"p": part(clusters, a=values)})
    assert (bill.item("p/a").test, bill.item("p/a").verdict) == ("too few", "no evidence")
    many = np.repeat(np.arange(30), 2)
    bill = make_bill({"p": part(many, a=np.zeros(60))}, {"p": part(many, a=np.ones(60))})
    assert (bill.item("p/a").test, bill.item("p/a").verdict) == ("paired-bootstrap", "better")


def test_a_metric_is_compared_on_its_units() -> None:
    """Queries of both directions share clusters, those of one do not: McNemar's test applies."""
    where = np.arange(40) < 20
    sides = [
        Measurements(
            tuple(map(str, range(40))), {}, np.tile(np.arange(20), 2),
            {"a": Measure(np.full(40, value), where), "b": Measure(np.full(40, value), ~where)},
        )
        for value in (0.0, 1.0)
    ]  # fmt: skip
    bill = make_bill({"p": sides[0]}, {"p": sides[1]})
    assert [(item.test, item.n) for item in bill.items] == [("mcnemar-midp", 20)] * 2


def test_other_examples_are_refused() -> None:
    with pytest.raises(InputError, match="same examples"):
        make_bill({"p": part(a=[1.0])}, {"p": part(a=[1.0, 0.0])})
    with pytest.raises(InputError, match="same examples"):
        make_bill({"p": part(a=[1.0])}, {})


def test_measured_as_the_model_answers() -> None:
    student = small_student(fusion=True)
    model: Any = student.model
    rows = small_rows(kept=False)
    evaluator = Evaluator(make_pairs_panel(rows, model))
    measured = evaluator.measure_all(model, matches=True)
    examples = evaluator.selection.parts["replacements"][1]
    assert isinstance(examples, list)
    wins, judged = [], []
    for example in examples:
        images = rows.images.open([int(example.images[0].key)] * 2)
        right, wrong = model.embed_images(images[:1])[0] @ model.embed_texts(example.texts).T
        wins.append(float(right > wrong))
        right, wrong = model.match(images, list(example.texts))
        judged.append(float(right > wrong))
    assert measured["replacements"].measures["accuracy"].values.tolist() == wins
    assert measured["itm/replacements"].measures["accuracy"].values.tolist() == judged
    assert "retrieval" in measured
    assert "itm/retrieval" not in measured
    assert "itm/close-pairs/group" in read_metrics(measured)


def test_images_are_decoded_once_and_scores_are_not_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    student = small_student()
    evaluator = Evaluator(make_pairs_panel(small_rows(kept=False), student.model))
    opened: list[int] = []
    plain = Painted.open

    def counted(images: Painted, rows: Sequence[int]) -> Any:
        opened.extend(rows)
        return plain(images, rows)

    monkeypatch.setattr(Painted, "open", counted)
    first = evaluator.measure(student.model)
    with torch.no_grad():
        for weight in student.network.parameters():
            weight.neg_()
    second = evaluator.measure(student.model)
    assert sorted(opened) == list(range(12))
    one, other = (it["hard-positives"].measures["mean_score"].values for it in (first, second))
    assert not np.allclose(one, other)


def test_a_model_that_gives_nan_is_refused() -> None:
    student = small_student()
    panel = make_pairs_panel(small_rows(), student.model)
    with torch.no_grad():
        for weight in student.network.image.parameters():
            weight.fill_(torch.nan)
    with pytest.raises(InputError, match=r"not a number|NaN"):
        Evaluator(panel).measure(student.model)


@pytest.mark.parametrize("most", [100, 1], ids=["list", "columns"])
def test_the_share_of_interactions(most: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(example_columns, "MANY_EXAMPLES", most)
    rows = small_rows()
    texts = ["a red ball", "a blue cube", "a ball", "a red cube left of a ball"]
    images = [ImageRef(str(i), source=TrainingImage(rows.images, i, str(i))) for i in (0, 1)]
    swaps = [
        Example(str(k), (images[i],), (texts[a], texts[b]), ((True, False),))
        for k, (i, a, b) in enumerate(((0, 0, 1), (1, 2, 1), (1, 3, 0)))
    ]
    panel = make_panel("it", {"swaps": swaps})
    model: Any = small_student().model
    assert set(read_metrics(Evaluator(panel).measure(model))) == {"swaps/accuracy"}
    share = Evaluator(panel, interaction_share=True)
    measure = share.measure(model)["swaps"].measures["interaction_share"]
    assert (measure.where.tolist(), measure.better) == ([True, False, True], "higher")
    seen = model.embed_images(rows.images.open([0, 1]))
    for k, image, pair in ((0, 0, (0, 1)), (2, 1, (3, 0))):
        games = [
            model.embed_texts([*(mask_players(texts[it]) or ()), texts[it]])[None] for it in pair
        ]
        expected = Dividend().shares(seen[image][None, None], *games).item()
        assert measure.values[k] == pytest.approx(expected, rel=1e-4)
    model.text_masks = ()
    assert "interaction_share" not in share.measure(model)["swaps"].measures


def test_a_gallery_has_recalls_and_classes_have_top_k() -> None:
    rows = small_rows()
    images = tuple(
        ImageRef(str(i), source=TrainingImage(rows.images, i, str(i))) for i in range(12)
    )
    texts = tuple(f"a {i}" for i in range(12))
    pairs = tuple((i, i) for i in range(12))
    panel = make_panel(
        "it", {"retrieval": Gallery("r", images, texts, pairs),
               "naming": Gallery("n", images, texts, pairs, ("{}",))},
    )  # fmt: skip
    ways = ("image_to_text", "text_to_image")
    assert list(read_metrics(Evaluator(panel).measure(small_student().model))) == [
        *(f"retrieval/{way}_r{k}" for way in ways for k in (1, 5, 10)),
        "naming/top1", "naming/top5",
    ]  # fmt: skip


class Fake:
    """Evaluator that gives known values."""

    def __init__(self, *values: float, better: Better = "higher"):
        self.values, self.better = list(values), better

    def measure(self, model: Any) -> dict[str, Measurements]:
        return one_metric(self.values.pop(0), self.better)


def one_metric(value: float, better: Better = "higher") -> dict[str, Measurements]:
    return {"swaps": part(accuracy=([value], better))}


def guard(fake: Fake, before: float, drop: float | None, best: str | None = None) -> Guard:
    drops = {} if drop is None else {"swaps": drop}
    return Guard(fake, None, one_metric(before, fake.better), drops, best)


def test_it_stops_when_too_much_is_lost() -> None:
    it = guard(Fake(0.75, 0.79, 0.6), 0.8, 0.1)
    assert it(1) == ("", False)
    assert it(2) == ("", False)
    why, best = it(3)
    assert "swaps/accuracy went from 0.800 to 0.600 by step 3" in why
    assert not best


def test_lower_may_be_better() -> None:
    it = guard(Fake(0.1, 0.6, better="lower"), 0.3, 0.1)
    assert it(1)[0] == ""
    assert it(2)[0]


def test_the_best_step() -> None:
    it = guard(Fake(0.5, 0.7, 0.6, 0.7, 0.8), 0.4, None, "swaps")
    assert [it(step)[1] for step in range(5)] == [True, True, False, False, True]
    low = guard(Fake(0.5, 0.3, 0.4, better="lower"), 0.4, None, "swaps/accuracy")
    assert [low(step)[1] for step in range(3)] == [True, True, False]


def test_names_of_metrics() -> None:
    before = one_metric(1.0) | {"replacements": part(accuracy=[1.0], other=[1.0])}
    found = Guard(Fake(), None, before, {"swaps": 0.1, "other": 0.2}, "swaps/accuracy")
    assert found.drops == {"swaps/accuracy": 0.1, "replacements/other": 0.2}
    with pytest.raises(InputError, match=r"no metric 'swap'.*did you mean swaps"):
        Guard(Fake(), None, one_metric(1.0), {"swap": 0.1})
    with pytest.raises(InputError, match="no metric 'group'"):
        Guard(Fake(), None, one_metric(1.0), {}, "group")
    for name in ("accuracy", "replacements"):
        with pytest.raises(InputError, match=r"may be .*replacements/accuracy"):
            Guard(Fake(), None, before, {}, name)


def test_how_guards_are_written() -> None:
    assert parse_guards(["swaps=0.02", "naming = 0"]) == {"swaps": 0.02, "naming": 0.0}
    for wrong in ("swaps", "swaps=", "swaps=x", "swaps=-1", "swaps=nan"):
        with pytest.raises(InputError, match="METRIC=DROP"):
            parse_guards([wrong])
