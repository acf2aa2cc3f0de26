"""Arms and claims of the study of EqSim (Wang et al. 2023), fixed before it runs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from studies.verdict import Claim

Start = Literal["tuned", "scratch", "match"]


@dataclass(frozen=True, slots=True)
class Arm:
    """One way of training.

    Attributes:
        start: `tuned`: fine-tuning of `tiny-clip`; `scratch`: its network from random weights;
            `match`: fine-tuning of `tiny`, judged by its match head.
        objective: as `contrapose tune --with` takes it.
        share: of the training scenes.
    """

    start: Start
    objective: str
    share: float = 1.0


SOFTMAX = "similarity=softmax:hinge=pair"
"""The paper's form: a softmax over the captions of each image, each term hinged."""

ARMS: dict[str, Arm] = {
    "tuned/plain": Arm("tuned", "plain"),
    "tuned/eqsim 0.5, paper": Arm("tuned", "eqsim-paper=0.5"),
    "tuned/eqsim 1, cosines": Arm("tuned", "eqsim=1"),
    "match/plain": Arm("match", "plain"),
    "match/eqsim 0.5": Arm("match", "eqsim-match=0.5"),
    "scratch/plain": Arm("scratch", "plain"),
    "scratch/cosines 1": Arm("scratch", "eqsim=1"),
    "scratch/logits 0.01": Arm("scratch", "eqsim-logits=0.01"),
    "scratch/softmax 1": Arm("scratch", "eqsim=1:similarity=softmax"),
    "tuned/hn": Arm("tuned", "hn"),
    "tuned/hn + eqsim 1": Arm("tuned", "hn+eqsim=1"),
    "tuned/cyclip": Arm("tuned", "cyclip"),
    "tuned/v1 all": Arm("tuned", "eqsim=1:v2=none"),
    "tuned/v2 all": Arm("tuned", "eqsim=1:v1=none:v2=all"),
    "tuned/v2 close": Arm("tuned", "eqsim=1:v1=none"),
    "scratch/cosines 10": Arm("scratch", "eqsim=10"),
    "scratch/logits 0.003": Arm("scratch", "eqsim-logits=0.003"),
    "scratch/softmax 20": Arm("scratch", "eqsim=20:similarity=softmax"),
    "tuned/eqsim 0.2, cosines": Arm("tuned", "eqsim=0.2"),
    "tuned/eqsim 0.5, cosines": Arm("tuned", "eqsim=0.5"),
    "tuned/eqsim 4, cosines": Arm("tuned", "eqsim=4"),
    "tuned/eqsim 20, cosines": Arm("tuned", "eqsim=20"),
    "tuned/eqsim 0.2, paper": Arm("tuned", "eqsim-paper=0.2"),
    "tuned/eqsim 1, paper": Arm("tuned", "eqsim-paper=1"),
    "tuned/eqsim 0.5, paper, margin 0": Arm("tuned", f"eqsim=0.5:{SOFTMAX}"),
    "tuned/eqsim 0.5, paper, margin 0.1": Arm("tuned", f"eqsim=0.5:{SOFTMAX}:margin=0.1"),
    "tuned/eqsim 1, k = 1": Arm("tuned", "eqsim=1:close=1"),
    "tuned/eqsim 1, k = 32": Arm("tuned", "eqsim=1:close=32"),
    "match/hn": Arm("match", "hn"),
    "match/eqsim 1": Arm("match", "eqsim-match=1"),
    "tuned/plain, 10 %": Arm("tuned", "plain", 0.1),
    "tuned/eqsim 1, 10 %": Arm("tuned", "eqsim=1", 0.1),
    "tuned/plain, 30 %": Arm("tuned", "plain", 0.3),
    "tuned/eqsim 1, 30 %": Arm("tuned", "eqsim=1", 0.3),
    "scratch/cosines 50": Arm("scratch", "eqsim=50"),
    "scratch/logits 0.03": Arm("scratch", "eqsim-logits=0.03"),
}
"""By name, in the order in which they run: those of the claims first."""

EQUIVARIANCE = (1.0, "standard deviations")

CLAIMS: dict[str, Claim] = {
    "group, paper": Claim(
        "fine-tuning a dual encoder: EqSim in the paper's form raises the group score over plain "
        "fine-tuning", source="Table 2",
    ),
    "group, cosines": Claim(
        "fine-tuning a dual encoder: EqSim on cosines raises the group score over plain "
        "fine-tuning", source="Table 2",
    ),
    "spread, paper": Claim(
        "fine-tuning a dual encoder: EqSim in the paper's form tightens the equivariance score",
        "below", unit=EQUIVARIANCE, source="Figure 6",
    ),
    "spread, cosines": Claim(
        "fine-tuning a dual encoder: EqSim on cosines tightens the equivariance score",
        "below", unit=EQUIVARIANCE, source="Figure 6",
    ),
    "recall": Claim(
        "fine-tuning a dual encoder: EqSim on cosines leaves R@1 within 2 points of plain "
        "fine-tuning", "within", 0.02, source="Table 5",
    ),
    "beside hn": Claim(
        "fine-tuning a dual encoder: beside hard negatives EqSim still raises the group score"
    ),
    "cyclip": Claim(
        "fine-tuning a dual encoder: EqSim on cosines has a higher group score than CyCLIP's terms"
    ),
    "close": Claim("v2 on close pairs has a higher group score than v2 on all", source="Table 6"),
    "both": Claim("v1 and v2 together have a higher group score than v1 alone", source="Table 6"),
    "group, match": Claim(
        "fine-tuning a match head: EqSim raises the group score over plain fine-tuning",
        source="Table 2",
    ),
    "spread, match": Claim(
        "fine-tuning a match head: EqSim tightens the equivariance score", "below",
        unit=EQUIVARIANCE, source="Figure 13",
    ),
    "group, scratch": Claim("from scratch: EqSim on cosines at β = 1 raises the group score"),
    "group, scratch 10": Claim(
        "from scratch: EqSim on cosines at β = 10 lowers the group score: the price of "
        "equivariance", "below",
    ),
    "spread, scratch": Claim(
        "from scratch: EqSim on cosines at β = 1 tightens the equivariance score", "below",
        unit=EQUIVARIANCE,
    ),
    "spread, logits": Claim(
        "from scratch: EqSim on scaled logits at β = 0.01 tightens the equivariance score",
        "below", unit=EQUIVARIANCE,
    ),
    "spread, softmax": Claim(
        "from scratch: EqSim under a softmax at β = 1 tightens the equivariance score", "below",
        unit=EQUIVARIANCE,
    ),
}  # fmt: skip
"""By name; `studies/eqsim.py` says which arms each compares."""

COMPARED: dict[str, tuple[str, str]] = {
    "group, paper": ("tuned/eqsim 0.5, paper", "tuned/plain"),
    "group, cosines": ("tuned/eqsim 1, cosines", "tuned/plain"),
    "spread, paper": ("tuned/eqsim 0.5, paper", "tuned/plain"),
    "spread, cosines": ("tuned/eqsim 1, cosines", "tuned/plain"),
    "recall": ("tuned/eqsim 1, cosines", "tuned/plain"),
    "beside hn": ("tuned/hn + eqsim 1", "tuned/hn"),
    "cyclip": ("tuned/eqsim 1, cosines", "tuned/cyclip"),
    "close": ("tuned/v2 close", "tuned/v2 all"),
    "both": ("tuned/eqsim 1, cosines", "tuned/v1 all"),
    "group, match": ("match/eqsim 0.5", "match/plain"),
    "spread, match": ("match/eqsim 0.5", "match/plain"),
    "group, scratch": ("scratch/cosines 1", "scratch/plain"),
    "group, scratch 10": ("scratch/cosines 10", "scratch/plain"),
    "spread, scratch": ("scratch/cosines 1", "scratch/plain"),
    "spread, logits": ("scratch/logits 0.01", "scratch/plain"),
    "spread, softmax": ("scratch/softmax 1", "scratch/plain"),
}
"""The two arms of each claim; its effect is the first less the second."""
