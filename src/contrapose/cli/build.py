"""`contrapose build`: write caption pairs, edit queries, minimal pairs, or `scenes`, to disk."""

from __future__ import annotations

import json
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer

from contrapose.cli import build_edits, options
from contrapose.cli.build_features import features
from contrapose.cli.build_video import boundaries, graph, steps
from contrapose.cli.console import echo_json, error_console, output_console, show, show_progress
from contrapose.cli.options import cache_option, words_option
from contrapose.errors import InputError


class PairTagger(StrEnum):
    """Part-of-speech taggers."""

    textblob = "textblob"
    spacy = "spacy"


def pairs(
    captions: Annotated[
        Path,
        typer.Argument(
            help="A .jsonl, .csv, .tsv or .parquet table, plain text with a caption a line, or "
            "COCO's or Karpathy's .json."
        ),
    ],
    out: Annotated[
        Path, typer.Option(help="A .jsonl file, or a folder for pairs.jsonl and manifest.json.")
    ],
    kinds: Annotated[
        list[str] | None,
        typer.Option(
            help="Kinds of changes, or groups: positive, negative, replace, swap, contrast, "
            "exchange, order, negation, rewrite, atom, crepe, aro; A,B or repeated. Left out: all."
        ),
    ] = None,
    seed: Annotated[int, typer.Option(min=0, help="Same seed, same pairs.")] = 0,
    per_caption: Annotated[
        int, typer.Option(min=1, help="Most positives of a caption, and most negatives.")
    ] = 4,
    rewriter: Annotated[
        str | None,
        typer.Option(help="A language model that rewrites too: openai:MODEL,url=http://host/v1."),
    ] = None,
    attempts: Annotated[
        int, typer.Option(min=1, help="How often a rewriter is asked for one change.")
    ] = 3,
    cache: Annotated[
        Path | None,
        typer.Option(
            help="Where a rewriter's replies are kept. Left out: the user's cache folder."
        ),
    ] = None,
    no_cache: Annotated[
        bool, typer.Option("--no-cache", help="Keep no replies, and ask everything again.")
    ] = False,
    caption_field: Annotated[
        str | None, typer.Option(help="The table's column of captions, if it has another name.")
    ] = None,
    image_field: Annotated[
        str | None, typer.Option(help="The table's column of images, if it has another name.")
    ] = None,
    tagger: Annotated[
        PairTagger, typer.Option(help="Who tells the parts of speech.")
    ] = PairTagger.textblob,
    complete: Annotated[
        bool, typer.Option("--complete", help="Only captions with a positive and a negative.")
    ] = False,
    balance: Annotated[
        bool,
        typer.Option(
            "--balance", help="Only negatives that no blind score can tell from their captions."
        ),
    ] = False,
    lm: Annotated[
        str | None,
        typer.Option(
            help="A language model among the blind scores: lm:smollm2, lm:ORG/NAME or lm:FOLDER. "
            "Left out: the n-gram model and the length alone."
        ),
    ] = None,
    device: Annotated[str, typer.Option(help="Where the language model computes.")] = "auto",
    dry_run: options.DryRun = False,
    overwrite: options.Overwrite = False,
    as_json: options.AsJson = False,
    quiet: options.Quiet = False,
) -> None:
    """Make hard positives and hard negatives of captions, each labelled with what changed."""
    from contrapose.api.build import build_pairs

    with show_progress(quiet=quiet) as progress:
        manifest = build_pairs(
            captions,
            out=out,
            kinds=words_option(kinds),
            seed=seed,
            per_caption=per_caption,
            rewriter=rewriter,
            attempts=attempts,
            cache=cache_option(cache, no_cache),
            caption_field=caption_field,
            image_field=image_field,
            tagger=tagger.value,
            complete=complete,
            balance=balance,
            lm=lm,
            device=device,
            dry_run=dry_run,
            overwrite=overwrite,
            progress=progress,
        )
    if as_json:
        echo_json(json.dumps(manifest, indent=2, ensure_ascii=False))
        return
    if dry_run:
        show(output_console(), _plan_lines(manifest))
        return
    show(output_console(), [*_manifest_lines(manifest), *_audit_lines(manifest["audit"])])
    if not quiet:
        from contrapose.build.captions import pair_files

        files = pair_files(out, overwrite=True)
        error_console().print(f"Written to {files.pairs}, with {files.manifest.name}")
        if captions.suffix != ".txt":
            where = "" if captions.parent == files.pairs.parent else f" --root {captions.parent}"
            error_console().print(
                f"Read it with: contrapose eval MODEL --on {files.pairs}{where}", soft_wrap=True
            )


def _manifest_lines(manifest: dict[str, Any]) -> list[str]:
    captions = manifest["captions"]
    lines = [
        f"{captions['read']:,} captions read, {captions['empty']:,} empty, "
        f"{captions['double']:,} double, {captions['written']:,} written; "
        f"{captions['without a positive']:,} without a positive, "
        f"{captions['without a negative']:,} without a negative."
    ]
    for kind, counts in manifest["proposals"].items():
        lines.append(f"{kind}: {counts['kept']:,} of {counts['proposed']:,} proposals")
    if manifest["rewriter"] is not None:
        counted = ", ".join(
            f"{name} {count:,}" for name, count in manifest["rewriter"].items() if name != "model"
        )
        lines.append(f"{manifest['rewriter']['model']}: {counted}")
    return lines


def _plan_lines(plan: dict[str, Any]) -> list[str]:
    captions = plan["captions"]
    return [
        f"Expected from a sample of {plan['sampled']:,} of {captions['distinct']:,} captions; "
        "nothing was written.",
        f"about {captions['written']:,} captions written; "
        f"{captions['without a positive']:,} without a positive, "
        f"{captions['without a negative']:,} without a negative.",
        *(f"{kind}: about {count:,}" for kind, count in plan["expected"].items()),
    ]


def _audit_lines(audit: dict[str, Any] | None) -> list[Any]:
    from contrapose.report.tables import Table

    if audit is None:
        return ["There are no negatives to audit."]
    scores = audit["scores"]
    kinds = dict.fromkeys(kind for score in scores.values() for kind in score["kinds"])
    rows = [("all", *(f"{100 * score['accuracy']:.1f}" for score in scores.values()))]
    for kind in kinds:
        shares = (score["kinds"].get(kind) for score in scores.values())
        rows.append((kind, *("" if one is None else f"{100 * one:.1f}" for one in shares)))
    title = "Negatives told from their captions without an image, in %; guessing gets 50"
    table = Table(title, ("<kind", *scores), tuple(rows))
    return [table, *audit["verdict"], *(f"Note: {note}." for note in audit["notes"])]


app = typer.Typer(
    add_completion=False, no_args_is_help=True, help="Build benchmarks, and pairs to learn from."
)
app.command("pairs")(pairs)
app.command("graph")(graph)
app.command("boundaries")(boundaries)
app.command("steps")(steps)
app.command("edits")(build_edits.edits)
app.command("review")(build_edits.review)
app.command("features")(features)


@app.command("triplets")
def triplets(
    annotations: Annotated[
        Path, typer.Argument(help="Visual Genome's relationships.json, or scenes.")
    ],
    out: Annotated[Path, typer.Option(help="The folder to write: SIMAT's files and a manifest.")],
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
    cache: Annotated[
        Path | None,
        typer.Option(help="Where the oracle's scores are kept. Left out: the user's folder."),
    ] = None,
    no_cache: Annotated[bool, typer.Option("--no-cache", help="Keep no scores.")] = False,
    dry_run: options.DryRun = False,
    overwrite: options.Overwrite = False,
    as_json: options.AsJson = False,
    quiet: options.Quiet = False,
) -> None:
    """Build edit queries from (subject, relation, object) annotations, as SIMAT was built."""
    from contrapose.api.build import build_triplets

    with show_progress(quiet=quiet) as progress:
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
            cache=cache_option(cache, no_cache),
            dry_run=dry_run,
            overwrite=overwrite,
            progress=progress,
        )
    if as_json:
        echo_json(json.dumps(manifest, indent=2, ensure_ascii=False))
        return
    end = f"written to {out}; read with simat."
    if dry_run and oracle:
        end = f"nothing was written, and {oracle} was not asked: the annotations stand for it."
    elif dry_run:
        end = "nothing was written."
    lines = [
        *(f"regions, {name}: {count:,}" for name, count in manifest["regions"].items()),
        *(f"queries, {name}: {count:,}" for name, count in manifest["queries"].items()),
        ", ".join(f"{count:,} {name}" for name, count in manifest["written"].items()),
        end,
    ]
    show(output_console(), lines)


class SceneForm(StrEnum):
    """Forms of the benchmark `scenes`."""

    balanced = "balanced"
    skewed = "skewed"


class SceneEngineName(StrEnum):
    """Rendering engines."""

    raytracer = "raytracer"
    blender = "blender"


@app.command("scenes")
def scenes(
    out: Annotated[Path, typer.Option(help="The folder to write; a folder in it for each part.")],
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
    dry_run: options.DryRun = False,
    overwrite: options.Overwrite = False,
    as_json: options.AsJson = False,
    quiet: options.Quiet = False,
) -> None:
    """Write the benchmark `scenes` as images and annotation files of public formats.

    A build that was stopped goes on where it was when the same is asked again.
    """
    from contrapose.api.build import build_scenes

    if every and part:
        raise InputError("pass either --subset or --all, not both.")
    with show_progress(quiet=quiet) as progress:
        manifest = build_scenes(
            out=out,
            part=options.words_option(part) or None,
            examples=examples,
            seed=seed,
            size=size,
            world=world.value,
            masks=masks,
            engine=engine.value,
            dry_run=dry_run,
            overwrite=overwrite,
            progress=progress,
        )
    if as_json:
        echo_json(json.dumps(manifest, indent=2, ensure_ascii=False))
        return
    lines = [
        f"{name}: {made['examples']} examples, {made['images']} images; read with {_hint(made)}"
        for name, made in manifest["parts"].items()
    ]
    if dry_run:
        drawn = sum(made["filters"]["scenes drawn"] for made in manifest["parts"].values())
        show(output_console(), [*lines, f"about {drawn:,} scenes to draw; nothing was written."])
        return
    audit = manifest["audit"]
    verdict = ["There are no captions to audit."] if audit is None else audit["verdict"]
    show(output_console(), [*lines, *verdict, f"written to {out}, with a manifest."])


def _hint(made: dict[str, str]) -> str:
    reader = made["read_with"]
    return f"the file {reader}" if reader.endswith(".jsonl") else reader
