"""Metrics: pure functions from arrays of scores to outcomes, statistics and tests.

Nothing here knows a model, a file or a benchmark. An `Outcome` is one metric's answer for each
example; a `Statistic` is a number of the whole set that can be resampled; `alpha` tunes the one
parameter of debiasing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from contrapose.lazy import lazy_exports

if TYPE_CHECKING:
    from contrapose.metrics.alpha.intervals import (
        AlphaIntervals as AlphaIntervals,
        augmented_intervals as augmented_intervals,
        brittle_intervals as brittle_intervals,
        first_intervals as first_intervals,
        group_intervals as group_intervals,
        original_intervals as original_intervals,
        text_intervals as text_intervals,
    )
    from contrapose.metrics.alpha.own_images import refuse_own_images as refuse_own_images
    from contrapose.metrics.alpha.selection import (
        AlphaCurve as AlphaCurve,
        AlphaOptimum as AlphaOptimum,
        CrossValidation as CrossValidation,
        HeldOutMeans as HeldOutMeans,
        cross_validate as cross_validate,
        sweep as sweep,
    )
    from contrapose.metrics.blind_scores import (
        Audit as Audit,
        Histogram as Histogram,
        audit as audit,
        histogram as histogram,
        solvable_blind as solvable_blind,
    )
    from contrapose.metrics.boundaries import (
        THRESHOLDS as THRESHOLDS,
        boundary_grounding as boundary_grounding,
        boundary_scores as boundary_scores,
        predict_boundaries as predict_boundaries,
        predict_boundary as predict_boundary,
    )
    from contrapose.metrics.chance import (
        chance_levels as chance_levels,
        diagonal_group_chance as diagonal_group_chance,
        group_chance as group_chance,
        image_chance as image_chance,
        text_chance as text_chance,
    )
    from contrapose.metrics.chat import (
        UNPARSABLE as UNPARSABLE,
        Choices as Choices,
        joint_choice as joint_choice,
        multiple_choice as multiple_choice,
    )
    from contrapose.metrics.composed import (
        RankedLists as RankedLists,
        average_precision_at as average_precision_at,
        average_precision_chances as average_precision_chances,
        recall_at as recall_at,
        recall_chances as recall_chances,
    )
    from contrapose.metrics.foils import (
        acc as acc,
        augmented_accuracy as augmented_accuracy,
        brittleness as brittleness,
        mean_score as mean_score,
        min_precision as min_precision,
        official_mask as official_mask,
        original_accuracy as original_accuracy,
        original_only as original_only,
        p_c as p_c,
        p_f as p_f,
        pairwise_accuracy as pairwise_accuracy,
        positive_only as positive_only,
    )
    from contrapose.metrics.judgement import (
        best_threshold as best_threshold,
        calibration_error as calibration_error,
        cross_fit as cross_fit,
    )
    from contrapose.metrics.likelihood import (
        LikelihoodScale as LikelihoodScale,
        debias as debias,
        log_prior as log_prior,
        to_log_likelihood as to_log_likelihood,
        token_mean as token_mean,
        token_sum as token_sum,
        visual_gpt_score as visual_gpt_score,
    )
    from contrapose.metrics.ngram import NGram as NGram, fit_ngram as fit_ngram
    from contrapose.metrics.pairs import (
        Equivariance as Equivariance,
        accuracy as accuracy,
        equivariance as equivariance,
        group_match as group_match,
        group_score as group_score,
        image_score as image_score,
        pair_wins as pair_wins,
        standardized_spread as standardized_spread,
        text_score as text_score,
    )
    from contrapose.metrics.ratings import (
        kendall_statistic as kendall_statistic,
        kendall_tau as kendall_tau,
        pairwise_statistic as pairwise_statistic,
        spearman_correlation as spearman_correlation,
        spearman_statistic as spearman_statistic,
    )
    from contrapose.metrics.retrieval import (
        best_of as best_of,
        count_edit_rivals as count_edit_rivals,
        edit_chance as edit_chance,
        false_recalls as false_recalls,
        mean_recall as mean_recall,
        rank_edits as rank_edits,
        recall_chance as recall_chance,
        recalls as recalls,
        simat_score as simat_score,
        top_k as top_k,
    )
    from contrapose.metrics.statistics.bootstrap import (
        interval as interval,
        intervals as intervals,
        percentile_interval as percentile_interval,
        replicates as replicates,
    )
    from contrapose.metrics.statistics.correlation import (
        LineFit as LineFit,
        correlation_of as correlation_of,
        fit_line as fit_line,
    )
    from contrapose.metrics.statistics.ranks import (
        RankStatistic as RankStatistic,
        auroc as auroc,
        auroc_interval as auroc_interval,
        auroc_statistic as auroc_statistic,
        joint_rank_replicates as joint_rank_replicates,
        rank_interval as rank_interval,
        rank_replicates as rank_replicates,
    )
    from contrapose.metrics.statistics.resampling import (
        clusters_of as clusters_of,
        has_repeats as has_repeats,
        join_clusters as join_clusters,
    )
    from contrapose.metrics.statistics.shares import (
        FEWEST_UNITS as FEWEST_UNITS,
        clopper_pearson as clopper_pearson,
    )
    from contrapose.metrics.statistics.significance import (
        McNemar as McNemar,
        PairedDifference as PairedDifference,
        holm as holm,
        mcnemar as mcnemar,
        paired_bootstrap as paired_bootstrap,
    )
    from contrapose.metrics.statistics.statistic import (
        Statistic as Statistic,
        combine as combine,
        macro_mean as macro_mean,
        mean_of as mean_of,
        minimum_of_means as minimum_of_means,
        pad as pad,
        standard_deviation as standard_deviation,
    )
    from contrapose.metrics.statistics.tiers import (
        maximal_groups as maximal_groups,
        significance_tiers as significance_tiers,
    )
    from contrapose.metrics.tie_thresholds import (
        calibrate_ties as calibrate_ties,
        is_threshold_exact as is_threshold_exact,
        tie_threshold as tie_threshold,
    )
    from contrapose.metrics.types import (
        BoolArray as BoolArray,
        FloatArray as FloatArray,
        IntArray as IntArray,
        Outcome as Outcome,
    )
else:
    __getattr__, __dir__, __all__ = lazy_exports(
        __name__,
        {
            "alpha.intervals": "AlphaIntervals augmented_intervals brittle_intervals "
            "first_intervals group_intervals original_intervals text_intervals",
            "alpha.own_images": "refuse_own_images",
            "alpha.selection": "AlphaCurve AlphaOptimum CrossValidation HeldOutMeans "
            "cross_validate sweep",
            "blind_scores": "Audit Histogram audit histogram solvable_blind",
            "boundaries": "THRESHOLDS boundary_grounding boundary_scores predict_boundaries "
            "predict_boundary",
            "chance": "chance_levels diagonal_group_chance group_chance image_chance text_chance",
            "chat": "UNPARSABLE Choices joint_choice multiple_choice",
            "composed": "RankedLists average_precision_at average_precision_chances recall_at "
            "recall_chances",
            "foils": "acc augmented_accuracy brittleness mean_score min_precision official_mask "
            "original_accuracy original_only p_c p_f pairwise_accuracy positive_only",
            "judgement": "best_threshold calibration_error cross_fit",
            "likelihood": "LikelihoodScale debias log_prior to_log_likelihood token_mean token_sum "
            "visual_gpt_score",
            "ngram": "NGram fit_ngram",
            "pairs": "Equivariance accuracy equivariance group_match group_score image_score "
            "pair_wins standardized_spread text_score",
            "ratings": "kendall_statistic kendall_tau pairwise_statistic spearman_correlation "
            "spearman_statistic",
            "retrieval": "best_of count_edit_rivals edit_chance false_recalls mean_recall "
            "rank_edits recall_chance recalls simat_score top_k",
            "statistics.bootstrap": "interval intervals percentile_interval replicates",
            "statistics.correlation": "LineFit correlation_of fit_line",
            "statistics.ranks": "RankStatistic auroc auroc_interval auroc_statistic "
            "joint_rank_replicates rank_interval rank_replicates",
            "statistics.resampling": "clusters_of has_repeats join_clusters",
            "statistics.shares": "FEWEST_UNITS clopper_pearson",
            "statistics.significance": "McNemar PairedDifference holm mcnemar paired_bootstrap",
            "statistics.statistic": "Statistic combine macro_mean mean_of minimum_of_means pad "
            "standard_deviation",
            "statistics.tiers": "maximal_groups significance_tiers",
            "tie_thresholds": "calibrate_ties is_threshold_exact tie_threshold",
            "types": "BoolArray FloatArray IntArray Outcome",
        },
    )
