"""Several processes that train together, forked from a server that has imported torch once."""

from __future__ import annotations

import multiprocessing
from collections.abc import Callable

import torch.multiprocessing as mp

PRELOAD = ("torch._dynamo", "tests.losses.job", "tests.tune.pair")
"""Modules that take seconds to import: every process would do it again."""


def start_processes(main: Callable[..., None], count: int, *given: object) -> None:
    """Run `main(rank, count, *given)` in several processes, and wait for them."""
    multiprocessing.set_forkserver_preload(list(PRELOAD))
    mp.start_processes(  # type: ignore[attr-defined,no-untyped-call]
        main, args=(count, *given), nprocs=count, start_method="forkserver"
    )
