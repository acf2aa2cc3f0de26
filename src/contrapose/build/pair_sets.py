"""Sets of minimal pairs on disk: images, one annotation file, a manifest with all counts.

Sources are made into pairs several at a time. A set is written in EqBen's format where its subset
is one of EqBen's, else as a file of examples. A build that is stopped goes on from the sources that
are complete. The last step is the blind audit, whose verdict is in the manifest.
"""

from __future__ import annotations

import hashlib
import io
import json
import os
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from contrapose.build.captions.balance import AUDIT_SAMPLE, audit_for_manifest
from contrapose.build.minimal_pairs import (
    EXAMPLES,
    PairChoice,
    PairImage,
    PairSetBuild,
    PairSource,
    SourcePairs,
)
from contrapose.data import Example, ImageRef, in_memory_benchmark
from contrapose.data.benchmarks.eqben import LEVELS, OFFICIAL_NAMES
from contrapose.data.examples import diagonal_match
from contrapose.data.images import open_image, read_bytes
from contrapose.engine import Progress
from contrapose.errors import InputError
from contrapose.evaluation.audit import AuditRequest
from contrapose.files import WorkFolder, open_work_folder, safe_join

if TYPE_CHECKING:
    from PIL.Image import Image

MANIFEST = "manifest.json"
PLAN_SAMPLE = 12
"""Sources from which the counts of a dry run are estimated."""


def write_pair_set(
    sources: Sequence[PairSource],
    out: Path,
    build: PairSetBuild,
    *,
    choose: PairChoice | None = None,
    overwrite: bool = False,
    progress: Progress | None = None,
) -> dict[str, Any]:
    """Make the pairs of all sources and write them; the folder appears complete or not at all.

    The result is the same whatever the number of workers, and after any number of interruptions.

    Args:
        sources: in the order of the annotation file.
        out: the folder to write.
        build: settings.
        choose: filter over all pairs; where it leaves none, the sources are kept for another one.
        overwrite: replace a folder that is there.
        progress: called with a description, the number of sources done and the total.

    Returns:
        The manifest.

    Raises:
        InputError: no pair is left, `out` is taken or being built by another process, or writing
            fails.
    """
    with open_work_folder(out, build.recipe, overwrite=overwrite) as work:
        records = _make_all(sources, work, build, progress)
        rows = [row for record in records for row in record["rows"]]
        if not rows:
            work.discard()
            raise _nothing_left(_sum_counts(records), records, build)
        counts = _sum_counts(records)
        if choose is not None:
            records, chosen = _keep_chosen(records, choose, work.set)
            counts |= chosen
            rows = [row for record in records for row in record["rows"]]
            if not rows:
                raise _nothing_left(counts, records, build)
        files = {name: one for record in records for name, one in record["files"].items()}
        for name, text in _annotation_files(records, build):
            content = text.encode()
            (work.set / name).write_bytes(content)
            files[name] = hashlib.sha256(content).hexdigest()
        manifest = {
            **build.description,
            "filters": {**build.counts, **counts},
            "written": {
                "pairs": len(rows),
                "images": len({name for row in rows for name in row["images"]}),
                "captions": len({text for row in rows for text in row["captions"]}),
                "sources": sum(bool(record["rows"]) for record in records),
            },
            "unreadable": _unreadable(records, build),
            "notes": [
                {"source": record["source"], "note": note}
                for record in records
                for note in record["notes"]
            ],
            "audit": _audit_rows(rows, build, progress),
            "sha256": dict(sorted(files.items())),
        }
        _remove_others(work.set, set(files))
        text = json.dumps(manifest, indent=1, ensure_ascii=False) + "\n"
        (work.set / MANIFEST).write_bytes(text.encode())
        work.publish()
    return dict(json.loads(text))


def plan_pair_set(
    sources: Sequence[PairSource], build: PairSetBuild, *, progress: Progress | None = None
) -> dict[str, Any]:
    """Expected counts of a build, from a random sample of what is there; nothing is written.

    Raises:
        InputError: there are no sources.
    """
    if not sources:
        raise InputError("there is nothing to build from.", file=build.source or None)
    ready = [source for source in sources if source.ready]
    order = np.random.default_rng(build.seed).permutation(len(ready))[:PLAN_SAMPLE]
    chosen = [ready[i] for i in sorted(order.tolist())]
    results: list[SourcePairs] = []
    with ThreadPoolExecutor(build.workers or os.cpu_count()) as pool:
        for one in pool.map(lambda source: source.make(), chosen):
            results.append(one)
            if progress is not None:
                progress("sample", len(results), len(chosen))
    scale = len(ready) / max(1, len(chosen))
    exact = _sum_counts([{"counts": source.counts} for source in sources])
    counts = _sum_counts([{"counts": one.counts} for one in results])
    return {
        **build.description,
        "sources": len(ready),
        "sampled": len(chosen),
        "filters": {
            **build.counts,
            **exact,
            **{name: round(scale * count) for name, count in counts.items()},
        },
        "expected": {"pairs": round(scale * sum(len(one.pairs) for one in results))},
        "unreadable": _unreadable(
            [
                {"source": source.name, "problems": one.problems}
                for source, one in zip(chosen, results, strict=True)
            ],
            build,
        ),
    }


def _make_all(
    sources: Sequence[PairSource], work: WorkFolder, build: PairSetBuild, progress: Progress | None
) -> list[dict[str, Any]]:
    """Records of all sources, in order; those that are complete are not made again."""
    records: dict[int, dict[str, Any]] = {}
    with ThreadPoolExecutor(build.workers or os.cpu_count()) as pool:
        futures = {
            pool.submit(_make_one, source, work, build): i for i, source in enumerate(sources)
        }
        try:
            for done, future in enumerate(as_completed(futures), start=1):
                records[futures[future]] = future.result()
                if progress is not None:
                    progress(build.builder, done, len(sources))
        except BaseException:
            pool.shutdown(cancel_futures=True)
            raise
    return [records[i] for i in range(len(sources))]


def _keep_chosen(
    records: Sequence[dict[str, Any]], choose: PairChoice, folder: Path
) -> tuple[list[dict[str, Any]], Mapping[str, int]]:
    """Records with the pairs that a filter over all of them keeps, and its counts."""
    chosen = choose([row for record in records for row in record["rows"]], folder)
    kept = []
    for record in records:
        rows = [
            {**row, "tags": {**row["tags"], **chosen.tags[row["id"]]}}
            for row in record["rows"]
            if row["id"] in chosen.tags
        ]
        names = {name for row in rows for name in row["images"]}
        files = {name: digest for name, digest in record["files"].items() if name in names}
        kept.append({**record, "rows": rows, "files": files})
    return kept, chosen.counts


def _make_one(source: PairSource, work: WorkFolder, build: PairSetBuild) -> dict[str, Any]:
    """Make and write the pairs of a source, unless that was done before."""
    done = work.read_done(source.name)
    if done is not None and _is_current(done, source, work.set):
        return done
    made = source.make()
    files: dict[str, str] = {}
    rows = []
    try:
        for pair in made.pairs:
            names = [_image_name(image, build) for image in pair.images]
            for name, image in zip(names, pair.images, strict=True):
                if name not in files:
                    content = _encode(image.image, build)
                    files[name] = hashlib.sha256(content).hexdigest()
                    path = safe_join(work.set, name)
                    path.parent.mkdir(parents=True, exist_ok=True)
                    path.write_bytes(content)
            rows.append(
                {
                    "id": pair.id,
                    "images": names,
                    "captions": list(pair.captions),
                    "tags": dict(pair.tags),
                    "group": list(pair.group),
                }
            )
        record = {
            "source": source.name,
            "fingerprint": source.fingerprint,
            "counts": {**source.counts, **made.counts},
            "problems": list(made.problems),
            "notes": list(made.notes),
            "rows": rows,
            "files": files,
        }
        work.write_done(source.name, record)
    except OSError:
        for name in files:
            safe_join(work.set, name).unlink(missing_ok=True)
        raise
    return record


def _is_current(done: Mapping[str, Any], source: PairSource, folder: Path) -> bool:
    """Whether a record is of the same source, and its files are as they were written.

    A source of which nothing could be read is tried again.
    """
    if done.get("problems") and not done.get("rows"):
        return False
    if (done.get("source"), done.get("fingerprint")) != (source.name, source.fingerprint):
        return False
    try:
        return all(
            hashlib.sha256(safe_join(folder, name).read_bytes()).hexdigest() == digest
            for name, digest in done["files"].items()
        )
    except OSError:
        return False


def _image_name(image: PairImage, build: PairSetBuild) -> str:
    subset = OFFICIAL_NAMES.get(build.subset, build.subset)
    suffix = "png" if build.image_format == "png" else "jpg"
    return f"images/{subset}/{image.name}.{suffix}"


def _encode(image: Image | Path, build: PairSetBuild) -> bytes:
    if isinstance(image, Path):
        if image.suffix == (".png" if build.image_format == "png" else ".jpg"):
            return read_bytes(ImageRef(image.name, image))
        image = open_image(ImageRef(image.name, image))
    stream = io.BytesIO()
    if build.image_format == "png":
        image.save(stream, "PNG")
    else:
        image.convert("RGB").save(stream, "JPEG", quality=build.quality, subsampling=0)
    return stream.getvalue()


def _annotation_files(
    records: Sequence[Mapping[str, Any]], build: PairSetBuild
) -> Iterator[tuple[str, str]]:
    """Name and text of the annotation file."""
    rows = [row for record in records for row in record["rows"]]
    if build.read_with == EXAMPLES:
        lines = (
            json.dumps(
                {
                    "id": row["id"],
                    "images": row["images"],
                    "texts": row["captions"],
                    "match": [[True, False], [False, True]],
                    "tags": {"subset": build.subset, **row["tags"]},
                },
                ensure_ascii=False,
            )
            for row in rows
        )
        yield EXAMPLES, "".join(f"{line}\n" for line in lines)
        return
    levels = LEVELS.get(build.subset, 0)
    value: Any = [_eqben_record(row) for row in rows]
    if levels:
        value = {}
        for record in records:
            for row in record["rows"]:
                keys = (record["source"], *row["group"], *["pairs"] * levels)[:levels]
                inner = value
                for key in keys[:-1]:
                    inner = inner.setdefault(key, {})
                inner.setdefault(keys[-1], []).append(_eqben_record(row))
    text = json.dumps(value, indent=1, ensure_ascii=False) + "\n"
    yield f"{OFFICIAL_NAMES[build.subset]}.json", text


def _eqben_record(row: Mapping[str, Any]) -> dict[str, Any]:
    """Record in EqBen's format; readers leave the last two fields alone."""
    first, second = (name.removeprefix("images/") for name in row["images"])
    return {
        "image0": first,
        "image1": second,
        "caption0": row["captions"][0],
        "caption1": row["captions"][1],
        "id": row["id"],
        "tags": row["tags"],
    }


def _nothing_left(
    counts: Mapping[str, int], records: Sequence[Mapping[str, Any]], build: PairSetBuild
) -> InputError:
    left = ", ".join(f"{name}: {count:,}" for name, count in {**build.counts, **counts}.items())
    message = f"no pair is left ({left})"
    problems = _unreadable(records, build)
    if problems:
        reason = problems[0]["reason"].rstrip(". ")
        message += f"; {len(problems):,} could not be read, the first: {reason}"
    return InputError(f"{message}.", file=build.source or None)


def _sum_counts(records: Sequence[Mapping[str, Any]]) -> dict[str, int]:
    counts: Counter[str] = Counter()
    for record in records:
        for name, count in record["counts"].items():
            counts[name] += count
    return dict(counts)


def _unreadable(records: Sequence[Mapping[str, Any]], build: PairSetBuild) -> list[dict[str, str]]:
    listed = list(build.unreadable)
    listed += [(record["source"], why) for record in records for why in record["problems"]]
    return [{"source": name, "reason": why} for name, why in listed]


def _remove_others(folder: Path, files: set[str]) -> None:
    """Remove what a source that was changed or never finished left behind."""
    for path in sorted(folder.rglob("*"), reverse=True):
        if path.is_dir():
            if not any(path.iterdir()):
                path.rmdir()
        elif path.relative_to(folder).as_posix() not in files:
            path.unlink()


def _audit_rows(
    rows: Sequence[Mapping[str, Any]], build: PairSetBuild, progress: Progress | None
) -> dict[str, Any]:
    """Blind audit of the pairs, as the manifest has it."""
    examples = [
        Example(
            row["id"],
            tuple(ImageRef(name, Path(name)) for name in row["images"]),
            tuple(row["captions"]),
            diagonal_match(2),
            {"subset": build.subset},
        )
        for row in rows
    ]
    test = build.test
    request = AuditRequest(
        benchmark=in_memory_benchmark(examples, name="the pairs"),
        lm=test.lm,
        device=test.device,
        cache=test.cache,
        seed=test.seed,
        sample=AUDIT_SAMPLE,
    )
    return audit_for_manifest(request, progress)
