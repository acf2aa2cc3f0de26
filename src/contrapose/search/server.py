"""Web server of the search page, bound to this machine by default.

    GET  /                   the page
    GET  /api/index          the index, its model, and the fusions
    GET  /api/images         a page of the index: offset
    GET  /thumbnail/ROW      JPEG copy of an image; /image/ROW is a larger one; v is the edition
    POST /api/search         JSON: path or upload, edit, fusion, lambda, k
    POST /api/upload         the bytes of an image

Nothing else is answered; `files/local_server.py` checks who asks. The page may run its own script
and nothing external.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from functools import cache
from importlib.resources import files
from urllib.parse import SplitResult

from contrapose.files.local_server import (
    KEEP,
    HttpAnswer,
    LocalServer,
    RequestError,
    read_number,
    read_query,
)
from contrapose.files.pages import inline_page
from contrapose.search.searcher import Searcher
from contrapose.search.service import (
    MAX_UPLOAD_BYTES,
    PREVIEW_SIDE,
    THUMBNAIL_SIDE,
    SearchService,
)

MAX_QUERY_BYTES = 1 << 16
"""Largest JSON of a search."""

IMAGE_ADDRESS = re.compile(r"/(thumbnail|image)/([0-9]{1,9})")

ROUTES = {"/": "GET", "/api/index": "GET", "/api/images": "GET"}
ROUTES |= {"/api/search": "POST", "/api/upload": "POST"}
"""Address → its method; those of images are matched by `IMAGE_ADDRESS`."""


@cache
def load_page() -> tuple[bytes, str]:
    """Load the page as one file, and a content policy that allows its script and style by hash."""
    text, (script, style) = inline_page(files(__package__).joinpath("page"), "page")
    policy = (
        f"default-src 'none'; script-src {script}; style-src {style}; "
        "img-src 'self' blob: data:; connect-src 'self'; base-uri 'none'; form-action 'none'; "
        "frame-ancestors 'none'"
    )
    return text.encode(), policy


class SearchServer(LocalServer):
    """Server of the search page; see `LocalServer`."""

    def __init__(self, searcher: Searcher, host: str = "127.0.0.1", port: int = 0):
        """Bind to a port and answer from now on; see `LocalServer` for host and port."""
        super().__init__(SearchRoutes(SearchService(searcher)), host, port)


class SearchRoutes:
    """Addresses of the search page, answered by a service."""

    def __init__(self, service: SearchService):
        self.service = service

    def find_method(self, path: str) -> str | None:
        """Method that an address answers; None where there is nothing."""
        return "GET" if IMAGE_ADDRESS.fullmatch(path) else ROUTES.get(path)

    def answer(self, address: SplitResult, read_body: Callable[[int], bytes]) -> HttpAnswer:
        """Answer a request.

        Raises:
            RequestError: it cannot be answered.
        """
        service = self.service
        if image := IMAGE_ADDRESS.fullmatch(address.path):
            side = THUMBNAIL_SIDE if image[1] == "thumbnail" else PREVIEW_SIDE
            edition = read_query(address.query).get("v")
            return HttpAnswer(
                service.render_image(int(image[2]), side, edition), "image/jpeg", KEEP
            )
        if address.path == "/":
            page, policy = load_page()
            headers = {"Content-Security-Policy": policy}
            return HttpAnswer(page, "text/html; charset=utf-8", headers)
        if address.path == "/api/index":
            return HttpAnswer.json(service.describe())
        if address.path == "/api/images":
            offset = read_number(read_query(address.query), "offset")
            return HttpAnswer.json(service.list_images(offset))
        if address.path == "/api/upload":
            return HttpAnswer.json(service.keep_upload(read_body(MAX_UPLOAD_BYTES)))
        try:
            values = json.loads(read_body(MAX_QUERY_BYTES))
        except (ValueError, RecursionError):
            raise RequestError(400, "a search is a JSON object.") from None
        return HttpAnswer.json(service.search(values))
