"""How a model is to be loaded: what comes after the `?` of its name, or from options."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, cast, get_args

from contrapose.errors import InputError

if TYPE_CHECKING:
    import torch

Dtype = Literal["fp32", "bf16", "fp16"]
DTYPES: tuple[str, ...] = get_args(Dtype)
_ALIASES = {"float32": "fp32", "bfloat16": "bf16", "float16": "fp16", "half": "fp16"}


@dataclass(frozen=True, slots=True)
class LoadOptions:
    """How a model is loaded.

    Attributes:
        device: `cpu`, `cuda`, `cuda:1`, …
        dtype: what it computes in; scores are float32 or wider whatever this is.
        cut: cut captions that are longer than the model reads, rather than refuse them.
        trust_remote_code: run code that comes with the weights; off unless the user asks.
    """

    device: str = "cpu"
    dtype: Dtype = "fp32"
    cut: bool = False
    trust_remote_code: bool = False

    @property
    def torch_dtype(self) -> torch.dtype:
        """The same for torch."""
        import torch

        return {"fp32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}[self.dtype]


def parse_dtype(text: str) -> Dtype:
    """A dtype by its short or its torch name.

    Raises:
        InputError: it is none.
    """
    name = _ALIASES.get(text.lower().removeprefix("torch."), text.lower())
    if name not in DTYPES:
        raise InputError(f"there is no dtype {text!r}; there are {', '.join(DTYPES)}.")
    return cast(Dtype, name)
