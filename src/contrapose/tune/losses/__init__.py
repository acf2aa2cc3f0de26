"""What a repair learns from: one loss a file, composed by weights."""

from contrapose.tune.losses.caption import Captioning
from contrapose.tune.losses.dividend import Dividend
from contrapose.tune.losses.eqsim import PRESETS, EqSim
from contrapose.tune.losses.eqsim_scores import eqsim_of_scores
from contrapose.tune.losses.gather import gathered, mean_of, processes, summed
from contrapose.tune.losses.hard import HardNegative, HardPositive
from contrapose.tune.losses.info_nce import InfoNCE
from contrapose.tune.losses.match import Match
from contrapose.tune.losses.pairs import Term, pairwise
from contrapose.tune.losses.sigmoid import Sigmoid
from contrapose.tune.losses.temperature import Temperature

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
    "eqsim_of_scores",
    "gathered",
    "mean_of",
    "pairwise",
    "processes",
    "summed",
]
