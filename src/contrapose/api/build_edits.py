"""`build_edits` and `build_review`: minimal pairs from a generator of images, and their review."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from contrapose.api.inputs import (
    Cache,
    ModelLike,
    PathLike,
    Words,
    list_words,
    one_model,
    require_at_least,
    require_choice,
    store_place,
)
from contrapose.errors import InputError, option
from contrapose.files import local_path, require_free

if TYPE_CHECKING:
    from contrapose.build.edits.generators import CallForm, PairGenerator
    from contrapose.build.score_filter import ScoreFilter
    from contrapose.engine import Progress

SMALLEST, LARGEST = 16, 4096
"""Widths that a generator may be asked for."""


def build_edits(
    generator: str | Callable[..., Any] | PairGenerator,
    *,
    out: PathLike,
    pairs: int = 300,
    editor: str | Callable[..., Any] | None = None,
    form: CallForm = "auto",
    lists: PathLike | None = None,
    kinds: Words = None,
    bare: bool = True,
    prompt: str = "{}",
    size: int | None = None,
    filter_by: ModelLike | None = None,
    margin: float = 0.0,
    min_score: float | None = None,
    seed: int = 0,
    workers: int | None = None,
    image_format: Literal["png", "jpeg"] = "png",
    lm: str | None = None,
    device: str = "auto",
    cache: Cache = True,
    dry_run: bool = False,
    overwrite: bool = False,
    progress: Progress | None = None,
) -> dict[str, Any]:
    """Build minimal pairs with a generator of images, as EqBen's part SD was built.

    Two captions differ in one slot of restricted lists; both images come from one seed. A build
    that was stopped goes on with the pairs that it lacks.

    Args:
        generator: `diffusers:FOLDER_OR_ID`, `http://…`, `openai:MODEL,url=…` or `scenes`; or a
            function `f(prompt, seed)` that returns an image, `f(prompts, seed, size)` that returns
            two, or an object with `name`, `lists`, `workers` and `generate`.
        out: the folder to write: images, `eqbensd.json`, which the benchmark `eqben` reads, and a
            manifest with the counts at every filter and the blind audit.
        pairs: number of caption pairs to draw.
        editor: makes the second image of the first: a pipeline of diffusers that takes an image,
            or a function `f(image, instruction, seed)`.
        form: how to call a function as generator, where the names of its arguments do not say it.
        lists: a JSON file of lists, or `eqben` or `scenes`; None takes what suits the generator.
        kinds: kinds of change of the lists, such as `object`, `scene`, `attribute`; None is all.
        bare: whether a caption may leave out what changes ("a photo of beach", "… at sunset"), as
            in the paper; such a caption is true of both images.
        prompt: text that the generator gets, with {} for the caption.
        size: width and height to ask for; None is 512, and 96 for scenes.
        filter_by: a model, or `MODEL:score`, that must prefer the own caption for both images.
        margin: by how much, strictly.
        min_score: least score of each image with its own caption.
        seed: same seed, same captions and seeds of images.
        workers: pairs at a time; None takes 4 for a server, else 1. Functions are then called from
            several threads.
        image_format: of the written images: `png` or `jpeg`.
        lm: a language model among the blind scores of the audit: `lm:smollm2`, `lm:ORG/NAME`.
        device: where pipelines and models compute.
        cache: where the filter's scores are stored, as in `evaluate`.
        dry_run: generate and write nothing, and return counts and some captions.
        overwrite: replace a folder that is there.
        progress: called with a description, what is done and what there is to do.

    Returns:
        The manifest. Pairs that could not be generated are listed in it.

    Raises:
        InputError: an option cannot be, ten pairs in a row fail, no pair is left, or the folder
            cannot be used.
        EndpointError: the server is down; finished pairs are kept.
        MissingExtraError: diffusers is needed and not installed.

    Example:
        >>> import contrapose as cp
        >>> manifest = cp.build_edits("scenes", out="edits", pairs=4, size=32, seed=1)
        >>> manifest["written"]["pairs"]
        4
    """
    from contrapose.build.captions.balance import BlindTest
    from contrapose.build.edits.builder import EditBuild, plan_edits
    from contrapose.build.edits.builder import build_edits as write_edits
    from contrapose.build.edits.generators import GeneratorOptions, load_generator
    from contrapose.build.edits.recipe import load_recipe

    require_at_least(1, pairs=pairs, workers=workers)
    require_at_least(0, seed=seed)
    if size is not None and not SMALLEST <= size <= LARGEST:
        raise InputError(f"{option('size')} must be from {SMALLEST} to {LARGEST}, found {size}.")
    target = local_path(out)
    require_free(target, overwrite=overwrite or dry_run)
    options = GeneratorOptions(
        wording=prompt,
        workers=workers,
        device=device,
        form=require_choice("form", form, ("auto", "pair", "image", "edit")),
        plan=dry_run,
    )
    if lists is not None:
        load_recipe(lists)  # what is wrong with it is said before weights are loaded
    source = load_generator(generator, None if dry_run else editor, options)
    recipe = load_recipe(lists, source.lists).restrict(list_words(kinds), bare=bare)
    test = BlindTest(None if lm == "none" else lm, device, store_place(cache), seed, progress)
    build = EditBuild(
        recipe,
        pairs=pairs,
        size=size or (96 if source.lists == "scenes" else 512),
        wording=prompt,
        seed=seed,
        workers=workers,
        image_format=require_choice("image_format", image_format, ("png", "jpeg")),
        test=test,
    )
    if dry_run:
        return plan_edits(source, build)
    chosen = load_filter(
        filter_by, margin, min_score, device=device, cache=cache, progress=progress
    )
    build = replace(build, filter=chosen)
    return write_edits(source, target, build, overwrite=overwrite, progress=progress)


def load_filter(
    filter_by: ModelLike | None,
    margin: float,
    min_score: float | None,
    *,
    device: str,
    cache: Cache,
    progress: Progress | None,
) -> ScoreFilter | None:
    """Filter by a model's score; None where there is none.

    Raises:
        InputError: the model cannot be loaded or gives no such score, or a number is not finite.
    """
    from contrapose.build.score_filter import ScoreFilter, choose_score, split_filter
    from contrapose.engine import AnswerStore, ScoringContext
    from contrapose.models import load_model

    for name, value in (("margin", margin), ("min_score", min_score)):
        if value is not None and not math.isfinite(value):
            raise InputError(f"{option(name)} must be a finite number, found {value}.")
    if filter_by is None:
        if margin or min_score is not None:
            raise InputError(
                f"{option('margin')} and {option('min_score')} need a model: pass "
                f"{option('filter_by')} too."
            )
        return None
    model = one_model(filter_by)
    score = None
    if isinstance(model, str):
        name, score = split_filter(model)
        model = load_model(name, device=device)
    context = ScoringContext(model, AnswerStore(store_place(cache)), progress=progress)
    return ScoreFilter(context, choose_score(model, score), margin, min_score)


def build_review(
    folder: PathLike,
    *,
    out: PathLike | None = None,
    decisions: PathLike | None = None,
    undecided: Literal["keep", "drop"] = "keep",
    filter_by: ModelLike | None = None,
    margin: float = 0.0,
    min_score: float | None = None,
    images: Literal["inline", "beside"] = "inline",
    side: int = 320,
    lm: str | None = None,
    device: str = "auto",
    cache: Cache = True,
    overwrite: bool = False,
    progress: Progress | None = None,
) -> dict[str, Any]:
    """Write the review page of a set of minimal pairs, or the set that is left after a review.

    Without `decisions` and `filter_by` it writes the page: one HTML file in which a person keeps or
    drops pairs and downloads the decisions. With either it writes a new set.

    Args:
        folder: a set that `build_graph`, `build_boundaries`, `build_steps` or `build_edits` wrote.
        out: the page, an `.html` file, by default beside the folder; or the folder of the new set.
        decisions: the file that the page downloads.
        undecided: what becomes of pairs without a decision.
        filter_by: a model, or `MODEL:score`, that must prefer the own caption for both images.
        margin: by how much, strictly.
        min_score: least score of each image with its own caption.
        images: thumbnails within the page, or links to the images of the set, for sets of many
            thousand pairs; such a page must stay where it is.
        side: longest side of a thumbnail in pixels.
        lm: a language model among the blind scores of the audit.
        device: where models compute.
        cache: where scores are stored, as in `evaluate`.
        overwrite: replace a file or folder that is there.
        progress: called with a description, what is done and what there is to do.

    Returns:
        Of a page its path, the number of pairs and the build's id; of a new set its manifest.

    Raises:
        InputError: the folder is no set of pairs, the decisions are of another build, no pair is
            left, or the result cannot be written.

    Example:
        >>> import contrapose as cp
        >>> manifest = cp.build_edits("scenes", out="pairs", pairs=2, size=32)
        >>> cp.build_review("pairs", out="review.html")["pairs"]
        2
    """
    from contrapose.build.captions.balance import BlindTest
    from contrapose.build.review.decisions import apply_review, read_decisions
    from contrapose.build.review.page import write_review_page
    from contrapose.build.review.pairs import read_pair_set

    require_at_least(32, side=side)
    require_choice("undecided", undecided, ("keep", "drop"))
    require_choice("images", images, ("inline", "beside"))
    source = local_path(folder)
    pair_set = read_pair_set(source)
    if decisions is None and filter_by is None:
        page = local_path(out) if out is not None else _page_beside(source)
        if page.suffix.lower() not in (".html", ".htm"):
            raise InputError(
                f"a review page is an .html file; a new set needs {option('decisions')} or "
                f"{option('filter_by')}.",
                file=page,
            )
        return write_review_page(
            pair_set, page, images=images, side=side, overwrite=overwrite, progress=progress
        )
    if out is None:
        raise InputError(f"pass {option('out')}, the folder for the pairs that are left.")
    chosen = None if decisions is None else read_decisions(local_path(decisions), pair_set)
    return apply_review(
        pair_set,
        local_path(out),
        decisions=chosen,
        undecided=undecided,
        score_filter=load_filter(
            filter_by, margin, min_score, device=device, cache=cache, progress=progress
        ),
        test=BlindTest(None if lm == "none" else lm, device, store_place(cache), 0, progress),
        overwrite=overwrite,
        progress=progress,
    )


def _page_beside(folder: Path) -> Path:
    folder = folder.resolve()
    return folder.with_name(f"{folder.name}-review.html")
