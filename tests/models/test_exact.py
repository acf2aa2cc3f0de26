"""Asking leaves no gradients and changes no settings for others."""

from __future__ import annotations

import pytest
import torch

from contrapose.models.exact import exact_inference


def test_no_gradients() -> None:
    weight = torch.ones(2, requires_grad=True)
    assert not exact_inference(lambda: weight * 2)().requires_grad


@pytest.mark.parametrize("allowed", [True, False])
def test_float32_means_float32_inside(monkeypatch: pytest.MonkeyPatch, allowed: bool) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    before = torch.backends.cudnn.allow_tf32
    torch.backends.cudnn.allow_tf32 = allowed
    try:
        seen: list[bool] = []

        @exact_inference
        def ask(answer: int) -> int:
            seen.append(torch.backends.cudnn.allow_tf32)
            return 1 // answer

        assert ask(1) == 1
        with pytest.raises(ZeroDivisionError):
            ask(0)
        assert seen == [False, False]
        assert torch.backends.cudnn.allow_tf32 is allowed
    finally:
        torch.backends.cudnn.allow_tf32 = before
