"""The examples of the page on losses run, and it names every loss."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import torch

from contrapose import losses

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "losses.md").read_text(encoding="utf-8")
FIRST, *REST = PAGE.split("\n## ")
SECTIONS = {text.split("\n", 1)[0]: text for text in REST}
APART = {"Distillation"}  # asks a model
HELPERS = {"PRESETS", "Term", "gathered", "mean_of", "pairwise", "processes", "summed"}


def code(text: str) -> str:
    (found,) = re.findall(r"```python\n(.*?)```", text, re.DOTALL)
    return str(found)


def test_every_loss_has_a_section() -> None:
    assert SECTIONS.keys() - APART == set(losses.__all__) - HELPERS


@pytest.mark.parametrize("name", sorted(SECTIONS.keys() - APART))
def test_an_example_runs(name: str) -> None:
    given: dict[str, Any] = {}
    example = code(SECTIONS[name])
    assert len(example.strip().splitlines()) <= 5
    exec(code(FIRST), given)  # noqa: S102 - the page's own
    exec(example, given)  # noqa: S102
    assert given["loss"].ndim == 0
    assert given["loss"].isfinite()
    assert given["loss"].requires_grad
    learnt = [it for it in given.values() if isinstance(it, torch.Tensor) and it.is_leaf]
    if "backward()" in example:
        assert any(it.grad is not None and it.grad.abs().sum() > 0 for it in learnt)
