"""Cores of this machine that the process may use, and threads that libraries compute with."""

from __future__ import annotations

import os

THREADS = "OMP_NUM_THREADS"
"""Environment variable with the number of threads of BLAS and of PyTorch."""


def count_cores() -> int:
    """Count the cores that this process may use."""
    affinity = getattr(os, "sched_getaffinity", None)  # not on every system
    return len(affinity(0)) if affinity else os.cpu_count() or 1


def count_threads() -> int:
    """Count the threads that BLAS may use: `OMP_NUM_THREADS`, else the cores of this process."""
    given = os.environ.get(THREADS, "")
    return int(given) if given.isdecimal() and int(given) else count_cores()
