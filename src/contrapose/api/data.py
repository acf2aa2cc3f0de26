"""Data of benchmarks: `fetch_data`, `verify_data`, `list_data`, `find_data` and `remove_data`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from contrapose.errors import InputError

if TYPE_CHECKING:
    from contrapose.data.cached_data import DataStatus, FetchReport
    from contrapose.data.integrity import DataVerification
    from contrapose.engine import Progress


def fetch_data(
    benchmark: str, *, offline: bool = False, progress: Progress | None = None
) -> FetchReport:
    """Fetch all files and images of a benchmark into the cache, and check those that are there.

    A fetch that was stopped goes on where it was. Every file is compared with the size and SHA-256
    of the card, or with those of the first fetch, and takes its name only when it is right.

    Args:
        benchmark: its name.
        offline: fetch nothing: check what is there, and fail if something is missing.
        progress: called with a description, what is done and what there is to do.

    Returns:
        The folder, the number of files and bytes, and the images that cannot be had.

    Raises:
        InputError: there is no such benchmark, or its files must be had by hand or after accepting
            terms; says where, and the layout of the folder to pass as `root`.
        DownloadError: a file cannot be had now, or is not the one that the card describes.

    Example:
        >>> import contrapose as cp
        >>> cp.fetch_data("eqben")  # doctest: +ELLIPSIS
        Traceback (most recent call last):
        ...
        contrapose.errors.InputError: eqben must be fetched by hand from ...
    """
    from contrapose.data.cached_data import find_source
    from contrapose.data.fetch import fetch_source

    return fetch_source(find_source(benchmark), offline=offline, progress=progress)


def verify_data(benchmark: str, *, progress: Progress | None = None) -> DataVerification:
    """Compare the SHA-256 of every fetched file of a benchmark with its manifest.

    Nothing is fetched or changed; `fetch_data` fetches again what this names.

    Args:
        benchmark: its name.
        progress: called with a description, what is done and what there is to do.

    Returns:
        The folder, the number of files and bytes, and how each changed file differs.

    Raises:
        InputError: there is no such benchmark, or nothing of it is in the cache.

    Example:
        >>> import contrapose as cp
        >>> cp.verify_data("eqben")  # doctest: +ELLIPSIS
        Traceback (most recent call last):
        ...
        contrapose.errors.InputError: eqben is not in the cache ...
    """
    from contrapose.data.cached_data import find_source
    from contrapose.data.fetch import announce_on_stderr
    from contrapose.data.integrity import verify_source

    return verify_source(find_source(benchmark), announce=announce_on_stderr, progress=progress)


def list_data() -> list[DataStatus]:
    """States of the files of all benchmarks that have some: fetched, to fetch, gated or manual.

    Example:
        >>> import contrapose as cp
        >>> {one.name: one.state for one in cp.list_data()}["eqben"]
        'manual'
    """
    from contrapose.data.cached_data import list_status

    return list_status()


def find_data(benchmark: str | None = None) -> Path:
    """Folder of a benchmark in the cache, to be passed as `root`; without a name that of all.

    Raises:
        InputError: there is no such benchmark, or nothing of it is in the cache.

    Example:
        >>> import contrapose as cp
        >>> cp.find_data().is_absolute()
        True
    """
    from contrapose.data.cached_data import data_root, data_status, find_source

    if benchmark is None:
        return data_root().absolute()
    folder = data_status(find_source(benchmark)).folder
    if folder is None:
        raise InputError(
            f"{benchmark} is not in the cache ({data_root()}): run contrapose data fetch "
            f"{benchmark}."
        )
    return folder.absolute()


def remove_data(benchmark: str) -> int:
    """Delete a benchmark's files in the cache; nothing else is touched.

    Returns:
        The bytes that were deleted.

    Raises:
        InputError: nothing of it is in the cache.

    Example:
        >>> import contrapose as cp
        >>> cp.remove_data("eqben")  # doctest: +ELLIPSIS
        Traceback (most recent call last):
        ...
        contrapose.errors.InputError: there are no files of 'eqben' in ...
    """
    from contrapose.data.cached_data import remove_data as remove

    return remove(benchmark)
