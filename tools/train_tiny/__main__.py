"""Train the built-in weights again: `python -m tools.train_tiny tiny tiny-clip --out DIR`."""

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
from contrapose.models.tiny.network import TinyConfig, TinyNetwork
from contrapose.models.tiny.tokenizer import Tokenizer
from contrapose.models.tiny.weights import read_recipe, read_weights, write_weights
from contrapose.world.captions import VOCABULARY
from tools.train_tiny.data import TrainSet, generate_scenes
from tools.train_tiny.probe import probe
from tools.train_tiny.trainer import TrainingPhase, train

VOCABULARY_SIZE = len(Tokenizer(VOCABULARY))
CONFIGS = {
    "tiny": TinyConfig(VOCABULARY_SIZE),
    "tiny-clip": TinyConfig(
        VOCABULARY_SIZE, width=160, heads=5, image_layers=4, text_layers=2, fusion_layers=0
    ),
}
PHASES = {
    "tiny": (
        TrainingPhase(
            scenes=600_000, first=40_000, new=60, steps=9_927, batch=1024, judged=256, warm=500
        ),
        TrainingPhase(
            scenes=200_000, first=60_000, new=60, steps=3_200, batch=4096, warm=200, seed=2,
            frozen=True,
        ),
    ),
    "tiny-clip": (
        TrainingPhase(
            scenes=80_000, first=80_000, new=0, steps=5_700, batch=128, warm=300,
            patches=False, places=False,
        ),
    ),
}  # fmt: skip
"""The phases of each model: what the shipped weights were made with."""


def main(arguments: list[str] | None = None) -> None:
    """Train, log, probe and write the chosen models."""
    chosen = _parse_arguments(arguments)
    chosen.out.mkdir(parents=True, exist_ok=True)
    with (chosen.out / "log.jsonl").open("a") as log:

        def say(**what: Any) -> None:
            line = json.dumps(what) + "\n"
            for stream in (log, sys.stdout):
                stream.write(line)
                stream.flush()

        for name in chosen.names:
            _train_model(name, chosen, say)


def _train_model(name: str, chosen: argparse.Namespace, say: Any) -> None:
    changed = {
        slot: value
        for slot in ("steps", "scenes", "batch")
        if (value := getattr(chosen, slot)) is not None
    }
    phases = [replace(recipe, **changed) for recipe in PHASES[name]]
    for recipe in phases:
        if recipe.batch > recipe.scenes:
            sys.exit(f"a batch of {recipe.batch} needs as many scenes, not {recipe.scenes}.")
    torch.set_float32_matmul_precision("high")
    torch.manual_seed(phases[0].seed)
    network = TinyNetwork(CONFIGS[name]).to(chosen.device).train()
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
        source = generate_scenes(
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


def _parse_arguments(arguments: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tools.train_tiny", description=__doc__)
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
