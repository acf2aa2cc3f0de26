"""Losses for vision-language models: one per module, on unit vectors, logits or games."""

from contrapose.losses.caption import Captioning
from contrapose.losses.dividend import Dividend
from contrapose.losses.eqsim import PRESETS, EqSim, eqsim_from_scores
from contrapose.losses.gather import all_gather, all_reduce_sum, global_mean, processes
from contrapose.losses.hard import HardNegative, HardPositive
from contrapose.losses.info_nce import InfoNCE, Temperature
from contrapose.losses.match import Match
from contrapose.losses.sigmoid import Sigmoid
from contrapose.losses.tiled import Term, pairwise

__all__ = [
    "PRESETS",
    "Captioning",
    "Dividend",
    "EqSim",
    "HardNegative",
    "HardPositive",
    "InfoNCE",
    "Match",
    "Sigmoid",
    "Temperature",
    "Term",
    "all_gather",
    "all_reduce_sum",
    "eqsim_from_scores",
    "global_mean",
    "pairwise",
    "processes",
]
