from __future__ import annotations

import pytest

from contrapose.errors import InputError
from contrapose.tune.losses.eqsim import EqSim
from contrapose.tune.objective import parse_objective


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
