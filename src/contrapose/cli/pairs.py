"""`contrapose build pairs`: hard positives and hard negatives of one's own captions."""

from __future__ import annotations

import json
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer

from contrapose.cli.console import console, errors
from contrapose.cli.options import cache_option
from contrapose.cli.progress import progress
from contrapose.errors import InputError
from contrapose.report import show


class Taggers(StrEnum):
    """Who tells the parts of speech."""

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
            "exchange, order, negation, rewrite; A,B or repeated. Left out: all."
        ),
    ] = None,
    seed: Annotated[int, typer.Option(min=0, help="Same seed, same pairs.")] = 0,
    per_caption: Annotated[
        int, typer.Option(min=1, help="Most positives of a caption, and most negatives.")
    ] = 4,
    rewriter: Annotated[
        str | None,
        typer.Option(help="A language model that rewrites too: openai:MODEL?url=http://host/v1."),
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
        Taggers, typer.Option(help="Who tells the parts of speech.")
    ] = Taggers.textblob,
    complete: Annotated[
        bool, typer.Option("--complete", help="Only captions with a positive and a negative.")
    ] = False,
    overwrite: Annotated[
        bool, typer.Option("--overwrite", help="Replace files that are there.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print the manifest as JSON.")] = False,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="No progress.")] = False,
) -> None:
    """Make hard positives and hard negatives of captions, each labelled with what changed."""
    from contrapose.build.captions import (
        REWRITTEN,
        Recipe,
        build_pairs,
        load_rewriter,
        parse_kinds,
        places_of,
        read_captions,
    )

    words = [word.strip() for text in kinds or () for word in text.split(",") if word.strip()]
    chosen = parse_kinds(words)
    if rewriter is None and set(chosen) <= set(REWRITTEN):
        raise InputError("these kinds are written by a language model: pass --rewriter too.")
    if rewriter is not None and not set(chosen) & set(REWRITTEN):
        raise InputError("--rewriter has nothing to do: add rewrite to --kinds.")
    kept = cache_option(cache, none=no_cache)
    places = places_of(out, overwrite=overwrite)
    writes = None
    if rewriter is not None:
        writes = load_rewriter(rewriter, kept, attempts)
    rows = list(read_captions(captions, caption_field=caption_field, image_field=image_field))
    with progress(quiet=quiet) as told:
        if told is not None:
            told("pairs", 0, len(rows))
        manifest = build_pairs(
            rows,
            out,
            Recipe(chosen, seed, per_caption, tagger.value),
            rewriter=writes,
            source=str(captions),
            complete=complete,
            overwrite=overwrite,
            progress=None if told is None else lambda done: told("pairs", done, len(rows)),
        )
    if as_json:
        typer.echo(json.dumps(manifest, indent=2, ensure_ascii=False))
        return
    show(console(), _lines(manifest))
    if not quiet:
        errors().print(f"Written to {places.pairs}, with {places.manifest.name}")


def _lines(manifest: dict[str, Any]) -> list[str]:
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
        told = ", ".join(
            f"{name} {count:,}" for name, count in manifest["rewriter"].items() if name != "model"
        )
        lines.append(f"{manifest['rewriter']['model']}: {told}")
    return lines
