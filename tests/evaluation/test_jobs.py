"""Progress of an evaluation: a plan first, then jobs by number, model and benchmark."""

from __future__ import annotations

import io
from typing import Any

import pytest
from rich.console import Console

import contrapose as cp
from contrapose.cli import console
from contrapose.data import EditSet, Gallery, registry
from contrapose.data.examples import EditQuery
from contrapose.engine.pace import PLAN, format_seconds, report_phase, report_sentence
from contrapose.evaluation.evaluate import evaluate_models
from contrapose.evaluation.jobs import count_work
from contrapose.evaluation.parts import EvalRequest
from contrapose.evaluation.selection import Selection
from tests.fakes import Fake, Tower, choices, made, pairs


def test_labels(monkeypatch: pytest.MonkeyPatch) -> None:
    known = {"two": made("two", "pairs", "2 × 2", pairs()),
             "one": made("one", "choice", "1 × 3", choices())}  # fmt: skip
    monkeypatch.setattr(registry, "_plugins", lambda: known)
    calls: list[tuple[str, int, int]] = []

    def report(what: str, done: int, total: int) -> None:
        calls.append((what, done, total))

    request = EvalRequest(("two", "one"), ("itc",), resamples=100)
    evaluate_models([Fake(), Tower()], request, progress=report)
    labels = list(dict.fromkeys(label for label, _, _ in calls))
    plan = next(label for label in labels if label.startswith(PLAN))
    assert plan.startswith("plan: 4 jobs: fake (itc), tower (itc) on two (")
    jobs = labels[labels.index(plan) + 1 :]
    for number, names in enumerate(("fake on two", "fake on one", "tower on two", "tower on one")):
        some = [label for label in jobs if label.startswith(f"{number + 1} of 4")]
        assert all(f": {names}: itc" in label for label in some)
        assert any(label.endswith("intervals") for label in some)
        assert all(("then about" in label) == (0 < number < 3) for label in some)
    assert all(0 <= done <= total for _, done, total in calls)


def test_phases_and_the_plan_in_a_pipe(monkeypatch: pytest.MonkeyPatch) -> None:
    stream = io.StringIO()
    lines = console._ProgressLines(Console(file=stream, width=40))
    with report_phase(lines, "loading tiny"):  # too quick to be said
        pass
    with report_phase(None, "nothing"):
        pass
    with report_phase(lines, f"{PLAN}{'x' * 60}"):
        pass
    lines("1 of 2: tiny on scenes: itc: images", 5, 5)
    plan, line = stream.getvalue().splitlines()
    assert plan == f"Plan: {'x' * 60}"
    assert line.startswith("1 of 2: tiny on scenes: itc: images: 5 of 5")
    monkeypatch.setattr(console, "PHASE_SECONDS", 0.0)
    with report_phase(lines, "loading large"):
        assert lines.timer is not None
        lines.timer.join()
    lines.close()
    assert stream.getvalue().splitlines()[-1] == "Loading large"


def test_slow_steps_are_said_before_the_first_is_done(monkeypatch: pytest.MonkeyPatch) -> None:
    stream = io.StringIO()
    lines = console._ProgressLines(Console(file=stream, width=40))
    monkeypatch.setattr(console, "PHASE_SECONDS", 0.0)

    def wait() -> list[str]:
        assert lines.timer is not None
        lines.timer.join()
        return stream.getvalue().splitlines()

    lines("tiny on scenes: itc: images", 0, 9)
    assert wait() == ["tiny on scenes: itc: images"]  # a name stays as it is
    lines("tiny on scenes: itc: images", 1, 9)
    report_sentence(lines, "estimate: about 4 min")
    assert wait()[1:] == ["Estimate: about 4 min"]
    report_sentence(lines, "plan: two jobs")
    monkeypatch.setattr(console, "PHASE_SECONDS", 60.0)
    with report_phase(lines, "planning"):
        pass
    lines("itc: captions", 0, 5)
    lines("itc: captions", 5, 5)
    lines.close()
    *_, plan, last = stream.getvalue().splitlines()
    assert plan == "Plan: two jobs"
    with report_phase(lines, "building"):  # is not said: what is in it has told its steps
        lines("thumbnails", 5, 5)
    lines.close()
    assert "Building" not in stream.getvalue()
    assert last.startswith("itc: captions: 5 of 5")
    with console.show_phase("comparing", quiet=True):
        pass


def test_durations_are_in_steps() -> None:
    assert [format_seconds(value) for value in (1, 44, 96, 100, 600, 12000)] == [
        "10 s", "40 s", "100 s", "2 min", "10 min", "3.3 h",
    ]  # fmt: skip


def test_audits_and_diagnoses_have_a_plan_and_name_the_model() -> None:
    said: list[str] = []

    def report(what: str, done: int, total: int) -> None:
        said.append(what)

    cp.audit("scenes/swap-relation", model="tiny", lm="none", limit=9, cache=False, progress=report)
    plans = [label for label in said if label.startswith(PLAN)]
    assert len(set(plans)) == 1
    assert "9 examples" in plans[0]
    assert "tiny" in plans[0]
    assert any(label.startswith("tiny: prior") for label in said)
    assert "reading the benchmark" in said
    said.clear()
    models = ["tiny-clip", "tiny"]
    cp.diagnose(
        models, on="scenes/swap-relation", limit=1, cache=False, score="itc", resamples=100,
        progress=report,
    )  # fmt: skip
    assert "tiny-clip (itc), tiny (itc)" in next(x for x in said if x.startswith(PLAN))
    for number, model in enumerate(models, start=1):
        name = f"{number} of 2: {model} on scenes/swap-relation: "
        assert {f"{name}itc: images", f"{name}intervals"} <= set(said)


def test_work_is_counted_for_every_shape_of_data() -> None:
    some, others = pairs(), choices()
    refs = tuple(dict.fromkeys(ref for example in some for ref in example.images))
    texts = {text for example in some for text in example.texts}

    def select_parts(**parts: Any) -> Selection:
        card = made("two", "pairs", "2 × 2", some)
        chosen = {name: (card, data) for name, data in parts.items()}
        return Selection("two", len(parts) > 1, chosen, frozenset(), None)

    alone = select_parts(a=some)
    assert count_work(alone, "itc") == {"itc: captions": len(texts), "itc: images": len(refs)}
    assert count_work(alone, "itm") == {"itm: pairs": 4 * len(some)}
    assert count_work(alone, "blind") == {"blind: captions": len(texts)}
    assert count_work(alone, "chat") is None
    gallery = Gallery("g", refs[:3], ("cat", "dog"), ((0, 0),), templates=("a {}", "the {}"))
    assert count_work(select_parts(g=gallery), "itm") is None
    assert count_work(select_parts(g=gallery), "itc") == {"itc: captions": 4, "itc: images": 3}
    both = select_parts(a=others, g=gallery)
    assert count_work(both, "lm") == {"lm: pairs": sum(len(one.texts) for one in others)}
    query = EditQuery("q", 0, "red", "blue", 0, 1, 1.0)
    edits = EditSet(refs[:2], ("a red cube", "a blue cube"), (0, 1), (query,))
    assert count_work(select_parts(e=edits), "itc:delta") == {
        "itc: captions": 4, "itc: images": 2,
    }  # fmt: skip


def test_many_short_phases_are_not_silent(monkeypatch: pytest.MonkeyPatch) -> None:
    stream = io.StringIO()
    lines = console._ProgressLines(Console(file=stream, width=40))
    report_sentence(lines, "plan: many jobs")
    monkeypatch.setattr(console, "LINE_SECONDS", -1.0)
    with report_phase(lines, "planning"):
        pass
    monkeypatch.setattr(console, "LINE_SECONDS", 10.0)
    with report_phase(lines, "measuring"):
        pass
    lines.close()
    assert stream.getvalue().splitlines() == ["Plan: many jobs", "Planning"]
    report_sentence(lines, "estimate: soon")
    lines.due = 0.0  # as after two seconds
    with report_phase(lines, "measuring"):
        pass
    lines.close()
    assert stream.getvalue().splitlines()[2:] == ["Estimate: soon"]
