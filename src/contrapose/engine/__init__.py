"""Scoring engine: from examples and a model to score tables, through a content-addressed store."""

from __future__ import annotations

from typing import TYPE_CHECKING

from contrapose.lazy import lazy_exports

if TYPE_CHECKING:
    from contrapose.engine.batches import score_missing as score_missing
    from contrapose.engine.composed import (
        embed_composed as embed_composed,
        score_composed as score_composed,
    )
    from contrapose.engine.context import (
        CachePolicy as CachePolicy,
        ScoringContext as ScoringContext,
    )
    from contrapose.engine.edits import (
        EditScores as EditScores,
        edit_vectors as edit_vectors,
        embed_edits as embed_edits,
        score_edits as score_edits,
    )
    from contrapose.engine.embeddings import embed_distinct as embed_distinct
    from contrapose.engine.examples import (
        score_blind as score_blind,
        score_example_parts as score_example_parts,
        score_example_share as score_example_share,
        score_examples as score_examples,
        score_pairs as score_pairs,
        score_priors as score_priors,
        score_priors_ahead as score_priors_ahead,
        score_tokens as score_tokens,
    )
    from contrapose.engine.executor import (
        BatchWork as BatchWork,
        Executor as Executor,
        LocalExecutor as LocalExecutor,
    )
    from contrapose.engine.galleries import (
        compute_gallery_prior as compute_gallery_prior,
        describe_gallery_prior as describe_gallery_prior,
        score_gallery as score_gallery,
        score_gallery_share as score_gallery_share,
        score_gallery_texts as score_gallery_texts,
    )
    from contrapose.engine.images import (
        Filling as Filling,
        ImageCache as ImageCache,
        RegionMask as RegionMask,
    )
    from contrapose.engine.plan import (
        ScoringPlan as ScoringPlan,
        compute_caption_ids as compute_caption_ids,
        distinct_images as distinct_images,
        plan_cells as plan_cells,
        plan_examples as plan_examples,
    )
    from contrapose.engine.priors import (
        compute_priors as compute_priors,
        load_prior_folder as load_prior_folder,
    )
    from contrapose.engine.requests import build_blind_request as build_blind_request
    from contrapose.engine.score_names import (
        ALL_EDIT_SCORES as ALL_EDIT_SCORES,
        EDIT_SCORES as EDIT_SCORES,
        FUSION_SCORES as FUSION_SCORES,
        SCORES as SCORES,
        base_score as base_score,
        describe_fusion as describe_fusion,
        require_known_score as require_known_score,
    )
    from contrapose.engine.score_types import (
        LIKELIHOOD_SCORES as LIKELIHOOD_SCORES,
        REQUIRED_CAPABILITY as REQUIRED_CAPABILITY,
        TEXT_ONLY_SCORES as TEXT_ONLY_SCORES,
        FolderImages as FolderImages,
        NoiseImages as NoiseImages,
        OtherImages as OtherImages,
        Prior as Prior,
        Progress as Progress,
        default_scores as default_scores,
        describe_prior as describe_prior,
        has_pooling as has_pooling,
        parse_prior as parse_prior,
        parse_question_template as parse_question_template,
        require_score as require_score,
        store_key as store_key,
    )
    from contrapose.engine.shards import (
        Shard as Shard,
        ShardReport as ShardReport,
        ShardSurvey as ShardSurvey,
        parse_shard as parse_shard,
        shard_device as shard_device,
    )
    from contrapose.engine.storage import default_store_folder as default_store_folder
    from contrapose.engine.store import AnswerStore as AnswerStore
    from contrapose.engine.videos import (
        describe_videos as describe_videos,
        expand_videos as expand_videos,
    )
else:
    __getattr__, __dir__, __all__ = lazy_exports(
        __name__,
        {
            "batches": "score_missing",
            "composed": "embed_composed score_composed",
            "context": "CachePolicy ScoringContext",
            "edits": "EditScores edit_vectors embed_edits score_edits",
            "embeddings": "embed_distinct",
            "examples": "score_blind score_example_parts score_example_share "
            "score_examples score_pairs score_priors score_priors_ahead score_tokens",
            "executor": "BatchWork Executor LocalExecutor",
            "galleries": "compute_gallery_prior describe_gallery_prior score_gallery "
            "score_gallery_share score_gallery_texts",
            "images": "Filling ImageCache RegionMask",
            "plan": "ScoringPlan compute_caption_ids distinct_images plan_cells plan_examples",
            "priors": "compute_priors load_prior_folder",
            "requests": "build_blind_request",
            "score_names": "ALL_EDIT_SCORES EDIT_SCORES FUSION_SCORES SCORES base_score "
            "describe_fusion require_known_score",
            "score_types": "LIKELIHOOD_SCORES REQUIRED_CAPABILITY TEXT_ONLY_SCORES FolderImages "
            "NoiseImages OtherImages Prior Progress default_scores describe_prior has_pooling "
            "parse_prior parse_question_template require_score store_key",
            "shards": "Shard ShardReport ShardSurvey parse_shard shard_device",
            "storage": "default_store_folder",
            "store": "AnswerStore",
            "videos": "describe_videos expand_videos",
        },
    )
