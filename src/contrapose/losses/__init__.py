"""Losses for vision-language models: one per module, found by name, called with a `LossBatch`."""

from contrapose.losses.batch import NEEDS, LossBatch
from contrapose.losses.caption import Captioning
from contrapose.losses.cyclip import CyClip
from contrapose.losses.distill import Distill
from contrapose.losses.dividend import Dividend
from contrapose.losses.eqsim import EqSim
from contrapose.losses.eqsim_match import EqSimMatch, eqsim_of_scores
from contrapose.losses.gather import all_gather, all_reduce_sum, global_mean, processes
from contrapose.losses.hard_negative import HardNegative
from contrapose.losses.hard_positive import HardPositive
from contrapose.losses.info_nce import InfoNCE, Temperature
from contrapose.losses.info_nce_negatives import NegativeInfoNCE
from contrapose.losses.match import Match
from contrapose.losses.registry import Loss, load_loss, loss_names, register_loss
from contrapose.losses.sigmoid import Sigmoid
from contrapose.losses.tiled import TiledLoss, pairwise

__all__ = [
    "NEEDS",
    "Captioning",
    "CyClip",
    "Distill",
    "Dividend",
    "EqSim",
    "EqSimMatch",
    "HardNegative",
    "HardPositive",
    "InfoNCE",
    "Loss",
    "LossBatch",
    "Match",
    "NegativeInfoNCE",
    "Sigmoid",
    "Temperature",
    "TiledLoss",
    "all_gather",
    "all_reduce_sum",
    "eqsim_of_scores",
    "global_mean",
    "load_loss",
    "loss_names",
    "pairwise",
    "processes",
    "register_loss",
]
