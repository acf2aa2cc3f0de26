"""Server of the search page: its routes, and all that it refuses."""

from __future__ import annotations

import http.client
import io
import json
import socket
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from PIL import Image

from contrapose.errors import InputError, command_line_names
from contrapose.search.searcher import Searcher
from contrapose.search.server import SearchServer, load_page
from contrapose.search.service import CACHE_BYTES, MAX_UPLOAD_BYTES, ByteCache
from contrapose.search.writer import IndexRequest, build_index
from tests.search.photos import COLORS, ColorModel, write_photos

HOSTILE = "<img src=x onerror=alert(1)>&'.png"


@pytest.fixture(scope="module")
def photos(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = write_photos(tmp_path_factory.mktemp("photos"), 70)
    Image.new("RGB", (900, 600), COLORS["red"]).save(folder / "large.jpg")
    Image.new("RGB", (8, 8), (1, 2, 3)).save(folder / HOSTILE)
    return folder


@pytest.fixture(scope="module")
def searcher(photos: Path) -> Searcher:
    model = ColorModel()
    return Searcher(build_index(IndexRequest(photos), model).index, model, subjects=list(COLORS))


@pytest.fixture(scope="module")
def server(searcher: Searcher) -> Iterator[SearchServer]:
    with SearchServer(searcher) as running:
        yield running


def port_of(server: SearchServer) -> int:
    return int(server.url.rstrip("/").rpartition(":")[2])


class Reply:
    """Answer of the server, with its body read."""

    def __init__(self, answer: http.client.HTTPResponse):
        self.status, self.headers, self.body = answer.status, answer.headers, answer.read()

    def json(self) -> Any:
        return json.loads(self.body)

    def error(self) -> str:
        return str(self.json()["error"])


def ask(
    server: SearchServer, path: str, body: bytes | None = None, method: str = "", **headers: str
) -> Reply:
    connection = http.client.HTTPConnection("127.0.0.1", port_of(server), timeout=60)
    try:
        names = {name.replace("_", "-"): value for name, value in headers.items()}
        connection.putrequest(
            method or ("GET" if body is None else "POST"), path, skip_host="Host" in names
        )
        if body is not None and "Content-Length" not in names:
            names["Content-Length"] = str(len(body))
        for name, value in names.items():
            connection.putheader(name, value)
        connection.endheaders(body)
        return Reply(connection.getresponse())
    finally:
        connection.close()


def search(server: SearchServer, **values: Any) -> Reply:
    return ask(server, "/api/search", json.dumps(values).encode())


def names(reply: Reply) -> list[str]:
    return [Path(hit["path"]).name.partition("-")[0] for hit in reply.json()["hits"]]


def png(color: tuple[int, int, int], size: tuple[int, int] = (4, 4)) -> bytes:
    stream = io.BytesIO()
    Image.new("RGB", size, color).save(stream, "PNG")
    return stream.getvalue()


def test_the_page_allows_nothing_external(server: SearchServer) -> None:
    reply = ask(server, "/")
    assert reply.status == 200
    assert reply.headers["Content-Type"] == "text/html; charset=utf-8"
    policy = reply.headers["Content-Security-Policy"]
    assert "default-src 'none'" in policy
    assert "unsafe" not in policy
    assert "http" not in policy
    assert reply.headers["X-Content-Type-Options"] == "nosniff"
    text = reply.body.decode()
    assert "http://" not in text
    assert "https://" not in text
    assert "innerHTML" not in text
    assert reply.body == load_page()[0]


def test_the_index_and_its_pages(server: SearchServer, searcher: Searcher) -> None:
    about = ask(server, "/api/index").json()
    assert (about["images"], about["model"]) == (72, "colors")
    assert {fusion["name"] for fusion in about["fusions"]} >= {"delta", "weicom"}
    first = ask(server, "/api/images").json()["images"]
    rest = ask(server, "/api/images?offset=60").json()["images"]
    assert [entry["row"] for entry in first + rest] == list(range(72))
    assert HOSTILE in {entry["path"] for entry in first + rest}
    assert ask(server, "/api/images?offset=999").json()["images"] == []
    for offset in ("-1", "x", "1e3", "9" * 30):
        assert ask(server, f"/api/images?offset={offset}").status == 400


def test_images_are_sent_as_small_copies(server: SearchServer, searcher: Searcher) -> None:
    row = searcher.index.find_path("large.jpg")
    for kind, size in (("thumbnail", (320, 213)), ("image", (900, 600))):
        reply = ask(server, f"/{kind}/{row}")
        assert reply.headers["Content-Type"] == "image/jpeg"
        with Image.open(io.BytesIO(reply.body)) as image:
            assert (image.format, image.size) == ("JPEG", size)


@pytest.mark.parametrize(
    "path",
    [
        "/thumbnail/72", "/thumbnail/-1", "/thumbnail/1.5", "/thumbnail/", "/thumbnail/%D9%A3",
        "/thumbnail/../../etc/passwd", "/image/..%2f..%2fetc%2fpasswd", "/image/more/red-0.png",
        "/more/red-0.png", "/large.jpg", "/.contrapose/colors/index.json", "/etc/passwd",
        "//etc/passwd", "/api", "/api/index/", "/%00", "/page.html", "/server.py",
        "/thumbnail/99999999999999999999",
    ],
)  # fmt: skip
def test_nothing_but_rows_of_the_index_is_served(server: SearchServer, path: str) -> None:
    assert ask(server, path).status == 404


def test_a_link_that_leaves_the_folder_is_not_served(tmp_path: Path) -> None:
    photos = write_photos(tmp_path / "photos")
    secret = tmp_path / "secret.png"
    secret.write_bytes(png((9, 9, 9)))
    model = ColorModel()
    searcher = Searcher(build_index(IndexRequest(photos), model).index, model)
    (photos / "green-1.png").unlink()
    (photos / "green-1.png").symlink_to(secret)
    (photos / "white-3.png").rename(photos / "white-3.jpg")
    with SearchServer(searcher) as server:
        for name, why in (("green-1.png", "outside"), ("white-3.png", "not there")):
            reply = ask(server, f"/thumbnail/{searcher.index.find_path(name)}")
            assert reply.status == 404
            assert why in reply.error()
            assert str(tmp_path) not in reply.error()
        assert search(server, path="green-1.png").status == 404


def test_searches(server: SearchServer) -> None:
    by_text = search(server, edit="green", k=5)
    assert names(by_text) == ["green"] * 5
    edited = search(server, path="more/red-0.png", edit="red -> blue", k=4)
    answer = edited.json()
    assert names(edited) == ["blue"] * 4
    assert (answer["fusion"], answer["calibrated"]) == ("delta", True)
    assert answer["changes"] == ["red -> blue"]
    assert answer["left_out"] == ["more/red-0.png"]
    hit = answer["hits"][0]
    length = (hit["image"] + answer["lambda"] * hit["changes"][0]) / hit["score"]
    other = answer["hits"][1]
    # The parts that the page shows add up to the score, times the length of the query.
    parts = other["image"] + answer["lambda"] * other["changes"][0]
    assert parts / other["score"] == pytest.approx(length, rel=1e-4)
    fixed = search(server, path="more/red-0.png", edit="red -> blue", k=4, **{"lambda": 0})
    assert set(names(fixed)) <= {"red", "large.jpg"}


def test_the_slider_keeps_its_value_when_the_fusion_changes(server: SearchServer) -> None:
    plain = search(server, path="more/red-0.png", **{"lambda": 2.5})
    assert (plain.json()["fusion"], plain.json()["lambda"]) == ("image", None)
    both = search(server, path="more/red-0.png", edit="blue", **{"lambda": 2.5})
    assert (both.json()["fusion"], both.json()["lambda"]) == ("weicom", 1.0)


@pytest.mark.parametrize(
    ("values", "status", "why"),
    [
        ({}, 400, "text or an image"),
        ({"edit": "red -> blue"}, 400, "needs an image"),
        ({"edit": "a -> b -> c"}, 400, "change"),
        ({"edit": "x" * 1001}, 400, "1,000"),
        ({"edit": ["red"]}, 400, "text"),
        ({"edit": "red", "k": 0}, 400, "k"),
        ({"edit": "red", "k": 201}, 400, "200"),
        ({"edit": "red", "k": True}, 400, "k"),
        ({"edit": "red", "lambda": "1"}, 400, "λ"),
        ({"edit": "red -green", "lambda": -1}, 400, "λ"),
        ({"edit": "red", "fusion": "cosine"}, 400, "cosine"),
        ({"edit": "red", "fusion": 3}, 400, "name"),
        ({"edit": ",".join(f"-w{i}" for i in range(17))}, 400, "16"),
        ({"path": "../secret.png"}, 404, "no such image"),
        ({"path": "/etc/passwd"}, 404, "no such image"),
        ({"path": "more/../more/red-0.png"}, 404, "no such image"),
        ({"path": 3}, 404, "no such image"),
        ({"path": "\ud800"}, 404, "no such image"),
        ({"edit": "\ud800"}, 400, "text"),
        ({"upload": "0" * 32}, 404, "drop it again"),
        ({"upload": {}}, 404, "drop it again"),
    ],
)
def test_bad_searches(server: SearchServer, values: Any, status: int, why: str) -> None:
    reply = search(server, **values)
    assert reply.status == status
    assert why in reply.error()
    assert reply.error().endswith(".")


def test_options_have_no_dashes_in_the_page(server: SearchServer) -> None:
    with command_line_names():
        assert "--" not in search(server, edit="red -> blue").error()


@pytest.mark.parametrize("body", [b"", b"{", b"[]", b"\xff", b"[" * 20000, b'{"edit": NaN}'])
def test_malformed_json(server: SearchServer, body: bytes) -> None:
    assert ask(server, "/api/search", body).status == 400


def test_uploads(server: SearchServer, photos: Path) -> None:
    held = ask(server, "/api/upload", (photos / "more" / "red-0.png").read_bytes()).json()
    assert held["path"] == "more/red-0.png"
    new = ask(server, "/api/upload", png((25, 28, 190))).json()
    assert list(new) == ["upload"]
    assert names(search(server, upload=new["upload"], k=3)) == ["blue"] * 3


def test_upload_limits(server: SearchServer, monkeypatch: pytest.MonkeyPatch) -> None:
    reply = ask(server, "/api/upload", b"no image")
    assert (reply.status, "image" in reply.error()) == (400, True)
    reply = ask(server, "/api/upload", b"", Content_Length=str(MAX_UPLOAD_BYTES + 1))
    assert (reply.status, "32 MiB" in reply.error()) == (413, True)
    reply = ask(server, "/api/search", b"", Content_Length="70000")
    assert reply.status == 413
    monkeypatch.setattr(Image, "MAX_IMAGE_PIXELS", 100)
    reply = ask(server, "/api/upload", png((1, 1, 1), (20, 20)))
    assert (reply.status, "too large" in reply.error()) == (400, True)


def test_the_length_of_a_body_is_checked(server: SearchServer) -> None:
    for length in ("", "-1", "1_0", "+5", "x"):
        assert ask(server, "/api/upload", b"", Content_Length=length).status == 411
    assert ask(server, "/api/upload", b"", Transfer_Encoding="chunked").status == 411


@pytest.mark.parametrize(
    ("host", "status"),
    [
        ("127.0.0.1:1", 200), ("localhost", 200), ("[::1]:80", 200), ("LOCALHOST:1", 200),
        ("evil.example", 403), ("127.0.0.1.evil.example", 403), ("localhost.evil.example", 403),
        ("user@evil.example", 403), ("", 403), ("[", 403),
    ],
)  # fmt: skip
def test_host_header(server: SearchServer, host: str, status: int) -> None:
    assert ask(server, "/api/index", Host=host).status == status


def test_a_foreign_page_cannot_post(server: SearchServer) -> None:
    body, here = b'{"edit": "red"}', server.url.rstrip("/")
    assert ask(server, "/api/search", body, Origin=here).status == 200
    for origin in ("http://evil.example", "null", here.replace("http", "https")):
        assert ask(server, "/api/search", body, Origin=origin).status == 403


def test_other_methods_are_refused(server: SearchServer) -> None:
    for path, method in (("/", "POST"), ("/api/search", "GET"), ("/thumbnail/0", "POST")):
        assert ask(server, path, b"", method).status == 405
    for method in ("PUT", "DELETE", "OPTIONS", "HEAD"):
        assert ask(server, "/", method=method).status == 501


def test_a_connection_may_end_early_or_send_noise(server: SearchServer) -> None:
    for noise in (
        b"POST /api/upload HTTP/1.1\r\nHost: localhost\r\nContent-Length: 9\r\n\r\nx",
        b"\x00\xff\r\n\r\n",
        b"GET http://[ HTTP/1.1\r\nHost: localhost\r\n\r\n",
    ):
        with socket.create_connection(("127.0.0.1", port_of(server)), timeout=60) as connection:
            connection.sendall(noise)
            connection.shutdown(socket.SHUT_WR)
            assert b'{"error": "' in connection.makefile("rb").read()
    assert ask(server, "/api/index").status == 200


def test_many_requests_at_once(server: SearchServer) -> None:
    lines = ("red", "green", "blue", "red green", "white -red")

    def one(number: int) -> tuple[int, object]:
        shown = ask(server, f"/thumbnail/{number}").status
        return shown, search(server, edit=lines[number % 5], k=3).json()

    alone = [one(number) for number in range(5)]
    with ThreadPoolExecutor(8) as pool:
        together = list(pool.map(one, range(30)))
    assert together == alone * 6
    assert alone[0][0] == 200


def test_ports_and_hosts(searcher: Searcher, server: SearchServer) -> None:
    assert server.is_local
    assert server.url.startswith("http://127.0.0.1:")
    with pytest.raises(InputError, match="port"):
        SearchServer(searcher, port=port_of(server))
    for host, port in (("no.such.host.invalid", 0), ("127.0.0.1", 70000), ("x" * 300, 0)):
        with pytest.raises(InputError):
            SearchServer(searcher, host, port)
    with SearchServer(searcher, "0.0.0.0") as public:  # noqa: S104
        assert not public.is_local
        assert ask(public, "/api/index", Host="192.0.2.7:80").status == 200
        assert ask(public, "/api/index", Host="evil.example").status == 403


def test_the_cache_is_bounded() -> None:
    cache = ByteCache(10)
    for number in range(5):
        cache.put(number, b"xxxx")
        assert cache.get(0) == b"xxxx"
    assert (cache.size, cache.get(4), cache.get(1)) == (8, b"xxxx", None)
    cache.put(4, b"y" * 20)
    assert (cache.size, cache.get(0)) == (20, None)
    assert CACHE_BYTES < 1 << 28


def pixel(reply: Reply) -> tuple[int, ...]:
    assert reply.status == 200
    value = Image.open(io.BytesIO(reply.body)).getpixel((3, 3))
    assert isinstance(value, tuple)
    return value


def test_later_states_of_the_index(tmp_path: Path) -> None:
    photos, model = write_photos(tmp_path / "photos", 5), ColorModel()
    with SearchServer(
        Searcher(build_index(IndexRequest(photos), model).index, model, subjects=list(COLORS))
    ) as running:
        before = ask(running, "/api/images").json()
        address = f"/thumbnail/0?v={before['edition']}"
        first = pixel(ask(running, address))
        (photos / before["images"][0]["path"]).rename(photos / "zzz-last.png")
        Image.new("RGB", (8, 8), (220, 200, 30)).save(photos / "aaa-first.png")
        build_index(IndexRequest(photos), model)
        after = ask(running, "/api/images").json()
        assert [len(state["images"]) for state in (before, after)] == [5, 6]
        assert after["edition"] != before["edition"]
        assert after["images"][0]["path"] == "aaa-first.png"
        described = ask(running, "/api/index").json()
        assert (described["images"], described["edition"]) == (6, after["edition"])
        answer = search(running, edit="red").json()
        assert answer["edition"] == after["edition"]
        # The old page's row 0 is its own image, never the new row 0.
        assert pixel(ask(running, address)) == first
        assert pixel(ask(running, f"/thumbnail/0?v={after['edition']}")) != first
        assert "load the page again" in ask(running, "/thumbnail/0?v=00000000").error()
        # A manifest that cannot be used leaves the last state.
        manifest = next((photos / ".contrapose").glob("*/index.json"))
        good = manifest.read_text()
        other = json.loads(good) | {"number": 9, "fingerprint": "another-model"}
        for text in ("{", json.dumps(other)):
            manifest.write_text(text)
            assert ask(running, "/api/index").json()["edition"] == after["edition"]
        manifest.unlink()
        assert ask(running, "/api/index").json()["images"] == 6
