"""Score tables: what a model answered, read from files people have or asked here and now."""

from contrapose.scoring.answers import Answers, Frame, frame_from_card, frame_of
from contrapose.scoring.arrays import is_flat, read_matrix, read_submission
from contrapose.scoring.ask import Asking
from contrapose.scoring.asked import ask_ahead, ask_edits, ask_examples, ask_gallery, ask_prior
from contrapose.scoring.likelihoods import LikelihoodScale, to_log, to_log_likelihood
from contrapose.scoring.pictures import Pictures
from contrapose.scoring.read import detect_benchmark, read_prior, read_scores
from contrapose.scoring.scores import (
    SCORES,
    Noise,
    Progress,
    parse_prior,
    require_score,
    scores_of,
)
from contrapose.scoring.store import Store, default_folder
from contrapose.scoring.tags import with_tags

__all__ = [
    "SCORES",
    "Answers",
    "Asking",
    "Frame",
    "LikelihoodScale",
    "Noise",
    "Pictures",
    "Progress",
    "Store",
    "ask_ahead",
    "ask_edits",
    "ask_examples",
    "ask_gallery",
    "ask_prior",
    "default_folder",
    "detect_benchmark",
    "frame_from_card",
    "frame_of",
    "is_flat",
    "parse_prior",
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
