"""`view`: all examples of several runs, side by side, on a page of this machine."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from contrapose.api.compare import RunLike
from contrapose.api.runs import Run, Runs
from contrapose.files import local_path

if TYPE_CHECKING:
    from contrapose.engine import Progress
    from contrapose.report.explorer.server import ExplorerServer
    from contrapose.results import RunRecord


def view(*runs: RunLike, port: int = 0, progress: Progress | None = None) -> ExplorerServer:
    """Serve a page with all examples of some runs, in the background, to this machine only.

    The page filters, sorts and enlarges examples of runs of any size: it asks the server for those
    that it shows, which come from the run folders, and their images from where they were scored.

    Args:
        runs: run folders (`FOLDER@tiny,lm` for one of several in it), or runs.
        port: 0 is a free one.
        progress: called with a description, what is done and what there is to do.

    Returns:
        A server: `url` is the page's address, `close()` ends it, `wait()` waits for that; it is a
        context manager too.

    Raises:
        InputError: a folder holds no run or is damaged, or the port cannot be used.

    Example:
        >>> import contrapose as cp
        >>> runs = cp.evaluate(["tiny", "tiny-clip"], on="scenes/replace-color", score="itc",
        ...     limit=10)
        >>> with cp.view(runs) as server:
        ...     server.url.startswith("http://127.0.0.1:")
        True
    """
    from contrapose.report.explorer.server import ExplorerServer, load_view

    records: list[RunRecord] = []
    folders: list[str] = []
    for done, run in enumerate(runs):
        if progress is not None:
            progress("reading the runs", done, len(runs))
        if isinstance(run, Run | Runs):
            some = [one.record for one in run]
            records += some
            folders += [""] * len(some)
        else:
            loaded, paths = load_view([local_path(Path(run))])
            records += loaded
            folders += paths
    return ExplorerServer(records, folders, port)
