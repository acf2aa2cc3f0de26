"""`contrapose build pairs`: hard positives and hard negatives of captions."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer

from contrapose.cli.console import error_console
from contrapose.cli.option_groups import BuildOptions, CacheOptions, dump_json, take_options
from contrapose.cli.options import words_option


class PairTagger(StrEnum):
    """Part-of-speech taggers."""

    textblob = "textblob"
    spacy = "spacy"


@take_options
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
    store: CacheOptions,
    output: BuildOptions,
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
) -> None:
    """Make hard positives and hard negatives of captions, each labelled with what changed."""
    from contrapose.api.build import build_pairs

    with output.show_progress() as progress:
        manifest = build_pairs(
            captions,
            out=out,
            kinds=words_option(kinds),
            seed=seed,
            per_caption=per_caption,
            rewriter=rewriter,
            attempts=attempts,
            caption_field=caption_field,
            image_field=image_field,
            tagger=tagger.value,
            complete=complete,
            balance=balance,
            lm=lm,
            device=device,
            progress=progress,
            **store.arguments(),
            **output.arguments(),
        )
    output.show(
        lambda: dump_json(manifest),
        lambda: (
            _plan_lines(manifest)
            if output.dry_run
            else [*_manifest_lines(manifest), *_audit_lines(manifest["audit"])]
        ),
    )
    if not (output.as_json or output.dry_run or output.quiet):
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
