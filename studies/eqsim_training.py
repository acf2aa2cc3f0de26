"""Training and judging of the study of EqSim: one process a seed, all arms one after another."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from contrapose.data import Example, Gallery
from contrapose.files import StrictProblems
from contrapose.losses import EqSim, LossBatch, register_loss
from contrapose.models.tiny.model import TinyClip, scale_pixels
from contrapose.models.tiny.network import TinyNetwork
from contrapose.tune.data.rows import TrainingSet
from contrapose.tune.data.scenes import make_scene_set
from contrapose.tune.objective import parse_objective
from contrapose.tune.settings import Settings
from contrapose.tune.students import Student, TinyStudent, load_student
from contrapose.tune.trainer import train
from contrapose.world.benchmark import scenes
from contrapose.world.benchmark.annotations import scene_of
from contrapose.world.captions import VOCABULARY
from contrapose.world.render import pack, render_packed
from studies.eqsim_arms import Arm
from studies.kept import Answer, KeptAnswers
from tools.train_tiny.__main__ import CONFIGS

PAIRS = ("location", "counting", "attribute")
CHOICES = ("swap-attribute", "swap-relation", "replace-color", "replace-relation")
JUDGING_SEED = 51_000
"""Added to a seed for its judging examples: no training scene and no other seed shares them."""
STEP = 32_767
"""Cosines are kept as whole numbers of 1 / STEP."""


@dataclass(frozen=True, slots=True)
class EqSimLogits:
    """EqSim on scaled logits: that on cosines, times the square of the learnt scale.

    Computes: β · scale² · EqSim on cosines.
    Inputs: `image`, `text`, `scale`.
    """

    name: ClassVar[str] = "eqsim-logits"
    weight: ClassVar[float] = 0.01
    needs: ClassVar[frozenset[str]] = frozenset()

    def __call__(self, batch: LossBatch) -> Tensor:
        """The loss of the whole batch."""
        scale = torch.as_tensor(batch.scale)
        return scale.square() * EqSim()(batch)


@dataclass(frozen=True, slots=True)
class Sizes:
    """Sizes of the study; `smoke` is for a try on a CPU.

    Attributes:
        scenes: training scenes of a seed.
        examples: judging examples of each 2 × 2 part, and of each choice.
        gallery: images of the retrieval gallery.
        steps: of `tuned`, `match` and `scratch`.
        batch: of the same.
        rates: of the same.
    """

    scenes: int = 40_000
    examples: int = 400
    gallery: int = 400
    steps: tuple[int, int, int] = (400, 120, 1500)
    batch: tuple[int, int, int] = (256, 64, 512)
    rates: tuple[float, float, float] = (3e-4, 5e-5, 1e-3)

    @classmethod
    def smoke(cls) -> Sizes:
        """Sizes of a try."""
        return cls(64, 6, 6, (2, 2, 2), (16, 8, 16))


@dataclass(frozen=True, slots=True, eq=False)
class JudgingPart:
    """Judging examples of one part: rendered images, and the captions of each example."""

    images: Tensor
    texts: list[tuple[str, ...]]


def make_judging_parts(seed: int, sizes: Sizes, device: str) -> dict[str, JudgingPart]:
    """Judging examples of a seed, drawn and rendered."""
    suite = scenes(examples=sizes.examples, seed=JUDGING_SEED + seed)
    parts: dict[str, JudgingPart] = {}
    for name in (*PAIRS, *CHOICES):
        examples = list(suite.parts[name].read(Path(), StrictProblems()))  # type: ignore[arg-type]
        assert isinstance(examples[0], Example)  # noqa: S101 - of these parts
        drawn = [scene_of(ref) for example in examples for ref in example.images]
        parts[name] = JudgingPart(_render(drawn, device), [_right_first(it) for it in examples])
    larger = scenes(examples=sizes.gallery, seed=JUDGING_SEED + seed)
    gallery = larger.parts["gallery"].read(Path(), StrictProblems())
    assert isinstance(gallery, Gallery)  # noqa: S101 - of this part
    drawn = [scene_of(ref) for ref in gallery.images]
    parts["gallery"] = JudgingPart(_render(drawn, device), [(text,) for text in gallery.texts])
    return parts


def _right_first(example: Example) -> tuple[str, ...]:
    """Captions of an example: of a choice the right one first, of a 2 × 2 in their order."""
    if len(example.images) > 1:
        return example.texts
    order = sorted(range(len(example.texts)), key=lambda i: not example.match[0][i])
    return tuple(example.texts[i] for i in order)


def _render(drawn: Sequence[Any], device: str) -> Tensor:
    return render_packed(pack(drawn).to(device), 96).images


def judge_model(model: Any, parts: dict[str, JudgingPart], *, match: bool) -> Answer:
    """Scores of all judging examples: cosines as whole numbers, or match logits."""
    answer: Answer = {}
    for name in PAIRS:
        part = parts[name]
        texts = [text for some in part.texts for text in some]
        count = len(part.texts)
        if match:
            images = part.images.repeat_interleave(2, dim=0)
            both = [text for some in part.texts for text in (*some, *some)]
            scores = _match(model, images, both).reshape(count, 2, 2)
            answer[name] = scores.astype(np.float32)
            continue
        image, text = _embed(model, part.images, texts)
        grid = np.einsum("nid,njd->nij", image.reshape(count, 2, -1), text.reshape(count, 2, -1))
        answer[name] = _quantize(grid)
    for name in CHOICES:
        part = parts[name]
        texts = [text for some in part.texts for text in some]
        count = len(part.texts)
        if match:
            scores = _match(model, part.images.repeat_interleave(2, dim=0), texts)
            answer[name] = scores.reshape(count, 2).astype(np.float32)
            continue
        image, text = _embed(model, part.images, texts)
        answer[name] = _quantize(np.einsum("nd,njd->nj", image, text.reshape(count, 2, -1)))
    part = parts["gallery"]
    image, text = _embed(model, part.images, [some[0] for some in part.texts])
    cosines = image @ text.T
    right = np.diagonal(cosines)
    answer["text_rank"] = (cosines >= right[:, None]).sum(axis=1).astype(np.int16)
    answer["image_rank"] = (cosines >= right[None, :]).sum(axis=0).astype(np.int16)
    return answer


def _quantize(cosines: NDArray[np.floating[Any]]) -> NDArray[np.int16]:
    return np.asarray(np.round(np.clip(cosines, -1, 1) * STEP), dtype=np.int16)


@torch.no_grad()
def _embed(
    model: Any, images: Tensor, texts: Sequence[str]
) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    vectors = [
        model.embed_images(list(scale_pixels(images[start : start + 512])))
        for start in range(0, len(images), 512)
    ]
    words = [model.embed_texts(texts[start : start + 512]) for start in range(0, len(texts), 512)]
    return torch.cat(vectors).float().cpu().numpy(), torch.cat(words).float().cpu().numpy()


@torch.no_grad()
def _match(model: Any, images: Tensor, texts: Sequence[str]) -> NDArray[np.float32]:
    scores = [
        model.match(list(scale_pixels(images[start : start + 256])), texts[start : start + 256])
        for start in range(0, len(images), 256)
    ]
    return np.asarray(torch.cat(scores).float().cpu().numpy())


def run_seed(
    seed: int,
    arms: dict[str, Arm],
    sizes: Sizes,
    *,
    keep: Path,
    device: str,
    workers: int,
    stop_at: float,
) -> list[str]:
    """Train and judge all arms of a seed; gives what went wrong, an arm a line."""  # fmt: skip
    register_loss(EqSimLogits)
    kept, failures = KeptAnswers(keep), []
    torch.manual_seed(seed)
    begun = time.time()
    rows = make_scene_set(sizes.scenes, seed + 300, device=device, world="balanced",
                          workers=workers)  # fmt: skip
    parts = make_judging_parts(seed, sizes, device)
    print(f"seed {seed}: scenes and judging examples {time.time() - begun:.1f} s", flush=True)
    for name, model in (("tuned/before", "tiny-clip"), ("match/before", "tiny")):
        kept.once(
            {"arm": name, "seed": seed},
            lambda model=model, name=name: judge_model(  # type: ignore[misc]
                load_student(model, device=device).model, parts, match=name.startswith("match")
            ),
        )
    for name, arm in arms.items():
        if time.time() > stop_at:
            failures.append(f"seed {seed}, {name}: no time left")
            continue
        begun = time.time()
        try:
            kept.once(
                {"arm": name, "seed": seed},
                lambda arm=arm: train_arm(arm, seed, rows, parts, sizes, device),  # type: ignore[misc]
            )
        except Exception as error:
            failures.append(f"seed {seed}, {name}: {type(error).__name__}: {error}")
        print(f"seed {seed}, {name}: {time.time() - begun:.1f} s", flush=True)
    return failures


def train_arm(
    arm: Arm,
    seed: int,
    rows: TrainingSet,
    parts: dict[str, JudgingPart],
    sizes: Sizes,
    device: str,
) -> Answer:
    """Train one arm from its start and judge it."""  # fmt: skip
    number = ("tuned", "match", "scratch").index(arm.start)
    student = _load_start(arm, seed, device)
    settings = Settings(
        steps=sizes.steps[number], batch=sizes.batch[number], rate=sizes.rates[number], seed=seed,
        save_every=0, log_every=10_000, dtype="bf16" if device == "cuda" else "fp32",
    )  # fmt: skip
    some = rows if arm.share == 1 else rows.take(range(round(arm.share * len(rows))))
    torch.set_float32_matmul_precision("high")
    train(student, some, parse_objective(arm.objective), settings, device=device)
    torch.set_float32_matmul_precision("highest")
    return judge_model(student.model, parts, match=arm.start == "match")


def _load_start(arm: Arm, seed: int, device: str) -> Student:
    if arm.start != "scratch":
        return load_student("tiny-clip" if arm.start == "tuned" else "tiny", device=device)
    torch.manual_seed(seed)
    network = TinyNetwork(CONFIGS["tiny-clip"]).to(device)
    return TinyStudent(TinyClip("scratch", network, VOCABULARY, f"scratch {seed}"))
