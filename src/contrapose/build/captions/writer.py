"""Writer of pairs: settings of a build, its two files, the manifest, and the plan of a dry run.

Pairs are written as one JSON object per line; the manifest ends with the audit of the negatives.
"""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from contrapose import __version__
from contrapose.build.captions.balance import (
    AUDIT_CAPTIONS,
    CANDIDATES,
    BlindTest,
    audit_pairs,
    balance_pairs,
)
from contrapose.build.captions.pairs import (
    NOT_CHOSEN,
    CaptionPairs,
    CaptionRecord,
    Recipe,
    Tally,
    make_pairs,
)
from contrapose.build.captions.rewriter import Rewriter
from contrapose.errors import InputError, option
from contrapose.files import atomic_file, write_text

PAIRS, MANIFEST = "pairs.jsonl", "manifest.json"
SCHEMA = 1
PROGRESS_EVERY = 500
"""Captions between two calls of `progress`."""
PLAN_SAMPLE = 1000
"""Captions from which the counts of a dry run are estimated."""


@dataclass(frozen=True, slots=True)
class PairFiles:
    """Paths of the two files of a build: pairs and manifest."""

    pairs: Path
    manifest: Path


def pair_files(out: Path, *, overwrite: bool = False) -> PairFiles:
    """Paths for `out`: a .jsonl file with its manifest beside it, or a folder with both.

    Raises:
        InputError: something is there already and `overwrite` is off.
    """
    if out.suffix.lower() in (".jsonl", ".ndjson"):
        paths = PairFiles(out, out.with_name(f"{out.stem}.manifest.json"))
    else:
        if out.exists() and not out.is_dir():
            raise InputError("is a file; end it in .jsonl or name a folder.", file=out)
        paths = PairFiles(out / PAIRS, out / MANIFEST)
    for path in (paths.pairs, paths.manifest):
        if path.is_dir() or (path.exists() and not overwrite):
            raise InputError(
                f"is there already; choose another {option('out')} or pass "
                f"{option('overwrite', True)}.",
                file=path,
            )
    return paths


@dataclass(frozen=True, slots=True)
class PairBuild:
    """Settings of a build.

    Attributes:
        recipe: settings of pair generation.
        test: blind scores of the audit and the balance.
        balance: keep only negatives that no blind score can tell.
        complete: write only captions that have a positive and a negative.
        source: the captions' source in the manifest.
    """

    recipe: Recipe = field(default_factory=Recipe)
    test: BlindTest = field(default_factory=BlindTest)
    balance: bool = False
    complete: bool = False
    source: str = ""

    @property
    def proposals(self) -> Recipe:
        """Recipe of the proposals, from which a balance chooses."""
        many = self.recipe.per_caption * (CANDIDATES if self.balance else 1)
        return replace(self.recipe, per_caption=many)


def build_pairs(
    captions: Iterable[CaptionRecord],
    out: Path,
    build: PairBuild = PairBuild(),  # noqa: B008 - it is frozen
    *,
    rewriter: Rewriter | None = None,
    overwrite: bool = False,
    progress: Callable[[int], None] | None = None,
) -> dict[str, Any]:
    """Generate pairs of captions and write them; both files appear complete or not at all.

    Args:
        captions: captions with their images; empty ones and doubles are left out and counted.
        out: a .jsonl file, or a folder.
        build: settings.
        rewriter: a second source of captions.
        overwrite: replace files that exist.
        progress: called with the number of captions done.

    Returns:
        The manifest, with the audit of the negatives.

    Raises:
        InputError: there are no captions, or the files cannot be written.
    """
    places = pair_files(out, overwrite=overwrite)
    read: Counter[str] = Counter()
    tally = Tally()
    written = 0
    audited: list[CaptionPairs] = []
    digest = hashlib.sha256()
    rows = _drop_duplicates(captions, read)
    with atomic_file(places.pairs) as stream:
        for pairs in _make_rows(rows, build, rewriter, tally, progress):
            if build.complete and not (pairs.positives and pairs.negatives):
                continue
            line = _encode_line(pairs)
            digest.update(line)
            stream.write(line)
            written += 1
            if build.balance or len(audited) < AUDIT_CAPTIONS:
                audited.append(pairs)
        _require_captions(read, build.source)
        if not written:
            raise InputError(
                "none of the captions gives a positive and a negative; leave "
                f"{option('complete')} out."
            )
        manifest = _make_manifest(build, rewriter, read, tally, written)
        manifest["sha256"] = digest.hexdigest()
        manifest["audit"] = audit_pairs(audited, build.test)
        write_text(places.manifest, json.dumps(manifest, indent=2, ensure_ascii=False) + "\n")
    return manifest


def plan_pairs(captions: Iterable[CaptionRecord], build: PairBuild) -> dict[str, Any]:
    """Expected counts of a build, from a random sample of the captions; nothing is written.

    Raises:
        InputError: there are no captions.
    """
    read: Counter[str] = Counter()
    rows = list(_drop_duplicates(captions, read))
    _require_captions(read, build.source)
    chosen = np.random.default_rng(build.recipe.seed).permutation(len(rows))[:PLAN_SAMPLE]
    tally = Tally()
    sample = list(_make_rows((rows[i] for i in sorted(chosen.tolist())), build, None, tally, None))
    scale = len(rows) / len(sample)
    kept = [one for one in sample if not build.complete or (one.positives and one.negatives)]
    names = ("without a positive", "without a negative")
    return {
        "source": build.source,
        "sampled": len(sample),
        "captions": {
            **{name: read[name] for name in ("read", "empty", "double", "distinct")},
            **{name: round(scale * tally.captions[name]) for name in names},
            "written": round(scale * len(kept)),
        },
        "expected": {
            kind: round(scale * tally.kept[kind])
            for kind in build.recipe.kinds
            if tally.proposed[kind]
        },
    }


def _make_rows(
    rows: Iterable[CaptionRecord],
    build: PairBuild,
    rewriter: Rewriter | None,
    tally: Tally,
    progress: Callable[[int], None] | None,
) -> Iterator[CaptionPairs]:
    """Pairs of each caption; balanced ones come when all are made."""
    made: list[CaptionPairs] = []
    for pairs in make_pairs(rows, build.proposals, rewriter, tally):
        done = tally.captions["made"]
        if progress is not None and done % PROGRESS_EVERY == 0:
            progress(done)
        if not build.balance:
            yield pairs
            continue
        positives, left = (
            pairs.positives[: build.recipe.per_caption],
            pairs.positives[build.recipe.per_caption :],
        )
        for one in left:
            tally.kept[one.kind] -= 1
            tally.drop(one.kind, NOT_CHOSEN)
        made.append(replace(pairs, positives=positives))
    if made:
        yield from balance_pairs(made, build.recipe.per_caption, build.test, tally)


def _require_captions(read: Counter[str], source: str) -> None:
    if not read["read"]:
        raise InputError("holds no captions.", file=source or None)
    if not read["distinct"]:
        raise InputError("holds no caption with words.", file=source or None)


def _drop_duplicates(
    captions: Iterable[CaptionRecord], read: Counter[str]
) -> Iterator[CaptionRecord]:
    seen: set[bytes] = set()
    for row in captions:
        read["read"] += 1
        if not any(sign.isalnum() for sign in row.caption):
            read["empty"] += 1
            continue
        key = hashlib.blake2b(f"{row.image}\n{row.caption}".encode(), digest_size=16).digest()
        if key in seen:
            read["double"] += 1
            continue
        seen.add(key)
        read["distinct"] += 1
        yield CaptionRecord(" ".join(row.caption.split()), row.image)


def _encode_line(pairs: CaptionPairs) -> bytes:
    return (json.dumps(pairs.as_json(), ensure_ascii=False) + "\n").encode()


def _make_manifest(
    build: PairBuild,
    rewriter: Rewriter | None,
    read: Counter[str],
    tally: Tally,
    written: int,
) -> dict[str, Any]:
    recipe = build.recipe
    names = [kind for kind in recipe.kinds if tally.proposed[kind]]
    return {
        "schema": SCHEMA,
        "contrapose": __version__,
        "source": build.source,
        "seed": recipe.seed,
        "per_caption": recipe.per_caption,
        "tagger": recipe.tagger,
        "kinds": list(recipe.kinds),
        "complete": build.complete,
        "balance": build.balance,
        "captions": {
            **{name: read[name] for name in ("read", "empty", "double", "distinct")},
            **{name: tally.captions[name] for name in ("without a positive", "without a negative")},
            "written": written,
        },
        "proposals": {
            kind: {
                "proposed": tally.proposed[kind],
                **dict(sorted(tally.dropped.get(kind, Counter()).items())),
                "kept": tally.kept[kind],
            }
            for kind in names
        },
        "rewriter": None
        if rewriter is None
        else {"model": rewriter.name, **dict(sorted(rewriter.counts.items()))},
    }
