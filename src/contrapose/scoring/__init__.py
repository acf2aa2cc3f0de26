"""Score tables: what a model answered, example by example, read from files people have."""

from contrapose.scoring.answers import Answers, Frame, frame_from_card, frame_of
from contrapose.scoring.arrays import is_flat, read_matrix, read_submission
from contrapose.scoring.likelihoods import LikelihoodScale, to_log, to_log_likelihood
from contrapose.scoring.read import detect_benchmark, read_prior, read_scores
from contrapose.scoring.tags import with_tags

__all__ = [
    "Answers",
    "Frame",
    "LikelihoodScale",
    "detect_benchmark",
    "frame_from_card",
    "frame_of",
    "is_flat",
    "read_matrix",
    "read_prior",
    "read_scores",
    "read_submission",
    "to_log",
    "to_log_likelihood",
    "with_tags",
]
