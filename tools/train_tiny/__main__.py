"""Train the built-in weights again: `python -m tools.train_tiny tiny tiny-clip --out DIR`."""

from __future__ import annotations

import argparse
import json
import math
import sys
from collections.abc import Callable
from contextlib import closing
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import torch

from contrapose.models.tiny.model import Tiny, TinyClip
from contrapose.models.tiny.network import TinyConfig, TinyNetwork, Tokenizer
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
"""Training phases of the shipped weights."""


def main(arguments: list[str] | None = None) -> None:
    """Train, log, probe and write the chosen models."""
    chosen = _parse_arguments(arguments)
    chosen.out.mkdir(parents=True, exist_ok=True)
    with (chosen.out / "log.jsonl").open("a") as log:

        def write_log(**values: Any) -> None:
            line = json.dumps(values) + "\n"
            for stream in (log, sys.stdout):
                stream.write(line)
                stream.flush()

        for name in chosen.names:
            _train_model(name, chosen, write_log)


def _train_model(name: str, chosen: argparse.Namespace, write_log: Callable[..., None]) -> None:
    changed = {
        slot: value
        for slot in ("steps", "scenes", "batch")
        if (value := getattr(chosen, slot)) is not None
    }
    phases = [replace(phase, **changed) for phase in PHASES[name]]
    for phase in phases:
        if phase.batch > phase.scenes:
            sys.exit(f"a batch of {phase.batch} needs as many scenes, not {phase.scenes}.")
    torch.set_float32_matmul_precision("high")
    torch.manual_seed(phases[0].seed)
    network = TinyNetwork(CONFIGS[name]).to(chosen.device).train()
    done: list[int] = []
    if chosen.weights is not None:
        network.load_state_dict(read_weights(chosen.weights)[0].state_dict())
        done += read_recipe(chosen.weights)["steps_done"]
    for number, phase in list(enumerate(phases))[len(done) :]:
        write_log(model=name, phase=number, **asdict(phase))
        checkpoint = None
        if chosen.keep is not None:
            chosen.keep.mkdir(parents=True, exist_ok=True)
            checkpoint = chosen.keep / f"{name}-{number}.pt"
        source = generate_scenes(
            phase.seed, chosen.device, workers=chosen.workers, block=min(4096, 2 * phase.scenes)
        )
        with closing(source):
            done.append(
                train(
                    network, TrainSet(phase.scenes, source), phase, checkpoint=checkpoint,
                    stop_after=chosen.stop_after, compiled=chosen.compile,
                    log=lambda values: write_log(model=name, **values),
                )
            )  # fmt: skip
    network.eval()
    kind = TinyClip if network.fusion is None else Tiny
    accuracies = probe(kind(name, network, VOCABULARY, "in training"), chosen.probe)
    write_log(model=name, steps=done, probe=accuracies)
    recipe = {
        "phases": [asdict(phase) for phase in phases],
        "steps_done": done,
        "probe": accuracies,
    }
    write_weights(chosen.out / f"{name}.safetensors", network, VOCABULARY, recipe)


def _parse_arguments(arguments: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tools.train_tiny", description=__doc__)
    parser.add_argument("names", nargs="+", choices=tuple(CONFIGS))
    parser.add_argument("--out", type=Path, required=True, help="Where weights and log go.")
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--steps", type=int, help="Other than the recipe's, in every phase.")
    parser.add_argument("--scenes", type=int, help="Other than the recipe's, in every phase.")
    parser.add_argument("--batch", type=int, help="Other than the recipe's, in every phase.")
    parser.add_argument("--workers", type=int, default=8, help="Processes that make captions.")
    parser.add_argument("--probe", type=int, default=300, help="Examples per change.")
    parser.add_argument("--stop-after", type=float, default=math.inf, help="Seconds per phase.")
    parser.add_argument("--compile", action="store_true", help="Let torch compile the blocks.")
    parser.add_argument("--keep", type=Path, help="Folder of checkpoints to go on from.")
    parser.add_argument("--weights", type=Path, help="Begin after the phases these have seen.")
    return parser.parse_args(arguments)


if __name__ == "__main__":
    main()
