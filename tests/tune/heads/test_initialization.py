"""Where heads begin, and how many steps they go."""

from __future__ import annotations

from itertools import islice

import numpy as np
import pytest
import torch
from torch.nn.functional import normalize

from contrapose.errors import InputError
from contrapose.models.joined import apply_head
from contrapose.tune.heads import Features, train_heads
from contrapose.tune.heads.training import HeadTrainer, fold_whitening
from contrapose.tune.settings import HeadSettings
from tests.tune.heads.made import made


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
