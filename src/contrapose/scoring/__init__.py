"""Score tables: what a model answered, read from files people have or asked here and now."""

from contrapose.scoring.answers import Answers, Frame, frame_from_card, frame_of
from contrapose.scoring.arrays import is_flat, read_matrix, read_submission
from contrapose.scoring.asked import ask_ahead, ask_examples, ask_prior
from contrapose.scoring.asking import Asking, Policy
from contrapose.scoring.engine import Executor, LocalExecutor, Work
from contrapose.scoring.grids import Grid, ask_edits, ask_gallery
from contrapose.scoring.likelihoods import LikelihoodScale, to_log, to_log_likelihood
from contrapose.scoring.pictures import Pictures
from contrapose.scoring.read import detect_benchmark, read_prior, read_scores
from contrapose.scoring.scores import (
    SCORES,
    Noise,
    Progress,
    parse_prior,
    pools,
    require_score,
    scores_of,
)
from contrapose.scoring.skips import Skip, counted
from contrapose.scoring.store import Store, default_folder
from contrapose.scoring.tags import with_tags

__all__ = [
    "SCORES",
    "Answers",
    "Asking",
    "Executor",
    "Frame",
    "Grid",
    "LikelihoodScale",
    "LocalExecutor",
    "Noise",
    "Pictures",
    "Policy",
    "Progress",
    "Skip",
    "Store",
    "Work",
    "ask_ahead",
    "ask_edits",
    "ask_examples",
    "ask_gallery",
    "ask_prior",
    "counted",
    "default_folder",
    "detect_benchmark",
    "frame_from_card",
    "frame_of",
    "is_flat",
    "parse_prior",
    "pools",
    "read_matrix",
    "read_prior",
    "read_scores",
    "read_submission",
    "require_score",
    "scores_of",
    "to_log",
    "to_log_likelihood",
    "with_tags",
]
