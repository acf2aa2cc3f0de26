from __future__ import annotations

import numpy as np

from contrapose.losses import EqSim, LossBatch
from studies.eqsim_arms import ARMS, CLAIMS, COMPARED
from studies.eqsim_training import EqSimLogits, Sizes, judge_model, make_judging_parts
from tests.losses import naive


def test_every_claim_compares_two_arms() -> None:
    assert CLAIMS.keys() == COMPARED.keys()
    for first, second in COMPARED.values():
        assert {first, second} <= ARMS.keys()
        assert first.partition("/")[0] == second.partition("/")[0]


def test_eqsim_on_logits_is_that_of_scaled_cosines() -> None:
    image, text = naive.features(6)
    batch = LossBatch(image, text, scale=5.0)
    # EqSim is quadratic in the similarities.
    np.testing.assert_allclose(float(EqSimLogits()(batch)), 25 * float(EqSim()(batch)), rtol=1e-6)


def test_right_captions_come_first_and_keys_are_complete() -> None:
    from contrapose.models import load_model

    parts = make_judging_parts(0, Sizes.smoke(), "cpu")
    answer = judge_model(load_model("tiny"), parts, match=True)
    for part in ("swap-attribute", "swap-relation", "replace-color", "replace-relation"):
        scores = answer[part]
        assert (scores[:, 0] > scores[:, 1]).mean() > 0.8  # `tiny` is right nearly always
    assert answer["location"].shape == (6, 2, 2)
    assert {"text_rank", "image_rank"} <= answer.keys()
