"""The examples of the page on losses and of the docstrings run, and both name every loss."""

from __future__ import annotations

import doctest
import re
from pathlib import Path
from typing import Any

import pytest
import torch

from contrapose import losses
from contrapose.losses import load_loss, loss_names
from contrapose.losses.registry import ENTRY_POINT_GROUP

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "losses.md").read_text(encoding="utf-8")
FIRST, *REST = PAGE.split("\n## ")
SECTIONS = {text.split("\n", 1)[0]: text for text in REST}
APART = {"Adding a loss"}
GRAMMAR = ["Computes:", "Inputs:", "Requirements:", "When to use:", "Example:"]
MEASURED = {
    "Distill": "repair.md",
    "Dividend": "repair.md",
    "EqSim": "studies/eqsim.md",
    "HardNegative": "studies/positives.md",
    "HardPositive": "studies/positives.md",
    "NegativeInfoNCE": "studies/positives.md",
}
"""Page that says what was measured of a loss."""
CLASSES = sorted({type(load_loss(name)) for name in loss_names()}, key=lambda it: it.__name__)


def code(text: str) -> str:
    (found,) = re.findall(r"```python\n(.*?)```", text, re.DOTALL)
    return str(found)


def namespace() -> dict[str, Any]:
    """What docstrings call features, for a batch of eight pairs."""
    torch.manual_seed(0)
    names: dict[str, Any] = {name: getattr(losses, name) for name in losses.__all__}
    for name in ("image", "text", "negative", "positive"):
        names[name] = torch.nn.functional.normalize(torch.randn(8, 16), dim=1).requires_grad_()
    for name in ("masked", "masked_negative", "choices"):
        unit = torch.nn.functional.normalize(torch.randn(8, 4, 16), dim=2)
        names[name] = unit.requires_grad_()
    names["targets"] = torch.randn(8, 4).softmax(1)
    names["tokens"] = torch.randint(0, 20, (8, 6))
    names["token_logits"] = torch.randn(8, 6, 20, requires_grad=True)
    image, text = names["image"], names["text"]
    names["match"] = lambda images, texts: 5 * (image[images] * text[texts]).sum(1)
    return names


def assert_is_loss(value: Any) -> None:
    assert value.ndim == 0
    assert value.isfinite()
    assert value.requires_grad


def test_every_loss_has_a_section() -> None:
    assert SECTIONS.keys() - APART == {*(it.__name__ for it in CLASSES), "Temperature"}
    for name in loss_names():
        assert f"`{name}`" in FIRST


@pytest.mark.parametrize("name", list(MEASURED))
def test_effects_are_those_measured_here(name: str) -> None:
    """The papers' effects are not stated as facts: docstring and page point to the results."""
    advice = str(getattr(losses, name).__doc__).partition("When to use:")[2]
    page = MEASURED[name]
    assert f"docs/{page}" in advice.partition("Example:")[0]
    assert f"({page}" in SECTIONS[name]


@pytest.mark.parametrize("name", sorted(SECTIONS.keys() - APART))
def test_an_example_of_the_page_runs(name: str) -> None:
    names: dict[str, Any] = {}
    example = code(SECTIONS[name])
    assert len(example.strip().splitlines()) <= 5
    exec(code(FIRST), names)  # noqa: S102 - the page's own
    for value in names.values():
        if isinstance(value, torch.Tensor):
            value.grad = None
    exec(example, names)  # noqa: S102
    assert_is_loss(names["loss"])
    leaves = [it for it in names.values() if isinstance(it, torch.Tensor) and it.is_leaf]
    if "backward()" in example:
        assert any(it.grad is not None and it.grad.abs().sum() > 0 for it in leaves)


@pytest.mark.parametrize("loss", CLASSES, ids=lambda it: it.__name__)
def test_a_docstring_follows_the_grammar_and_its_example_runs(loss: type) -> None:
    text = loss.__doc__ or ""
    positions = [text.find(f"\n    {heading}") for heading in GRAMMAR]
    assert -1 not in positions
    assert positions == sorted(positions)
    example = "\n".join(it.source for it in doctest.DocTestParser().get_examples(text))
    names = namespace()
    exec(example, names)  # noqa: S102
    assert_is_loss(names["loss"])


def test_the_loss_of_the_page_is_one_file() -> None:
    names = namespace()
    section = SECTIONS["Adding a loss"]
    exec(code(section).replace("@register_loss\n", ""), names)  # noqa: S102 - registered elsewhere
    assert f'"{ENTRY_POINT_GROUP}"' in section
    has = torch.arange(8) < 5
    batch = losses.LossBatch(
        names["image"], names["text"], negative=names["negative"], has_negative=has
    )
    assert_is_loss(names["Margin"]()(batch))
