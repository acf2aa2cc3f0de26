"""QuickGELU in one kernel: the same bits as PyTorch's several, or PyTorch's own."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn
from transformers import CLIPConfig, CLIPModel
from transformers.activations import QuickGELUActivation

from contrapose.models import quick_gelu
from contrapose.models.quick_gelu import ROUNDED, FusedQuickGELU, find_kernel, fuse_quick_gelu

CPU = torch.device("cpu")
SMALL = {
    "hidden_size": 16,
    "intermediate_size": 32,
    "num_attention_heads": 2,
    "num_hidden_layers": 2,
}
HALVES = sorted(ROUNDED, key=str)


def clip() -> CLIPModel:
    torch.manual_seed(0)
    return CLIPModel(CLIPConfig(text_config=SMALL, vision_config=SMALL)).eval()


def count_fused(network: nn.Module) -> int:
    return sum(isinstance(module, FusedQuickGELU) for module in network.modules())


def plain(values: Tensor) -> Tensor:
    return values * torch.sigmoid(1.702 * values)


def offer(monkeypatch: pytest.MonkeyPatch, kernel: Callable[[Tensor], Tensor]) -> None:
    monkeypatch.setattr(quick_gelu, "build_kernel", lambda dtype: kernel)
    find_kernel.cache_clear()


def test_networks_of_16_bits_on_a_gpu_have_it() -> None:
    network = clip()
    names = list(network.state_dict())
    for device, dtype in (("cpu", torch.bfloat16), ("cuda", torch.float32)):
        fuse_quick_gelu(network, device, dtype)
        assert count_fused(network) == 0
    fuse_quick_gelu(network, "cuda:1", torch.bfloat16)
    assert count_fused(network) == 4
    fuse_quick_gelu(network, "cuda", torch.float16)
    assert count_fused(network) == 4
    assert list(network.state_dict()) == names
    ids = torch.tensor([[1, 5, 9, 2]])
    assert torch.equal(
        network.get_text_features(ids).pooler_output, clip().get_text_features(ids).pooler_output
    )


def test_gradients_are_those_of_the_plain_module() -> None:
    values = torch.linspace(-3, 3, 50, requires_grad=True)
    (gradient,) = torch.autograd.grad(FusedQuickGELU(QuickGELUActivation())(values).sum(), values)
    (expected,) = torch.autograd.grad(plain(values).sum(), values)
    assert torch.equal(gradient, expected)


@pytest.mark.parametrize("dtype", HALVES)
def test_a_kernel_must_give_the_same_bits(
    dtype: torch.dtype, monkeypatch: pytest.MonkeyPatch
) -> None:
    offer(monkeypatch, plain)
    assert find_kernel(dtype, CPU) is plain
    offer(monkeypatch, lambda values: plain(values.float()).to(dtype))  # rounded once
    assert find_kernel(dtype, CPU) is None
    offer(monkeypatch, lambda values: plain(values).nan_to_num())
    assert find_kernel(dtype, CPU) is None


def test_without_a_compiler_there_is_no_kernel(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(values: Tensor) -> Tensor:
        raise RuntimeError("nvrtc: error")

    offer(monkeypatch, fail)
    assert find_kernel(torch.bfloat16, CPU) is None


@pytest.fixture(autouse=True)
def _forget_kernels() -> None:
    find_kernel.cache_clear()


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
@pytest.mark.parametrize("dtype", HALVES)
def test_every_number_on_a_gpu(dtype: torch.dtype) -> None:
    numbers = torch.arange(1 << 16, device="cuda").to(torch.int16).view(dtype)
    kernel = find_kernel(dtype, numbers.device)
    assert kernel is not None
    torch.testing.assert_close(kernel(numbers), plain(numbers), rtol=0, atol=0, equal_nan=True)
    network = clip().to("cuda", dtype)
    ids = torch.tensor([[1, 5, 9, 2]], device="cuda")
    with torch.no_grad():
        expected = network.get_text_features(ids).pooler_output
        fuse_quick_gelu(network, "cuda", dtype)
        assert torch.equal(network.get_text_features(ids).pooler_output, expected)
