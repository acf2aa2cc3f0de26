"""Writer of pairs: settings of a build, its two files, the manifest, and the plan of a dry run.

Pairs are written as one JSON object per line; the manifest ends with the audit of the negatives.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
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
from contrapose.files import new_folder, read_json, temporary_folder, write_text
from contrapose.files.atomic import folder_lock, link_new, write_error
from contrapose.files.syncing import sync_folder, sync_tree

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
    _require_free(paths, overwrite=overwrite)
    return paths


def _require_free(paths: PairFiles, *, overwrite: bool) -> None:
    free = overwrite or _is_unfinished(paths)
    for path in (paths.pairs, paths.manifest):
        if path.is_dir() or (os.path.lexists(path) and not free):
            raise InputError(
                f"is there already; choose another {option('out')} or pass "
                f"{option('overwrite', True)}.",
                file=path,
            )


def _is_unfinished(paths: PairFiles) -> bool:
    """Whether there is a manifest without pairs, as a build leaves that was killed at its end."""
    if os.path.lexists(paths.pairs):
        return False
    try:
        manifest = read_json(paths.manifest)
    except InputError:
        return False
    return (
        isinstance(manifest, dict)
        and manifest.get("schema") == SCHEMA
        and {"contrapose", "sha256"} <= manifest.keys()
    )


@contextmanager
def _stage_files(out: Path, *, overwrite: bool) -> Iterator[PairFiles]:
    """Yield paths of two files to write; they take their names only when the block succeeds.

    A folder that is not there yet appears with both of them.

    Raises:
        InputError: writing fails: no permission, no space, or another build was quicker.
    """
    paths = pair_files(out, overwrite=overwrite)
    folder = paths.pairs.parent
    if folder == out and not os.path.lexists(out):
        with new_folder(out) as new:
            yield PairFiles(new / PAIRS, new / MANIFEST)
        return
    is_new = not folder.exists()
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with temporary_folder(folder, paths.pairs.name) as new:
            staged = PairFiles(new / PAIRS, new / MANIFEST)
            yield staged
            sync_tree(new)
            with folder_lock(folder):
                _publish_files(staged, paths, overwrite=overwrite)
        sync_folder(folder)
    except OSError as error:
        raise write_error(paths.pairs, error) from None
    finally:
        if is_new:
            with suppress(OSError):
                folder.rmdir()  # where it is empty


def _publish_files(new: PairFiles, paths: PairFiles, *, overwrite: bool) -> None:
    """Give two files their names; no manifest ever stands beside pairs that are not its own.

    A process that is killed meanwhile leaves the manifest alone, which the next build replaces, or
    in the place of earlier pairs these or the new ones without a manifest.

    Raises:
        InputError: another build was quicker, or the new manifest has no room.
        OSError: writing fails; what was there is as before.
    """
    _require_free(paths, overwrite=overwrite)
    if not os.path.lexists(paths.pairs):
        try:
            new.manifest.replace(paths.manifest)
            link_new(new.pairs, paths.pairs)
        except BaseException:
            if not os.path.lexists(paths.pairs):
                paths.manifest.unlink(missing_ok=True)
            raise
        return
    earlier = new.manifest.with_name("earlier")
    try:
        if os.path.lexists(paths.manifest):
            paths.manifest.replace(earlier)
        new.pairs.replace(paths.pairs)
    except BaseException:
        if os.path.lexists(earlier) and os.path.lexists(new.pairs):
            earlier.replace(paths.manifest)
        raise
    try:
        new.manifest.replace(paths.manifest)
    except OSError as error:
        raise InputError(
            f"cannot be written ({error.strerror or error}), but {paths.pairs.name} is complete; "
            "make room and run the same again.",
            file=paths.manifest,
        ) from None


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
    read: Counter[str] = Counter()
    tally = Tally()
    written = 0
    audited: list[CaptionPairs] = []
    digest = hashlib.sha256()
    rows = _drop_duplicates(captions, read)
    with _stage_files(out, overwrite=overwrite) as files:
        with files.pairs.open("xb") as stream:
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
        write_text(files.manifest, json.dumps(manifest, indent=2, ensure_ascii=False) + "\n")
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
