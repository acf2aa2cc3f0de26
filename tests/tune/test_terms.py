from __future__ import annotations

import torch

from contrapose.tune.feed import Feed
from contrapose.tune.objective import parse_objective
from contrapose.tune.settings import Settings
from contrapose.tune.step import Lesson
from contrapose.tune.terms import total, weights
from tests.tune.small import small_rows, small_student


def losses(objective: str, *, fusion: bool = False) -> dict[str, torch.Tensor]:
    student = small_student(fusion=fusion)
    settings = Settings(steps=1, batch=6)
    feed = Feed(small_rows(), student, settings, negatives=True, positives=True)
    chosen = parse_objective(objective).for_model(matches=fusion, writes=fusion)
    return Lesson(student, chosen, settings, feed, None, "cpu").backward(feed.batch(0))


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
    assert weights(objective)["eqsim"] == 0.25
    assert weights(objective)["itm_hn"] == 3 * weights(objective)["itm"]
    parts = {"contrast": torch.tensor(1.0), "eqsim": torch.tensor(4.0), "hn": torch.tensor(2.0)}
    assert float(total(objective, parts)) == 1 + 1 + 6
