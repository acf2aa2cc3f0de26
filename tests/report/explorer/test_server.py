"""Server of the explorer: queries, images and explanations for this machine, and nothing else."""

from __future__ import annotations

import http.client
import json
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any
from urllib.parse import urlencode, urlsplit

import pytest

from contrapose.errors import InputError
from contrapose.report.explorer.server import ExplorerServer, load_view
from contrapose.results import write_run
from tests.report.explorer.browser import HOSTILE, SIZE, make_runs


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("runs") / "run"
    write_run(make_runs(), path)
    return path


@pytest.fixture(scope="module")
def server(folder: Path) -> Iterator[ExplorerServer]:
    records, folders = load_view([folder])
    with ExplorerServer([*make_runs()[:1], records[1]], ["", folders[1]]) as running:
        yield running


def get(server: ExplorerServer, address: str, **headers: str) -> tuple[int, Any, dict[str, str]]:
    with closing(http.client.HTTPConnection(urlsplit(server.url).netloc)) as connection:
        connection.request("GET", address, headers=headers)
        answer = connection.getresponse()
        content = answer.read()
    if answer.headers["Content-Type"] == "application/json":
        return answer.status, json.loads(content), dict(answer.headers)
    return answer.status, content, dict(answer.headers)


def test_pages_of_examples(server: ExplorerServer) -> None:
    assert server.is_local
    words = {"outcome": "w", "sort": "best", "offset": 2, "most": 3}
    status, values, _ = get(server, "/api/examples?" + urlencode(words))
    assert status == 200
    assert len(values["rows"]) == 3
    assert values["count"] == values["counts"]["w"]
    assert sum(values["counts"].values()) == SIZE + 6
    margins = [row["runs"][0]["margin"] for row in values["rows"]]
    assert margins == sorted(margins, reverse=True)
    status, values, _ = get(server, "/api/examples?" + urlencode({"text": HOSTILE[:20]}))
    assert [row["captions"][0] for row in values["rows"]] == [HOSTILE]


def test_page_and_images(server: ExplorerServer) -> None:
    status, page, headers = get(server, "/")
    assert status == 200
    assert b'"server": true' in page
    assert b"explorer-data" in page
    assert HOSTILE.encode() not in page
    assert "script-src 'sha256-" in headers["Content-Security-Policy"]
    _, values, _ = get(server, "/api/examples?most=1")
    number = values["rows"][0]["images"][0]
    status, image, headers = get(server, f"/thumbnail/{number}")
    assert (status, headers["Content-Type"], image[:2]) == (200, "image/jpeg", b"\xff\xd8")
    assert get(server, f"/image/{number}")[0] == 200
    assert get(server, "/image/9999")[0] == 404


def test_a_page_of_another_server_is_told_so(server: ExplorerServer) -> None:
    edition = server._server.routes.edition  # type: ignore[attr-defined]
    assert f'"edition": "{edition}"'.encode() in get(server, "/")[1]
    for address in ("/api/examples?most=1", "/thumbnail/0?", "/image/0?"):
        assert get(server, f"{address}&v={edition}")[0] == 200
        status, values, _ = get(server, f"{address}&v=0123")
        assert status == 409
        assert "load the page again" in values["error"]


@pytest.mark.parametrize(
    ("address", "status"),
    [
        ("/api/examples?a=9", 400),
        ("/api/examples?sort=random", 400),
        ("/api/examples?offset=-1", 400),
        ("/spec.json", 404),
        ("/thumbnail/../spec.json", 404),
        ("/explanation/..%2f..%2fspec.json", 404),
        ("/explanation/000000000000-000000000000", 404),
    ],
)
def test_nothing_else_is_answered(server: ExplorerServer, address: str, status: int) -> None:
    answer = get(server, address)
    assert answer[0] == status
    assert answer[1]["error"]


def test_foreign_names_are_refused(server: ExplorerServer) -> None:
    assert get(server, "/", Host="evil.example")[0] == 403
    assert get(server, "/api/examples", Host="localhost")[0] == 200


def test_explanations_of_a_run_folder(server: ExplorerServer, folder: Path) -> None:
    _, values, _ = get(server, "/api/examples?most=1")
    (row,) = values["rows"]
    assert row["explained"] == []
    key = server._server.routes.table.runs[1].key  # type: ignore[attr-defined]
    file = folder / "explanations" / f"{row['key']}-{key}.html"
    file.parent.mkdir()
    file.write_text("<p>why</p>")
    _, values, _ = get(server, "/api/examples?most=1")
    assert values["rows"][0]["explained"] == [key]
    status, content, headers = get(server, f"/explanation/{row['key']}-{key}")
    assert (status, content) == (200, b"<p>why</p>")
    assert "default-src 'none'" in headers["Content-Security-Policy"]


def test_runs_that_cannot_be_read_are_refused(tmp_path: Path, folder: Path) -> None:
    with pytest.raises(InputError, match="does not exist"):
        load_view([tmp_path / "none"])
    (tmp_path / "empty").mkdir()
    with pytest.raises(InputError, match="not a run folder"):
        load_view([tmp_path / "empty"])
    with pytest.raises(InputError, match="no run of itm"):
        load_view([Path(f"{folder}@itm")])
    assert [run.results.score for run in load_view([Path(f"{folder}@itc")])[0]] == ["itc"]
    with pytest.raises(InputError, match="no run"):
        ExplorerServer([])
