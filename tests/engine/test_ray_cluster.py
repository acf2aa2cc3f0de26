"""Clusters of Ray: room for all workers, addresses that nobody answers, signals."""

from __future__ import annotations

import os
import signal
import socket
from types import SimpleNamespace
from typing import Any

import pytest

from contrapose.engine import ray_cluster
from contrapose.engine.ray_cluster import Machine, connect, list_machines, share_cores
from contrapose.errors import InputError


@pytest.mark.parametrize(
    ("nodes", "workers", "cores"),
    [([8], 2, 4), ([4, 4], 1, 4), ([6, 2], 2, 3), ([6, 2], 3, 2), ([1, 1], 4, 0.5), ([], 2, 1),
     ([0, 2], 2, 1), ([1, 2], 4, 0.5), ([49], 49, 1), ([1], 7, 1 / 7)],
)  # fmt: skip
def test_all_workers_have_room(nodes: list[float], workers: int, cores: float) -> None:
    """A worker of all cores of the cluster would fit on none of its machines."""
    assert share_cores([Machine(node) for node in nodes], workers) == cores


@pytest.mark.parametrize(
    ("nodes", "workers", "per_gpu", "cores"),
    [([(64, 0), (8, 2)], 2, 1, 4), ([(64, 1), (4, 1)], 2, 1, 4), ([(64, 1), (4, 3)], 8, 2, 0.5),
     ([(16, 1)], 4, 4, 4)],
)  # fmt: skip
def test_workers_with_gpus_have_room_beside_these(
    nodes: list[tuple[float, float]], workers: int, per_gpu: int, cores: float
) -> None:
    """The cores of a head without GPUs are none of theirs."""
    assert share_cores([Machine(*node) for node in nodes], workers, per_gpu) == cores


def fake_ray(init: Any) -> Any:
    nodes = [{"Alive": alive, "Resources": {"CPU": 2.0, "GPU": 1.0}} for alive in (True, False)]
    errors = SimpleNamespace(RayError=TimeoutError)
    return SimpleNamespace(
        init=init, exceptions=errors, nodes=lambda: [*nodes, {**nodes[0], "Resources": {}}]
    )


def test_machines() -> None:
    assert list_machines(fake_ray(None)) == [Machine(2, 1), Machine(0, 0)]


def test_a_cluster_that_cannot_be_reached(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    def init(**_: object) -> None:
        os.write(2, b"rpc_client.h:153: no Ray")
        raise ConnectionError("no Ray there\nlong tale")

    ray = fake_ray(init)
    with socket.create_server(("127.0.0.1", 0)) as server:
        address = f"127.0.0.1:{server.getsockname()[1]}"
        monkeypatch.setenv("RAY_ADDRESS", address)
        with pytest.raises(InputError, match=rf"{address} .*no Ray there\).*token"):
            connect(ray)
    assert capfd.readouterr().err == ""
    with pytest.raises(InputError, match=rf"{address} .*refused"):  # nobody listens
        connect(ray)
    monkeypatch.delenv("RAY_ADDRESS")
    for local, why in {"": "on this machine", address: rf"machine, {address}, .*ray stop"}.items():
        monkeypatch.setattr(ray_cluster, "_find_local_cluster", lambda local=local: local)
        with pytest.raises(InputError, match=why):
            connect(ray)


def test_signals_keep_their_effect(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ray sets handlers of its own, under which a command would not end as others do."""
    monkeypatch.delenv("RAY_ADDRESS", raising=False)
    monkeypatch.setattr(ray_cluster, "_find_local_cluster", lambda: "")
    before = signal.signal(signal.SIGTERM, signal.SIG_IGN)
    try:
        connect(fake_ray(lambda **_: signal.signal(signal.SIGTERM, signal.SIG_DFL)))
        assert signal.getsignal(signal.SIGTERM) == signal.SIG_IGN
    finally:
        signal.signal(signal.SIGTERM, before)
