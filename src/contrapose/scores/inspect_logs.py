"""Logs of inspect_ai: `.eval` archives and `.json` files, read without the library.

An archive is a zip of `header.json` and `samples/ID_epoch_N.json`, deflated or compressed with
Zstandard, which Python's zipfile does not know before 3.14. Nothing is unpacked to disk.
"""

from __future__ import annotations

import io
import math
import re
import struct
import zipfile
import zlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from contrapose.errors import InputError, first_line, printable
from contrapose.files import StrictProblems, parse_json, read_json, require_regular

ZSTANDARD = 93
LARGEST_MEMBER = 512 * 2**20
"""Bytes of the largest sample that is read."""

LETTERS = {"C": 1.0, "P": 0.5, "I": 0.0, "N": 0.0}
WORDS = {"yes": 1.0, "true": 1.0, "no": 0.0, "false": 0.0}
"""Values of inspect's `value_to_float`."""


@dataclass(slots=True)
class InspectItem:
    """Sample of a log: for each scorer its numbers, as means over epochs; 0 choices if open."""

    id: str
    choices: int
    values: dict[str, dict[str, float]] = field(default_factory=dict)


@dataclass(slots=True)
class InspectLog:
    """Task, model and samples of a log."""

    task: str
    model: str
    items: list[InspectItem]
    notes: tuple[str, ...] = ()


def is_inspect_log(path: Path) -> bool:
    """Whether a file is a log of inspect: an archive, or JSON that begins as one."""
    if path.suffix.lower() == ".eval":
        return True
    if path.suffix.lower() != ".json" or not path.is_file():
        return False
    with path.open("rb") as stream:
        start = stream.read(4096)
    return b'"version"' in start and b'"eval"' in start


def read_inspect_log(path: Path) -> InspectLog:
    """Read a log; samples that ended in an error, or were not scored, are left out with a note.

    Raises:
        InputError: it is damaged, or holds no scored sample.
    """
    require_regular(path)
    if path.suffix.lower() == ".eval":
        members = dict(_read_archive(path))
        header = members.pop("header.json", None)
        samples = list(members.values())
    else:
        header = read_json(path, StrictProblems())
        listed = header.get("samples") if isinstance(header, dict) else None
        samples = listed if isinstance(listed, list) else []
    about = header.get("eval") if isinstance(header, dict) else None
    if not isinstance(about, dict):
        raise InputError("is no finished log of inspect: it has no header.", file=path)
    epochs: dict[str, list[InspectItem]] = {}
    unscored = 0
    for sample in samples:
        item = _read_sample(sample, path)
        if item is None:
            unscored += 1
        else:
            epochs.setdefault(item.id, []).append(item)
    if not epochs:
        raise InputError("holds no scored sample.", file=path)
    notes = [f"{unscored:,} samples without a score are left out"] if unscored else []
    most = max(map(len, epochs.values()))
    if most > 1:
        notes.append(f"values are means over {most} epochs of each sample")
    task = str(about.get("task") or "task").rpartition("/")[2]
    items = [_mean_epochs(some) for some in epochs.values()]
    return InspectLog(task, str(about.get("model") or "model"), items, tuple(notes))


def _read_archive(path: Path) -> Iterator[tuple[str, Any]]:
    """Names and JSON content of the header and of every sample of an archive."""
    try:
        content = path.read_bytes()
    except OSError as error:
        raise InputError(f"cannot be read ({error.strerror}).", file=path) from None
    try:
        with zipfile.ZipFile(io.BytesIO(content)) as archive:
            for member in archive.infolist():
                wanted = re.fullmatch(r"header\.json|samples/[^/]+\.json", member.filename)
                if wanted is None:
                    continue
                if member.file_size > LARGEST_MEMBER:
                    raise InputError(
                        f"{printable(member.filename)} has {member.file_size:,} bytes, more than a "
                        "sample can have.",
                        file=path,
                    )
                data = (
                    _decompress(content, member)
                    if member.compress_type == ZSTANDARD
                    else archive.read(member)
                )
                yield member.filename, parse_json(data.decode())
    except InputError:
        raise
    except (zipfile.BadZipFile, OSError, ValueError, struct.error, zlib.error,
            NotImplementedError, RuntimeError, RecursionError) as error:  # fmt: skip
        raise InputError(f"is a damaged log ({first_line(error)}).", file=path) from None


def _decompress(content: bytes, member: zipfile.ZipInfo) -> bytes:
    """Content of a member that is compressed with Zstandard, in one frame or several."""
    import pyarrow as pa

    start = member.header_offset
    signature, name, extra = struct.unpack_from("<4s22xHH", content, start)
    if signature != b"PK\x03\x04":
        raise ValueError(f"{member.filename} is not where the archive says")
    start += 30 + name + extra
    packed = pa.BufferReader(content[start : start + member.compress_size])
    with pa.CompressedInputStream(packed, "zstd") as stream:
        data: bytes = stream.read(member.file_size + 1)
    if len(data) != member.file_size or zlib.crc32(data) != member.CRC:
        raise ValueError(f"{member.filename} has another checksum")
    return data


def _read_sample(sample: Any, path: Path) -> InspectItem | None:
    """Item of a sample; None where it has no score."""
    if not isinstance(sample, dict) or "id" not in sample:
        raise InputError("holds a sample without an id.", file=path)
    scores = sample.get("scores")
    if sample.get("error") or not isinstance(scores, dict):
        return None
    choices = sample.get("choices")
    item = InspectItem(str(sample["id"]), len(choices) if isinstance(choices, list) else 0)
    for scorer, score in scores.items():
        value = score.get("value") if isinstance(score, Mapping) else None
        named = value.items() if isinstance(value, dict) else [("accuracy", value)]
        numbers = {str(name): _read_number(number) for name, number in named}
        known = {name: number for name, number in numbers.items() if number is not None}
        if known:
            item.values[str(scorer)] = known
    return item if item.values else None


def to_float(value: Any) -> float | None:
    """Float of a JSON number, infinite where it is too large for one; None for any other value."""
    if not isinstance(value, int | float):
        return None
    try:
        return float(value)
    except OverflowError:
        return math.inf if value > 0 else -math.inf


def _read_number(value: Any) -> float | None:
    """Number of a score, as inspect's metrics take it; None where there is none."""
    if isinstance(value, str):
        if value in LETTERS:
            return LETTERS[value]
        if value.lower() in WORDS:
            return WORDS[value.lower()]
        try:
            value = float(value)
        except ValueError:
            return None
    number = to_float(value)
    return number if number is not None and math.isfinite(number) else None


def _mean_epochs(epochs: list[InspectItem]) -> InspectItem:
    """One item of all epochs of a sample, with the means of their values."""
    first = epochs[0]
    if len(epochs) == 1:
        return first
    merged = InspectItem(first.id, first.choices)
    for scorer in dict.fromkeys(name for item in epochs for name in item.values):
        rows = [item.values[scorer] for item in epochs if scorer in item.values]
        merged.values[scorer] = {
            name: sum(row[name] for row in rows if name in row) / sum(name in row for row in rows)
            for name in dict.fromkeys(name for row in rows for name in row)
        }
    return merged
