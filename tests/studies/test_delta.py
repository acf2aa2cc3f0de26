from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
import torch

from contrapose import metrics
from contrapose.metrics.delta_scales import EditVectors
from contrapose.tune.heads.features import Features
from contrapose.tune.settings import HeadSettings
from studies import delta, delta_claims
from studies.delta_claims import DeltaAnswers, effects
from studies.delta_heads import STARTS, TAUS, edit_hits, train_start
from studies.delta_photos import DEPTH, judge_heads, run_photos, split_blocks
from studies.delta_photos import PART as PHOTOS
from studies.delta_photos import SCALES as PHOTO_SCALES
from studies.delta_report import report_study
from studies.delta_scenes import FROZEN, MODELS
from studies.delta_scenes import SCALES as SCENE_SCALES
from studies.kept import Answer, KeptAnswers


def make_features(images: int = 60, captions: int = 3, seed: int = 0) -> Features:
    rng = np.random.default_rng(seed)
    topics = rng.normal(size=(images, 6))
    owners = np.repeat(np.arange(images), captions)
    seen = topics @ rng.normal(size=(6, 12)) + 0.1 * rng.normal(size=(images, 12))
    read = topics[owners] @ rng.normal(size=(6, 8)) + 0.1 * rng.normal(size=(len(owners), 8))
    return Features(seen.astype(np.float32), read.astype(np.float32), owners)


@pytest.mark.parametrize("n", [1, 5])
def test_hits_are_those_of_the_metric_also_with_ties(n: int) -> None:
    rng = np.random.default_rng(n)
    gallery = rng.integers(-1, 2, (40, 3)).astype(np.float32)  # coarse: ties are frequent
    captions = rng.integers(0, 8, 40)
    fits = captions[:, None] == np.arange(8)
    start = rng.integers(0, 40, 30)
    vectors = EditVectors(
        gallery[start], rng.integers(-1, 2, (30, 3)).astype(np.float32), gallery, start,
        rng.integers(0, 8, 30),
    )  # fmt: skip
    hits = edit_hits(vectors, fits, (0.0, 1.0, 2.0), n, "cpu")
    for row, scale in zip(hits, (0.0, 1.0, 2.0), strict=True):
        scores = (vectors.start + scale * vectors.delta) @ gallery.T
        rivals, _ = metrics.count_edit_rivals(scores, start, fits, vectors.targets)
        np.testing.assert_array_equal(row, rivals < n)


@pytest.mark.parametrize("start", STARTS)
def test_both_starts_learn(start: str) -> None:
    settings = HeadSettings(width=8, steps=30, batch_size=32, lr=0.03, drop=0.0)
    heads = train_start(make_features(), start, settings, "cpu")  # type: ignore[arg-type]
    features = make_features()
    with torch.no_grad():
        cosines = (
            heads.embed_images(torch.from_numpy(features.images))
            @ heads.embed_texts(torch.from_numpy(features.texts)).T
        )
    recall = metrics.recalls(cosines.numpy(), features.pairs, (1,))["text_to_image_r1"].mean()
    assert recall > 0.3  # chance is 1/60


def test_random_start_differs_from_the_closed_form() -> None:
    settings = HeadSettings(width=8, steps=1, batch_size=32, lr=1e-9)
    first, second = (train_start(make_features(), it, settings, "cpu") for it in STARTS)
    assert not torch.allclose(first.heads["image.weight"], second.heads["image.weight"])


def test_no_image_is_judged_twice_and_none_is_learnt_from() -> None:
    features = make_features(70)
    marks = {tuple(row): i for i, row in enumerate(features.images)}
    judged: list[int] = []
    dev_of_all = set()
    for seed in range(5):
        train, dev, test = (
            {marks[tuple(row)] for row in part.images} for part in split_blocks(features, seed, 5)
        )
        assert not train & dev
        assert not (train | dev) & test
        judged += test
        dev_of_all |= dev
    assert len(judged) == len(set(judged)) == 50
    assert len(dev_of_all) == 10
    assert not dev_of_all & set(judged)


def test_photo_queries_ask_for_the_image_of_the_nearest_caption() -> None:
    from contrapose.tune.heads.sweep import measure

    features = make_features(40)
    heads = train_start(features, "closed", HeadSettings(width=8, steps=5, batch_size=32), "cpu")
    answer = judge_heads(heads, features, features, "cpu")
    column = PHOTO_SCALES.index(1.0)
    expected = measure(heads, features, scales=(1.0,), resamples=20).deltas[1.0][f"r{DEPTH}"]
    assert float(answer["dev"][column]) == pytest.approx(expected.value, abs=1e-6)


ARMS = (FROZEN, *(f"{start} {tau:g}" for start in STARTS for tau in TAUS))


def write_scene_answers(
    folder: Path, models: Sequence[str] = ("tiny",), arms: Sequence[str] = (FROZEN,)
) -> None:
    kept = KeptAnswers(folder)
    scales = len(SCENE_SCALES)
    for seed in range(3):
        rng = np.random.default_rng(seed)
        kept.once(
            {"part": "scenes", "arm": "queries", "seed": seed},
            lambda rng=rng: {  # type: ignore[misc]
                "weights": rng.uniform(1, 2, 20).astype(np.float32), "gallery": np.array(12),
                "chance_n1": np.full(20, 0.01, np.float32),
                "chance_n5": np.full(20, 0.05, np.float32),
            },
        )  # fmt: skip
        for model in models:
            for arm in arms:
                dev = np.linspace(0, 0.5, scales, dtype=np.float32)
                answer: Answer = {
                    name: np.packbits(rng.random((rows, 20)) < 0.4, axis=1)
                    for base, rows in (
                        ("delta", scales), ("sentence", scales), ("caption", scales), ("text", 1),
                        ("text-delta", 1),
                    )
                    for name in (f"{base}_n1", f"{base}_n5")
                }  # fmt: skip
                answer |= {f"{base}_dev": dev for base in ("delta", "sentence", "caption")}
                answer |= {
                    way: np.packbits(rng.random(12) < 0.5)
                    for way in ("text_to_image", "image_to_text")
                }
                key = {"part": "scenes", "model": model, "arm": arm, "seed": seed}
                kept.once(key, lambda answer=answer: answer)  # type: ignore[misc]


def test_scale_is_chosen_on_the_other_seeds(tmp_path: Path) -> None:
    write_scene_answers(tmp_path)
    answers = DeltaAnswers(KeptAnswers(tmp_path))
    curves = answers.answers["tiny", FROZEN]
    for seed in curves:
        curves[seed]["delta_dev"] = np.zeros(len(SCENE_SCALES), np.float32)
    curves[2]["delta_dev"][SCENE_SCALES.index(3.0)] = 1
    assert answers.chosen_scale("tiny", FROZEN, 0) == 3.0
    assert answers.chosen_scale("tiny", FROZEN, 2) == 1.0  # all equal: the nearest to 1


def test_mean_of_the_kept_values_is_the_weighted_score(tmp_path: Path) -> None:
    write_scene_answers(tmp_path)
    answers = DeltaAnswers(KeptAnswers(tmp_path))
    weights = answers.queries[1]["weights"]
    packed = answers.answers["tiny", FROZEN][1]["delta_n1"]
    hits = np.unpackbits(packed, axis=1, count=20)[3].astype(bool)
    score = metrics.simat_score(hits[:, None], weights).value()
    assert answers.curve("tiny", FROZEN, 1)[:, 3].mean() == pytest.approx(score)


def test_run_is_packed_and_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(delta_claims, "RESAMPLES", 3)
    features = tmp_path / "features"
    features.mkdir()
    for split, part in (("train", make_features(90)), ("test", make_features(30, seed=1))):
        for name in ("images", "texts", "image_of_text"):
            np.save(features / f"{split}_{name}.npy", getattr(part, name))
    kept = KeptAnswers(tmp_path / "kept")
    write_scene_answers(kept.place, MODELS, ARMS)
    for seed in range(2):
        assert not run_photos(
            kept, seed, 2, features, device="cpu", stop_at=float("inf"), smoke=True
        )
    kept.pack(tmp_path / "delta.npz")
    printed = report_study(kept, tmp_path / "docs")
    assert printed == report_study(KeptAnswers(tmp_path / "delta.npz"))
    assert "not testable" not in printed
    for start in STARTS:
        assert (tmp_path / "docs" / f"delta-trade-off-{start}.svg").is_file()
    answers = DeltaAnswers(kept)
    assert len(list(effects(answers))) == 46
    assert answers.seeds(PHOTOS, "random 0.1") == [0, 1]


def test_arms_that_were_not_run_are_said(tmp_path: Path) -> None:
    assert "not run" in report_study(KeptAnswers(tmp_path))


def test_no_arm_begins_too_late(tmp_path: Path) -> None:
    features = tmp_path / "features"
    features.mkdir()
    for split in ("train", "test"):
        for name in ("images", "texts", "image_of_text"):
            np.save(features / f"{split}_{name}.npy", getattr(make_features(30), name))
    status = delta.main(
        ["run", "--keep", str(tmp_path / "kept"), "--features", str(features), "--parts", "photos",
         "--seeds", "2", "--stop-after", "-1"]
    )  # fmt: skip
    assert status == 1
    assert not list((tmp_path / "kept").glob("*.npz"))
