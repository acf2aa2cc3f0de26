"""`contrapose build`: its subcommands, with those of edit queries and of `scenes`."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer

from contrapose.cli.build_edits import edits, review
from contrapose.cli.build_features import features
from contrapose.cli.build_pairs import pairs
from contrapose.cli.build_video import boundaries, graph, steps
from contrapose.cli.option_groups import BuildOptions, CacheOptions, dump_json, take_options
from contrapose.cli.options import words_option
from contrapose.errors import InputError

app = typer.Typer(
    add_completion=False, no_args_is_help=True, help="Build benchmarks, and pairs to learn from."
)
app.command("pairs")(pairs)
app.command("graph")(graph)
app.command("boundaries")(boundaries)
app.command("steps")(steps)
app.command("edits")(edits)
app.command("review")(review)
app.command("features")(features)


@app.command("triplets")
@take_options
def triplets(
    annotations: Annotated[
        Path, typer.Argument(help="Visual Genome's relationships.json, or scenes.")
    ],
    out: Annotated[Path, typer.Option(help="The folder to write: SIMAT's files and a manifest.")],
    store: CacheOptions,
    output: BuildOptions,
    images: Annotated[
        Path | None,
        typer.Option(help="The photographs; with them the square crops are written too."),
    ] = None,
    subjects: Annotated[
        list[str] | None,
        typer.Option(help="Subjects that count: A,B or repeated, or all. Left out: SIMAT's."),
    ] = None,
    relations: Annotated[
        list[str] | None,
        typer.Option(help="Relations that count: A,B or repeated, or all. Left out: SIMAT's."),
    ] = None,
    objects: Annotated[
        int, typer.Option(min=1, help="Most frequent objects of a subject and relation.")
    ] = 10,
    min_images: Annotated[int, typer.Option(min=1, help="Images of a triplet.")] = 2,
    oracle: Annotated[
        str | None,
        typer.Option(
            help="A model with itm, vqa or itc that looks at every image. Left out: the "
            "annotations."
        ),
    ] = None,
    present: Annotated[
        float, typer.Option(help="The oracle's least probability of the image's own caption.")
    ] = 0.9,
    absent: Annotated[
        float, typer.Option(help="The oracle's highest probability of the target caption.")
    ] = 0.1,
    scenes: Annotated[int, typer.Option(min=1, help="Scenes to draw, for scenes.")] = 2000,
    size: Annotated[int, typer.Option(min=1, help="Width and height of their images.")] = 96,
    seed: Annotated[int, typer.Option(min=0, help="Same seed, same halves.")] = 0,
    device: Annotated[str, typer.Option(help="Where the oracle computes.")] = "auto",
) -> None:
    """Build edit queries from (subject, relation, object) annotations, as SIMAT was built."""
    from contrapose.api.build import build_triplets

    with output.show_progress() as progress:
        manifest = build_triplets(
            annotations,
            out=out,
            images=images,
            subjects=words_option(subjects) or None,
            relations=words_option(relations) or None,
            objects=objects,
            min_images=min_images,
            oracle=oracle,
            present=present,
            absent=absent,
            scenes=scenes,
            size=size,
            seed=seed,
            device=device,
            progress=progress,
            **store.arguments(),
            **output.arguments(),
        )
    end = f"written to {out}; read with simat."
    if output.dry_run and oracle:
        end = f"nothing was written, and {oracle} was not asked: the annotations stand for it."
    elif output.dry_run:
        end = "nothing was written."
    lines = [
        *(f"regions, {name}: {count:,}" for name, count in manifest["regions"].items()),
        *(f"queries, {name}: {count:,}" for name, count in manifest["queries"].items()),
        ", ".join(f"{count:,} {name}" for name, count in manifest["written"].items()),
        end,
    ]
    output.show(lambda: dump_json(manifest), lambda: lines)


class SceneForm(StrEnum):
    """Forms of the benchmark `scenes`."""

    balanced = "balanced"
    skewed = "skewed"


class SceneEngineName(StrEnum):
    """Rendering engines."""

    raytracer = "raytracer"
    blender = "blender"


@app.command("scenes")
@take_options
def scenes(
    out: Annotated[Path, typer.Option(help="The folder to write; a folder in it for each part.")],
    output: BuildOptions,
    part: Annotated[
        list[str] | None,
        typer.Option("--subset", help="A part, such as swap-relation; A,B or repeated."),
    ] = None,
    every: Annotated[
        bool, typer.Option("--all", help="Every part; so it is without --subset.")
    ] = False,
    examples: Annotated[int, typer.Option(help="Examples of each part.")] = 200,
    seed: Annotated[int, typer.Option(help="Same seed, same examples.")] = 0,
    size: Annotated[int, typer.Option(help="Width and height of the pictures.")] = 96,
    world: Annotated[
        SceneForm, typer.Option(help="Balanced, or as skewed as the training set.")
    ] = SceneForm.balanced,
    masks: Annotated[
        bool, typer.Option("--masks", help="Also write which thing each pixel belongs to.")
    ] = False,
    engine: Annotated[
        SceneEngineName,
        typer.Option(
            help="What draws the pictures: the built-in ray tracer, or Blender (see the extra "
            "blender)."
        ),
    ] = SceneEngineName.raytracer,
) -> None:
    """Write the benchmark `scenes` as images and annotation files of public formats.

    A build that was stopped goes on where it was when the same is asked again.
    """
    from contrapose.api.build import build_scenes

    if every and part:
        raise InputError("pass either --subset or --all, not both.")
    with output.show_progress() as progress:
        manifest = build_scenes(
            out=out,
            part=words_option(part) or None,
            examples=examples,
            seed=seed,
            size=size,
            world=world.value,
            masks=masks,
            engine=engine.value,
            progress=progress,
            **output.arguments(),
        )
    output.show(
        lambda: dump_json(manifest), lambda: _scene_lines(manifest, out, dry_run=output.dry_run)
    )


def _scene_lines(manifest: dict[str, Any], out: Path, *, dry_run: bool) -> list[str]:
    lines = [
        f"{name}: {made['examples']} examples, {made['images']} images; read with {_hint(made)}"
        for name, made in manifest["parts"].items()
    ]
    if dry_run:
        drawn = sum(made["filters"]["scenes drawn"] for made in manifest["parts"].values())
        return [*lines, f"about {drawn:,} scenes to draw; nothing was written."]
    audit = manifest["audit"]
    verdict = ["There are no captions to audit."] if audit is None else audit["verdict"]
    return [*lines, *verdict, f"written to {out}, with a manifest."]


def _hint(made: dict[str, str]) -> str:
    reader = made["read_with"]
    return f"the file {reader}" if reader.endswith(".jsonl") else reader
