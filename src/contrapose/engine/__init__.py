"""Scoring engine: from examples and a model to score tables, through a content-addressed store."""

from contrapose.engine.batches import score_missing
from contrapose.engine.composed import embed_composed, score_composed
from contrapose.engine.context import (
    CachePolicy,
    ScoringContext,
    build_blind_request,
    parse_question_template,
)
from contrapose.engine.edits import EditScores, edit_vectors, embed_edits, score_edits
from contrapose.engine.examples import (
    embed_distinct,
    score_blind,
    score_example_parts,
    score_example_share,
    score_examples,
    score_pairs,
    score_priors,
    score_priors_ahead,
    score_tokens,
)
from contrapose.engine.executor import BatchWork, Executor, LocalExecutor
from contrapose.engine.galleries import (
    compute_gallery_prior,
    describe_gallery_prior,
    score_gallery,
    score_gallery_share,
    score_gallery_texts,
)
from contrapose.engine.images import Filling, ImageCache, RegionMask
from contrapose.engine.plan import (
    ScoringPlan,
    compute_caption_ids,
    distinct_images,
    plan_cells,
    plan_examples,
)
from contrapose.engine.priors import compute_priors, load_prior_folder
from contrapose.engine.score_names import (
    ALL_EDIT_SCORES,
    EDIT_SCORES,
    FUSION_SCORES,
    SCORES,
    base_score,
    describe_fusion,
    require_known_score,
)
from contrapose.engine.score_types import (
    LIKELIHOOD_SCORES,
    REQUIRED_CAPABILITY,
    TEXT_ONLY_SCORES,
    FolderImages,
    NoiseImages,
    OtherImages,
    Prior,
    Progress,
    default_scores,
    describe_prior,
    has_pooling,
    parse_prior,
    require_score,
    store_key,
)
from contrapose.engine.shards import Shard, ShardReport, parse_shard, shard_device
from contrapose.engine.storage import default_store_folder
from contrapose.engine.store import AnswerStore
from contrapose.engine.videos import describe_videos, expand_videos

__all__ = [
    "ALL_EDIT_SCORES",
    "EDIT_SCORES",
    "FUSION_SCORES",
    "LIKELIHOOD_SCORES",
    "REQUIRED_CAPABILITY",
    "SCORES",
    "TEXT_ONLY_SCORES",
    "AnswerStore",
    "BatchWork",
    "CachePolicy",
    "EditScores",
    "Executor",
    "Filling",
    "FolderImages",
    "ImageCache",
    "LocalExecutor",
    "NoiseImages",
    "OtherImages",
    "Prior",
    "Progress",
    "RegionMask",
    "ScoringContext",
    "ScoringPlan",
    "Shard",
    "ShardReport",
    "base_score",
    "build_blind_request",
    "compute_caption_ids",
    "compute_gallery_prior",
    "compute_priors",
    "default_scores",
    "default_store_folder",
    "describe_fusion",
    "describe_gallery_prior",
    "describe_prior",
    "describe_videos",
    "distinct_images",
    "edit_vectors",
    "embed_composed",
    "embed_distinct",
    "embed_edits",
    "expand_videos",
    "has_pooling",
    "load_prior_folder",
    "parse_prior",
    "parse_question_template",
    "parse_shard",
    "plan_cells",
    "plan_examples",
    "require_known_score",
    "require_score",
    "score_blind",
    "score_composed",
    "score_edits",
    "score_example_parts",
    "score_example_share",
    "score_examples",
    "score_gallery",
    "score_gallery_share",
    "score_gallery_texts",
    "score_missing",
    "score_pairs",
    "score_priors",
    "score_priors_ahead",
    "score_tokens",
    "shard_device",
    "store_key",
]
