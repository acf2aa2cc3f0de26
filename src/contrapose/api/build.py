"""`build_pairs`, `build_triplets` and `build_scenes`: caption pairs, edit queries, scenes."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from contrapose.api.inputs import (
    Cache,
    ModelLike,
    PathLike,
    Words,
    list_words,
    one_model,
    one_path,
    require_at_least,
    require_choice,
    store_place,
)
from contrapose.errors import InputError, option
from contrapose.files import local_path

if TYPE_CHECKING:
    from contrapose.engine import Progress


def build_pairs(
    captions: PathLike | Iterable[str],
    *,
    out: PathLike,
    kinds: Words = None,
    seed: int = 0,
    per_caption: int = 4,
    rewriter: str | None = None,
    attempts: int = 3,
    cache: Cache = True,
    caption_field: str | None = None,
    image_field: str | None = None,
    tagger: Literal["textblob", "spacy"] = "textblob",
    complete: bool = False,
    balance: bool = False,
    lm: str | None = None,
    device: str = "auto",
    dry_run: bool = False,
    overwrite: bool = False,
    progress: Progress | None = None,
) -> dict[str, Any]:
    """Make hard positives and hard negatives of captions, each labelled with what changed.

    Args:
        captions: a list of captions, or a file: a `.jsonl`, `.csv`, `.tsv` or `.parquet` table,
            plain text with a caption a line, or COCO's or Karpathy's `.json`.
        out: a `.jsonl` file, or a folder for `pairs.jsonl` and `manifest.json`.
        kinds: kinds of changes, or groups: `positive`, `negative`, `replace`, `swap`, `contrast`,
            `exchange`, `order`, `negation`, `rewrite`; `atom`, `crepe` (CREPE's atom, swap and
            negate), `aro` (its four shuffles); None is all.
        seed: same seed, same pairs.
        per_caption: most positives of a caption, and most negatives.
        rewriter: a language model that rewrites too: `openai:MODEL,url=http://host/v1`.
        attempts: how often a rewriter is asked for one change.
        cache: where a rewriter's replies are stored, as in `evaluate`.
        caption_field: the table's column of captions, if it has another name.
        image_field: the table's column of images, if it has another name.
        tagger: of parts of speech.
        complete: only captions with a positive and a negative.
        balance: keep only negatives of which blind scores prefer as many to their captions as not.
        lm: a language model among the blind scores of the audit and the balance: `lm:smollm2`,
            `lm:ORG/NAME`, `lm:FOLDER`; None takes the n-gram model and the length alone.
        device: where the language model computes.
        dry_run: write nothing, and return the counts that a sample of the captions lets expect.
        overwrite: replace files that are there.
        progress: called with a description, what is done and what there is to do.

    Returns:
        The manifest: counts of captions and of every kind of change, and the audit of the
        negatives by scores that see no image.

    Raises:
        InputError: there are no captions, or the files cannot be written.

    Example:
        >>> import contrapose as cp
        >>> manifest = cp.build_pairs(["a red cube left of a blue ball"], out="pairs.jsonl")
        >>> manifest["captions"]["written"]
        1
    """
    from contrapose.build.captions import (
        REWRITTEN,
        BlindTest,
        CaptionRecord,
        PairBuild,
        Recipe,
        load_rewriter,
        pair_files,
        parse_kinds,
        plan_pairs,
        read_captions,
    )
    from contrapose.build.captions import build_pairs as write_pairs

    require_at_least(0, seed=seed)
    require_at_least(1, per_caption=per_caption, attempts=attempts)
    chosen = parse_kinds(list_words(kinds))
    if rewriter is None and set(chosen) <= set(REWRITTEN):
        raise InputError(
            f"these kinds are written by a language model: pass {option('rewriter')} too."
        )
    if rewriter is not None and not set(chosen) & set(REWRITTEN):
        raise InputError(
            f"{option('rewriter')} has nothing to do: add rewrite to {option('kinds')}."
        )
    target = local_path(out)
    pair_files(target, overwrite=overwrite)  # what is wrong with them is said before the work
    language_model = None
    if rewriter is not None and not dry_run:
        language_model = load_rewriter(rewriter, one_path(store_place(cache)), attempts)
    if isinstance(captions, str | Path):
        source = str(captions)
        rows = list(
            read_captions(
                local_path(captions), caption_field=caption_field, image_field=image_field
            )
        )
    else:
        rows, source = [CaptionRecord(caption) for caption in captions], "memory"

    def report(done: int) -> None:
        if progress is not None:
            progress("pairs", done, len(rows))

    report(0)
    recipe = Recipe(
        chosen, seed, per_caption, require_choice("tagger", tagger, ("textblob", "spacy"))
    )
    test = BlindTest(
        lm=None if lm == "none" else lm,
        device=device,
        cache=store_place(cache),
        seed=seed,
        progress=progress,
    )
    build = PairBuild(recipe, test, balance=balance, complete=complete, source=source)
    if dry_run:
        return plan_pairs(rows, build)
    return write_pairs(
        rows, target, build, rewriter=language_model, overwrite=overwrite, progress=report
    )


def build_triplets(
    annotations: PathLike,
    *,
    out: PathLike,
    images: PathLike | None = None,
    subjects: Words = None,
    relations: Words = None,
    objects: int = 10,
    min_images: int = 2,
    oracle: ModelLike | None = None,
    present: float = 0.9,
    absent: float = 0.1,
    scenes: int = 2000,
    size: int = 96,
    seed: int = 0,
    device: str = "auto",
    cache: Cache = True,
    dry_run: bool = False,
    overwrite: bool = False,
    progress: Progress | None = None,
) -> dict[str, Any]:
    """Build edit queries from (subject, relation, object) annotations, as SIMAT was built.

    Triplets are filtered by their subjects, relations and objects; a query changes one slot of an
    image's triplet to another triplet that exists; an oracle keeps queries whose image shows its
    own caption and not the target's; half of the photographs are for dev, half for test.

    Args:
        annotations: Visual Genome's `relationships.json`, or `scenes` for the built-in world.
        out: the folder to write: SIMAT's four files, which the benchmark `simat` reads, and a
            manifest with the counts after every filter.
        images: folder of the photographs; with it the square crops are written too.
        subjects: subjects that count; None takes SIMAT's people and animals, `all` takes all.
        relations: relations that count; None takes SIMAT's, `all` takes all.
        objects: most frequent objects of a subject and relation that are kept.
        min_images: images that a triplet must have.
        oracle: a model with `itm`, `vqa` or `itc`; None takes the annotations.
        present: probability that the image must exceed for its own caption.
        absent: probability that it must be below for the target caption.
        scenes: number of scenes to draw.
        size: width and height of their images.
        seed: same seed, same scenes and same halves.
        device: where the oracle computes.
        cache: where the oracle's scores are stored, as in `evaluate`.
        dry_run: write nothing and ask no model; the queries are counted before the oracle, or as
            the annotations decide.
        overwrite: replace a folder that is there.
        progress: called with a description, what is done and what there is to do.

    Returns:
        The manifest.

    Raises:
        InputError: the annotations cannot be read, nothing is left, or the folder cannot be used.

    Example:
        >>> import contrapose as cp
        >>> manifest = cp.build_triplets("scenes", out="triplets", scenes=60, size=16, min_images=1)
        >>> manifest["read_with"]
        'simat'
    """
    from contrapose.build.triplets import (
        RELATIONS,
        SCENES,
        SUBJECTS,
        TripletRecipe,
        TripletSource,
    )
    from contrapose.build.triplets import build_triplets as write_triplets
    from contrapose.engine import AnswerStore, ScoringContext
    from contrapose.models import Model, load_model

    require_at_least(1, objects=objects, min_images=min_images, scenes=scenes, size=size)
    require_at_least(0, seed=seed)
    for name, share in (("present", present), ("absent", absent)):
        if not 0 <= share <= 1:
            raise InputError(f"{option(name)} must be from 0 to 1, found {share}.")
    recipe = TripletRecipe(
        subjects=_word_list(subjects, SUBJECTS),
        relations=_word_list(relations, RELATIONS),
        objects=objects,
        min_images=min_images,
        present=present,
        absent=absent,
        seed=seed,
    )
    built_in = str(annotations) == SCENES
    if built_in and (images is not None or subjects is not None or relations is not None):
        raise InputError(
            f"scenes have their own images and words: leave out {option('images')}, "
            f"{option('subjects')} and {option('relations')}."
        )
    judge = None if oracle is None or dry_run else one_model(oracle)
    if isinstance(judge, str):
        judge = load_model(judge, device=device)
    store = AnswerStore(store_place(cache))

    def context(model: Model) -> ScoringContext:
        return ScoringContext(model, store, progress=progress)

    return write_triplets(
        TripletSource(
            path=None if built_in else local_path(annotations),
            images=one_path(images),
            scenes=scenes,
            size=size,
        ),
        None if dry_run else local_path(out),
        recipe,
        oracle=judge,
        context=context,
        overwrite=overwrite,
    )


def _word_list(words: Words, default: tuple[str, ...]) -> tuple[str, ...]:
    """Words of a list; the default when left out, and none, which means all, for `all`."""
    listed = list_words(words)
    return () if listed == ("all",) else listed or default


def build_scenes(
    *,
    out: PathLike,
    part: Words = None,
    examples: int = 200,
    seed: int = 0,
    size: int = 96,
    world: Literal["balanced", "skewed"] = "balanced",
    masks: bool = False,
    engine: Literal["raytracer", "blender"] = "raytracer",
    dry_run: bool = False,
    overwrite: bool = False,
    progress: Progress | None = None,
) -> dict[str, Any]:
    """Write the benchmark `scenes` as images and annotation files of public formats.

    A build that was stopped goes on where it was when the same is asked again.

    Args:
        out: the folder to write; a folder in it for each part.
        part: parts such as `swap-relation`; None is all of them.
        examples: of each part.
        seed: same seed, same examples.
        size: width and height of the images.
        world: balanced, or as skewed as the training set.
        masks: also write which object each pixel belongs to.
        engine: the built-in `raytracer`, or `blender` (the extra `blender`).
        dry_run: write nothing, and return the counts to expect.
        overwrite: replace a folder that is there.
        progress: called with a description, the number done and the total.

    Returns:
        The manifest: examples, images and reader of every part, the engine, and the verdict of
        the blind audit.

    Raises:
        InputError: an unknown part, no examples, or a folder that cannot be written.
        MissingExtraError: Blender is not installed.

    Example:
        >>> import contrapose as cp
        >>> manifest = cp.build_scenes(out="scenes", part="swap-relation", examples=2)
        >>> manifest["parts"]["swap-relation"]["examples"]
        2
    """
    from contrapose.build.scenes import SceneBuild, plan_scenes, write_scenes
    from contrapose.world.benchmark import PARTS
    from contrapose.world.engines import ENGINES

    if seed < 0:
        raise InputError(f"{option('seed')} must not be negative, and is {seed}.")
    build = SceneBuild(
        parts=list_words(part) or tuple(PARTS),
        form=require_choice("world", world, ("balanced", "skewed")),
        examples=examples,
        seed=seed,
        size=size,
        masks=masks,
        engine=require_choice("engine", engine, ENGINES),
    )
    if dry_run:
        return plan_scenes(build)
    return write_scenes(build, local_path(out), overwrite=overwrite, progress=progress)
