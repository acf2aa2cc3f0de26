"""Devices and dtypes by name, and which word wins."""

from __future__ import annotations

import pytest
import torch

from contrapose.errors import InputError
from contrapose.models.options import LoadOptions, find_device, load_options


def test_the_name_wins_over_the_option() -> None:
    said = load_options({"dtype": "bf16", "long": "refuse"}, "cpu", "fp16", cut=True)
    assert said == LoadOptions("cpu", "bf16", cut=False)
    unsaid = load_options({}, "cpu", "fp16", cut=True)
    assert unsaid == LoadOptions("cpu", "fp16", cut=True)
    assert load_options({}).dtype == "fp32"


def test_what_belongs_to_a_name() -> None:
    assert LoadOptions().settings() == {}
    assert LoadOptions(dtype="bf16", cut=True).settings() == {"dtype": "bf16", "long": "cut"}
    assert LoadOptions(device="cuda", trust_remote_code=True).settings() == {}


def test_devices(monkeypatch: pytest.MonkeyPatch) -> None:
    assert find_device("cpu") == "cpu"
    for nonsense in ("gpu", "cuda:x", "", "meta"):
        with pytest.raises(InputError, match="use cpu, cuda"):
            find_device(nonsense)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 0)
    assert find_device("auto") == "cpu"
    with pytest.raises(InputError, match="no device 'cuda', no CUDA device is to be had here"):
        find_device("cuda")
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    assert find_device("auto") == "cuda"
    assert find_device("cuda:1") == "cuda:1"
    with pytest.raises(InputError, match="'cuda:2', there are 2 CUDA devices here"):
        find_device("cuda:2")
