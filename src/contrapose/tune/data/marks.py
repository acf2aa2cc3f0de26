"""Names for what is learnt from: the same name, the same pictures and captions."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from torch import Tensor

    from contrapose.tune.data.rows import Rows


def file_mark(file: Path) -> str:
    """A file by its place, size and time: what `make` goes by, since reading all takes long."""
    try:
        found = file.stat()
    except OSError:
        return str(file)
    return f"{file.resolve()} {found.st_size} {found.st_mtime_ns}"


def pixels_mark(pixels: Tensor) -> str:
    """A picture in memory by its bytes."""
    content = pixels.cpu().contiguous().numpy().tobytes()
    return hashlib.blake2b(content, digest_size=16).hexdigest()


def rows_mark(rows: Rows) -> str:
    """All images and all their captions, without the changes that were made of those."""
    whole = hashlib.blake2b(digest_size=16)
    for row, sayings in enumerate(rows.sayings):
        parts = [rows.images.mark(row), *(saying.caption for saying in sayings), ""]
        whole.update("\0".join(parts).encode())
    return whole.hexdigest()
