"""Surface of temperature and λ: the queries of `tune heads`, with torch alone."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from contrapose.tune.heads.sweep import measure
from contrapose.tune.heads.training import train_heads
from contrapose.tune.settings import HeadSettings
from studies import delta_surface
from tests.tune.heads.made import made
from tests.tune.heads.test_features import write

BLOCK = """
import sys
class Block:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in ("pydantic", "typer", "rich", "pyarrow"):
            raise ImportError(name)
sys.meta_path.insert(0, Block())
from studies.delta_surface import main
main()
"""


def test_hits_are_those_of_tune_heads() -> None:
    features = made(40, 2)
    heads = train_heads(features, HeadSettings(tau=0.1, epochs=2, width=8, batch_size=16))
    hits = delta_surface.measure_hits(heads.heads, features)
    deltas = measure(heads, features, scales=(0.0, 1.0, 3.0), resamples=10).deltas
    for scale, values in deltas.items():
        assert hits[scale].mean() == pytest.approx(values["r10"].value)


def test_the_surface_needs_torch_alone(tmp_path: Path) -> None:
    (tmp_path / "features").mkdir()
    write(tmp_path / "features", "train", made(40, 2))
    write(tmp_path / "features", "test", made(30, 2, seed=1))
    command = ["--features", str(tmp_path / "features"), "--out", str(tmp_path / "out")]
    command += ["--epochs", "1", "--no-plot"]
    done = subprocess.run(  # noqa: S603
        [sys.executable, "-c", BLOCK, *command], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    result = json.loads((tmp_path / "out" / "surface.json").read_text())
    assert set(result["surface"]) == {"0.01", "0.03", "0.1", "0.3", "1"}
    assert (result["paper"]["tau"], result["paper"]["lambda"]) == (0.1, 1.0)
    low, high = result["difference"]["ci95"]
    assert low <= result["difference"]["value"] <= high
    assert not (tmp_path / "out" / "surface.svg").exists()


def test_the_winner_is_chosen_and_judged_on_different_images() -> None:
    """A point that is right on the images that choose, and wrong on the others, wins and loses."""
    owners = np.repeat(np.arange(100), 3)
    chosen = np.random.default_rng(0).permutation(100) < 50
    never = np.zeros(300, dtype=np.bool_)
    hits = {(tau, scale): never for tau in delta_surface.TAUS for scale in delta_surface.SCALES}
    hits[0.3, 2.0] = chosen[owners]
    hits[delta_surface.PAPER] = ~chosen[owners]
    result = delta_surface.judge(hits, owners)
    assert (result["best"]["tau"], result["best"]["lambda"]) == (0.3, 2.0)
    assert result["best"]["value"] == 0.0
    assert result["difference"] == {"value": -1.0, "ci95": [-1.0, -1.0]}
