"""Cluster of Ray: the connection to it, and the cores and GPUs of its machines."""

from __future__ import annotations

import os
import signal
import socket
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import dataclass
from importlib import import_module
from typing import Any

from contrapose.cores import count_threads
from contrapose.errors import InputError, first_line

MAX_PER_CORE = 16
"""Workers that share a core at the most; each is a process with a model."""

ADDRESS = "RAY_ADDRESS"
"""Environment variable with the address of a cluster."""

CONNECT_SECONDS = 10.0
"""Seconds after which a cluster whose port does not answer is given up; Ray tries for minutes."""


@dataclass(frozen=True, slots=True)
class Machine:
    """Machine of a cluster: its cores and GPUs."""

    cores: float
    gpus: float = 0

    def count_workers(self, cores: float, per_gpu: int = 0) -> int:
        """Count the workers for which there is room.

        Args:
            cores: cores of a worker.
            per_gpu: workers on one GPU; 0 where they need none.
        """
        room = int(self.cores / cores + 1e-6)
        return min(room, int(self.gpus) * per_gpu) if per_gpu else room


def threads_of_workers() -> int:
    """Threads with which this process computes: those of PyTorch where it is used, or of BLAS."""
    torch: Any = sys.modules.get("torch")
    return count_threads() if torch is None else int(torch.get_num_threads())


def list_machines(ray: Any) -> list[Machine]:
    """List the machines of the cluster that are there."""
    alive = [one["Resources"] for one in ray.nodes() if one["Alive"]]
    return [Machine(one.get("CPU", 0.0), one.get("GPU", 0.0)) for one in alive]


def share_cores(machines: Sequence[Machine], workers: int, per_gpu: int = 0) -> float:
    """Cores of a worker, as many as let all workers find room; part of one where there are few.

    Args:
        machines: those of the cluster.
        workers: number of workers.
        per_gpu: workers on one GPU; 0 where they need none.
    """
    largest = int(max((machine.cores for machine in machines), default=0))
    shares = [*map(float, range(largest, 0, -1)), *(1 / k for k in range(2, MAX_PER_CORE + 1))]
    for cores in shares:
        if sum(machine.count_workers(cores, per_gpu) for machine in machines) >= workers:
            return cores
    return shares[-1] if largest else 1.0


@contextmanager
def _stderr_dropped() -> Iterator[None]:
    """Drop what libraries in other languages write to the standard error of this process."""
    before, nothing = os.dup(2), os.open(os.devnull, os.O_WRONLY)
    os.dup2(nothing, 2)
    try:
        yield
    finally:
        os.dup2(before, 2)
        os.close(before)
        os.close(nothing)


@contextmanager
def _sigterm_kept() -> Iterator[None]:
    """Keep what this process does at SIGTERM; Ray would print a trace and leave it unanswered."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.getsignal(signal.SIGTERM)
    try:
        yield
    finally:
        if before is not None:
            signal.signal(signal.SIGTERM, before)


def let_ray_print(value: bool) -> None:
    """Let Ray print messages of workers that die to the standard output of this process, or not."""
    with suppress(ImportError):  # no public part of Ray
        worker: Any = import_module("ray._private.worker")
        worker._worker_logs_enabled = value


def _find_local_cluster() -> str:
    """Find the address of the cluster that `ray start` began on this machine; empty for none."""
    with suppress(ImportError, AttributeError, OSError):  # no public part of Ray
        utils: Any = import_module("ray._private.utils")
        return str(utils.read_ray_address() or "")
    return ""


def connect(ray: Any) -> None:
    """Connect to Ray, or start it on this machine.

    Raises:
        InputError: it cannot be reached.
    """
    address = os.environ.get(ADDRESS, "")
    local = "" if address else _find_local_cluster()
    host, _, port = (address or local).rpartition("://")[2].rpartition(":")
    try:
        if port.isdecimal():
            socket.create_connection((host.strip("[]"), int(port)), CONNECT_SECONDS).close()
        with _sigterm_kept(), _stderr_dropped() if address else nullcontext():  # a line an attempt
            ray.init(include_dashboard=False, log_to_driver=False, logging_level="ERROR")
    except (OSError, OverflowError, RuntimeError, ValueError, ray.exceptions.RayError) as error:
        if address:
            why = f"{ADDRESS}={address} cannot be reached ({first_line(error)}); a cluster with "
            why += "tokens needs RAY_AUTH_MODE=token and its token."
        elif local:
            why = f"the Ray cluster of this machine, {local}, cannot be reached "
            why += f"({first_line(error)}); where it has died, `ray stop` forgets it."
        else:
            why = f"Ray cannot be started or reached on this machine ({first_line(error)})."
        raise InputError(why) from error
    let_ray_print(False)
