from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from contrapose import metrics
from contrapose.world.captions import Caption, Mention, describe, is_true
from contrapose.world.sample import sample_scene
from studies import positives_scenes as scenes
from studies.kept import Answer, KeptAnswers
from studies.positives import main
from studies.positives_claims import TESTS, StudyAnswers, effects, seen_and_unseen
from studies.positives_tuning import (
    ARMS,
    BEFORE,
    HITS,
    Choices,
    pack_triples,
    unpack_hits,
    unpack_order,
    unpack_scores,
)

USUAL = "a gray cube to the left of a large purple ball"


def _relation() -> Caption:
    cube = Mention(0, "cube", "gray", shape_word=1, color_word=1)
    ball = Mention(1, "ball", "purple", "large", size_word=1)
    return Caption("relation", (cube, ball), "left of", relation_word=2)


def test_plain_form_says_usual_words_and_lists_by_color() -> None:
    assert scenes.plain_form(_relation()).text == USUAL
    gray, red = Mention(0, "cube", "gray"), Mention(1, "ball", "red")
    listed = scenes.plain_form(Caption("and", (gray, red)))
    assert listed.text == "a red ball and a gray cube"


def test_rewordings_stay_true_and_negatives_false() -> None:
    kinds: set[str] = set()
    negatives: set[str] = set()
    for index in range(40):
        scene = sample_scene(5, index, "balanced")
        rng = np.random.default_rng(index)
        drawn = describe(scene, rng, "and" if index % 2 else "relation", detail=0.8)
        if drawn is None:
            continue
        caption = scenes.plain_form(drawn)
        assert is_true(caption, scene)
        reworded = dict(scenes.rewordings(caption, rng))
        assert caption.text not in reworded.values()
        kinds |= set(reworded)
        for negative in scenes.negatives(caption, scene, rng):
            negatives.add(negative.kind)
            assert negative.plain not in {caption.text, *reworded.values()}
            assert negative.marked not in {negative.plain, caption.text, *reworded.values()}
    assert kinds == set(scenes.REWORDING_KINDS)
    assert negatives == set(scenes.NEGATIVE_KINDS)


def test_marked_negative_of_a_listing_breaks_its_order_alone() -> None:
    red, gray = Mention(0, "cube", "red"), Mention(1, "ball", "gray")
    caption = Caption("and", (red, gray))
    drawn = (sample_scene(3, i, "balanced", 2) for i in range(50))
    scene = next(it for it in drawn if all(thing.on is None for thing in it.things))
    scene = scene.edit_thing(0, shape="cube", color="red", size="small")
    scene = scene.edit_thing(1, shape="ball", color="gray", size="small")
    assert is_true(caption, scene)
    made = {it.kind: it for it in scenes.negatives(caption, scene, np.random.default_rng(0))}
    swapped = made["swap-attribute"]
    assert swapped.plain == "a red ball and a gray cube"
    assert swapped.marked == "a gray cube and a red ball"
    reworded = dict(scenes.rewordings(caption, np.random.default_rng(0)))
    assert reworded["order"] == "a gray ball and a red cube"


def test_triples_are_spread_over_kinds() -> None:
    made = scenes.make_scene_set(32, 900, 1, "cpu")
    triples, rows = scenes.draw_triples(made, np.random.default_rng(0))
    assert len(set(rows)) == len(rows) > 24
    counts = [sum(it.rewording_kind == kind for it in triples) for kind in scenes.REWORDING_KINDS]
    assert min(counts) >= 1


def test_order_of_scores_is_kept_exactly() -> None:
    scores = np.random.default_rng(0).normal(0.4, 1e-6, (200, 3))
    scores[:5, 2] = scores[:5, 1]
    packed = pack_triples(scores)
    for metric in (metrics.original_only, metrics.positive_only, metrics.augmented_accuracy):
        np.testing.assert_array_equal(
            metric(unpack_order(packed["order"])).values, metric(scores).values
        )
    assert np.abs(unpack_scores(packed["scores"]) - scores).max() < 0.003


def test_choices_draw_each_text_of_a_caption() -> None:
    choices = Choices.of([[4, 5], [], [6]])
    captions = np.repeat([0, 1, 2], 50)
    texts, has = choices.draw(captions, np.random.default_rng(0).random(150))
    assert set(texts[:50].tolist()) == {4, 5}
    assert not has[50:100].any()
    assert set(texts[100:].tolist()) == {6}


def _answer(rng: np.random.Generator, oversensitive: float, n: int = 400) -> Answer:
    bad = rng.random(n) < oversensitive
    scores = np.stack([np.full(n, 0.5), np.full(n, 0.4), np.where(bad, 0.3, 0.45)], axis=1)
    hits = np.zeros(n, np.uint8)
    return pack_triples(scores) | {"hits": hits, "naming": np.ones(n, bool)}


def _keep_arms(folder: Path, rate: dict[str, float]) -> KeptAnswers:
    kept = KeptAnswers(folder)
    for seed in range(5):
        rng = np.random.default_rng(seed)
        kinds = rng.integers(len(scenes.REWORDING_KINDS), size=400).astype(np.uint8)
        examples = {"negative": np.zeros(400, np.uint8), "rewording": kinds}
        kept.once({"part": "scenes", "arm": "examples", "seed": seed}, lambda e=examples: e)  # type: ignore[misc]
        for arm in (*rate, "plain", "hn, q=1", "hp+hn, q=1"):
            answer = _answer(rng, rate.get(arm, 0.05))
            kept.once({"part": "scenes", "arm": arm, "seed": seed}, lambda a=answer: a)  # type: ignore[misc]
    return kept


def test_claims_have_the_direction_that_their_words_say(tmp_path: Path) -> None:
    answers = StudyAnswers(_keep_arms(tmp_path / "kept", {"hn, q=1": 0.4}))
    tests = {test.claim.text: test for test in TESTS}
    assert len(tests) == len(TESTS)
    raised, lowered = (
        tests[text].effect(answers)
        for text in (
            "HN, q = 1, makes oversensitive: c>n>p above plain tuning",
            "HP+HN lowers c>n>p against HN, q = 1",
        )
    )
    assert not isinstance(raised, str)
    assert raised.mean == pytest.approx(0.35, abs=0.05)
    assert not isinstance(lowered, str)
    assert lowered.mean == pytest.approx(-0.35, abs=0.05)


def test_claims_whose_arms_were_not_run_are_not_tested(tmp_path: Path) -> None:
    made = effects(StudyAnswers(KeptAnswers(tmp_path)))
    assert all(isinstance(effect, str) for _, effect in made)


def test_unseen_kinds_are_those_that_an_arm_was_not_tuned_on(tmp_path: Path) -> None:
    kept = _keep_arms(tmp_path, {"hp+hn, attributes, q=1": 0.0, "hp+hn, others, q=1": 1.0})
    answers = StudyAnswers(kept)
    seen, unseen, _ = seen_and_unseen(answers)
    kinds = answers.rewordings("scenes")[0]
    colors, shapes = kinds == "color", kinds == "shape"
    assert seen[0][colors].max() == 0
    assert unseen[0][colors].min() == 1
    assert seen[0][shapes].min() == 1
    assert unseen[0][shapes].max() == 0
    assert np.isnan(seen[0][kinds == "converse"]).all()


def test_arms_name_losses_of_the_package_and_kinds_of_the_world() -> None:
    from contrapose.tune.objective import parse_objective

    for arm in ARMS.values():
        assert parse_objective(arm.losses).needs <= {"negative", "positive"}
        assert set(arm.kinds) <= set(scenes.MARKED_KINDS)
    hits = np.array([1 << HITS.index("text_to_image_r1"), 0], np.uint8)
    assert unpack_hits(hits, "text_to_image_r1").tolist() == [1.0, 0.0]


def test_a_small_run_keeps_every_answer_and_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import studies.positives as study
    from studies.positives_tuning import Sizes

    few = {name: ARMS[name] for name in ("hp+hn, q=1",)}
    monkeypatch.setattr(study, "ARMS", few)
    monkeypatch.setattr(study, "SMOKE", Sizes(8, 8, 6, 4, 1))
    command = [
        "run",
        "--smoke",
        "--seeds",
        "1",
        "--first-seed",
        "900",
        "--keep",
        str(tmp_path / "kept"),
    ]
    assert main([*command, "--pack", str(tmp_path / "a.npz")]) == 0
    names = {key["arm"]: answer for key, answer in KeptAnswers(tmp_path / "a.npz").items()}
    assert set(names) == {"examples", BEFORE, *few}
    assert len(names[BEFORE]["order"]) == len(names["examples"]["rewording"])
    monkeypatch.setattr(study, "SeedCourse", None)  # nothing is left to run
    packed = ["--pack", str(tmp_path / "b.npz"), "--pack-texts", str(tmp_path / "texts.npz")]
    assert main([*command, "--parts", "scenes", "audit", *packed]) == 0
    again = {key["arm"]: answer for key, answer in KeptAnswers(tmp_path / "b.npz").items()}
    assert set(again) == {*names, "blind"}
    assert again["blind"]["q=1"].mean() > again["blind"]["q=0"].mean()
    other = ["run", "--smoke", "--seeds", "1", "--first-seed", "900", "--parts", "audit"]
    other += ["--keep", str(tmp_path / "other"), "--add", str(tmp_path / "texts.npz")]
    assert main(other) == 0
