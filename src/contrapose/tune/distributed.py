"""The process group of a `torchrun` job."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager

import torch
import torch.distributed as dist

from contrapose.models.options import find_device


@contextmanager
def process_group(device: str = "auto") -> Iterator[str]:
    """Process group of a torchrun job; yields this process's device.

    Without torchrun there is one process, and nothing is done.
    """
    count = int(os.environ.get("WORLD_SIZE", "1"))
    here = find_device(device)
    if count < 2 or dist.is_initialized():
        yield here
        return
    if here == "cuda":
        here = f"cuda:{os.environ.get('LOCAL_RANK', '0')}"
        torch.cuda.set_device(here)
    dist.init_process_group("nccl" if here.startswith("cuda") else "gloo")
    try:
        yield here
    finally:
        dist.destroy_process_group()
