"""How long a diagnosis of VG-Relation-like examples takes, and what it asks of the model.

    python benchmarks/diagnose.py                                    # 40 examples, on the CPU
    python benchmarks/diagnose.py --device cuda --examples 2000      # CLIP-B/32's size
    python benchmarks/diagnose.py --shape small --examples 500       # a small CLIP, for the rest

Each example is a JPEG of 500 × 375 with two boxes, a caption “the X is REL the Y”, and the same
with X and Y exchanged. The words O and R play, or these and the regions O1 and O2. The model is a
CLIP of random weights, loaded as a downloaded one; files are opened, decoded and preprocessed
within the clock, and nothing is cached. Beside the seconds: the encodings made, the naive count
(two for every score of every game asked by itself), milliseconds an example, and what the
statistics take with 10,000 resamples.

Needs torch, transformers, pillow and pyarrow; not pydantic, nor CLIP's own merges.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "src"))
sys.path.insert(0, str(Path(__file__).resolve().parent))

from scorejob.weights import SHAPES, _image_processor

from contrapose.data import Example, ImageRef
from contrapose.data.examples import single_match
from contrapose.diagnose.findings import derive_findings
from contrapose.diagnose.games import play_games
from contrapose.diagnose.metrics import diagnose_blocks
from contrapose.diagnose.players import GameSide, MissingPlayers, RegionMasks
from contrapose.diagnose.words import TemplateWords
from contrapose.engine import RegionMask, ScoringContext
from contrapose.models import load_model

WIDTH, HEIGHT = 500, 375
THINGS = (
    "horse", "man", "dog", "car", "tree", "shirt", "table", "plate", "bench", "train", "window",
    "boat", "child", "wall", "umbrella", "elephant",
)  # fmt: skip
RELATIONS = ("to the left of", "to the right of", "behind", "riding", "on", "wearing", "under")
SMALL: dict[str, Any] = {
    "projection_dim": 32,
    "text_config": {"hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2,
                    "num_attention_heads": 2, "projection_dim": 32},
    "vision_config": {"hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2,
                      "num_attention_heads": 2, "patch_size": 32, "projection_dim": 32},
}  # fmt: skip
END = 49407
"""The number of CLIP's last token, at which a caption's vector is read."""


@dataclass(frozen=True)
class Boxes:
    """Two boxes of every image."""

    name: str = "two boxes"
    joint: bool = True

    def find(self, examples: Sequence[Example]) -> list[Sequence[RegionMasks] | MissingPlayers]:
        """The same for all."""
        found = {}
        for name, left in (("O1", 40), ("O2", 280)):
            mask = np.zeros((HEIGHT, WIDTH), dtype=np.bool_)
            mask[90:290, left : left + 180] = True
            found[name] = RegionMask.of(mask)
        return [[found]] * len(examples)


def main() -> None:
    asked = _arguments()
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        examples = make_examples(folder, asked.examples)
        model = load_model(
            str(make_weights(folder / "weights", asked.shape)),
            device=asked.device,
            dtype=asked.dtype,
        )
        print(f"{asked.shape}, {asked.dtype}, {_machine(asked.device)}; {len(examples):,} examples")
        play_games(ScoringContext(model), "itc", examples[:8], TemplateWords(), Boxes())
        print(f"{'side':>6} {'players':>8} {'encodings':>10} {'naive':>9} {'ratio':>6} "
              f"{'games, s':>9} {'ms each':>8} {'statistics, s':>14}")  # fmt: skip
        for side, players in asked.sides:
            measure(model, examples, side, players)


def measure(model: Any, examples: list[Example], side: GameSide, players: str) -> None:
    """One line of the table."""
    start = time.perf_counter()
    played = play_games(ScoringContext(model), "itc", examples, TemplateWords(), Boxes(), side=side)
    games = time.perf_counter() - start
    left = [each for block in played for each in block.left_out]
    if left:
        raise SystemExit(f"{len(left)} examples were left out: {left[0].reason}")
    start = time.perf_counter()
    derive_findings(diagnose_blocks(played))
    statistics = time.perf_counter() - start
    made = sum(block.encodings for block in played)
    naive = sum(block.naive for block in played)
    print(f"{side:>6} {players:>8} {made:>10,} {naive:>9,} {naive / made:>6.1f} {games:>9.2f} "
          f"{1e3 * games / len(examples):>8.2f} {statistics:>14.2f}", flush=True)  # fmt: skip


def make_examples(folder: Path, count: int) -> list[Example]:
    """Examples of their own images; captions repeat as those of a few things and relations do."""
    random = np.random.default_rng(0)
    found = []
    for i in range(count):
        coarse = random.integers(0, 256, (12, 16, 3), dtype=np.uint8)
        path = folder / f"{i}.jpg"
        large = Image.fromarray(coarse).resize((WIDTH, HEIGHT), Image.Resampling.BICUBIC)
        large.save(path, quality=85)
        one, other = random.choice(THINGS, 2, replace=False).tolist()
        relation = str(random.choice(RELATIONS))
        texts = (f"the {one} is {relation} the {other}", f"the {other} is {relation} the {one}")
        ref = ImageRef(path.name, path)
        found.append(Example(str(i), (ref,), texts, single_match(2, 0), {"relation": relation}))
    return found


def make_weights(folder: Path, shape: str) -> Path:
    """A CLIP of random weights whose tokens are the words of the captions."""
    import torch
    from transformers import CLIPConfig, CLIPModel, CLIPTokenizer

    torch.manual_seed(0)
    CLIPModel(CLIPConfig(**(SMALL if shape == "small" else SHAPES[shape]))).save_pretrained(folder)
    letters = sorted(set("".join((*THINGS, *RELATIONS, "theis"))) - {" "})
    merges: list[tuple[str, str]] = []
    for word in sorted({*THINGS, *" ".join(RELATIONS).split(), "the", "is"}):
        whole = word[0]
        for place in range(1, len(word)):
            piece = word[place] + ("</w>" if place == len(word) - 1 else "")
            if (whole, piece) not in merges:
                merges.append((whole, piece))
            whole += piece
    known = [*letters, *(f"{letter}</w>" for letter in letters)]
    known += dict.fromkeys(f"{one}{other}" for one, other in merges)
    known += [f"unused{i}" for i in range(END - 1 - len(known))]
    vocabulary = {word: i for i, word in enumerate([*known, "<|startoftext|>", "<|endoftext|>"])}
    kind: Any = CLIPTokenizer  # the library takes pairs, whatever its hints say
    kind(vocab=vocabulary, merges=merges, model_max_length=77).save_pretrained(folder)
    _image_processor().save_pretrained(folder)
    return folder


def _machine(device: str) -> str:
    import torch

    if device.startswith("cuda"):
        return torch.cuda.get_device_name()
    return f"{torch.get_num_threads()} CPU threads"


def _arguments() -> argparse.Namespace:
    arguments = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    arguments.add_argument("--device", default="cpu")
    arguments.add_argument("--dtype", default="fp32", choices=("fp32", "bf16", "fp16"))
    arguments.add_argument("--examples", type=int, default=40)
    arguments.add_argument("--shape", default="vit-b-32", choices=("small", *SHAPES))
    arguments.set_defaults(sides=(("text", "O, R"), ("all", "2 and 2")))
    return arguments.parse_args()


if __name__ == "__main__":
    main()
