"""`build_graph`, `build_boundaries`, `build_steps`: minimal pairs from annotated videos."""

from __future__ import annotations

import math
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from contrapose.api.inputs import (
    PathLike,
    Words,
    list_words,
    require_at_least,
    require_choice,
)
from contrapose.errors import InputError, option
from contrapose.files import StrictProblems, local_path, require_free

if TYPE_CHECKING:
    from contrapose.build.minimal_pairs import PairSetBuild, PairSource
    from contrapose.build.video import VideoSettings
    from contrapose.engine import Progress


def build_graph(
    annotations: PathLike,
    *,
    videos: PathLike,
    out: PathLike,
    template: str | None = None,
    fps: float | None = None,
    faces: bool = False,
    blur: float = 20.0,
    duplicates: int = 2,
    per_video: int | None = None,
    side: int | None = None,
    image_format: Literal["png", "jpeg"] = "png",
    quality: int = 95,
    seed: int = 0,
    workers: int | None = None,
    dry_run: bool = False,
    overwrite: bool = False,
    progress: Progress | None = None,
) -> dict[str, Any]:
    """Build minimal pairs from scene graphs of videos, as EqBen's part AG was built.

    Two frames of a video are paired for an object if at least two of its three relationships to
    the person differ; the frame after a chosen one is skipped. Captions fill a template.

    Args:
        annotations: JSON in Action Genome's form: `{"VIDEO.mp4/000089.png": [object, …], …}`.
        videos: folder of the videos, or of their frames as `frames/VIDEO.mp4/000089.png`.
        out: the folder to write: images, `eqbenag.json`, which the benchmark `eqben` reads, and a
            manifest with the counts at every filter and the blind audit.
        template: of captions, with the slots `{relation}`, `{attention}`, `{contact}`, `{spatial}`
            and `{object}`; None takes the paper's.
        fps: frames a second by which frames are numbered; None takes each video's own rate.
        faces: drop frames that show a face.
        blur: least sharpness of a frame, the variance of its Laplacian; 0 takes all.
        duplicates: drop pairs whose perceptual hashes differ in at most so many of 64 bits; −1
            keeps all.
        per_video: most pairs of a video, drawn at random; None takes all.
        side: most pixels of an image's shorter side; None keeps frames as they are.
        image_format: of the images: `png` or `jpeg`.
        quality: of JPEG images, 1 to 100.
        seed: same seed, same pairs.
        workers: videos at a time; None takes one for each core.
        dry_run: write nothing, and return the counts that a sample of the videos lets expect.
        overwrite: replace a folder that is there.
        progress: called with a description, what is done and what there is to do.

    Returns:
        The manifest. Videos that are missing or cannot be read are listed in it.

    Raises:
        InputError: the annotations cannot be read, no pair is left, or the folder cannot be used.
        MissingExtraError: PyAV or OpenCV is not installed.

    Example:
        >>> import contrapose as cp
        >>> manifest = cp.build_graph("demo/graph.json", videos="demo/videos", out="graph")
        >>> manifest["read_with"]
        'eqben'
    """
    from contrapose.build.video import (
        TEMPLATE,
        VideoLibrary,
        make_sources,
        pair_graph,
        parse_template,
        read_graph,
    )

    if fps is not None and not (math.isfinite(fps) and fps > 0):
        raise InputError(f"{option('fps')} must be a positive number, found {fps}.")
    chosen = parse_template(TEMPLATE if template is None else template)
    settings = _settings(
        motion_words=(), faces=faces, blur=blur, duplicates=duplicates, fps=fps,
        per_video=per_video, side=side, image_format=image_format, quality=quality, seed=seed,
        workers=workers,
    )  # fmt: skip
    path, folder = local_path(annotations), VideoLibrary(local_path(videos))
    require_free(local_path(out), overwrite=overwrite or dry_run)
    objects, counts = read_graph(path, StrictProblems())
    build = settings.build("graph", "ag", path, counts, template=chosen)
    sources = make_sources(pair_graph(objects, chosen), folder, settings)
    return _run(sources, out, build, dry_run=dry_run, overwrite=overwrite, progress=progress)


def build_boundaries(
    annotations: PathLike,
    *,
    videos: PathLike,
    out: PathLike,
    skip: int = 1,
    same_subject: bool = True,
    motion_words: Words = None,
    faces: bool = False,
    blur: float = 20.0,
    duplicates: int = 2,
    per_video: int | None = None,
    side: int | None = None,
    image_format: Literal["png", "jpeg"] = "png",
    quality: int = 95,
    seed: int = 0,
    workers: int | None = None,
    dry_run: bool = False,
    overwrite: bool = False,
    progress: Progress | None = None,
) -> dict[str, Any]:
    """Build minimal pairs from event boundaries of videos, as EqBen's part GEBC was built.

    The frame before a boundary is paired with the frame after the next boundary, each from the
    middle of its segment; captions are the subject with its status there.

    Args:
        annotations: JSON in GEBC's form: `{VIDEO: [{"boundary_id", "timestamp", "prev_timestamp",
            "next_timestamp", "label", "subject", "status_before", "status_after"}, …], …}`.
        videos: folder of the videos; `VIDEO_000010_000020.mp4` is found too.
        out: the folder to write: images, `eqbengebc.json`, and a manifest.
        skip: boundaries skipped between the two frames; 0 takes both sides of one boundary.
        same_subject: only pairs whose captions have the same subject.
        motion_words: captions with one of these are dropped; None takes the paper's up, down,
            upward, downward, towards, and `none` keeps all.
        faces: as in `build_graph`.
        blur: as in `build_graph`.
        duplicates: as in `build_graph`.
        per_video: as in `build_graph`.
        side: as in `build_graph`.
        image_format: as in `build_graph`.
        quality: as in `build_graph`.
        seed: same seed, same pairs.
        workers: videos at a time; None takes one for each core.
        dry_run: write nothing, and return the counts that a sample of the videos lets expect.
        overwrite: replace a folder that is there.
        progress: called with a description, what is done and what there is to do.

    Returns:
        The manifest. Videos that are missing or cannot be read are listed in it.

    Raises:
        InputError: the annotations cannot be read, no pair is left, or the folder cannot be used.
        MissingExtraError: PyAV or OpenCV is not installed.

    Example:
        >>> import contrapose as cp
        >>> plan = cp.build_boundaries(
        ...     "demo/boundaries.json", videos="demo/videos", out="events", dry_run=True
        ... )
        >>> plan["filters"]["boundaries with captions"]
        21
    """
    from contrapose.build.video import (
        MOTION_WORDS,
        VideoLibrary,
        make_sources,
        pair_events,
        read_events,
    )

    require_at_least(0, skip=skip)
    settings = _settings(
        motion_words=_words(motion_words, MOTION_WORDS), faces=faces, blur=blur,
        duplicates=duplicates, fps=None, per_video=per_video, side=side,
        image_format=image_format, quality=quality, seed=seed, workers=workers,
    )  # fmt: skip
    path, folder = local_path(annotations), VideoLibrary(local_path(videos))
    require_free(local_path(out), overwrite=overwrite or dry_run)
    events, counts = read_events(path, StrictProblems())
    build = settings.build("boundaries", "gebc", path, counts, skip=skip, same_subject=same_subject)
    candidates = pair_events(events, settings.filters, skip=skip, same_subject=same_subject)
    sources = make_sources(candidates, folder, settings)
    return _run(sources, out, build, dry_run=dry_run, overwrite=overwrite, progress=progress)


def build_steps(
    annotations: PathLike,
    *,
    videos: PathLike,
    out: PathLike,
    motion_words: Words = "none",
    faces: bool = True,
    blur: float = 20.0,
    duplicates: int = 2,
    per_video: int | None = None,
    side: int | None = None,
    image_format: Literal["png", "jpeg"] = "png",
    quality: int = 95,
    seed: int = 0,
    workers: int | None = None,
    dry_run: bool = False,
    overwrite: bool = False,
    progress: Progress | None = None,
) -> dict[str, Any]:
    """Build minimal pairs from the steps of instruction videos, as EqBen's YouCook2 was built.

    The middle frame of a step belongs to its sentence; any two steps of a video are a pair. Frames
    that show a face are dropped.

    Args:
        annotations: JSON in YouCook2's form: `{"database": {VIDEO: {"annotations": [{"segment":
            [start, end], "sentence": …}, …]}, …}}`.
        videos: folder of the videos, which may lie in folders below.
        out: the folder to write: images, `eqbenyoucook2.json`, and a manifest.
        motion_words: captions with one of these are dropped; `none` keeps all, None takes those of
            `build_boundaries`.
        faces: drop frames that show a face.
        blur: as in `build_graph`.
        duplicates: as in `build_graph`.
        per_video: as in `build_graph`.
        side: as in `build_graph`.
        image_format: as in `build_graph`.
        quality: as in `build_graph`.
        seed: same seed, same pairs.
        workers: videos at a time; None takes one for each core.
        dry_run: write nothing, and return the counts that a sample of the videos lets expect.
        overwrite: replace a folder that is there.
        progress: called with a description, what is done and what there is to do.

    Returns:
        The manifest. Videos that are missing or cannot be read are listed in it.

    Raises:
        InputError: the annotations cannot be read, no pair is left, or the folder cannot be used.
        MissingExtraError: PyAV or OpenCV is not installed.

    Example:
        >>> import contrapose as cp
        >>> manifest = cp.build_steps("demo/steps.json", videos="demo/videos", out="steps")
        >>> manifest["unreadable"]
        [{'source': 'broken', 'reason': 'broken.mp4: is empty: a video of 0 bytes.'}]
    """
    from contrapose.build.video import (
        MOTION_WORDS,
        VideoLibrary,
        make_sources,
        pair_steps,
        read_steps,
    )

    settings = _settings(
        motion_words=_words(motion_words, MOTION_WORDS), faces=faces, blur=blur,
        duplicates=duplicates, fps=None, per_video=per_video, side=side,
        image_format=image_format, quality=quality, seed=seed, workers=workers,
    )  # fmt: skip
    path, folder = local_path(annotations), VideoLibrary(local_path(videos))
    require_free(local_path(out), overwrite=overwrite or dry_run)
    steps, counts = read_steps(path, StrictProblems())
    build = settings.build("steps", "youcook2", path, counts)
    sources = make_sources(pair_steps(steps, settings.filters), folder, settings)
    return _run(sources, out, build, dry_run=dry_run, overwrite=overwrite, progress=progress)


def _words(words: Words, default: tuple[str, ...]) -> tuple[str, ...]:
    """Words of a list; the default when left out, and no words for `none`."""
    listed = list_words(words)
    return () if listed == ("none",) else listed or default


def _settings(
    *,
    motion_words: tuple[str, ...],
    faces: bool,
    blur: float,
    duplicates: int,
    fps: float | None,
    per_video: int | None,
    side: int | None,
    image_format: str,
    quality: int,
    seed: int,
    workers: int | None,
) -> VideoSettings:
    """Settings of a build.

    Raises:
        InputError: one of them has a value that it cannot have.
    """
    from contrapose.build.video import FrameFilters, VideoSettings

    require_at_least(0, seed=seed)
    require_at_least(1, per_video=per_video, side=side, workers=workers, quality=quality)
    if quality > 100:
        raise InputError(f"{option('quality')} must be at most 100, found {quality}.")
    return VideoSettings(
        filters=FrameFilters(motion_words, faces, blur, duplicates),
        fps=fps,
        per_video=per_video,
        side=side,
        seed=seed,
        image_format=require_choice("image_format", image_format, ("png", "jpeg")),
        quality=quality,
        workers=workers,
    )


def _run(
    sources: list[PairSource],
    out: PathLike,
    build: PairSetBuild,
    *,
    dry_run: bool,
    overwrite: bool,
    progress: Progress | None,
) -> dict[str, Any]:
    from contrapose.build.pair_sets import plan_pair_set, write_pair_set

    if dry_run:
        return plan_pair_set(sources, build, progress=progress)
    target: Path = local_path(out)
    return write_pair_set(sources, target, build, overwrite=overwrite, progress=progress)
