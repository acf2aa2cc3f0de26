"""Scores of examples, in the shape of the examples: every score type of every pair, and priors."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from itertools import islice

import numpy as np

from contrapose.arrays import Ragged, find_distinct
from contrapose.data import Example, ImageRef
from contrapose.data.example_columns import ExampleColumns
from contrapose.engine.batches import score_missing, score_values
from contrapose.engine.content_ids import HashedFiles
from contrapose.engine.context import ScoringContext
from contrapose.engine.embeddings import score_cosines
from contrapose.engine.executor import ENOUGH_IMAGES, LocalExecutor
from contrapose.engine.pace import report_phase
from contrapose.engine.plan import (
    ScoringPlan,
    compute_caption_ids,
    plan_examples,
    truncation_notes,
)
from contrapose.engine.priors import compute_priors
from contrapose.engine.requests import (
    build_blind_request,
    build_caption_request,
    build_image_request,
    build_pair_request,
)
from contrapose.engine.score_types import LIKELIHOOD_SCORES, NoiseImages, OtherImages, require_score
from contrapose.engine.videos import FrameExamples, expand_videos
from contrapose.errors import InputError
from contrapose.files import gc_paused
from contrapose.metrics import FloatArray, IntArray
from contrapose.models import CropPreparer
from contrapose.resize_crop import ResizeCrop
from contrapose.scores import UNKNOWN_SKIP, Answers, Frame, Skip, build_frame

REFS_TO_COUNT = 16 * ENOUGH_IMAGES
"""Images of examples among which files are counted before the work is planned."""

LOGPROBS_COLUMN = "logprobs"
"""The column of token log-probabilities in the store."""


def score_blind(context: ScoringContext, texts: Sequence[str]) -> FloatArray:
    """Compute (n,) mean log P of distinct captions by a language model without images."""
    return score_values(build_blind_request(context, texts))


def score_pairs(context: ScoringContext, score: str, plan: ScoringPlan) -> FloatArray:
    """Score every pair of the plan, (p,); NaN for skipped pairs."""
    context.skips.images.update(plan.unreadable)
    if score == "itc":
        return score_cosines(context, plan)
    if score == "prior":
        return compute_priors(context, plan.texts, examples=plan)[plan.pairs[:, 1]]
    if score == "blind":
        return score_blind(context, plan.texts)[plan.pairs[:, 1]]
    return score_values(build_pair_request(context, score, plan))


def score_examples(context: ScoringContext, score: str, examples: Sequence[Example]) -> Answers:
    """Score every pair of every example; each distinct pair is scored once.

    Pairs that were skipped are NaN, and the answers list their examples and the reasons.

    Raises:
        InputError: the model cannot give the score, or gives something that is no number.
    """
    (answers,) = score_example_parts(context, score, [examples])
    return answers


def score_example_parts(
    context: ScoringContext, score: str, parts: Sequence[Sequence[Example]]
) -> list[Answers]:
    """Score the examples of several benchmarks by one plan, as `score_examples` does for one.

    One long run fills its batches better than many short ones, and its remaining time can be
    estimated.
    """
    require_score(context.model, score)
    if score == "prior" and isinstance(context.prior, OtherImages) and len(parts) > 1:
        # Each benchmark's prior is of its own images.
        return [score_examples(context, score, examples) for examples in parts]
    with gc_paused(), report_phase(context.progress, "planning"):
        _start_hashes(parts)
        hashed = _start_decoders(context, score, parts)
        frames = [build_frame(examples) for examples in parts]
        expanded, plan = plan_example_parts(context, parts, hashed)
    values = score_pairs(context, score, plan)
    answers, start = [], 0
    for frame, part in zip(frames, expanded, strict=True):
        texts = frame.match.shape[2]
        index = plan.pair_index[start : start + len(frame), : part.width, :texts]
        answers.append(_fill_answers(context, score, plan, frame, part, index, values))
        start += len(frame)
    return answers


def _start_hashes(parts: Sequence[Sequence[Example]]) -> None:
    """Start to compute the ids of many captions while frames are built and images read."""
    if len(parts) == 1 and isinstance(parts[0], ExampleColumns):
        _ = parts[0].texts.ids


def _start_decoders(
    context: ScoringContext, score: str, parts: Sequence[Sequence[Example]]
) -> HashedFiles | None:
    """Start decoder processes while the work is planned, where nothing of it is stored yet.

    Returns:
        Where images are scored in the order of the plan: what lets these processes prepare the
        first of them.
    """
    executor, model = context.executor, context.model
    if (
        not isinstance(executor, LocalExecutor)
        or not executor.count_processes(ENOUGH_IMAGES)
        or not isinstance(model, CropPreparer)
        or model.resize_crop is None
        or context.cache_use == "only"
        or score in ("prior", "blind")
        or not context.table(score, ":image" if score == "itc" else "").is_empty
    ):
        return None
    files: set[object] = set()
    refs = (ref for part in parts for example in part for ref in example.images)
    for ref in islice(refs, REFS_TO_COUNT):
        if ref.source is None and ref.cell is None:
            files.add(ref.path)
            if len(files) == ENOUGH_IMAGES:
                break
    executor.expect_images(len(files))
    return partial(_decode_hashed, context, executor, model.resize_crop) if score == "itc" else None


def _decode_hashed(
    context: ScoringContext,
    executor: LocalExecutor,
    steps: ResizeCrop,
    refs: Sequence[ImageRef],
    ids: Sequence[str | Skip],
) -> None:
    """Let decoder processes prepare images whose content ids are known, while there is room."""
    for ref, name in zip(refs, ids, strict=True):
        task = None if isinstance(name, Skip) else context.decode_task(name, ref, steps)
        if task is not None and not executor.prepare_early(task):
            return


def plan_example_parts(
    context: ScoringContext,
    parts: Sequence[Sequence[Example]],
    hashed: HashedFiles | None = None,
) -> tuple[list[FrameExamples], ScoringPlan]:
    """Plan the scores of the examples of several benchmarks, with frames in place of videos.

    Args:
        context: the model and the options.
        parts: the examples of each benchmark.
        hashed: receives image files as soon as their content ids are known.
    """
    expanded = [expand_videos(context.model, examples) for examples in parts]
    reader = context.content_id_reader(hashed)
    if len(expanded) == 1:
        return expanded, plan_examples(expanded[0].examples, reader)
    examples = [example for part in expanded for example in part.examples]
    return expanded, plan_examples(examples, reader)


def score_example_share(
    context: ScoringContext, score: str, parts: Sequence[Sequence[Example]]
) -> None:
    """Score the shard's share of the batches that `score_example_parts` cuts, and return none."""
    require_score(context.model, score)
    if score == "prior" and isinstance(context.prior, OtherImages) and len(parts) > 1:
        for examples in parts:
            score_example_share(context, score, [examples])
        return
    with gc_paused(), report_phase(context.progress, "planning"):
        _start_decoders(context, score, parts)
        _, plan = plan_example_parts(context, parts)
    if score == "itc":
        context.skips.images.update(plan.unreadable)
        score_missing(
            build_caption_request(context, plan.texts),
            build_image_request(context, plan.images, plan.image_ids),
        )
    else:
        score_pairs(context, score, plan)


def _fill_answers(
    context: ScoringContext,
    score: str,
    plan: ScoringPlan,
    frame: Frame,
    expanded: FrameExamples,
    pair_index: IntArray,
    values: FloatArray,
) -> Answers:
    """Lay out the plan's values in the shape of some of its examples, with skips and notes."""
    scores = np.where(pair_index >= 0, values[pair_index], np.nan)
    skipped: dict[str, Skip] = {}
    holes = np.isnan(scores) & (pair_index >= 0)
    if holes.any():
        text_ids = compute_caption_ids(context, plan.texts, plan.text_ids)
        for example, i, j in np.argwhere(holes).tolist():
            image, text = plan.pairs[pair_index[example, i, j]].tolist()
            why = context.skips.why(score, plan.image_ids[image], text_ids[text])
            skipped.setdefault(frame.ids[example], why or UNKNOWN_SKIP)
    scores = expanded.average(scores, frame.match.shape[1])
    captions = (text for texts in frame.texts or () for text in texts)
    return Answers(frame, scores, truncation_notes(context, captions), skipped)


def score_priors_ahead(context: ScoringContext, examples: Sequence[Example]) -> None:
    """Compute the priors of the captions of several benchmarks at once, so that later calls read.

    Priors under the benchmark's own images are left to each benchmark.
    """
    require_score(context.model, "prior")
    if isinstance(context.prior, NoiseImages):
        captions, _ = find_distinct([text for example in examples for text in example.texts])
        compute_priors(context, captions)
    elif not isinstance(context.prior, OtherImages):
        plan = plan_examples(
            expand_videos(context.model, examples).examples, context.content_id_reader()
        )
        compute_priors(context, plan.texts, examples=plan)


def score_tokens(
    context: ScoringContext,
    score: str,
    examples: Sequence[Example],
) -> tuple[Ragged, IntArray]:
    """Compute token log-probabilities of every pair of every example, `lm` or `blind`.

    Returns:
        The lists of the distinct pairs, empty where a pair cannot be scored, and k × m × n which
        of them belongs to a cell; −1 where there is no pair.

    Raises:
        InputError: the model cannot give the score, or it has no tokens.
    """
    require_score(context.model, score)
    with gc_paused():
        plan = plan_examples(examples, context.content_id_reader())
    context.skips.images.update(plan.unreadable)
    if score == "blind":
        request = build_blind_request(context, plan.texts)
        (rows,) = score_missing(request)
        rows = rows[plan.pairs[:, 1]]
    elif score == "lm":
        request = build_pair_request(context, score, plan)
        (rows,) = score_missing(request)
    else:
        raise InputError(f"{score!r} has no token log-probabilities; lm and blind have.")
    return request.table.lists(rows, LOGPROBS_COLUMN), plan.pair_index


def score_priors(
    context: ScoringContext,
    frame: Frame,
    score: str = "lm",
    examples: Sequence[Example] = (),
) -> FloatArray:
    """Compute the log prior of each example's captions, k × n, NaN where there is none.

    Args:
        context: the model, the store, and the prior's images.
        frame: the examples whose captions are scored.
        score: `lm` or `vqa`.
        examples: all examples, of which the frame may hold some: a prior of real images must not
            be of theirs. Not needed under noise.

    Raises:
        InputError: the model gives no such likelihood, or the prior cannot be made.
    """
    require_score(context.model, score)
    if score not in LIKELIHOOD_SCORES:
        raise InputError(
            f"{score!r} is no likelihood and has no prior; {' and '.join(LIKELIHOOD_SCORES)} have."
        )
    if frame.texts is None:
        raise InputError("the prior needs the captions themselves.")
    captions, index = find_distinct([text for texts in frame.texts for text in texts])
    if isinstance(context.prior, NoiseImages) or not examples:
        flat = compute_priors(context, captions, score)[index]
    else:
        with gc_paused():
            plan = plan_examples(
                expand_videos(context.model, examples).examples, context.content_id_reader()
            )
        context.skips.images.update(plan.unreadable)
        priors = compute_priors(context, plan.texts, score, plan)
        position = {text: i for i, text in enumerate(plan.texts)}
        flat = priors[[position[text] for text in captions]][index]
    sizes = np.array([len(texts) for texts in frame.texts])
    padded = np.full((len(frame), frame.match.shape[2]), np.nan)
    padded[np.arange(padded.shape[1]) < sizes[:, None]] = flat
    return padded
