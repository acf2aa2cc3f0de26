from __future__ import annotations

import pytest
import torch

from contrapose.losses import EqSim, gram_matrices
from contrapose.losses.gram_matrices import GramSums
from tests.losses import naive
from tests.losses.checks import leaves


@pytest.mark.parametrize("chunk", [3, 4096])
def test_sums_and_slopes(chunk: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gram_matrices, "CHUNK_ROWS", chunk)
    image, text = leaves(*naive.features(8))
    s = image @ text.T
    e, d = s.diagonal()[:, None] - s.diagonal(), s - s.T
    expected = [d.square().sum(), e.square().sum(), (e * d).sum()]
    ours = GramSums(image.detach(), text.detach())
    for mine, other in zip([ours.skew(), ours.spread(), ours.cross()], expected, strict=True):
        torch.testing.assert_close(mine, other.detach())
    weights = torch.tensor([0.3, -0.7, 1.9], dtype=torch.float64)
    total = sum(w * it for w, it in zip(weights, expected, strict=True))
    theirs = torch.autograd.grad(total, [image, text])
    torch.testing.assert_close(ours.slopes(*weights), theirs)


def test_nearly_symmetric_similarities_keep_their_digits() -> None:
    """In float32 Grams the loss of 1e-9 would drown in sums of about 1e3."""
    image, noise = naive.features(300, 16)
    text = torch.nn.functional.normalize(image + 1e-4 * noise, dim=1)
    narrow = [it.float() for it in (image, text)]
    inputs = leaves(*narrow)
    wide = leaves(*(it.double() for it in narrow))
    ours, theirs = (EqSim(v2=None)(*it, tile=32, keep=0) for it in (inputs, wide))
    direct = wide[0] @ wide[1].T
    expected = (direct - direct.T).square().sum() / (300 * 299)
    torch.testing.assert_close(theirs, expected, rtol=1e-6, atol=0)
    torch.testing.assert_close(ours.double(), expected, rtol=1e-5, atol=0)
    slopes = torch.autograd.grad(ours, inputs)
    exact = torch.autograd.grad(expected, wide)
    for mine, other in zip(slopes, exact, strict=True):
        assert (mine.double() - other).norm() < 1e-5 * other.norm()
