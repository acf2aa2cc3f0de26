"""Score tables, and the score files that people already have.

A score table holds a model's score of every image-caption pair of a benchmark's examples. It is
read from a file here, or computed by `contrapose.engine`.
"""

from contrapose.scores.answers import (
    UNKNOWN_SKIP,
    Answers,
    Frame,
    ScoreMatrix,
    Skip,
    Skips,
    build_frame,
    build_frame_from_card,
    count_reasons,
    refusal_skip,
    unreadable_skip,
)
from contrapose.scores.arrays import is_flat_array, read_matrix, read_submission
from contrapose.scores.files import (
    LikelihoodScale,
    add_tags,
    detect_benchmark,
    read_prior,
    read_scores,
    to_log_likelihood,
)

__all__ = [
    "UNKNOWN_SKIP",
    "Answers",
    "Frame",
    "LikelihoodScale",
    "ScoreMatrix",
    "Skip",
    "Skips",
    "add_tags",
    "build_frame",
    "build_frame_from_card",
    "count_reasons",
    "detect_benchmark",
    "is_flat_array",
    "read_matrix",
    "read_prior",
    "read_scores",
    "read_submission",
    "refusal_skip",
    "to_log_likelihood",
    "unreadable_skip",
]
