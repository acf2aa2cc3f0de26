from __future__ import annotations

from dataclasses import replace
from typing import Any, ClassVar

import pytest
import torch

from contrapose.errors import InputError
from contrapose.losses import (
    EqSim,
    EqSimMatch,
    HardPositive,
    InfoNCE,
    LossBatch,
    NegativeInfoNCE,
    Sigmoid,
)
from contrapose.tune.feed import Feed
from contrapose.tune.objective import WeightedLoss, loss_weights, parse_objective, weighted_sum
from contrapose.tune.settings import Settings
from contrapose.tune.step import TrainingStep
from tests.tune.small import small_rows, small_student


def test_parts_and_weights() -> None:
    objective = parse_objective("eqsim=0.2+HN")
    weights = [objective.weight(name) for name in ("eqsim", "hn", "hp")]
    assert (objective.contrast, *weights) == (1.0, 0.2, 1.0, 0.0)
    assert parse_objective("plain").name == "plain"
    assert parse_objective("hp+hn").weight("hp") == 1.0
    assert parse_objective("hp+hn").needs == {"negative", "positive"}


def loss_of(text: str, name: str) -> Any:
    (term,) = (term for term in parse_objective(text).terms if term.name == name)
    return term.loss


def test_forms_of_eqsim() -> None:
    assert loss_of("eqsim", "eqsim") == EqSim()
    assert loss_of("eqsim-paper", "eqsim") == EqSim.paper()
    assert loss_of("eqsim-released", "eqsim") == EqSim.released()


def test_forms_of_hard_positives() -> None:
    assert loss_of("hp", "hp").form == "analogy"
    assert loss_of("hp-even=0.5+hn", "hp").form == "even"
    assert parse_objective("hp-even=0.5+hn").weight("hp") == 0.5


def test_options_of_losses() -> None:
    objective = parse_objective(
        "eqsim=0.2:margin=0.04:Close=4:v2=all:margin_v1=none+hp:symmetric=no"
    )
    assert objective.weight("eqsim") == 0.2
    assert objective.terms[0].loss == EqSim(margin=0.04, close=4, v2="all")
    assert objective.terms[1].loss == HardPositive(symmetric=False)
    assert parse_objective("eqsim-paper:close=2").terms[0].loss == replace(EqSim.paper(), close=2)
    assert objective.as_dict()["settings"]["eqsim"]["margin"] == 0.04


def test_negatives_inside_the_contrastive_softmax() -> None:
    objective = parse_objective("infonce-hn=2+hn")
    assert isinstance(objective.contrastive_loss(small_student()), NegativeInfoNCE)
    assert objective.contrast == 2.0
    assert parse_objective("infonce-hn").needs == {"negative"}
    inside = losses("infonce-hn")
    assert set(inside) == {"contrast"}
    assert inside["contrast"] > losses("plain")["contrast"]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("eqsim:margins=1", "no option.*did you mean margin"),
        ("eqsim:close=four", "close of eqsim.*whole number"),
        ("eqsim:close=1_0", "whole number"),
        ("eqsim:margin=nan", "a number"),
        ("eqsim:margin=-1", "below zero"),
        ("eqsim-match:sampled=0", "1 or more"),
        ("eqsim:sampled=-1", "0 or more"),
        ("eqsim:v2=near", "close or all or none"),
        ("eqsim:close", "written as"),
        ("eqsim:close=2:close=3", "twice"),
        ("hn:margin=1", "takes no options"),
        ("dividend:parts=1", "in Python"),
        ("plain:close=1", "no loss"),
        ("hp-even:symmetric=no", "direction"),
        ("hm", "did you mean"),
        ("hn+hn", "twice"),
        ("eqsim+eqsim-paper", "twice"),
        ("hp+hp-even", "twice"),
        ("hn=zero", "above zero"),
        ("hn=-1", "above zero"),
        ("heads+hn", "alone"),
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
    assert (dual.weight("itm"), dual.weight("lm")) == (0.0, 0.0)
    both = plain.for_model(matches=True, writes=True)
    assert (both.weight("itm"), both.weight("lm")) == (0.5, 1.0)
    named = parse_objective("itm=2").for_model(matches=True, writes=True)
    assert named.weight("itm") == 2.0
    with pytest.raises(InputError, match=r"dividend.*cannot hide words"):
        parse_objective("dividend+hn").for_model(matches=False, writes=False)
    with pytest.raises(InputError, match=r"itm.*does not judge"):
        parse_objective("itm").for_model(matches=False, writes=False)


def losses(objective: str, *, fusion: bool = False) -> dict[str, torch.Tensor]:
    student = small_student(fusion=fusion)
    settings = Settings(steps=1, batch=6)
    chosen = parse_objective(objective).for_model(matches=fusion, writes=fusion)
    feed = Feed(small_rows(), student, settings, needs={"negative", "positive", *chosen.needs})
    return TrainingStep(student, chosen, settings, feed, None, "cpu").backward(feed.batch(0))


def test_a_contrastive_loss_replaces_the_one_of_the_model() -> None:
    objective = parse_objective("sigmoid=0.5+hn")
    assert isinstance(objective.contrastive_loss(small_student()), Sigmoid)
    assert isinstance(parse_objective("hn").contrastive_loss(small_student()), InfoNCE)
    assert (objective.contrast, objective.as_dict()["contrast"]) == (0.5, 0.5)
    assert set(losses("sigmoid+hn")) == {"contrast", "hn"}
    with pytest.raises(InputError, match="two contrastive"):
        parse_objective("sigmoid+infonce")


def test_eqsim_regularizes_match_scores_too() -> None:
    """A model that judges pairs has EqSim on its match scores, with the same options."""
    text = "eqsim=0.3:close=2:sampled=4:margin=0.01:hinge=pair"
    objective = parse_objective(text).for_model(matches=True, writes=True)
    assert (objective.weight("eqsim"), objective.weight("eqsim-match")) == (0.3, 0.3)
    (loss,) = (term.loss for term in objective.terms if term.name == "eqsim-match")
    assert loss == EqSimMatch(sampled=4, close=2, margin=0.01, hinge="pair")
    assert objective.as_dict()["settings"]["eqsim-match"]["sampled"] == 4
    assert losses(text, fusion=True).keys() >= {"eqsim", "eqsim-match"}
    assert losses("eqsim-match=1:sampled=3+itm", fusion=True)["eqsim-match"] > 0
    for plain in ("eqsim:sampled=0", "eqsim+eqsim-match=2"):
        both = parse_objective(plain).for_model(matches=True, writes=False)
        assert both.weight("eqsim-match") == (2.0 if "match" in plain else 0.0)
    assert not parse_objective("eqsim").for_model(matches=False, writes=False).weight("eqsim-match")


class Chooser:
    """A loss that judges pairs of its choice while it is computed."""

    name: ClassVar[str] = "chooser"
    weight: ClassVar[float] = 1.0
    needs: ClassVar[frozenset[str]] = frozenset({"match"})

    def __call__(self, batch: LossBatch) -> torch.Tensor:
        assert batch.match is not None
        return batch.match(torch.arange(2), torch.arange(2)).square().mean()


def test_a_loss_that_chooses_pairs_on_the_way_needs_the_batch_in_one_piece() -> None:
    student = small_student(fusion=True)
    objective = replace(parse_objective("plain"), terms=(WeightedLoss(Chooser(), 1.0),))
    for pieces in (1, 2):
        settings = Settings(steps=1, batch=6, pieces=pieces)
        feed = Feed(small_rows(), student, settings)
        if pieces == 1:
            step = TrainingStep(student, objective, settings, feed, None, "cpu")
            assert step.backward(feed.batch(0))["chooser"] > 0
            continue
        with pytest.raises(InputError, match="chooser needs the whole batch"):
            TrainingStep(student, objective, settings, feed, None, "cpu")


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
