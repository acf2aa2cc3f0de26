"""Heads: the same by seed, better than where they start, and with the loss of the formula."""

from __future__ import annotations

import math
import sys
from dataclasses import replace
from itertools import islice

import numpy as np
import pytest
import torch
from torch.nn.functional import normalize

from contrapose.errors import InputError
from contrapose.models.joined import apply_head
from contrapose.tune.heads import Features, train_heads
from contrapose.tune.heads.sweep import delta_queries, measure
from contrapose.tune.heads.training import HeadTrainer, canonical_initialization, fold_whitening
from contrapose.tune.heads.vectors import measure_mean_recall
from contrapose.tune.settings import HeadKind, HeadSettings
from tests.tune.heads.made import made

SMALL = HeadSettings(width=12, hidden=16, epochs=4, batch_size=32, drop=0.2)


@pytest.mark.parametrize("kind", ["linear", "mlp"])
def test_the_seed_decides(kind: HeadKind) -> None:
    features = made(40, 3)
    settings = replace(SMALL, kind=kind)
    one, again = (train_heads(features, settings) for _ in range(2))
    other = train_heads(features, replace(settings, seed=1))
    assert one.losses == again.losses
    for name, head in one.heads.items():
        assert torch.equal(head, again.heads[name])
        assert not torch.equal(head, other.heads[name])


def naive_loss(features: Features, training: HeadTrainer, rows: list[int], tau: float) -> float:
    """The loss of a batch by two loops over pairs."""
    images, texts = training.images.double(), training.texts.double()
    heads = {name: head.detach().double() for name, head in training.heads.items()}
    owners = features.image_of_text
    left, right = [], []
    for row in rows:
        image = heads["image.weight"] @ images[owners[row]] + heads["image.bias"]
        text = heads["text.weight"] @ texts[row] + heads["text.bias"]
        left.append(image / image.norm())
        right.append(text / text.norm())
    total = 0.0
    for i in range(len(rows)):
        others = [j for j in range(len(rows)) if j == i or owners[rows[i]] != owners[rows[j]]]
        own = float(left[i] @ right[i]) / tau
        for cosines in (
            [float(left[i] @ right[j]) for j in others],
            [float(left[j] @ right[i]) for j in others],
        ):
            total += math.log(sum(math.exp(cosine / tau) for cosine in cosines)) - own
    return total / (2 * len(rows))


@pytest.mark.parametrize(("images", "each", "size"), [(12, 2, 8), (5, 4, 16)])
def test_a_step_has_the_loss_of_the_formula(images: int, each: int, size: int) -> None:
    """In the second case images must stand in a batch several times: they are no negatives."""
    features = made(images, each)
    settings = HeadSettings(tau=0.2, width=6, epochs=1, batch_size=size, drop=0.0)
    training = HeadTrainer(features, settings, torch.device("cpu"))
    rows = next(HeadTrainer(features, settings, torch.device("cpu")).order).tolist()
    expected = naive_loss(features, training, rows, 0.2)
    found = next(training.steps())
    assert float(found) == pytest.approx(expected, rel=1e-5)


def test_folded_heads_are_those_that_were_trained() -> None:
    features = made(30, 2)
    for kind in ("linear", "mlp"):
        training = HeadTrainer(features, replace(SMALL, kind=kind), torch.device("cpu"))
        list(training.steps())
        from contrapose.models.joined import apply_head

        trained = training.trained()
        inside = normalize(apply_head(training.images, training.heads, "image"), dim=1)
        outside = trained.embed_images(torch.from_numpy(features.images))
        torch.testing.assert_close(outside, inside.detach(), rtol=1e-4, atol=1e-5)


def test_training_learns_what_captions_tell() -> None:
    """Unseen images are found far above chance, and better than from the closed form alone."""
    learnt, unseen = made(400, 3, noise=1.0), made(100, 3, seed=1, noise=1.0)
    settings = HeadSettings(width=16, epochs=20, batch_size=256, drop=0.2)
    trained = train_heads(learnt, settings)
    still = train_heads(learnt, replace(settings, lr=1e-12))
    found, before = measure_mean_recall(trained, unseen), measure_mean_recall(still, unseen)
    assert found > 0.5
    assert found > before
    assert trained.losses[-1] < trained.losses[0]


def test_the_start_is_the_canonical_correlation() -> None:
    """Against the textbook: correlations are the singular values, directions whiten both sides."""
    features = made(200, 1)
    images, texts = (torch.from_numpy(it) for it in (features.images, features.texts))
    start = canonical_initialization(
        images, texts, torch.arange(200), 8, ridges=(1e-9, 1e-9), power=0.0
    )
    left = start.image(images).double() @ start.image_head.double().T
    right = start.text(texts).double() @ start.text_head.double().T
    both = np.corrcoef(left.numpy().T, right.numpy().T)
    assert np.allclose(both[:8, :8], np.eye(8), atol=1e-3)
    assert np.allclose(both[8:, 8:], np.eye(8), atol=1e-3)
    across = both[:8, 8:]
    assert np.allclose(across - np.diag(np.diag(across)), 0, atol=1e-3)
    # The largest correlation of any two directions, by the usual eigenvalue problem.
    x = features.images - features.images.mean(0)
    y = features.texts - features.texts.mean(0)
    inner = np.linalg.solve(x.T @ x, x.T @ y) @ np.linalg.solve(y.T @ y, y.T @ x)
    roots = np.sqrt(np.sort(np.linalg.eigvals(inner).real)[::-1][:8])
    assert np.allclose(np.diag(across), roots, atol=1e-3)


def test_a_held_out_part_chooses_the_epoch() -> None:
    features = made(120, 2, noise=2.0)
    settings = HeadSettings(width=8, epochs=6, batch_size=64, drop=0.0, lr=0.05, hold_out=0.25)
    trained = train_heads(features, settings)
    assert len(trained.held_out) == 6
    best = max(trained.held_out)
    assert trained.held_out[trained.epoch - 1] == best
    kept = np.sort(np.random.default_rng(0).permutation(120)[:30])
    assert measure_mean_recall(trained, features.of_images(kept)) == pytest.approx(best)


def test_deltas_against_a_loop() -> None:
    features = made(15, 2)
    trained = train_heads(features, SMALL)
    images = trained.embed_images(torch.from_numpy(features.images))
    texts = trained.embed_texts(torch.from_numpy(features.texts))
    found = measure(trained, features, scales=(0.0, 1.5), resamples=100)
    raw = normalize(torch.from_numpy(features.texts), dim=1)
    hits = 0
    for caption, own in enumerate(features.image_of_text):
        others = [row for row in range(30) if features.image_of_text[row] != own]
        after = max(others, key=lambda row: float(raw[row] @ raw[caption]))
        query = images[own] + 1.5 * (texts[after] - texts[caption])
        scores = [float(query @ image) if i != own else -9e9 for i, image in enumerate(images)]
        hits += int(np.argmax(scores)) == features.image_of_text[after]
    assert found.deltas[1.5]["r1"].value == pytest.approx(hits / 30)
    assert found.deltas[1.5]["r1"].ci95 is not None
    low, high = found.deltas[1.5]["r1"].ci95
    assert low <= hits / 30 <= high
    assert found.deltas[1.5]["r10"].chance == pytest.approx(10 / 14)
    with pytest.raises(InputError, match="more than 10 images"):
        delta_queries(made(10, 2))


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"tau": 0.0}, "temperature"),
        ({"kind": "deep"}, "linear or mlp"),
        ({"epochs": 0}, "epochs must be"),
        ({"batch_size": 1}, "at least 2"),
        ({"lr": math.nan}, "lr"),
        ({"drop": 1.0}, "below 1"),
        ({"seed": -1}, "seed"),
    ],
)
def test_settings_that_cannot_be(wrong: dict[str, float], said: str) -> None:
    with pytest.raises(InputError, match=said):
        HeadSettings(**wrong)  # type: ignore[arg-type]


def test_what_cannot_be_learnt_from() -> None:
    alike = Features(np.ones((4, 3)), np.ones((4, 3)), np.arange(4))
    with pytest.raises(InputError, match="are alike"):
        train_heads(alike, SMALL)
    with pytest.raises(InputError, match="too few"):
        train_heads(made(4, 1), replace(SMALL, hold_out=0.9))
    with pytest.raises(InputError, match="no longer a number"):
        train_heads(made(40, 3), replace(SMALL, lr=1e38))


def alike() -> Features:
    """Two sides of one width."""
    found = made(30, 2)
    return Features(found.images[:, :14], found.texts, found.image_of_text)


def test_own_heads_change_nothing() -> None:
    features = alike()
    training = HeadTrainer(
        features, HeadSettings(start="own", width=14, drop=0.0), torch.device("cpu")
    )
    heads = fold_whitening(training.heads, training.start)
    for side, rows in (("image", features.images), ("text", features.texts)):
        given = normalize(torch.from_numpy(np.array(rows)), dim=1)
        found = normalize(apply_head(given, heads, side), dim=1)
        torch.testing.assert_close(found, given, rtol=1e-4, atol=1e-5)
    assert heads["image.weight"].square().mean() > 0


def test_own_heads_learn() -> None:
    settings = HeadSettings(start="own", width=14, batch_size=20, epochs=20)
    losses = train_heads(alike(), settings).losses
    assert losses[-1] < losses[0] - 0.1


def test_own_heads_need_one_space() -> None:
    with pytest.raises(InputError, match="20 numbers and captions 14"):
        train_heads(made(9, 1), HeadSettings(start="own"))
    with pytest.raises(InputError, match="canonical or own"):
        HeadSettings(start="other")  # type: ignore[arg-type]


@pytest.mark.parametrize("steps", [1, 7, 40])
def test_so_many_steps(steps: int) -> None:
    """Whatever that is in epochs; the first are those of a longer run but for the rate."""
    settings = HeadSettings(batch_size=16, epochs=2, steps=steps)
    training = HeadTrainer(made(30, 2), settings, torch.device("cpu"))
    assert training.total == steps
    assert len(list(training.steps())) == steps
    assert training.trained().epoch >= 1
    first = HeadTrainer(made(30, 2), HeadSettings(batch_size=16, epochs=2), torch.device("cpu"))
    longer = [float(loss) for loss in islice(first.steps(), 1)]
    again = HeadTrainer(made(30, 2), settings, torch.device("cpu"))
    assert [float(loss) for loss in islice(again.steps(), 1)] == longer
    with pytest.raises(InputError, match="steps must be at least 1"):
        HeadSettings(steps=0)


def test_training_without_held_out_images_needs_no_evaluation(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(sys.modules, "contrapose.tune.heads.vectors", None)  # an import would fail
    assert train_heads(made(40, 3), replace(SMALL, epochs=1)).losses
