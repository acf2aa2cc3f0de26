"""Score tables, and the score files that people already have.

A score table holds a model's score of every image-caption pair of a benchmark's examples. It is
read from a file here, or computed by `contrapose.engine`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from contrapose.lazy import lazy_exports

if TYPE_CHECKING:
    from contrapose.scores.answers import (
        UNKNOWN_SKIP as UNKNOWN_SKIP,
        Answers as Answers,
        Frame as Frame,
        ScoreMatrix as ScoreMatrix,
        Skip as Skip,
        Skips as Skips,
        build_frame as build_frame,
        build_frame_from_card as build_frame_from_card,
        count_reasons as count_reasons,
        is_refusal as is_refusal,
        refusal_skip as refusal_skip,
        unreadable_skip as unreadable_skip,
    )
    from contrapose.scores.arrays import (
        is_flat_array as is_flat_array,
        read_matrix as read_matrix,
        read_submission as read_submission,
    )
    from contrapose.scores.files import (
        add_tags as add_tags,
        detect_benchmark as detect_benchmark,
        read_prior as read_prior,
        read_scores as read_scores,
    )
else:
    __getattr__, __dir__, __all__ = lazy_exports(
        __name__,
        {
            "answers": "UNKNOWN_SKIP Answers Frame ScoreMatrix Skip Skips build_frame "
            "build_frame_from_card count_reasons is_refusal refusal_skip unreadable_skip",
            "arrays": "is_flat_array read_matrix read_submission",
            "files": "add_tags detect_benchmark read_prior read_scores",
        },
    )
