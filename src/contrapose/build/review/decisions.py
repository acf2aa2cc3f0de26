"""Decisions of a review, and the set that is left when they are applied."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from contrapose.build.captions.balance import BlindTest
from contrapose.build.minimal_pairs import (
    MinimalPair,
    PairImage,
    PairSetBuild,
    PairSource,
    SourcePairs,
)
from contrapose.build.pair_sets import MANIFEST, write_pair_set
from contrapose.build.review.pairs import PairSet
from contrapose.build.score_filter import ScoreFilter
from contrapose.data.benchmarks.eqben import OFFICIAL_NAMES
from contrapose.engine import Progress
from contrapose.errors import InputError, first_line
from contrapose.files import read_json, safe_join

FORMAT, VERSION = "contrapose-decisions", 1
REVIEWED = "kept in review"
"""Name of the filter in the manifest."""


@dataclass(frozen=True, slots=True)
class Decisions:
    """Decisions of a person about the pairs of one build.

    Attributes:
        keep: ids of pairs to keep.
        drop: ids of pairs to drop.
        sha256: of the file.
    """

    keep: frozenset[str]
    drop: frozenset[str]
    sha256: str = ""


def read_decisions(path: Path, pair_set: PairSet) -> Decisions:
    """Read the file that the review page downloads.

    Raises:
        InputError: it holds no decisions, or those of another build.
    """
    value = read_json(path)
    if (
        not isinstance(value, dict)
        or value.get("format") != FORMAT
        or not isinstance(value.get("decisions"), dict)
    ):
        raise InputError("holds no decisions of a review page.", file=path)
    if value.get("version") != VERSION:
        raise InputError(
            f"has decisions of an unknown version, {value.get('version')!r}.", file=path
        )
    if value.get("build") != pair_set.id:
        raise InputError(
            f"has decisions about another build than {pair_set.folder}: they cannot be applied.",
            file=path,
        )
    known = {row["id"] for row in pair_set.rows}
    for name, decision in value["decisions"].items():
        if name not in known or decision not in ("keep", "drop"):
            raise InputError(f"has a decision that cannot be: {name!r}, {decision!r}.", file=path)
    by = {
        word: frozenset(name for name, one in value["decisions"].items() if one == word)
        for word in ("keep", "drop")
    }
    return Decisions(by["keep"], by["drop"], hashlib.sha256(path.read_bytes()).hexdigest())


def apply_review(
    pair_set: PairSet,
    out: Path,
    *,
    decisions: Decisions | None = None,
    undecided: Literal["keep", "drop"] = "keep",
    score_filter: ScoreFilter | None = None,
    test: BlindTest | None = None,
    overwrite: bool = False,
    progress: Progress | None = None,
) -> dict[str, Any]:
    """Write the pairs of a set that are left after a review, a score filter, or both.

    Images are copied byte for byte; the audit runs again, and the manifest goes on from that of the
    set.

    Args:
        pair_set: the set.
        out: the folder to write.
        decisions: of a person; None drops nothing.
        undecided: what becomes of pairs without a decision.
        score_filter: filter by a score; None keeps all.
        test: blind scores of the audit.
        overwrite: replace a folder that is there.
        progress: called with a description, the number done and the total.

    Returns:
        The manifest of the new set.

    Raises:
        InputError: no pair is left, or the folder cannot be used.
    """
    if out.resolve() == pair_set.folder.resolve():
        raise InputError("is the set itself: write what is left to another folder.", file=out)
    rows: Sequence[Mapping[str, Any]] = pair_set.rows
    manifest = pair_set.manifest
    counts = dict(manifest["filters"])
    review: dict[str, Any] = {"of": pair_set.id}
    if decisions is not None:
        rows = [row for row in rows if _is_kept(row["id"], decisions, undecided)]
        counts[_free_name(REVIEWED, counts)] = len(rows)
        review["decisions"] = {
            "sha256": decisions.sha256,
            "kept": len(decisions.keep),
            "dropped": len(decisions.drop),
            "undecided": len(pair_set.rows) - len(decisions.keep) - len(decisions.drop),
            "undecided pairs": undecided,
        }
    if score_filter is not None:
        chosen = score_filter.choose(rows, pair_set.folder)
        rows = [
            {**row, "tags": {**row["tags"], **chosen.tags[row["id"]]}}
            for row in rows
            if row["id"] in chosen.tags
        ]
        counts |= {_free_name(name, counts): count for name, count in chosen.counts.items()}
        review["filter"] = score_filter.parameters
    build = _next_build(pair_set, counts, review, test)
    sources = _group_sources(rows, pair_set, build)
    return write_pair_set(sources, out, build, overwrite=overwrite, progress=progress)


def _next_build(
    pair_set: PairSet, counts: dict[str, int], review: dict[str, Any], test: BlindTest | None
) -> PairSetBuild:
    """Settings of the set that is left, which go on from those of the first one.

    Raises:
        InputError: the manifest does not hold them.
    """
    manifest = pair_set.manifest
    try:
        parameters = dict(manifest["parameters"])
        parameters["reviews"] = [*parameters.get("reviews", []), review]
        unreadable = [(one["source"], one["reason"]) for one in manifest.get("unreadable", ())]
        return PairSetBuild(
            builder=manifest["builder"],
            subset=manifest["subset"],
            source=str(manifest.get("source", "")),
            sha256=str(manifest.get("source_sha256", "")),
            parameters=parameters,
            counts={str(name): int(count) for name, count in counts.items()},
            unreadable=tuple(unreadable),
            seed=int(manifest.get("seed", 0)),
            image_format="jpeg" if manifest["images"].get("format") == "jpeg" else "png",
            quality=int(manifest["images"].get("quality", 95)),
            test=test or BlindTest(),
            workers=1,
        )
    except (KeyError, TypeError, ValueError, OverflowError) as error:
        raise InputError(
            f"is not the manifest of minimal pairs ({first_line(error)}).",
            file=pair_set.folder / MANIFEST,
        ) from None


def _is_kept(name: str, decisions: Decisions, undecided: str) -> bool:
    if name in decisions.keep:
        return True
    return name not in decisions.drop and undecided == "keep"


def _free_name(name: str, counts: Mapping[str, int]) -> str:
    """Name of a filter; a second review has a number."""
    number = 1 + sum(one == name or one.startswith(f"{name}, ") for one in counts)
    return name if number == 1 else f"{name}, {number}"


def _group_sources(
    rows: Sequence[Mapping[str, Any]], pair_set: PairSet, build: PairSetBuild
) -> list[PairSource]:
    """Sources of the pairs that are left: the first keys of EqBen's file, or one for all."""
    groups: dict[str, list[Mapping[str, Any]]] = {}
    for row in rows:
        groups.setdefault(row["group"][0] if row["group"] else build.subset, []).append(row)
    prefix = f"images/{OFFICIAL_NAMES.get(build.subset, build.subset)}/"

    def source(name: str, group: Sequence[Mapping[str, Any]]) -> PairSource:
        content = f"{pair_set.id}{[row['id'] for row in group]}"
        digest = hashlib.blake2b(content.encode(), digest_size=16).hexdigest()
        return PairSource(
            name, digest, lambda: SourcePairs([_copy_pair(row, pair_set, prefix) for row in group])
        )

    return [source(name, group) for name, group in groups.items()]


def _copy_pair(row: Mapping[str, Any], pair_set: PairSet, prefix: str) -> MinimalPair:
    first, second = (
        PairImage(name.removeprefix(prefix).rpartition(".")[0], safe_join(pair_set.folder, name))
        for name in row["images"]
    )
    tags = {key: text for key, text in row["tags"].items() if key != "subset"}
    return MinimalPair(
        row["id"], (first, second), tuple(row["captions"]), tags, tuple(row["group"][1:])
    )
