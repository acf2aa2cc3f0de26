"""`contrapose build graph|boundaries|steps`: minimal pairs from annotated videos."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer

from contrapose.cli.option_groups import BuildOptions, PrintOptions, dump_json, take_options
from contrapose.cli.options import words_option

SHOWN = 5
"""Videos that could not be read and are named."""


class PairImageFormat(StrEnum):
    """Formats of written images."""

    png = "png"
    jpeg = "jpeg"


Format = Annotated[PairImageFormat, typer.Option("--image-format", help="Format of the images.")]
BlindModel = Annotated[
    str | None,
    typer.Option(help="A language model of the audit: lm:smollm2, lm:ORG/NAME or lm:FOLDER."),
]
MotionWords = Annotated[
    list[str] | None,
    typer.Option(
        "--motion-words",
        help="Drop captions with these words: A,B or repeated, or none to keep all.",
    ),
]
Faces = Annotated[
    bool, typer.Option("--faces/--no-faces", help="Drop frames that show a face, or keep them.")
]


@dataclass(frozen=True, kw_only=True)
class VideoPairOptions(BuildOptions):
    """Videos, filters of their frames and pairs, and the images to write."""

    videos: Annotated[
        Path, typer.Option(help="The folder of the videos; they may lie in folders below.")
    ]
    out: Annotated[
        Path, typer.Option(help="The folder to write: images, EqBen's annotation file, a manifest.")
    ]
    faces: Faces = False
    blur: Annotated[
        float,
        typer.Option(help="Least sharpness of a frame (variance of the Laplacian); 0 takes all."),
    ] = 20.0
    duplicates: Annotated[
        int,
        typer.Option(
            help="Drop pairs of frames whose perceptual hashes differ in at most so many of 64 "
            "bits; -1 keeps all."
        ),
    ] = 2
    per_video: Annotated[
        int | None,
        typer.Option(min=1, help="Most pairs of a video, drawn at random. Left out: all."),
    ] = None
    side: Annotated[
        int | None,
        typer.Option(
            min=1,
            rich_help_panel="Images",
            help="Most pixels of an image's shorter side. Left out: as in the video.",
        ),
    ] = None
    image_format: Format = PairImageFormat.png
    quality: Annotated[int, typer.Option(min=1, max=100, help="Quality of JPEG images.")] = 95
    seed: Annotated[int, typer.Option(min=0, help="Same seed, same pairs.")] = 0
    workers: Annotated[
        int | None, typer.Option(min=1, help="Videos at a time. Left out: one for each core.")
    ] = None

    def build(self, builder: Callable[..., dict[str, Any]], annotations: Path, **more: Any) -> None:
        """Build the pairs of annotations with a function of the API, and print the manifest."""
        with self.show_progress() as progress:
            manifest = builder(annotations, progress=progress, **more, **self.arguments())
        show_manifest(manifest, self.out, self, dry_run=self.dry_run)


@dataclass(frozen=True, kw_only=True)
class StepPairOptions(VideoPairOptions):
    """Options of instruction videos, whose frames may not show a face unless they are allowed."""

    faces: Faces = True


@take_options
def graph(
    annotations: Annotated[
        Path,
        typer.Argument(help='Scene graphs as JSON: {"VIDEO.mp4/000089.png": [object, ...], ...}.'),
    ],
    pairs: VideoPairOptions,
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
) -> None:
    """Build minimal pairs from scene graphs of videos (Action Genome)."""
    from contrapose.api.build_video import build_graph

    pairs.build(build_graph, annotations, template=template, fps=fps)


@take_options
def boundaries(
    annotations: Annotated[
        Path, typer.Argument(help="Event boundaries as JSON, in GEBC's form: {VIDEO: [...], ...}.")
    ],
    pairs: VideoPairOptions,
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
) -> None:
    """Build minimal pairs from event boundaries of videos (GEBC).

    Motion words, left out: up, down, upward, downward, towards.
    """
    from contrapose.api.build_video import build_boundaries

    pairs.build(
        build_boundaries,
        annotations,
        skip=skip,
        same_subject=same_subject,
        motion_words=words_option(motion_words) or None,
    )


@take_options
def steps(
    annotations: Annotated[
        Path, typer.Argument(help="Steps as JSON, in YouCook2's form: {database: {VIDEO: ...}}.")
    ],
    pairs: StepPairOptions,
    motion_words: MotionWords = None,
) -> None:
    """Build minimal pairs from the steps of instruction videos (YouCook2)."""
    from contrapose.api.build_video import build_steps

    motion = words_option(motion_words) or "none"
    pairs.build(build_steps, annotations, motion_words=motion)


def show_manifest(
    manifest: dict[str, Any], out: Path, output: PrintOptions, *, dry_run: bool = False
) -> None:
    """Print the manifest of a set of minimal pairs: filters, problems, audit, how to read it."""
    output.show(
        lambda: dump_json(manifest), lambda: _manifest_lines(manifest, out, dry_run=dry_run)
    )


def _manifest_lines(manifest: dict[str, Any], out: Path, *, dry_run: bool) -> list[str]:
    lines: list[str] = [f"{name}: {count:,}" for name, count in manifest["filters"].items()]
    missing = manifest["unreadable"]
    lines += [f"not read: {_named(one['source'], one['reason'])}" for one in missing[:SHOWN]]
    if len(missing) > SHOWN:
        lines.append(f"not read: {len(missing) - SHOWN:,} more; the manifest lists them")
    if dry_run:
        sample = f"{manifest['sampled']:,} of {manifest['sources']:,} that are there"
        first = f"Expected from a sample of {sample}; nothing was written."
        return [first, *lines, f"about {manifest['expected']['pairs']:,} pairs"]
    written = ", ".join(f"{count:,} {name}" for name, count in manifest["written"].items())
    lines += [f"Note: {one['source']} {one['note']}." for one in manifest["notes"][:SHOWN]]
    lines += [f"Written: {written}.", *manifest["audit"]["verdict"]]
    reader = manifest["read_with"]
    how = str(out / reader) if reader.endswith(".jsonl") else f"{reader} --root {out}"
    return [*lines, f"Read it with: contrapose eval MODEL --on {how}"]


def _named(source: str, reason: str) -> str:
    return reason if source in reason else f"{source}: {reason}"
