"""Mutations of files: values replaced, bytes flipped, cut and added, and readers run on the result.

`FUZZ_ROUNDS` says how many mutations a file gets, `TORTURE_SEED` which. A failure names its seed; a
seed in `SEEDS` runs every time.
"""

from __future__ import annotations

import copy
import io
import json
import os
import random
import resource
import signal
import warnings
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any

from contrapose.errors import ContraposeError

ROUNDS = int(os.environ.get("FUZZ_ROUNDS", "10"))
"""Mutations of each file."""
KILLS = int(os.environ.get("KILL_ROUNDS", "1"))
"""Kills of each job; the whole suite asks for more."""
SEED = os.environ.get("TORTURE_SEED", "")
"""Begins the seed of every mutation."""
SEEDS: dict[str, tuple[str, ...]] = {
    "cola released check": ("night1cola released check 2",),
    "forged index": ("20261120forged index 155",),
    "regions": ("20261119regions 1",),
}
"""Seeds that once failed, by name of the reader."""
WHOLE = ROUNDS > 10
"""Whether this is the whole suite, not the small part of every test run."""
LONGEST = 60
"""Seconds after which a reader hangs."""
MOST_GROWTH = 2**29
"""Bytes by which all mutations of a file together may raise the peak of memory."""

NASTY: tuple[Any, ...] = (
    None, True, 0, -1, 10**400, 1e999, -1e999, float("nan"), 2**63, 0.5, "", " ", "\0", "\ud800",
    "x" * 300, "9" * 5000, "1_0", "../../etc/passwd", "/etc/passwd", "a\nb", "NaN", [], {}, [[]],
    [[1]], {"a": 1}, [None], [{}], ["\ud800"], {"\ud800": 1}, [[[[[[]]]]]], "[" * 3000, "[[", "(1,",
    "²", "٣", "1e400", -(2**63) - 1, 1e308, 5e-324, "\u202e", "CON", ".", "..", "\ufeff", "a/../b",
    "http://[", "https://[::1/a.jpg", "//", "file:///etc/passwd", "%00", "a\tb", "=1+1", "\x1b[2J",
)  # fmt: skip
BYTES = (b"\0", b"\xff", b"[" * 2000, b'"', b"{", b"}", b",", b"\n", b"1e999", b"\\ud800", b"NaN",
         b"\r", b"\xef\xbb\xbf", b"\xff\xfe", b"\x7f\xff\xff\xff")  # fmt: skip


def paths_of(value: Any, path: tuple[Any, ...] = ()) -> Iterable[tuple[Any, ...]]:
    """Paths of all nodes of a JSON value."""
    yield path
    if isinstance(value, dict | list):
        for key, inner in value.items() if isinstance(value, dict) else enumerate(value):
            yield from paths_of(inner, (*path, key))


def change_value(value: Any, rng: random.Random) -> Any:
    """Copy of a JSON value with a node replaced by something nasty, doubled, or removed."""
    value = copy.deepcopy(value)
    paths = list(paths_of(value))[1:]
    if not paths:
        return rng.choice(NASTY)
    *way, last = rng.choice(paths)
    inner = value
    for key in way:
        inner = inner[key]
    kind = rng.random()
    if kind < 0.15:
        del inner[last]
    elif kind < 0.25 and isinstance(inner, list):
        inner.append(copy.deepcopy(inner[last]))
    elif kind < 0.25:
        inner[rng.choice(("", "0", "id", "\0", "../a", "x" * 300))] = inner[last]
    else:
        inner[last] = rng.choice(NASTY)
    return value


def change_bytes(content: bytes, rng: random.Random) -> bytes:
    """Copy of bytes with a few of them cut, changed, or added."""
    for _ in range(rng.randint(1, 3)):
        at = rng.randrange(len(content) + 1)
        kind = rng.random()
        if kind < 0.3:
            content = content[:at]
        elif kind < 0.6:
            content = content[:at] + bytes([rng.randrange(256)]) + content[at + 1 :]
        else:
            content = content[:at] + rng.choice(BYTES) + content[at + rng.randrange(4) :]
    return content


def encode(suffix: str, value: Any) -> bytes:
    """Encode a value in the format of a suffix; bytes stay as they are."""
    if isinstance(value, bytes):
        return value
    if suffix in (".jsonl", ".ndjson"):
        return "".join(json.dumps(row) + "\n" for row in value).encode()
    if suffix in (".csv", ".tsv"):
        return write_csv(value, "\t" if suffix == ".tsv" else ",")
    return json.dumps(value).encode()


def write(path: Path, value: Any, rng: random.Random | None) -> None:
    """Write a value in the format of the path's suffix, changed where there is an `rng`."""
    structured = rng is not None and rng.random() < 0.7 and isinstance(value, dict | list)
    if structured and rng is not None:
        value = change_value(value, rng)
        if not isinstance(value, dict | list):
            value = json.dumps(value).encode()
    content = encode(path.suffix, value)
    if rng is not None and not structured:
        content = change_bytes(content, rng)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)


def write_csv(rows: list[Any] | dict[str, Any], delimiter: str) -> bytes:
    """Encode rows as CSV, every cell quoted."""
    sink = io.StringIO()
    names = [name for row in rows if isinstance(row, dict) for name in row]
    sink.write(delimiter.join(dict.fromkeys(map(str, names))) + "\n")
    for row in rows:
        cells = row.values() if isinstance(row, dict) else [row]
        texts = [cell if isinstance(cell, str) else json.dumps(cell) for cell in cells]
        quoted = ['"' + text.replace('"', '""') + '"' for text in texts]
        sink.write(delimiter.join(quoted) + "\n")
    return sink.getvalue().encode(errors="replace")


def is_bytes(value: Any) -> bool:
    """Whether a file's content is opaque, so that its values are not changed one by one."""
    return isinstance(value, bytes)


@contextmanager
def time_limit(seconds: int) -> Iterator[None]:
    """Raise `TimeoutError` in a block that hangs."""

    def stop(number: int, frame: FrameType | None) -> None:
        raise TimeoutError(f"longer than {seconds} s")

    before = signal.signal(signal.SIGALRM, stop)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def fuzz(
    folder: Path,
    files: dict[str, Any],
    read: Callable[[Path], object],
    name: str,
    *,
    mend: Callable[[Path], None] | None = None,
    rounds: int = 0,
) -> int:
    """Read files again and again, one of them changed; any other error than a user's fails.

    Args:
        folder: where the files are written.
        files: path below it → content, as bytes or as a value of its format.
        read: reads the folder.
        name: of the reader; a part of every seed.
        mend: makes checksums agree with the changed files, so that the reader goes on.
        rounds: how many mutations; 0 for `ROUNDS`.

    Returns:
        The number of mutations.
    """
    seeds = [f"{SEED}{name} {turn}" for turn in range(rounds or ROUNDS)]
    seeds += SEEDS.get(name, ())
    targets = [file for file, value in files.items() for _ in range(3 - 2 * is_bytes(value))]
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    for seed in seeds:
        rng = random.Random(seed)  # noqa: S311
        target = rng.choice(targets)
        for file, value in files.items():
            write(folder / file, value, rng if file == target else None)
        if mend is not None:
            mend(folder)
        content = (folder / target).read_bytes()
        try:
            with time_limit(LONGEST), warnings.catch_warnings():
                warnings.simplefilter("ignore")
                read(folder)
        except ContraposeError as error:
            assert "\n" not in str(error).strip(), (seed, str(error))  # noqa: PT017
        except Exception as error:
            raise AssertionError(f"seed {seed!r}: {target} {content[:300]!r}") from error
    growth = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - peak) * 1024
    assert growth < MOST_GROWTH, f"{name}: memory grew by {growth / 2**20:.0f} MiB"
    return len(seeds)
