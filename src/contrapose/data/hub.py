"""Files of the Hugging Face hub: listed with sizes and digests at a commit, and downloaded."""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Callable
from dataclasses import dataclass
from fnmatch import fnmatchcase
from importlib import import_module
from inspect import signature
from pathlib import Path
from typing import Any

from contrapose.data.downloads import HubFiles
from contrapose.errors import MissingExtraError, first_line
from contrapose.files.download import BACKOFF, TRIES, FetchedFile, sha256_of
from contrapose.files.web import PASSING, DownloadError

STAGING = ".hub"
"""Folder for downloads of the hub that are not verified yet."""


class GatedError(DownloadError):
    """The hub gives a repository's files only to those who accepted its terms."""


@dataclass(frozen=True, slots=True)
class HubFile:
    """File of a hub repository at a commit.

    Attributes:
        repo: the dataset repository.
        commit: 40 digits.
        name: its path in the repository.
        size: its bytes, where the hub says so.
        sha256: its digest, which the hub knows of large files.
    """

    repo: str
    commit: str
    name: str
    size: int | None
    sha256: str | None

    @property
    def url(self) -> str:
        """Address of the file, which names the commit."""
        return f"https://huggingface.co/datasets/{self.repo}/resolve/{self.commit}/{self.name}"


def _library() -> Any:
    try:
        import huggingface_hub
    except ImportError:
        raise MissingExtraError("huggingface_hub", "hf", "Fetching from the hub") from None
    return huggingface_hub


def _endpoint() -> str | None:
    return os.environ.get("HF_ENDPOINT", "").strip().rstrip("/") or None


def has_token() -> bool:
    """Whether the user is logged in to the hub: `HF_TOKEN`, or a login that is stored."""
    return bool(os.environ.get("HF_TOKEN", "").strip() or _library().get_token())


def list_hub_files(files: HubFiles, commit: str | None) -> list[HubFile]:
    """List the files of a repository that match, with what the hub knows of them.

    Args:
        files: repository and patterns.
        commit: the commit of an earlier fetch; None takes the pinned one, or the newest.

    Raises:
        GatedError: its terms are not accepted.
        DownloadError: there is no such repository, commit or file, or the hub cannot be reached.
    """
    api = _library().HfApi(endpoint=_endpoint())
    info = _ask(
        files.repo,
        lambda: api.dataset_info(
            files.repo,
            revision=files.revision or commit,
            files_metadata=True,
            token=_token(),
        ),
    )
    listed = []
    for sibling in info.siblings or ():
        if any(fnmatchcase(sibling.rfilename, pattern) for pattern in files.patterns):
            lfs = sibling.lfs
            digest = None if lfs is None else lfs.sha256
            listed.append(HubFile(files.repo, info.sha, sibling.rfilename, sibling.size, digest))
    if not listed:
        raise DownloadError(
            f"the dataset {files.repo} of the hub holds no {' or '.join(files.patterns)} at "
            f"{info.sha}."
        )
    return sorted(listed, key=lambda file: file.name)


def download_hub_file(
    file: HubFile,
    path: Path,
    staging: Path,
    progress: Callable[[int, int | None], None] | None,
) -> FetchedFile:
    """Download a file of the hub; it takes its name when its size and digest are right.

    Args:
        file: the file at its commit.
        path: the file to write.
        staging: folder for what is not complete; the hub's library resumes there.
        progress: called with the bytes so far and those of the file.

    Raises:
        GatedError: its terms are not accepted.
        DownloadError: it cannot be fetched, or is not what the hub said.
    """
    library = _library()
    shown = {}
    if "tqdm_class" in signature(library.hf_hub_download).parameters:  # not in older versions
        shown["tqdm_class"] = _progress_class(progress)
    fetched = Path(
        _ask(
            file.repo,
            lambda: library.hf_hub_download(
                file.repo,
                file.name,
                repo_type="dataset",
                revision=file.commit,
                local_dir=staging,
                endpoint=_endpoint(),
                token=_token(),
                **shown,
            ),
        )
    )
    size, digest = fetched.stat().st_size, sha256_of(fetched)
    if (file.size not in (None, size)) or (file.sha256 not in (None, digest)):
        shutil.rmtree(staging, ignore_errors=True)
        raise DownloadError(
            f"{file.url} is not what the hub says of it ({size:,} bytes, SHA-256 {digest}): it was "
            "damaged on its way, and nothing was kept."
        )
    path.parent.mkdir(parents=True, exist_ok=True)
    fetched.replace(path)
    return FetchedFile(size, digest)


def _ask(repo: str, call: Callable[[], Any]) -> Any:
    """Answer of the hub; a broken connection or a busy server is asked again.

    Raises:
        DownloadError: the hub refuses, or every attempt failed.
    """
    for attempt in range(TRIES):
        try:
            return call()
        except Exception as error:
            if attempt == TRIES - 1 or not _may_pass(error):
                raise _hub_error(repo, error) from None
            time.sleep(BACKOFF * 2**attempt)
    raise AssertionError("the last attempt returns or raises")


def _may_pass(error: Exception) -> bool:
    """Whether a failure of the hub's library is one of the network or of a busy server."""
    cause = error.__cause__ or error
    if isinstance(cause, _library().errors.OfflineModeIsEnabled):
        return False
    status = getattr(getattr(cause, "response", None), "status_code", None)
    if status is not None:
        return status in PASSING
    return isinstance(cause, ConnectionError | TimeoutError) or type(cause).__module__.startswith(
        ("httpx", "httpcore", "requests")
    )


def _token() -> str | None:
    """Token of the environment; None lets the library look for its own."""
    return os.environ.get("HF_TOKEN", "").strip() or None


def _hub_error(repo: str, error: Exception) -> DownloadError:
    """Describe a failure of the hub's library in one sentence."""
    errors = _library().errors
    status = getattr(getattr(error, "response", None), "status_code", None)
    name = f"the dataset {repo} of the hub"
    if isinstance(error, errors.GatedRepoError) or status == 403:
        return GatedError(f"{name} is gated, and its terms are not accepted.", status=403)
    if isinstance(error, errors.RepositoryNotFoundError) or status == 401:
        return GatedError(f"{name} is not there, or not without a login.", status=status)
    if isinstance(error, errors.RevisionNotFoundError):
        return DownloadError(f"{name} has no such commit.", status=status)
    if isinstance(error, errors.EntryNotFoundError) and status is not None:
        return DownloadError(f"{name} has no such file.", status=status)
    cause = error.__cause__ or error
    return DownloadError(
        f"{name} cannot be fetched ({first_line(cause)}); run the same again to go on.",
        status=status,
        passing=True,
    )


def _progress_class(progress: Callable[[int, int | None], None] | None) -> Any:
    """Class that the hub's library takes for a progress bar, and that calls `progress`."""
    base: Any = import_module("tqdm.std").tqdm

    class SilentBar(base):  # type: ignore[misc]
        """Progress bar that draws nothing."""

        def __init__(self, *values: Any, **options: Any):
            options.pop("name", None)
            super().__init__(*values, **{**options, "disable": True})
            self.n, self.total = options.get("initial", 0), options.get("total")

        def update(self, n: float | None = 1) -> bool | None:
            self.n += n or 0
            if progress is not None:
                progress(int(self.n), None if self.total is None else int(self.total))
            return None

    return SilentBar
