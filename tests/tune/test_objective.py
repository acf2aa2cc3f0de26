from __future__ import annotations

import pytest
import torch

from contrapose.errors import InputError
from contrapose.losses.eqsim import EqSim
from contrapose.tune.feed import Feed
from contrapose.tune.objective import loss_weights, parse_objective, weighted_sum
from contrapose.tune.settings import Settings
from contrapose.tune.step import TrainingStep
from tests.tune.small import small_rows, small_student


def test_parts_and_weights() -> None:
    found = parse_objective("eqsim=0.2+HN")
    assert (found.contrast, found.eqsim, found.hn, found.hp) == (1.0, 0.2, 1.0, 0.0)
    assert parse_objective("plain").name == "plain"
    assert parse_objective("hp+hn").hp == 1.0


def test_forms_of_eqsim() -> None:
    assert parse_objective("eqsim").regulariser == EqSim()
    assert parse_objective("eqsim-paper").regulariser == EqSim.paper()
    assert parse_objective("eqsim-released").regulariser == EqSim.released()


def test_forms_of_hard_positives() -> None:
    assert parse_objective("hp").positive.form == "analogy"
    assert parse_objective("hp-even=0.5+hn").positive.form == "even"
    assert parse_objective("hp-even=0.5+hn").hp == 0.5


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("hm", "did you mean"),
        ("hn+hn", "twice"),
        ("eqsim+eqsim-paper", "twice"),
        ("hp+hp-even", "twice"),
        ("hn=zero", "above zero"),
        ("hn=-1", "above zero"),
        ("heads+hn", "stands alone"),
        ("head", "did you mean heads"),
        ("", "no loss"),
    ],
)
def test_what_is_not_understood(text: str, said: str) -> None:
    with pytest.raises(InputError, match=said):
        parse_objective(text)


def test_models_decide_what_is_left_open() -> None:
    plain = parse_objective("plain")
    dual = plain.for_model(matches=False, writes=False)
    assert (dual.itm, dual.lm) == (0.0, 0.0)
    both = plain.for_model(matches=True, writes=True)
    assert both.itm
    assert both.lm
    with pytest.raises(InputError, match="cannot hide words, which --with dividend needs"):
        parse_objective("dividend+hn").for_model(matches=False, writes=False)
    with pytest.raises(InputError, match="nothing that --with itm"):
        parse_objective("itm").for_model(matches=False, writes=False)


def losses(objective: str, *, fusion: bool = False) -> dict[str, torch.Tensor]:
    student = small_student(fusion=fusion)
    settings = Settings(steps=1, batch=6)
    feed = Feed(small_rows(), student, settings, negatives=True, positives=True)
    chosen = parse_objective(objective).for_model(matches=fusion, writes=fusion)
    return TrainingStep(student, chosen, settings, feed, None, "cpu").backward(feed.batch(0))


def test_contrast_is_that_of_the_formula() -> None:
    student = small_student()
    batch = Feed(small_rows(), student, Settings(steps=1, batch=6)).batch(0)
    image, text = student.see(batch.pixels).vectors, student.read(batch.text)
    logits = student.network.log_scale.exp() * image @ text.T
    same = batch.captions[:, None] == batch.captions
    logits = logits.masked_fill(same & ~torch.eye(6, dtype=torch.bool), -torch.inf)
    both = logits.log_softmax(1).diagonal() + logits.log_softmax(0).diagonal()
    torch.testing.assert_close(losses("plain")["contrast"], -both.mean().detach() / 2)


def test_each_part_adds_its_loss() -> None:
    assert set(losses("plain")) == {"contrast"}
    assert set(losses("hp+hn")) == {"contrast", "hn", "hp"}
    assert set(losses("eqsim+hn")) == {"contrast", "eqsim", "hn"}
    assert set(losses("plain", fusion=True)) == {"contrast", "itm", "lm"}
    hard = {"contrast", "hn", "hp", "itm", "itm_hn", "itm_hp", "lm"}
    assert set(losses("hp+hn", fusion=True)) == hard


def test_weights_are_those_of_the_objective() -> None:
    objective = parse_objective("eqsim=0.25+hn=3").for_model(matches=True, writes=False)
    assert loss_weights(objective)["eqsim"] == 0.25
    assert loss_weights(objective)["itm_hn"] == 3 * loss_weights(objective)["itm"]
    parts = {"contrast": torch.tensor(1.0), "eqsim": torch.tensor(4.0), "hn": torch.tensor(2.0)}
    assert float(weighted_sum(objective, parts)) == 1 + 1 + 6
