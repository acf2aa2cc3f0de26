"""Chat models pass the public suite."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from contrapose.models.conformance import check_model
from contrapose.models.hf.vlm import forward
from tests.models.hf.vlm.small_vlm import FAMILIES, opened


@pytest.fixture(autouse=True)
def _short_replies(monkeypatch: pytest.MonkeyPatch) -> None:
    """Random weights write no end: a reply is as long as it may be."""
    monkeypatch.setattr(forward, "MAX_REPLY_TOKENS", 6)


@pytest.mark.parametrize(
    ("family", "cut"), [("llava", False), ("qwen2_vl", False), ("idefics3", True)]
)
def test_it_conforms(family: str, cut: bool, tmp_path: Path) -> None:
    FAMILIES[family](tmp_path)

    def load() -> Any:
        return opened(tmp_path, cut=cut)

    assert not check_model(load(), load=load).failed


def test_without_packing_it_conforms_too(tmp_path: Path) -> None:
    FAMILIES["llava"](tmp_path)
    model = opened(tmp_path)
    model._decoder = None
    assert not check_model(model).failed


def test_in_half_precision_it_conforms(tmp_path: Path) -> None:
    FAMILIES["llava"](tmp_path)
    assert not check_model(opened(tmp_path, dtype="bf16")).failed
