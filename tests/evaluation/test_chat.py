"""Chat models: from replies to measures and run folders."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest
import torch
from PIL import Image

from contrapose.data import Benchmark, Example, registry
from contrapose.data.examples import single_match
from contrapose.engine import ScoringContext
from contrapose.engine.chat import collect_replies
from contrapose.engine.chat_prompts import EQBEN
from contrapose.errors import InputError
from contrapose.evaluation.evaluate import evaluate_models
from contrapose.evaluation.parts import EvalRequest
from contrapose.results import Evaluation, compare_runs, write_run
from contrapose.results.schema import MetricValue, Results
from tests.chatting import Chatter, captions_in, knows, likes_the_first, number_at
from tests.fakes import Fake, Tower, choices, made, pairs, patch, patches

TRIPLES = [
    Example(
        f"t{i}", (patch(i),), (f"a patch {i}", f"not {i}", f"some patch {i} here"),
        ((True, False, True),), {},
    )
    for i in range(8)
]  # fmt: skip
MIXED = [
    *choices(4),
    Example("two", (patch(5),), ("a patch 5", "not"), single_match(2, 0), {}),
    Example("last", (patch(6),), ("no", "not", "none", "a patch 6"), single_match(4, 3), {}),
]


@pytest.fixture(autouse=True)
def _plugged(monkeypatch: pytest.MonkeyPatch) -> None:
    found = {
        "patches": patches(),
        "plain": made("plain", "pairs", "2 × 2", pairs()),
        "choices": made("choices", "choice", "1 × 3", choices()),
        "mixed": made("mixed", "choice", "1 × n", MIXED),
        "triples": made("triples", "triple", "1 × 3", TRIPLES),
    }
    monkeypatch.setattr(registry, "_plugins", lambda: found)


def request(benchmark: str, score: str = "chat", **options: object) -> EvalRequest:
    return EvalRequest((benchmark,), (score,), resamples=200, **options)  # type: ignore[arg-type]


def results(model: Chatter, benchmark: str, score: str = "chat") -> Results:
    (run,) = evaluate_models([model], request(benchmark, score))
    return run.results


def values(found: dict[str, MetricValue]) -> dict[str, tuple[float, float | None]]:
    return {name: (each.value, each.chance) for name, each in found.items()}


def test_pairs_as_in_the_pilot_study() -> None:
    found = results(Chatter(), "plain")
    assert values(found.metrics) == {
        "group": (1, 0.5),
        "every_order": (1, 0.0625),
        "consistency": (1, 0.125),
        "parse_rate": (1, None),
        "captions_12_images_12": (1, 0.5),
        "captions_21_images_12": (1, 0.5),
        "captions_12_images_21": (1, 0.5),
        "captions_21_images_21": (1, 0.5),
    }
    assert found.metrics["group"].n == 12
    assert found.score == "chat"
    assert any("(chat:eqben)" in note for note in found.notes)
    assert any(note.startswith("48 questions, 480 tokens in and 96 out") for note in found.notes)
    assert found.usage is not None
    assert (found.usage.questions, found.usage.cost) == (48, None)


def test_a_taste_for_a_position_is_found_out() -> None:
    # The pilot study's two rows: all right in one order of the captions, all wrong in the other.
    found = results(Chatter(likes_the_first), "plain").metrics
    assert found["captions_12_images_12"].value == 1
    assert found["captions_21_images_12"].value == 0
    assert found["group"].value == found["group"].chance == 0.5
    assert found["group"].ci95 == (0.5, 0.5)
    assert found["consistency"].value == found["every_order"].value == 0
    assert found["parse_rate"].value == 1
    one_image = results(Chatter(likes_the_first), "choices").metrics
    assert [one_image[f"right_at_{i}"].value for i in (1, 2, 3)] == [1, 0, 0]
    assert one_image["accuracy"].value == pytest.approx(1 / 3)
    assert one_image["accuracy"].chance == pytest.approx(1 / 3)
    assert one_image["consistency"].value == 0


def test_captions_of_one_image() -> None:
    found = results(Chatter(), "choices")
    assert list(found.metrics) == [
        "accuracy", "every_order", "consistency", "parse_rate",
        "right_at_1", "right_at_2", "right_at_3",
    ]  # fmt: skip
    assert {each.value for each in found.metrics.values()} == {1.0}
    assert found.metrics["every_order"].chance == pytest.approx(1 / 27)
    assert any("(chat:sugarcrepe)" in note for note in found.notes)


def test_each_image_of_a_pair_by_itself() -> None:
    right = results(Chatter(), "plain", "chat:sugarcrepe").metrics
    assert values(right)["text"] == (1, 0.25)
    first = results(Chatter(likes_the_first), "plain", "chat:sugarcrepe").metrics
    assert values(first)["text"] == (0.25, 0.25)
    assert "group" not in first


def test_numbers_of_captions_may_differ() -> None:
    found = results(Chatter(likes_the_first), "mixed").metrics
    assert found["accuracy"].value == pytest.approx((4 / 3 + 1 / 2 + 1 / 4) / 6)
    assert found["accuracy"].chance == pytest.approx((4 / 3 + 1 / 2 + 1 / 4) / 6)
    assert [found[f"right_at_{i}"].n for i in (1, 2, 3, 4)] == [6, 6, 5, 1]
    assert results(Chatter(), "mixed").metrics["every_order"].value == 1


def test_hard_positives() -> None:
    def misses_some(image: Image.Image, text: str) -> str:
        """Knows the original; of every other image takes the hard positive for wrong."""
        captions = captions_in(text)
        wrong = next(i for i, each in enumerate(captions) if each.startswith("not"))
        hard = number_at(image, 0.5) % 2 and any(each.startswith("some") for each in captions)
        return f"({1 + (wrong if hard else 1 - wrong)})"

    found = results(Chatter(misses_some), "triples").metrics
    assert values(found) == {
        "original_accuracy": (1, 0.5),
        "augmented_accuracy": (0.5, 0.25),
        "every_order": (0.5, 1 / 16),
        "consistency": (1, 0.25),
        "parse_rate": (1, None),
        "right_at_1": (0.5, 0.25),
        "right_at_2": (0.5, 0.25),
        "brittleness": (0.5, 0.5),
        "original_only": (0.5, 0.25),
        "positive_only": (0, 0.25),
    }


def test_what_cannot_be_read_is_wrong_and_counted() -> None:
    def refuses(image: Image.Image, text: str) -> str:
        return "I'm sorry." if number_at(image, 0.2) % 4 == 0 else knows(image, text)

    found = results(Chatter(refuses), "plain").metrics
    # A question in four shows a patch whose number four divides on the left.
    assert found["parse_rate"].value == pytest.approx(0.75)
    assert found["group"].value == pytest.approx(0.75)
    assert found["every_order"].value == pytest.approx(0.5)


def test_against_a_count_by_hand() -> None:
    def muses(image: Image.Image, text: str) -> str:
        seed = sum(map(ord, text)) + 31 * number_at(image, 0.2)
        return ("1;2", "2;1", "1;1", "neither")[np.random.default_rng(seed).integers(0, 4)]

    model = Chatter(muses)
    sheet = collect_replies(ScoringContext(model), EQBEN, pairs())
    chosen = sheet.chosen.reshape(12, 4)
    found = results(model, "plain").metrics
    assert found["group"].value == pytest.approx((chosen == 0).mean())
    assert found["parse_rate"].value == pytest.approx((chosen >= 0).mean())
    assert found["captions_21_images_21"].value == pytest.approx((chosen[:, 3] == 0).mean())
    assert found["consistency"].value == pytest.approx(
        np.mean([len(set(row)) == 1 and row[0] >= 0 for row in chosen.tolist()])
    )
    assert found["group"].ci95 is not None
    low, high = found["group"].ci95
    assert low < found["group"].value < high


def test_a_suite() -> None:
    (run,) = evaluate_models([Chatter()], request("patches"))
    found = run.results
    assert list(found.subsets) == ["pairs", "choices"]
    assert found.metrics["average"].value == 1
    assert found.metrics["average"].chance == pytest.approx((1 / 2 + 1 / 3) / 2)
    assert any("gallery is not asked with chat" in note for note in found.notes)
    assert found.usage is not None
    assert found.usage.questions == 48 + 36
    assert run.replies is not None
    assert run.replies["example"][0] == "pairs/p0"
    with pytest.raises(InputError, match="choices cannot be asked with chat:eqben"):
        evaluate_models([Chatter()], request("choices", "chat:eqben"))


def test_who_is_asked_in_words() -> None:
    with pytest.raises(InputError, match="tower cannot give 'chat'; it gives itc"):
        evaluate_models([Tower()], request("plain"))
    with pytest.raises(InputError, match="no score 'chat:eqbn': did you mean chat:eqben"):
        evaluate_models([Chatter()], request("plain", "chat:eqbn"))
    (alone,) = evaluate_models([Chatter()], EvalRequest(("plain",), resamples=100))
    assert alone.results.score == "chat"

    class Both(Fake, Chatter):
        """Gives scores, and speaks when it is asked to."""

    several = evaluate_models([Both()], EvalRequest(("plain",), resamples=100))
    assert [run.results.score for run in several] == ["itc", "itm", "lm"]


def test_a_run_folder(tmp_path: Path) -> None:
    for name, speaks in (("a", knows), ("b", likes_the_first)):
        write_run(evaluate_models([Chatter(speaks)], request("plain")), tmp_path / name)
    table = pq.read_table(tmp_path / "b" / "replies.parquet").to_pydict()
    assert len(table["reply"]) == 48
    assert set(table["reply"]) == {"1;2"}
    assert table["chosen"][:4] == [0, 1, 1, 0]
    assert set(table["right"]) == {0}
    assert set(table["score"]) == {"chat"}
    found = Evaluation.model_validate_json((tmp_path / "a" / "results.json").read_text())
    assert found.runs[0].usage is not None
    spec = (tmp_path / "a" / "spec.json").read_text()
    assert "There are two images (left and right)" in spec
    assert '"stored_as": "chat:reply"' in spec
    difference = compare_runs(tmp_path / "a", tmp_path / "b", resamples=200)
    assert difference.metrics["group"].difference == -0.5


@dataclass
class _Narrow(Tower):
    """Encoder whose cosines all lie between 0 and 1."""

    fingerprint: str = "narrow"

    def embed_images(self, images: Sequence[Image.Image]) -> torch.Tensor:
        return super().embed_images(images).abs()

    def embed_texts(self, texts: Sequence[str]) -> torch.Tensor:
        return super().embed_texts(texts).abs()


def judgements(family: str, **changes: object) -> Benchmark:
    """Single patches with a caption or a question, every other one true."""
    examples = [
        Example(
            f"j{i}", (patch(i),), (f"Is it patch {i + i % 2}?" if i < 6 else f"patch {i + i % 2}",),
            ((i % 2 == 0,),), {"figure": str(i // 2), "question": str(i // 4)},
        )
        for i in range(12)
    ]  # fmt: skip
    benchmark = made("judged", family, "1 × 1", examples)
    return replace(benchmark, card=replace(benchmark.card, **changes))  # type: ignore[arg-type]


def looks(image: Image.Image, text: str) -> str:
    """Right about patches 0 to 9, silent about patch 10, wrong about patch 11."""
    number = number_at(image, 0.5)
    if number > 9:
        return "I cannot see." if number == 10 else "Yes"
    return "Yes, it is." if re.search(rf"patch {number}\b", text) else "No."


def test_yes_and_no(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registry, "_plugins", lambda: {"judged": judgements("judgement")})
    model = Chatter(looks)
    found = results(model, "judged")
    assert "Is it patch 0? Please answer yes or no." in model.asked
    assert 'Does this image show "patch 12"? Please answer yes or no.' in model.asked
    values = {name: found.metrics[name].value for name in found.metrics}
    assert values["accuracy"] == pytest.approx(10 / 12)
    assert values["precision"] == pytest.approx(5 / 6)
    assert values["recall"] == pytest.approx(5 / 6)
    assert values["yes_share"] == pytest.approx(6 / 12)
    assert values["parse_rate"] == pytest.approx(11 / 12)
    (run,) = evaluate_models([model], request("judged", "chat:yes-no", protocol="official"))
    assert run.results.metrics["accuracy"].value == pytest.approx(11 / 12)
    assert run.results.strict["accuracy"].value == pytest.approx(10 / 12)
    with pytest.raises(InputError, match="few captions"):
        evaluate_models([model], request("judged", "chat:sugarcrepe"))


def test_cosines_are_no_probabilities(monkeypatch: pytest.MonkeyPatch) -> None:
    """Those of CLIP lie between 0 and 1, and above ½ for no pair: accuracy at ½ means nothing."""
    monkeypatch.setattr(registry, "_plugins", lambda: {"judged": judgements("judgement")})
    (run,) = evaluate_models([_Narrow()], request("judged", "itc"))
    assert "accuracy" not in run.results.metrics
    assert "auroc" in run.results.metrics
    assert any("not probabilities" in note for note in run.results.notes)
    (plain,) = evaluate_models([Fake()], request("judged", "itm"))
    assert "accuracy" in plain.results.metrics
    scaled = Fake(fingerprint="scaled")
    vars(scaled)["matches_by_cosine"] = True
    (run,) = evaluate_models([scaled], request("judged", "itm"))
    assert "accuracy" not in run.results.metrics


def test_groups_of_questions(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registry, "_plugins", lambda: {"judged": judgements("question_groups")})
    found = results(Chatter(looks), "judged").metrics
    assert found["figure"].value == pytest.approx(5 / 6)
    assert found["question"].value == pytest.approx(2 / 3)
    with pytest.raises(InputError, match="itc says neither"):
        evaluate_models([Tower()], request("judged", "itc"))  # a cosine is no yes


def test_pairs_of_choices_and_disputed_answers(monkeypatch: pytest.MonkeyPatch) -> None:
    examples = [
        replace(example, tags={"pair": str(i // 2), "answer": "bad" if i > 9 else "good"})
        for i, example in enumerate(choices(12))
    ]
    benchmark = made("paired", "sets", "1 × 3", examples)
    card = replace(benchmark.card, disputed=("answer", "bad"))
    monkeypatch.setattr(registry, "_plugins", lambda: {"paired": replace(benchmark, card=card)})

    def speaks(image: Image.Image, text: str) -> str:
        return "none" if number_at(image, 0.5) in (0, 11) else knows(image, text)

    found = results(Chatter(speaks), "paired")
    assert found.examples == 10
    assert found.metrics["accuracy"].value == pytest.approx(9 / 10)
    assert found.metrics["pair"].value == pytest.approx(4 / 5)
    assert found.metrics["pair"].chance == pytest.approx(1 / 9)
    (run,) = evaluate_models([Chatter(speaks)], request("paired", protocol="official"))
    assert run.results.metrics["pair"].value == pytest.approx(4 / 6)
    assert run.results.strict["pair"].value == pytest.approx(4 / 5)
