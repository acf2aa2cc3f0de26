"""`contrapose build graph|boundaries|steps`: minimal pairs from annotated videos."""

from __future__ import annotations

import json
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer

from contrapose.cli.console import echo_json, output_console, show, show_progress
from contrapose.cli.options import AsJson, DryRun, Overwrite, Quiet, words_option

SHOWN = 5
"""Videos that could not be read and are named."""


class PairImageFormat(StrEnum):
    """Formats of written images."""

    png = "png"
    jpeg = "jpeg"


Videos = Annotated[
    Path, typer.Option(help="The folder of the videos; they may lie in folders below.")
]
Out = Annotated[
    Path, typer.Option(help="The folder to write: images, EqBen's annotation file, a manifest.")
]
Blur = Annotated[
    float, typer.Option(help="Least sharpness of a frame (variance of the Laplacian); 0 takes all.")
]
Duplicates = Annotated[
    int,
    typer.Option(
        help="Drop pairs of frames whose perceptual hashes differ in at most so many of 64 bits; "
        "-1 keeps all."
    ),
]
Faces = Annotated[
    bool, typer.Option("--faces/--no-faces", help="Drop frames that show a face, or keep them.")
]
MotionWords = Annotated[
    list[str] | None,
    typer.Option(
        "--motion-words",
        help="Drop captions with these words: A,B or repeated, or none to keep all.",
    ),
]
PerVideo = Annotated[
    int | None, typer.Option(min=1, help="Most pairs of a video, drawn at random. Left out: all.")
]
Side = Annotated[
    int | None,
    typer.Option(min=1, help="Most pixels of an image's shorter side. Left out: as in the video."),
]
Format = Annotated[PairImageFormat, typer.Option("--image-format", help="Format of the images.")]
Quality = Annotated[int, typer.Option(min=1, max=100, help="Quality of JPEG images.")]
Seed = Annotated[int, typer.Option(min=0, help="Same seed, same pairs.")]
Workers = Annotated[
    int | None, typer.Option(min=1, help="Videos at a time. Left out: one for each core.")
]
BlindModel = Annotated[
    str | None,
    typer.Option(help="A language model of the audit: lm:smollm2, lm:ORG/NAME or lm:FOLDER."),
]


def graph(
    annotations: Annotated[
        Path,
        typer.Argument(help='Scene graphs as JSON: {"VIDEO.mp4/000089.png": [object, ...], ...}.'),
    ],
    videos: Videos,
    out: Out,
    template: Annotated[
        str | None,
        typer.Option(
            help="Captions, with the slots {relation}, {attention}, {contact}, {spatial}, "
            "{object}. Left out: The person is {relation} the {object} which is {spatial} him/her."
        ),
    ] = None,
    fps: Annotated[
        float | None,
        typer.Option(
            help="Frames a second by which frames are numbered. Left out: each video's own."
        ),
    ] = None,
    faces: Faces = False,
    blur: Blur = 20.0,
    duplicates: Duplicates = 2,
    per_video: PerVideo = None,
    side: Side = None,
    image_format: Format = PairImageFormat.png,
    quality: Quality = 95,
    seed: Seed = 0,
    workers: Workers = None,
    dry_run: DryRun = False,
    overwrite: Overwrite = False,
    as_json: AsJson = False,
    quiet: Quiet = False,
) -> None:
    """Build minimal pairs from scene graphs of videos (Action Genome)."""
    from contrapose.api.build_video import build_graph

    with show_progress(quiet=quiet) as progress:
        manifest = build_graph(
            annotations, videos=videos, out=out, template=template, fps=fps, faces=faces,
            blur=blur, duplicates=duplicates, per_video=per_video, side=side,
            image_format=image_format.value, quality=quality, seed=seed, workers=workers,
            dry_run=dry_run, overwrite=overwrite, progress=progress,
        )  # fmt: skip
    show_manifest(manifest, out, dry_run=dry_run, as_json=as_json)


def boundaries(
    annotations: Annotated[
        Path, typer.Argument(help="Event boundaries as JSON, in GEBC's form: {VIDEO: [...], ...}.")
    ],
    videos: Videos,
    out: Out,
    skip: Annotated[
        int,
        typer.Option(min=0, help="Boundaries skipped between two frames; 0: both sides of one."),
    ] = 1,
    same_subject: Annotated[
        bool,
        typer.Option(
            "--same-subject/--any-subject", help="Only pairs of captions with one subject, or all."
        ),
    ] = True,
    motion_words: MotionWords = None,
    faces: Faces = False,
    blur: Blur = 20.0,
    duplicates: Duplicates = 2,
    per_video: PerVideo = None,
    side: Side = None,
    image_format: Format = PairImageFormat.png,
    quality: Quality = 95,
    seed: Seed = 0,
    workers: Workers = None,
    dry_run: DryRun = False,
    overwrite: Overwrite = False,
    as_json: AsJson = False,
    quiet: Quiet = False,
) -> None:
    """Build minimal pairs from event boundaries of videos (GEBC).

    Motion words, left out: up, down, upward, downward, towards.
    """
    from contrapose.api.build_video import build_boundaries

    with show_progress(quiet=quiet) as progress:
        manifest = build_boundaries(
            annotations, videos=videos, out=out, skip=skip, same_subject=same_subject,
            motion_words=words_option(motion_words) or None, faces=faces, blur=blur,
            duplicates=duplicates, per_video=per_video, side=side,
            image_format=image_format.value, quality=quality, seed=seed, workers=workers,
            dry_run=dry_run, overwrite=overwrite, progress=progress,
        )  # fmt: skip
    show_manifest(manifest, out, dry_run=dry_run, as_json=as_json)


def steps(
    annotations: Annotated[
        Path, typer.Argument(help="Steps as JSON, in YouCook2's form: {database: {VIDEO: ...}}.")
    ],
    videos: Videos,
    out: Out,
    motion_words: MotionWords = None,
    faces: Faces = True,
    blur: Blur = 20.0,
    duplicates: Duplicates = 2,
    per_video: PerVideo = None,
    side: Side = None,
    image_format: Format = PairImageFormat.png,
    quality: Quality = 95,
    seed: Seed = 0,
    workers: Workers = None,
    dry_run: DryRun = False,
    overwrite: Overwrite = False,
    as_json: AsJson = False,
    quiet: Quiet = False,
) -> None:
    """Build minimal pairs from the steps of instruction videos (YouCook2)."""
    from contrapose.api.build_video import build_steps

    with show_progress(quiet=quiet) as progress:
        manifest = build_steps(
            annotations, videos=videos, out=out,
            motion_words=words_option(motion_words) or "none", faces=faces, blur=blur,
            duplicates=duplicates, per_video=per_video, side=side,
            image_format=image_format.value, quality=quality, seed=seed, workers=workers,
            dry_run=dry_run, overwrite=overwrite, progress=progress,
        )  # fmt: skip
    show_manifest(manifest, out, dry_run=dry_run, as_json=as_json)


def show_manifest(manifest: dict[str, Any], out: Path, *, dry_run: bool, as_json: bool) -> None:
    """Print the manifest of a set of minimal pairs: filters, problems, audit, how to read it."""
    if as_json:
        echo_json(json.dumps(manifest, indent=2, ensure_ascii=False))
        return
    lines: list[Any] = [f"{name}: {count:,}" for name, count in manifest["filters"].items()]
    missing = manifest["unreadable"]
    lines += [f"not read: {_named(one['source'], one['reason'])}" for one in missing[:SHOWN]]
    if len(missing) > SHOWN:
        lines.append(f"not read: {len(missing) - SHOWN:,} more; the manifest lists them")
    if dry_run:
        sample = f"{manifest['sampled']:,} of {manifest['sources']:,} that are there"
        first = f"Expected from a sample of {sample}; nothing was written."
        last = f"about {manifest['expected']['pairs']:,} pairs"
        show(output_console(), [first, *lines, last])
        return
    written = ", ".join(f"{count:,} {name}" for name, count in manifest["written"].items())
    lines += [f"Note: {one['source']} {one['note']}." for one in manifest["notes"][:SHOWN]]
    lines += [f"Written: {written}.", *manifest["audit"]["verdict"]]
    reader = manifest["read_with"]
    how = str(out / reader) if reader.endswith(".jsonl") else f"{reader} --root {out}"
    show(output_console(), [*lines, f"Read it with: contrapose eval MODEL --on {how}"])


def _named(source: str, reason: str) -> str:
    return reason if source in reason else f"{source}: {reason}"
