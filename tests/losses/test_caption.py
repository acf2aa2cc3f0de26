from __future__ import annotations

import pytest
import torch

from contrapose.errors import InputError
from contrapose.losses import Captioning, LossBatch
from tests.losses.checks import assert_same, leaves

NONE = torch.zeros(1, 1)
TOKENS = torch.tensor([[1, 4, 2, 0, 0], [1, 3, 3, 4, 2], [1, 2, 0, 0, 0]])


@pytest.mark.parametrize("smoothing", [0.0, 0.1])
@pytest.mark.parametrize("shifted", [False, True])
def test_each_next_token(smoothing: float, shifted: bool) -> None:
    (logits,) = leaves(torch.randn(3, 5, 6, generator=torch.Generator().manual_seed(0)).double())
    ours = Captioning(ignore=0, smoothing=smoothing, shifted=shifted)(
        LossBatch(NONE, NONE, token_logits=logits, tokens=TOKENS)
    )
    total, count = torch.zeros((), dtype=torch.float64), 0
    for b in range(3):
        for k in range(0 if shifted else 1, 5):
            token = int(TOKENS[b, k])
            if token != 0:
                logs = logits[b, k if shifted else k - 1].log_softmax(0)
                total = total - (1 - smoothing) * logs[token] - smoothing * logs.mean()
                count += 1
    assert_same(ours, total / count, (logits,))


def test_nothing_to_say() -> None:
    logits, tokens = torch.zeros(2, 3, 4, requires_grad=True), torch.zeros(2, 3).long()
    loss = Captioning(ignore=0)(LossBatch(NONE, NONE, token_logits=logits, tokens=tokens))
    assert float(loss.detach()) == 0


def test_bad_shapes() -> None:
    with pytest.raises(InputError, match="vocabulary"):
        Captioning()(
            LossBatch(NONE, NONE, token_logits=torch.ones(2, 3, 4), tokens=torch.ones(2, 4).long())
        )
