"""`python -m contrapose.world.train tiny tiny-clip --out DIR` makes the built-in weights again."""

from __future__ import annotations

import argparse
import json
import math
import sys
from contextlib import closing
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import torch

from contrapose.models.tiny.model import Tiny, TinyClip
from contrapose.models.tiny.network import Config, Network
from contrapose.models.tiny.tokeniser import Tokeniser
from contrapose.models.tiny.weights import read_recipe, read_weights, write_weights
from contrapose.world.captions import VOCABULARY
from contrapose.world.train.data import TrainSet
from contrapose.world.train.loop import Recipe, train
from contrapose.world.train.probe import probe
from contrapose.world.train.supply import supply

SIZE = len(Tokeniser(VOCABULARY))
CONFIGS = {
    "tiny": Config(SIZE),
    "tiny-clip": Config(SIZE, width=160, heads=5, image_layers=4, text_layers=2, fusion_layers=0),
}
RECIPES = {
    "tiny": (
        Recipe(
            scenes=600_000, first=40_000, new=60, steps=9_927, batch=1024, judged=256, warm=500
        ),
        Recipe(
            scenes=200_000, first=60_000, new=60, steps=3_200, batch=4096, warm=200, seed=2,
            frozen=True,
        ),
    ),
    "tiny-clip": (
        Recipe(
            scenes=80_000, first=80_000, new=0, steps=5_700, batch=128, warm=300,
            patches=False, places=False,
        ),
    ),
}  # fmt: skip
"""The phases of each model: what the shipped weights were made with."""


def main(arguments: list[str] | None = None) -> None:
    """Train, log, probe, write."""
    chosen = _arguments(arguments)
    chosen.out.mkdir(parents=True, exist_ok=True)
    with (chosen.out / "log.jsonl").open("a") as log:

        def say(**what: Any) -> None:
            line = json.dumps(what) + "\n"
            for stream in (log, sys.stdout):
                stream.write(line)
                stream.flush()

        for name in chosen.names:
            _make(name, chosen, say)


def _make(name: str, chosen: argparse.Namespace, say: Any) -> None:
    changed = {
        slot: value
        for slot in ("steps", "scenes", "batch")
        if (value := getattr(chosen, slot)) is not None
    }
    phases = [replace(recipe, **changed) for recipe in RECIPES[name]]
    for recipe in phases:
        if recipe.batch > recipe.scenes:
            sys.exit(f"a batch of {recipe.batch} needs as many scenes, not {recipe.scenes}.")
    torch.set_float32_matmul_precision("high")
    torch.manual_seed(phases[0].seed)
    network = Network(CONFIGS[name]).to(chosen.device).train()
    done: list[int] = []
    if chosen.weights is not None:
        network.load_state_dict(read_weights(chosen.weights)[0].state_dict())
        done += read_recipe(chosen.weights)["steps_done"]
    for number, recipe in list(enumerate(phases))[len(done) :]:
        say(model=name, phase=number, **asdict(recipe))
        keep = None
        if chosen.keep is not None:
            chosen.keep.mkdir(parents=True, exist_ok=True)
            keep = chosen.keep / f"{name}-{number}.pt"
        source = supply(
            recipe.seed, chosen.device, workers=chosen.workers, block=min(4096, 2 * recipe.scenes)
        )
        with closing(source):
            done.append(
                train(
                    network, TrainSet(recipe.scenes, source), recipe, checkpoint=keep,
                    stop_after=chosen.stop_after, compiled=chosen.compile,
                    log=lambda values: say(model=name, **values),
                )
            )  # fmt: skip
    network.eval()
    kind = TinyClip if network.fusion is None else Tiny
    found = probe(kind(name, network, VOCABULARY, "in training"), chosen.probe)
    say(model=name, steps=done, probe=found)
    recipe_done = {"phases": [asdict(each) for each in phases], "steps_done": done, "probe": found}
    write_weights(chosen.out / f"{name}.safetensors", network, VOCABULARY, recipe_done)


def _arguments(arguments: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m contrapose.world.train", description=__doc__)
    parser.add_argument("names", nargs="+", choices=tuple(CONFIGS))
    parser.add_argument("--out", type=Path, required=True, help="Where weights and log go.")
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--steps", type=int, help="Other than the recipe's, in every phase.")
    parser.add_argument("--scenes", type=int, help="Other than the recipe's, in every phase.")
    parser.add_argument("--batch", type=int, help="Other than the recipe's, in every phase.")
    parser.add_argument("--workers", type=int, default=8, help="Processes that make captions.")
    parser.add_argument("--probe", type=int, default=300, help="Examples a change.")
    parser.add_argument("--stop-after", type=float, default=math.inf, help="Seconds a phase.")
    parser.add_argument("--compile", action="store_true", help="Let torch compile the blocks.")
    parser.add_argument("--keep", type=Path, help="Folder of checkpoints to go on from.")
    parser.add_argument("--weights", type=Path, help="Begin after the phases these have seen.")
    return parser.parse_args(arguments)


if __name__ == "__main__":
    main()
