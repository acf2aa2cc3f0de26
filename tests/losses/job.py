"""Every loss on one batch, by one process or by several with a part of it each."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

import torch
import torch.distributed as dist
from torch import Tensor

from contrapose.errors import InputError
from contrapose.losses import (
    Captioning,
    Distill,
    Dividend,
    EqSim,
    EqSimMatch,
    HardNegative,
    HardPositive,
    InfoNCE,
    LossBatch,
    Match,
    NegativeInfoNCE,
    Sigmoid,
    all_gather,
    eqsim_of_scores,
    pairwise,
    processes,
)

SIZE, WIDTH = 12, 5


@dataclass(frozen=True)
class Part:
    """This process's share of the batch, its features made by weights that all processes have."""

    image: Tensor
    text: Tensor
    negative: Tensor
    positive: Tensor
    masked: Tensor
    tokens: Tensor
    has: Tensor
    scale: Tensor
    bias: Tensor

    @property
    def batch(self) -> LossBatch:
        return LossBatch(self.image, self.text, scale=self.scale, bias=self.bias)


def parameters() -> dict[str, Tensor]:
    make = torch.Generator().manual_seed(5)
    found = {
        "image": torch.randn(WIDTH, WIDTH, generator=make, dtype=torch.float64),
        "text": torch.randn(WIDTH, WIDTH, generator=make, dtype=torch.float64),
        "scale": torch.tensor(4.0, dtype=torch.float64),
        "bias": torch.tensor(-1.0, dtype=torch.float64),
    }
    return {name: it.requires_grad_() for name, it in found.items()}


def part(weights: dict[str, Tensor], rows: slice) -> Part:
    make = torch.Generator().manual_seed(6)
    raw = torch.randn(8, SIZE, WIDTH, generator=make, dtype=torch.float64)
    raw[1:4] = 0.7 * raw[1:4] + raw[0]
    tokens = torch.randint(0, WIDTH, (SIZE, 4), generator=make)
    tokens[: SIZE // 2, 2:] = -100  # the processes' captions differ in length
    unit = torch.nn.functional.normalize
    image = unit(raw[0, rows] @ weights["image"], dim=-1)
    texts = unit(raw[1:, rows] @ weights["text"], dim=-1)
    return Part(
        image=image,
        text=texts[0],
        negative=texts[1],
        positive=texts[2],
        masked=texts[3:7].transpose(0, 1),
        tokens=tokens[rows],
        has=(torch.arange(SIZE) % 5 < 2)[rows],
        scale=weights["scale"],
        bias=weights["bias"],
    )


def _eqsim(**settings: object) -> Callable[[Part], Tensor]:
    chosen = EqSim(close=2, **settings)  # type: ignore[arg-type]
    return lambda it: pairwise(it.batch, [chosen], tile=2, keep=0)[0]


def _match(it: Part) -> Tensor:
    image, text = all_gather(it.image), all_gather(it.text)

    def match(images: Tensor, texts: Tensor) -> Tensor:
        return 3 * (image[images] * text[texts]).sum(1)

    return Match(draw="hardest")(replace(it.batch, match=match))


def _eqsim_match(it: Part) -> Tensor:
    image, text = all_gather(it.image), all_gather(it.text)

    def match(images: Tensor, texts: Tensor) -> Tensor:
        return 3 * (image[images] * text[texts]).sum(1)

    return EqSimMatch(5, 2, margin=0.001)(replace(it.batch, match=match, seed=7))


def _together(it: Part) -> Tensor:
    nce, eq = pairwise(it.batch, [InfoNCE(), EqSim(close=3)])
    return nce + 0.5 * eq


def _same(it: Part) -> Tensor:
    return InfoNCE()(replace(it.batch, same=it.tokens[:, 0]))


def _scores(it: Part) -> Tensor:
    """Each pair with the negative and the positive of its own row as sampled ones."""
    right = 3 * (it.image * it.text).sum(1)
    there = torch.stack([(it.image * other).sum(1) for other in (it.negative, it.positive)], dim=1)
    back = torch.stack([(it.text * other).sum(1) for other in (it.negative, it.positive)], dim=1)
    close = torch.stack([it.has, ~it.has], dim=1)
    return eqsim_of_scores(right, there, back, there * back, close=close)


def _some(it: Part) -> LossBatch:
    """The batch with hard captions in some rows only."""
    return replace(
        it.batch, negative=it.negative, has_negative=it.has, positive=it.positive,
        has_positive=it.has,
    )  # fmt: skip


def _masked(it: Part) -> LossBatch:
    return replace(it.batch, masked=it.masked, masked_negative=it.masked.roll(1, dims=2))


LOSSES: dict[str, Callable[[Part], Tensor]] = {
    "info_nce": lambda it: pairwise(it.batch, [InfoNCE()], tile=4, keep=0)[0],
    "info_nce, one tile": lambda it: InfoNCE()(it.batch),
    "info_nce, high scale": lambda it: InfoNCE()(replace(it.batch, scale=12 * it.scale)),
    "info_nce, same": _same,
    "sigmoid": lambda it: pairwise(it.batch, [Sigmoid()], tile=4)[0],
    "eqsim": _eqsim(),
    "eqsim, all": _eqsim(v2="all", margin=0.001),
    "eqsim, margin": _eqsim(hinge="pair", margin=0.01),
    "eqsim, softmax": _eqsim(similarity="softmax", hinge="pair", margin=0.001),
    "eqsim, sigmoid": _eqsim(similarity="sigmoid", v2="all"),
    "eqsim, easy": _eqsim(v1="easy", similarity="softmax", margin=0.001, margin_v1=0.0),
    "eqsim, plain": lambda it: EqSim.paper(0.001).plain(it.batch),
    "eqsim of scores": _scores,
    "eqsim of matches": _eqsim_match,
    "together": _together,
    "hard negative": lambda it: HardNegative()(_some(it)),
    "hard positive": lambda it: HardPositive()(_some(it)),
    "hard positive, even": lambda it: HardPositive(form="even")(_some(it)),
    "hard positive, one direction": lambda it: HardPositive(symmetric=False)(_some(it)),
    "negatives inside": lambda it: NegativeInfoNCE()(_some(it), tile=4),
    "negatives inside, numbers": lambda it: NegativeInfoNCE()(
        replace(_some(it), same=it.tokens[:, 0], same_negative=it.tokens[:, 1])
    ),
    "negatives inside, plain": lambda it: NegativeInfoNCE().plain(_some(it)),
    "match": _match,
    "caption": lambda it: Captioning()(replace(it.batch, token_logits=it.masked, tokens=it.tokens)),
    "distill": lambda it: Distill()(
        replace(it.batch, choices=it.masked, targets=it.masked.square().sum(2).detach() / 4)
    ),
    "dividend": lambda it: Dividend()(_masked(it)),
    "dividend, some": lambda it: Dividend()(replace(_masked(it), has_masked=it.has)),
}


def run() -> dict[str, Tensor]:
    """Values, and gradients of the parameters averaged over the processes, as DDP does it."""
    job = processes()
    share = SIZE // job.count
    found = {}
    for name, loss in LOSSES.items():
        weights = parameters()
        value = loss(part(weights, slice(job.rank * share, (job.rank + 1) * share)))
        torch.autograd.backward(value)
        found[name] = value.detach()
        for weight, it in weights.items():
            grad = torch.zeros_like(it) if it.grad is None else it.grad
            found[f"{name}: {weight}"] = job.sum(grad.clone()) / job.count
    return found


def uneven(rank: int) -> str:
    """What is said where the processes have different numbers of rows."""
    image = torch.ones(2 + rank, WIDTH)
    try:
        InfoNCE()(LossBatch(image, image))
    except InputError as error:
        return str(error)
    return ""


def main(rank: int, count: int, folder: str) -> None:
    torch.set_num_threads(1)
    dist.init_process_group(
        "gloo", init_method=Path(folder, "meet").as_uri(), rank=rank, world_size=count
    )
    found = run()
    said = uneven(rank)
    torch.save(found, Path(folder, f"{rank}.pt"))
    Path(folder, f"{rank}.txt").write_text(said, encoding="utf-8")
    dist.destroy_process_group()
