"""QuickGELU in one GPU kernel: x · σ(1.702 x), the activation with which CLIP was trained.

PyTorch computes it by three kernels, which read and write the widest activations of a network seven
times in all: a seventh of the time of a ViT-L/14 in bf16. This kernel reads and writes them once,
and rounds after each step as those do.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import torch
from torch import Tensor, nn

PLAIN_NAMES = "QuickGELUActivation", "QuickGELU"
"""Classes of the activation in transformers and open_clip."""

ROUNDED = {torch.bfloat16: "bf16", torch.float16: "f16"}
"""Types of 16 bits, whose numbers can all be tried, and their names in PTX."""

SOURCE = """
template <typename T> T quick_gelu_TYPE(T x) {
    unsigned short bits;
    float scaled, sigmoid;
    asm("cvt.rn.TYPE.f32 %0, %1;" : "=h"(bits) : "f"(1.702f * x));
    asm("cvt.f32.TYPE %0, %1;" : "=f"(scaled) : "h"(bits));
    asm("cvt.rn.TYPE.f32 %0, %1;" : "=h"(bits) : "f"(1.0f / (1.0f + expf(-scaled))));
    asm("cvt.f32.TYPE %0, %1;" : "=f"(sigmoid) : "h"(bits));
    return x * sigmoid;
}
"""


class FusedQuickGELU(nn.Module):
    """QuickGELU to the same bits as another module, by one kernel where a GPU allows it."""

    def __init__(self, plain: nn.Module):
        """Wrap the module that computes it by several kernels."""
        super().__init__()
        self.plain = plain

    def forward(self, values: Tensor) -> Tensor:
        """Compute x · σ(1.702 x); with gradients, in float32 and on a CPU as the plain module."""
        compute: Any = self.plain
        if values.is_cuda and values.dtype in ROUNDED and not torch.is_grad_enabled():
            compute = find_kernel(values.dtype, values.device) or compute
        result: Tensor = compute(values)
        return result


def fuse_quick_gelu(network: nn.Module, device: str, dtype: torch.dtype) -> None:
    """Replace the plain modules of a network that computes in 16 bits on a GPU."""
    if torch.device(device).type != "cuda" or dtype not in ROUNDED:
        return
    plain = [module for module in network.modules() if not isinstance(module, FusedQuickGELU)]
    for module in plain:
        for name, child in list(module.named_children()):
            if type(child).__name__ in PLAIN_NAMES:
                setattr(module, name, FusedQuickGELU(child))


@cache
def find_kernel(dtype: torch.dtype, device: torch.device) -> Any:
    """Build the kernel of a type of 16 bits; None where it does not give PyTorch's own numbers.

    All 65,536 numbers of the type are tried.
    """
    bits = torch.arange(1 << 16, device=device).to(torch.int16)
    numbers = bits.view(dtype)
    expected = numbers * torch.sigmoid(1.702 * numbers)
    try:
        kernel = build_kernel(dtype)
        result = kernel(numbers)
    except Exception:  # no compiler for this GPU
        return None
    alike = torch.equal(result.isnan(), expected.isnan()) and torch.equal(
        result.nan_to_num().view(torch.int16), expected.nan_to_num().view(torch.int16)
    )
    return kernel if alike else None


def build_kernel(dtype: torch.dtype) -> Any:
    """Build the kernel of a type of 16 bits, which is compiled when it is first called."""
    jiterator: Any = torch.cuda.jiterator
    return jiterator._create_jit_fn(SOURCE.replace("TYPE", ROUNDED[dtype]))
