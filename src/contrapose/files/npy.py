"""NumPy's `.npy` files: the header is checked against the bytes before anything is allocated."""

from __future__ import annotations

import io
import math
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from contrapose.errors import InputError, first_line
from contrapose.files.text import require_regular

if TYPE_CHECKING:
    from numpy.typing import NDArray


def read_npy(path: Path, *, mapped: bool = False) -> NDArray[Any]:
    """Read one array that is no pickle and no archive.

    Args:
        path: the file.
        mapped: map the file into memory instead of reading it.

    Raises:
        InputError: there is no such file, or it is not one complete array of plain values.
    """
    import numpy as np

    require_regular(path)
    try:
        with path.open("rb") as stream:
            check_npy(stream, path.stat().st_size)
            if not mapped:
                stream.seek(0)
                return np.asarray(np.load(stream, allow_pickle=False))
        array: NDArray[Any] = np.load(path, mmap_mode="r", allow_pickle=False)
        return array
    except FileNotFoundError:
        raise InputError("does not exist.", file=path) from None
    except Exception as error:  # the header is Python source, and its parser raises nearly anything
        reason = first_line(error).split(". ")[0] if str(error) else type(error).__name__
        raise InputError(f"is not a readable .npy array ({reason}).", file=path) from None


def parse_npy(content: bytes) -> NDArray[Any]:
    """Array of the bytes of a `.npy` file.

    Raises:
        ValueError: they are not one complete array of plain values.
    """
    import numpy as np

    stream = io.BytesIO(content)
    check_npy(stream, len(content))
    stream.seek(0)
    return np.asarray(np.load(stream, allow_pickle=False))


def check_npy(stream: IO[bytes], size: int) -> None:
    """Check that a file of `size` bytes holds what its header says.

    Raises:
        ValueError: it is empty, no array, a pickle, or longer or shorter than its header says.
    """
    from numpy.lib import format as npy

    if size == 0:
        raise ValueError("it is empty")
    if stream.read(2) == b"PK":
        raise ValueError("it is an archive of arrays; expected one array")
    stream.seek(0)
    version = npy.read_magic(stream)
    read_header = npy.read_array_header_1_0 if version == (1, 0) else npy.read_array_header_2_0
    shape, _, dtype = read_header(stream)
    if dtype.hasobject:
        raise ValueError("it holds Python objects, which are never unpickled")
    there, wanted = size - stream.tell(), math.prod(shape) * dtype.itemsize
    if min(shape, default=0) < 0 or there != wanted:
        raise ValueError(f"its header says {wanted:,} bytes, and {there:,} are there")
