"""Scoring engine: from examples and a model to score tables, through a content-addressed store."""

from contrapose.engine.context import CachePolicy, ScoringContext
from contrapose.engine.examples import (
    score_example_parts,
    score_examples,
    score_priors,
    score_priors_ahead,
    score_tokens,
)
from contrapose.engine.executor import BatchWork, Executor, LocalExecutor
from contrapose.engine.galleries import (
    ScoreMatrix,
    compute_gallery_prior,
    describe_gallery_prior,
    score_edits,
    score_gallery,
)
from contrapose.engine.images import ImageCache
from contrapose.engine.parts import ListColumn
from contrapose.engine.prior_images import (
    FolderImages,
    NoiseImages,
    OtherImages,
    Prior,
    describe_prior,
    parse_prior,
)
from contrapose.engine.priors import compute_priors, load_prior_folder
from contrapose.engine.score_types import (
    LIKELIHOOD_SCORES,
    SCORES,
    TEXT_ONLY_SCORES,
    Progress,
    default_scores,
    has_pooling,
    parse_question_template,
    require_score,
)
from contrapose.engine.scoring import score_blind
from contrapose.engine.store import AnswerStore, default_store_folder

__all__ = [
    "LIKELIHOOD_SCORES",
    "SCORES",
    "TEXT_ONLY_SCORES",
    "AnswerStore",
    "BatchWork",
    "CachePolicy",
    "Executor",
    "FolderImages",
    "ImageCache",
    "ListColumn",
    "LocalExecutor",
    "NoiseImages",
    "OtherImages",
    "Prior",
    "Progress",
    "ScoreMatrix",
    "ScoringContext",
    "compute_gallery_prior",
    "compute_priors",
    "default_scores",
    "default_store_folder",
    "describe_gallery_prior",
    "describe_prior",
    "has_pooling",
    "load_prior_folder",
    "parse_prior",
    "parse_question_template",
    "require_score",
    "score_blind",
    "score_edits",
    "score_example_parts",
    "score_examples",
    "score_gallery",
    "score_priors",
    "score_priors_ahead",
    "score_tokens",
]
