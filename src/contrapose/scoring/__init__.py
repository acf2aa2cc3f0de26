"""Score tables: what a model answered, read from files people have or asked here and now."""

from contrapose.scoring.answers import Answers, Frame, frame_from_card, frame_of
from contrapose.scoring.arrays import is_flat, read_matrix, read_submission
from contrapose.scoring.ask import blind_values
from contrapose.scoring.asked import ask_ahead, ask_examples, ask_prior, ask_tokens
from contrapose.scoring.asking import Asking, Policy
from contrapose.scoring.engine import Executor, LocalExecutor, Work
from contrapose.scoring.grid_priors import gallery_prior, gallery_prior_words
from contrapose.scoring.grids import Grid, ask_edits, ask_gallery
from contrapose.scoring.likelihoods import LikelihoodScale, to_log, to_log_likelihood
from contrapose.scoring.lists import Lists
from contrapose.scoring.pictures import Pictures
from contrapose.scoring.prior_values import folder_images, prior_values
from contrapose.scoring.priors import (
    FolderImages,
    Noise,
    OtherImages,
    Prior,
    parse_prior,
    prior_words,
)
from contrapose.scoring.read import detect_benchmark, read_prior, read_scores
from contrapose.scoring.scores import (
    LIKELIHOODS,
    SCORES,
    UNSEEING,
    Progress,
    parse_question,
    pools,
    require_score,
    scores_of,
)
from contrapose.scoring.skips import Skip, counted
from contrapose.scoring.store import Store, default_folder
from contrapose.scoring.tags import with_tags

__all__ = [
    "LIKELIHOODS",
    "SCORES",
    "UNSEEING",
    "Answers",
    "Asking",
    "Executor",
    "FolderImages",
    "Frame",
    "Grid",
    "LikelihoodScale",
    "Lists",
    "LocalExecutor",
    "Noise",
    "OtherImages",
    "Pictures",
    "Policy",
    "Prior",
    "Progress",
    "Skip",
    "Store",
    "Work",
    "ask_ahead",
    "ask_edits",
    "ask_examples",
    "ask_gallery",
    "ask_prior",
    "ask_tokens",
    "blind_values",
    "counted",
    "default_folder",
    "detect_benchmark",
    "folder_images",
    "frame_from_card",
    "frame_of",
    "gallery_prior",
    "gallery_prior_words",
    "is_flat",
    "parse_prior",
    "parse_question",
    "pools",
    "prior_values",
    "prior_words",
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
