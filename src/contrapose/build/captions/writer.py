"""Writer of caption pairs: one JSON object per line, and a manifest with counts."""

from __future__ import annotations

import hashlib
import json
import os
import tempfile
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from contrapose import __version__
from contrapose.build.captions.pairs import CaptionPairs, Recipe, Tally, make_pairs
from contrapose.build.captions.reader import CaptionRecord
from contrapose.build.captions.rewriter import Rewriter
from contrapose.errors import InputError
from contrapose.files import write_text

PAIRS, MANIFEST = "pairs.jsonl", "manifest.json"
SCHEMA = 1
PROGRESS_EVERY = 500
"""Captions between two words of progress."""


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
        places = PairFiles(out, out.with_name(f"{out.stem}.manifest.json"))
    else:
        if out.exists() and not out.is_dir():
            raise InputError("is a file; end it in .jsonl or name a folder.", file=out)
        places = PairFiles(out / PAIRS, out / MANIFEST)
    for place in (places.pairs, places.manifest):
        if place.is_dir() or (place.exists() and not overwrite):
            raise InputError(
                "is there already; choose another --out or pass --overwrite.", file=place
            )
    return places


def build_pairs(
    captions: Iterable[CaptionRecord],
    out: Path,
    recipe: Recipe = Recipe(),  # noqa: B008 - it is frozen
    *,
    rewriter: Rewriter | None = None,
    source: str = "",
    complete: bool = False,
    overwrite: bool = False,
    progress: Callable[[int], None] | None = None,
) -> dict[str, Any]:
    """Generate pairs of captions and write them; both files appear complete or not at all.

    Args:
        captions: captions with their images; empty ones and doubles are passed over and counted.
        out: a .jsonl file, or a folder.
        recipe: what is made.
        rewriter: a second source of captions.
        source: what the manifest says they come from.
        complete: write only captions that have a positive and a negative.
        overwrite: let the files take the place of earlier ones.
        progress: told how many captions are done.

    Returns:
        The manifest.

    Raises:
        InputError: there are no captions, or the files cannot be written.
    """
    places = pair_files(out, overwrite=overwrite)
    read: Counter[str] = Counter()
    tally = Tally()
    written = 0
    digest = hashlib.sha256()
    with _atomic_file(places.pairs) as stream:
        for pairs in make_pairs(_drop_duplicates(captions, read), recipe, rewriter, tally):
            done = tally.captions["made"]
            if progress is not None and done % PROGRESS_EVERY == 0:
                progress(done)
            if complete and not (pairs.positives and pairs.negatives):
                continue
            line = _encode_line(pairs)
            digest.update(line)
            stream.write(line)
            written += 1
        if not read["read"]:
            raise InputError("holds no captions.", file=source or None)
        if not read["distinct"]:
            raise InputError("holds no caption with words.", file=source or None)
        if not written:
            raise InputError(
                "none of the captions gives a positive and a negative; leave --complete out."
            )
        manifest = _make_manifest(recipe, rewriter, source, complete, read, tally, written)
        manifest["sha256"] = digest.hexdigest()
        write_text(places.manifest, json.dumps(manifest, indent=2, ensure_ascii=False) + "\n")
    return manifest


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
    recipe: Recipe,
    rewriter: Rewriter | None,
    source: str,
    complete: bool,
    read: Counter[str],
    tally: Tally,
    written: int,
) -> dict[str, Any]:
    names = [kind for kind in recipe.kinds if tally.proposed[kind]]
    return {
        "schema": SCHEMA,
        "contrapose": __version__,
        "source": source,
        "seed": recipe.seed,
        "per_caption": recipe.per_caption,
        "tagger": recipe.tagger,
        "kinds": list(recipe.kinds),
        "complete": complete,
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


@contextmanager
def _atomic_file(path: Path) -> Iterator[IO[bytes]]:
    """Open a temporary file that takes its name only when the block succeeds."""
    temporary = None
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        handle, name = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
        temporary = Path(name)
        with os.fdopen(handle, "wb") as stream:
            yield stream
        mask = os.umask(0)
        os.umask(mask)
        temporary.chmod(0o666 & ~mask)
        temporary.replace(path)
    except BaseException as error:
        if temporary is not None:
            temporary.unlink(missing_ok=True)
        if isinstance(error, OSError):
            why = error.strerror or str(error)
            raise InputError(
                f"cannot be written ({why}); nothing was left there.", file=path
            ) from None
        raise
