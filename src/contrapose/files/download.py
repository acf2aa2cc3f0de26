"""Download of files over HTTP: resumed, verified, and under their final name only when complete.

A download goes to a hidden file beside the target, `.NAME.part`, with a note of the server's
validator. A killed or broken download goes on from there with a range request, which the server
answers only if its file is still the same.
"""

from __future__ import annotations

import hashlib
import http.client
import json
import re
import shutil
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from contrapose.errors import InputError
from contrapose.files.paths import require_no_link
from contrapose.files.syncing import sync_file, sync_folder
from contrapose.files.text import parse_count, parse_json, require_regular
from contrapose.files.web import (
    DownloadError,
    PassingError,
    RangeError,
    describe_reason,
    open_web,
    require_web_url,
)

TRIES = 5
"""Attempts in a row that may fail; one that brought `PROGRESS_BYTES` counts as none."""

BACKOFF = 1.0
"""Seconds before the second attempt; doubled before every later one."""

PROGRESS_BYTES = 1 << 20
CHUNK = 1 << 18
LONGEST_WAIT = 60.0


@dataclass(frozen=True, slots=True)
class FetchedFile:
    """File that was downloaded.

    Attributes:
        size: its bytes.
        sha256: its digest.
    """

    size: int
    sha256: str


@dataclass(frozen=True, slots=True)
class Expectation:
    """Expectation of a file's content, checked before it takes its name.

    Attributes:
        size: its bytes, where they are known.
        sha256: its digest, where it is known.
        largest: most bytes that are taken where the size is not known.
        starts: beginnings of which it must have one, such as those of image formats.
    """

    size: int | None = None
    sha256: str | None = None
    largest: int | None = None
    starts: tuple[bytes, ...] = ()


def download_file(
    url: str,
    path: Path,
    expected: Expectation = Expectation(),  # noqa: B008 - frozen
    *,
    progress: Callable[[int, int | None], None] | None = None,
) -> FetchedFile:
    """Download a file, going on where an earlier attempt stopped.

    Args:
        url: its address, http or https; redirects never leave these, nor go from https to http.
        path: the file to write; its folder is created.
        expected: what is known of its content.
        progress: called with the bytes so far and those of the file, None where not known.

    Raises:
        DownloadError: there is no such file, it is not the expected one, or every attempt failed.
        InputError: the file cannot be written: no permission, no space, or the name of its part is
            a symbolic link.
    """
    require_web_url(url)
    part = path.with_name(f".{path.name}.part")
    for file in (part, _note_path(part)):
        require_no_link(file)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        _require_space(path, (expected.size or 0) - (part.stat().st_size if part.exists() else 0))
        fetched = _download_part(url, part, expected, progress)
        _note_path(part).unlink(missing_ok=True)  # behind the name nobody would look for it
        part.replace(path)
        sync_folder(path.parent)
    except OSError as error:
        why = error.strerror or str(error)
        raise InputError(
            f"cannot be written ({why}); what came so far is kept.", file=path
        ) from None
    return fetched


def _download_part(
    url: str,
    part: Path,
    expected: Expectation,
    progress: Callable[[int, int | None], None] | None,
) -> FetchedFile:
    failures = 0
    if part.exists() and part.stat().st_size == expected.size and expected.sha256 is not None:
        if (digest := sha256_of(part)) == expected.sha256:  # killed just before it got its name
            return FetchedFile(expected.size, digest)
        _discard(part)
    while True:
        before = part.stat().st_size if part.exists() else 0
        try:
            with _open(url, part, expected) as transfer:
                fetched = transfer.run(progress)
            _verify(url, part, fetched, expected)
        except PassingError as error:
            gained = (part.stat().st_size if part.exists() else 0) - before
            failures = 1 if gained >= PROGRESS_BYTES else failures + 1
            if failures >= TRIES:
                raise DownloadError(
                    f"{url} cannot be fetched ({error}); tried {TRIES} times, run the same again "
                    "to go on.",
                    status=error.status,
                    passing=True,
                ) from None
            time.sleep(min(max(error.wait, BACKOFF * 2 ** (failures - 1)), LONGEST_WAIT))
        else:
            return fetched


@dataclass(slots=True)
class _Transfer:
    """Answer of the server that is being written behind the bytes that are there already."""

    url: str
    answer: Any
    part: Path
    start: int
    total: int | None
    expected: Expectation

    def run(self, progress: Callable[[int, int | None], None] | None) -> FetchedFile:
        """Write the answer to the partial file.

        Raises:
            PassingError: the connection broke, or the answer is short.
            DownloadError: it is longer than it should be.
        """
        digest, done = hashlib.sha256(), 0
        with self.part.open("r+b" if self.start else "wb") as stream:
            if self.start:
                for block in _blocks(stream, self.start):
                    digest.update(block)
                stream.truncate(self.start)
                done = self.start
            limits = (self.expected.size, self.total, self.expected.largest)
            most = min((limit for limit in limits if limit is not None), default=None)
            while True:
                if progress is not None:
                    progress(done, self.total or self.expected.size)
                block = self._read()
                if not block:
                    break
                done += len(block)
                if most is not None and done > most:
                    _discard(self.part)
                    raise DownloadError(
                        f"{self.url} is larger than {most:,} bytes, which it should not be; "
                        "nothing was kept."
                    )
                stream.write(block)
                digest.update(block)
            sync_file(stream)
        if self.total is not None and done < self.total:
            raise PassingError(f"the connection ended after {done:,} of {self.total:,} bytes")
        return FetchedFile(done, digest.hexdigest())

    def _read(self) -> bytes:
        try:
            block: bytes = self.answer.read1(CHUNK)
        except (OSError, http.client.HTTPException) as error:
            raise PassingError(describe_reason(error)) from None
        return block


def _blocks(stream: IO[bytes], size: int) -> Iterator[bytes]:
    while size > 0:
        block = stream.read(min(CHUNK, size))
        if not block:
            return
        size -= len(block)
        yield block


@contextmanager
def _open(url: str, part: Path, expected: Expectation) -> Iterator[_Transfer]:
    """Ask for a file, or for the rest of it."""
    start, validator = _resume_point(url, part, expected)
    headers = {"User-Agent": "contrapose", "Accept-Encoding": "identity"}
    if start:
        headers["Range"] = f"bytes={start}-"
        if validator:
            headers["If-Range"] = validator
    try:
        answer = open_web(url, headers)
    except RangeError:  # the part is no beginning of the server's file
        _discard(part)
        raise PassingError("the server's file has changed") from None
    with answer:
        yield _begin(url, answer, part, start, expected)


CONTENT_RANGE = re.compile(r"bytes ([0-9]{1,18})-([0-9]{1,18})/([0-9]{1,18}|\*)")


def _begin(url: str, answer: Any, part: Path, start: int, expected: Expectation) -> _Transfer:
    """Begin a transfer: at the start, or behind the bytes of the part where the server agrees."""
    headers = answer.headers
    if headers.get("Content-Encoding", "identity") != "identity":
        raise DownloadError(f"{url} comes compressed, which was not asked for.")
    length = headers.get("Content-Length", "")
    total = parse_count(length)
    if answer.status == 206:
        span = CONTENT_RANGE.fullmatch(headers.get("Content-Range", ""))
        if span is None or int(span[1]) != start:
            _discard(part)
            raise PassingError("the server sent another range than the one that was asked for")
        total = int(span[3]) if span[3] != "*" else int(span[2]) + 1
    elif answer.status == 200:
        start = 0
    else:
        raise DownloadError(f"{url} is answered by the status {answer.status}.")
    chunked = "chunked" in headers.get("Transfer-Encoding", "").lower()
    if total is None and not chunked and expected.size is None and expected.sha256 is None:
        raise DownloadError(f"{url} is sent without its length, so that it cannot be checked.")
    largest = expected.largest if expected.size is None else expected.size
    if total is not None and largest is not None and total > largest:
        _discard(part)
        raise DownloadError(
            f"{url} has {total:,} bytes instead of {largest:,}"
            f"{' at the most' * (expected.size is None)}; nothing was kept."
        )
    etag = headers.get("ETag", "")
    validator = etag if etag and not etag.startswith("W/") else headers.get("Last-Modified", "")
    if not start:
        note = json.dumps({"url": url, "validator": validator})
        _note_path(part).write_text(note, encoding="utf-8")
    return _Transfer(url, answer, part, start, total, expected)


def _resume_point(url: str, part: Path, expected: Expectation) -> tuple[int, str]:
    """Bytes that are there already and the server's validator of them; 0 to begin anew."""
    require_regular(part)
    require_regular(_note_path(part))
    try:
        note = parse_json(_note_path(part).read_text(encoding="utf-8"))
        start = part.stat().st_size
        validator = note["validator"] if note["url"] == url else None
    except (OSError, ValueError, LookupError, TypeError):
        return 0, ""
    known = validator or expected.sha256  # without either a changed file would go unnoticed
    if not isinstance(validator, str) or not known or not start:
        return 0, ""
    if expected.size is not None and start >= expected.size:
        return 0, ""
    return start, validator


def _verify(url: str, part: Path, fetched: FetchedFile, expected: Expectation) -> None:
    """Require that the content is the expected one; what is not is deleted.

    Raises:
        DownloadError: it is not.
    """
    problem = ""
    if expected.size is not None and fetched.size != expected.size:
        problem = f"has {fetched.size:,} bytes instead of {expected.size:,}"
    elif expected.sha256 is not None and fetched.sha256 != expected.sha256:
        problem = f"has the SHA-256 {fetched.sha256} instead of {expected.sha256}"
    elif expected.starts:
        with part.open("rb") as stream:
            head = stream.read(max(map(len, expected.starts)))
        if not head.startswith(expected.starts):
            problem = "is no image"
    if problem:
        _discard(part)
        raise DownloadError(f"{url} {problem}: it was changed or damaged, and nothing was kept.")


def _discard(part: Path) -> None:
    part.unlink(missing_ok=True)
    _note_path(part).unlink(missing_ok=True)


def _note_path(part: Path) -> Path:
    return part.with_name(f"{part.name}.json")


def _require_space(path: Path, size: int) -> None:
    free = shutil.disk_usage(path.parent).free
    if size > free:
        raise InputError(
            f"needs {size / 1e9:.1f} GB, and the disk has {free / 1e9:.1f} GB left.", file=path
        )


def sha256_of(path: Path) -> str:
    """SHA-256 of a file's bytes."""
    require_regular(path)
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()
