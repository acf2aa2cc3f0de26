"""Web server of the explorer, on this machine only: all examples of several runs, side by side.

    GET /                      the page: tables and plots of all runs, and the explorer
    GET /api/examples          JSON: the words of an `ExampleQuery`, offset and most
    GET /thumbnail/NUMBER      JPEG copy of an image; /image/NUMBER is a larger one
    GET /explanation/NAME      an explanation that lies in a run folder

Examples and images have the word v, the edition: a browser keeps images, and a page may stay open
while another server is started at the same port. A page of another edition is told so.

Nothing else is answered; `files/local_server.py` checks who asks. No path of a request is opened:
images go by their numbers, and explanations by names of hexadecimal digits.
"""

from __future__ import annotations

import re
import secrets
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Any
from urllib.parse import SplitResult

from contrapose.errors import InputError
from contrapose.files.local_server import (
    KEEP,
    HttpAnswer,
    LocalServer,
    RequestError,
    read_number,
    read_query,
)
from contrapose.report.explorer.columns import distinguish_runs
from contrapose.report.explorer.page import (
    THUMBNAIL_SIDE,
    ExplorerData,
    open_readable,
    server_values,
    thumbnail_bytes,
)
from contrapose.report.explorer.queries import MAX_PAGE, ExampleQuery, QueryAnswer, find_rows
from contrapose.report.explorer.table import ExampleTable
from contrapose.report.html.page import CONTENT_POLICY, script_policy
from contrapose.report.html.report import render_records
from contrapose.results import RunRecord
from contrapose.results.runs import is_run, matches_choice, read_runs, split_choice

IMAGE_SIDE = 1280
"""Pixels of the longer side of an enlarged image."""
EXPLANATIONS = "explanations"
"""Folder of explanations in a run folder."""
CACHED_QUERIES = 16

IMAGE_ADDRESS = re.compile(r"/(thumbnail|image)/([0-9]{1,9})")
EXPLANATION_ADDRESS = re.compile(r"/explanation/([0-9a-f]{12}-([0-9a-f]{12}))")


def load_view(paths: Sequence[Path]) -> tuple[list[RunRecord], list[str]]:
    """Read runs and the folder of each; `FOLDER@tiny,lm` names one of a folder.

    Raises:
        InputError: a path is no run folder, is damaged, or holds no such run.
    """
    records: list[RunRecord] = []
    folders: list[str] = []
    for path in paths:
        folder, choice = split_choice(path)
        if not is_run(folder):
            words = "is not a run folder." if folder.exists() else "does not exist."
            raise InputError(words, file=folder)
        chosen = [
            run
            for run in read_runs(folder)
            if matches_choice((run.results.model, run.results.benchmark, run.results.score), choice)
        ]
        if not chosen:
            raise InputError(f"holds no run of {','.join(choice)}.", file=folder)
        records += chosen
        folders += [str(folder)] * len(chosen)
    return records, folders


class ExplorerServer(LocalServer):
    """Server of the explorer, at 127.0.0.1; see `LocalServer`."""

    def __init__(self, records: Sequence[RunRecord], folders: Sequence[str] = (), port: int = 0):
        """Open runs and answer from now on.

        Args:
            records: the runs.
            folders: the run folder of each; empty for none.
            port: 0 is a free one.

        Raises:
            InputError: there is no run, or the port is taken.
        """
        if not records:
            raise InputError("there is no run to view.")
        super().__init__(ExplorerRoutes(records, folders), "127.0.0.1", port)


class ExplorerRoutes:
    """Addresses of the explorer, answered from the table of its runs."""

    def __init__(self, records: Sequence[RunRecord], folders: Sequence[str] = ()):
        names = [Path(folder).name for folder in folders]
        self.records = distinguish_runs(records, names)
        self.table = ExampleTable(self.records, folders)
        self.edition = secrets.token_hex(6)
        find_rows(self.table, ExampleQuery(text="-"))  # sorts, and prepares the search of texts
        self.find_rows = lru_cache(CACHED_QUERIES)(self._find_rows)

    @cached_property
    def page(self) -> bytes:
        """The page, rendered when it is first asked for."""
        start = {"b": 1} if len(self.table.runs) == 2 and self._are_pair() else {}
        explorer = ExplorerData(server_values(self.table, self.edition, start))
        scored = [run.scored for run in self.table.runs]
        return render_records(self.records, explorer, scored=scored).encode()

    def _are_pair(self) -> bool:
        first, second = self.table.runs[:2]
        return first.benchmark == second.benchmark

    def find_method(self, path: str) -> str | None:
        """Method that an address answers; None where there is nothing."""
        known = path in ("/", "/api/examples", "/favicon.ico") or IMAGE_ADDRESS.fullmatch(path)
        return "GET" if known or EXPLANATION_ADDRESS.fullmatch(path) else None

    def answer(self, address: SplitResult, read_body: Callable[[int], bytes]) -> HttpAnswer:
        """Answer a request.

        Raises:
            RequestError: it cannot be answered.
        """
        if address.path == "/":
            policy = f"{script_policy(server=True)}; frame-ancestors 'none'"
            headers = {"Content-Security-Policy": policy}
            return HttpAnswer(self.page, "text/html; charset=utf-8", headers)
        if address.path == "/favicon.ico":
            return HttpAnswer(b"", "image/x-icon", KEEP)
        if image := IMAGE_ADDRESS.fullmatch(address.path):
            self._require_edition(read_query(address.query))
            side = THUMBNAIL_SIDE if image[1] == "thumbnail" else IMAGE_SIDE
            return HttpAnswer(self.render_image(int(image[2]), side), "image/jpeg", KEEP)
        if explanation := EXPLANATION_ADDRESS.fullmatch(address.path):
            content = self.read_explanation(explanation[1], explanation[2])
            headers = {"Content-Security-Policy": f"{CONTENT_POLICY}; sandbox"}
            return HttpAnswer(content, "text/html; charset=utf-8", headers)
        return HttpAnswer.json(self.list_examples(read_query(address.query, most=16)))

    def list_examples(self, words: dict[str, str]) -> dict[str, Any]:
        """Some examples of a query as JSON values, and how many there are.

        Raises:
            RequestError: a word has no meaning.
        """
        self._require_edition(words)
        offset, most = read_number(words, "offset"), read_number(words, "most", 24)
        try:
            query = ExampleQuery.parse(words, self.table)
        except ValueError as error:
            raise RequestError(400, str(error)) from None
        answer = self.find_rows(query)
        some = answer.rows[offset : offset + min(most, MAX_PAGE)].tolist()
        rows = [self.table.row(row) for row in some]
        for row in rows:
            row["explained"] = [
                run.key
                for run in self.table.runs
                if self._explanation(run.folder, row["key"], run.key)
            ]
        return {"count": len(answer.rows), "counts": answer.counts, "rows": rows}

    def _require_edition(self, words: Mapping[str, str]) -> None:
        """Refuse what a page of another server asks; who names no edition means this one."""
        if words.get("v", self.edition) != self.edition:
            raise RequestError(409, "Another view was started here: load the page again.")

    def _find_rows(self, query: ExampleQuery) -> QueryAnswer:
        return find_rows(self.table, query)

    def render_image(self, number: int, side: int) -> bytes:
        """JPEG copy of an image.

        Raises:
            RequestError: there is no such image, or it cannot be opened.
        """
        if number >= len(self.table.images.refs):
            raise RequestError(404, "there is no such image.")
        (image,) = open_readable([self.table.images.refs[number]])
        if image is None:
            raise RequestError(404, "the image cannot be opened.")
        return thumbnail_bytes(image, side)

    def read_explanation(self, name: str, key: str) -> bytes:
        """Explanation of a pair that lies in the folder of a run.

        Raises:
            RequestError: there is none.
        """
        for run in self.table.runs:
            path = self._explanation(run.folder, name.partition("-")[0], run.key)
            if run.key == key and path is not None:
                try:
                    return path.read_bytes()
                except OSError:
                    break
        raise RequestError(404, "there is no such explanation.")

    @staticmethod
    def _explanation(folder: str, row: str, run: str) -> Path | None:
        """File of an explanation; None where there is none."""
        path = Path(folder) / EXPLANATIONS / f"{row}-{run}.html"
        return path if folder and path.is_file() else None
