"""Exact inference: no gradients, and no TF32 in convolutions."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import ParamSpec, TypeVar

import torch

P = ParamSpec("P")
R = TypeVar("R")


def exact_inference(function: Callable[P, R]) -> Callable[P, R]:
    """Decorator for inference without gradients and without TF32 in convolutions.

    With it, patch embeddings on a GPU would keep ten bits of each number, and the same image could
    differ between batches by more than is allowed.
    """

    @wraps(function)
    def asked(*args: P.args, **kwargs: P.kwargs) -> R:
        with torch.inference_mode():
            if not torch.cuda.is_available():
                return function(*args, **kwargs)
            backend = torch.backends.cudnn
            allowed = backend.allow_tf32
            backend.allow_tf32 = False
            try:
                return function(*args, **kwargs)
            finally:
                backend.allow_tf32 = allowed

    return asked
