"""Search service: what the web page asks, answered without HTTP.

Images leave only as JPEG copies of rows of the index: no file is sent as it is, and no path of a
request is ever opened. A query names its image by a path that the index holds, or by the id of an
image that was uploaded before.

Every request looks whether the manifest of the index was replaced, and goes on with the new state
if it was; one request sees one state. Addresses of images name their state, so that a row of an
older page never shows another image.
"""

from __future__ import annotations

import io
import math
import secrets
from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING, Any

from contrapose.data import ImageRef
from contrapose.data.images import bytes_id, decode_image, read_bytes
from contrapose.errors import InputError
from contrapose.files import is_valid_unicode
from contrapose.files.local_server import RequestError
from contrapose.metrics.fusion import FUSIONS
from contrapose.search.index import Index, open_index, read_stamp
from contrapose.search.queries import SearchQuery, SearchResult, parse_edits
from contrapose.search.searcher import Searcher

if TYPE_CHECKING:
    from contrapose.search.queries import Hit

THUMBNAIL_SIDE, PREVIEW_SIDE = 320, 1280
"""Pixels of the longer side of an image in the grid, and of the query image."""

CACHE_BYTES = 64 << 20
"""Bytes of JPEG copies kept in memory."""

MAX_UPLOAD_BYTES = 32 << 20
"""Largest image that may be uploaded; pixels are bounded where images are decoded."""

UPLOADS_BYTES = 4 * MAX_UPLOAD_BYTES
"""Bytes of uploaded images kept in memory; the oldest are forgotten."""

PAGE_SIZE = 60
"""Images of a page of the index."""

MAX_K, MAX_EDIT, MAX_CHANGES = 200, 1000, 16
"""Bounds of a query: images, characters and changes."""

MAX_SCALES = {"weicom": 1.0}
"""Largest λ of fusions whose λ is a share."""

MAX_STATES = 4
"""States of the index whose images are still served, for pages that were loaded before."""


class ByteCache:
    """Thread-safe cache of bytes with a bounded sum; the least recently used are dropped."""

    def __init__(self, capacity: int):
        self.capacity, self.size = capacity, 0
        self._items: OrderedDict[object, bytes] = OrderedDict()
        self._lock = Lock()

    def get(self, key: object) -> bytes | None:
        """Bytes of a key; None where there are none."""
        with self._lock:
            if key in self._items:
                self._items.move_to_end(key)
            return self._items.get(key)

    def put(self, key: object, content: bytes) -> None:
        """Keep bytes, the newest even where they alone are more than the capacity."""
        with self._lock:
            self.size += len(content) - len(self._items.pop(key, b""))
            self._items[key] = content
            while self.size > self.capacity and len(self._items) > 1:
                self.size -= len(self._items.popitem(last=False)[1])


@dataclass(frozen=True, slots=True, eq=False)
class IndexState:
    """State of the index that requests are answered from.

    Attributes:
        searcher: the index as it is in this state.
        edition: part of the images' addresses: a browser keeps images, and must not show those of
            another index or state.
    """

    searcher: Searcher
    edition: str

    @property
    def index(self) -> Index:
        """The index."""
        return self.searcher.index


class SearchService:
    """Answers to the web page: the index, pages of images, JPEG copies, uploads, searches.

    All methods may be called by several threads; one search runs at a time.
    """

    def __init__(self, searcher: Searcher):
        self._copies, self._uploads = ByteCache(CACHE_BYTES), ByteCache(UPLOADS_BYTES)
        self._searching, self._opening = Lock(), Lock()
        self._stamp: object = None
        self._states: list[IndexState] = [IndexState(searcher, secrets.token_hex(4))]

    def state(self) -> IndexState:
        """Newest state of the index; it is opened again after its manifest was replaced.

        A state that cannot be used (damaged, of another model, or deleted) leaves the last one. A
        copy in LanceDB does not follow, so that its index stays as it is.
        """
        with self._opening:
            newest = self._states[-1]
            stamp = read_stamp(newest.index.folder)
            if stamp is not None and stamp != self._stamp and newest.searcher.backend is None:
                self._stamp = stamp
                try:
                    index = open_index(newest.index.folder)
                    if index.number != newest.index.number:
                        searcher = newest.searcher.with_index(index)
                        newest = IndexState(searcher, secrets.token_hex(4))
                        self._states = [*self._states, newest][-MAX_STATES:]
                except InputError:
                    pass
            return newest

    def describe(self) -> dict[str, Any]:
        """Describe the index and what can be asked of it."""
        state = self.state()
        index = state.index
        return {
            "name": index.root.name,
            "model": index.model,
            "images": len(index),
            "edition": state.edition,
            "page_size": PAGE_SIZE,
            "max_k": MAX_K,
            "max_upload_bytes": MAX_UPLOAD_BYTES,
            "fusions": [
                {
                    "name": fusion.name,
                    "title": fusion.title,
                    "lambda": fusion.scale,
                    "max_lambda": MAX_SCALES.get(fusion.name, 3.0),
                }
                for fusion in FUSIONS.values()
            ],
        }

    def list_images(self, offset: int) -> dict[str, Any]:
        """List a page of the index: rows and paths."""
        state = self.state()
        index = state.index
        rows = range(min(offset, len(index)), min(offset + PAGE_SIZE, len(index)))
        listed = [{"row": row, "path": index.path(row)} for row in rows]
        return {"images": listed, "edition": state.edition}

    def render_image(self, row: int, side: int, edition: str | None = None) -> bytes:
        """JPEG copy of an image of the index, at most `side` pixels wide and high.

        Args:
            row: in the state of the index that `edition` names.
            side: pixels.
            edition: of the state; None is the newest.

        Raises:
            RequestError: there is no such state or row, or its file cannot be used any more.
        """
        states = [self.state()] if edition is None else self._states
        state = next((one for one in states if edition in (None, one.edition)), None)
        if state is None:
            raise RequestError(404, "the index has changed; load the page again.")
        key = state.edition, row, side
        kept = self._copies.get(key)
        if kept is not None:
            return kept
        file = _find_image_file(state.index, row)
        try:
            image = decode_image(read_bytes(ImageRef("row", file)), side=side)
        except InputError as error:
            raise RequestError(404, _sentence(error)) from None
        image.thumbnail((side, side))
        stream = io.BytesIO()
        image.save(stream, "JPEG", quality=88)
        self._copies.put(key, stream.getvalue())
        return stream.getvalue()

    def keep_upload(self, content: bytes) -> dict[str, Any]:
        """Keep an image for queries; one that the index holds is named by its path.

        Raises:
            RequestError: it is no image, or too large.
        """
        try:
            decode_image(content, side=THUMBNAIL_SIDE)
        except InputError as error:
            raise RequestError(400, _sentence(error)) from None
        name = bytes_id(content)
        index = self.state().index
        rows = index.find_content(name)
        if len(rows):
            row = int(rows[0])
            return {"row": row, "path": index.path(row)}
        self._uploads.put(name, content)
        return {"upload": name}

    def search(self, values: object) -> dict[str, Any]:
        """Answer a search: `path` or `upload`, `edit`, `fusion`, `lambda` and `k`.

        A slider keeps its λ when the fusion becomes another: it is not used by fusions without
        one, and at most 1 for WeiCom.

        Raises:
            RequestError: the values are malformed, the image is not known, or the query is
                refused.
        """
        if not isinstance(values, Mapping):
            raise RequestError(400, "a search is a JSON object.")
        edit, fusion, k = values.get("edit", ""), values.get("fusion"), values.get("k", 30)
        scale = values.get("lambda")
        if not isinstance(edit, str) or len(edit) > MAX_EDIT or not is_valid_unicode(edit):
            raise RequestError(400, f"an edit is a text of at most {MAX_EDIT:,} characters.")
        if not (fusion is None or isinstance(fusion, str)):
            raise RequestError(400, "a fusion is given by its name.")
        if not (scale is None or _is_number(scale)):
            raise RequestError(400, "λ is a number.")
        if not isinstance(k, int) or isinstance(k, bool) or not 1 <= k <= MAX_K:
            raise RequestError(400, f"k is a whole number from 1 to {MAX_K}.")
        state = self.state()
        row, image = self._query_image(state.index, values.get("path"), values.get("upload"))
        try:
            text, changes = parse_edits(edit)
            if len(changes) > MAX_CHANGES:
                raise RequestError(400, f"a query has at most {MAX_CHANGES} changes.")
            query = SearchQuery(text, image, changes, fusion or None)
            chosen = query.choose_fusion()
            if scale is not None and chosen.scale is not None:
                most = MAX_SCALES.get(chosen.name, math.inf)
                query = replace(query, scale=min(float(scale), most))
            with self._searching:
                result = state.searcher.search(query, k)
        except InputError as error:
            raise RequestError(400, _sentence(error)) from None
        return {"row": row, "edition": state.edition, **_describe_result(result)}

    def _query_image(
        self, index: Index, path: object, upload: object
    ) -> tuple[int | None, Path | bytes | None]:
        """Row and image of a query; None where it has no image."""
        if path is not None:
            known = isinstance(path, str) and is_valid_unicode(path)
            row = index.find_path(str(path)) if known else None
            if row is None:
                raise RequestError(404, "the index holds no such image.")
            return row, _find_image_file(index, row)
        if upload is None:
            return None, None
        content = self._uploads.get(upload) if isinstance(upload, str) else None
        if content is None:
            raise RequestError(404, "the dropped image is no longer known; drop it again.")
        return None, content


def _find_image_file(index: Index, row: int) -> Path:
    """File of a row; a link that leads out of the folder is refused."""
    if not 0 <= row < len(index):
        raise RequestError(404, "the index holds no such image.")
    try:
        file = index.file(row)
        inside = file.resolve().is_relative_to(index.root)
    except (InputError, OSError, RuntimeError):
        inside = False
    if not inside:
        raise RequestError(404, "the image lies outside the folder of the index.")
    if not file.is_file():  # a file with nearly the same name does not stand for it here
        raise RequestError(404, "the image is not there any more.")
    return file


def _describe_result(result: SearchResult) -> dict[str, Any]:
    return {
        "fusion": result.fusion,
        "lambda": result.scale,
        "calibrated": result.calibrated,
        "text": result.query.text,
        "changes": [str(change) for change in result.query.changes],
        "left_out": list(result.left_out),
        "notes": [f"{note}." for note in result.notes],
        "hits": [_describe_hit(hit) for hit in result.hits],
    }


def _describe_hit(hit: Hit) -> dict[str, Any]:
    return {
        "row": hit.row,
        "path": hit.path,
        "score": hit.score,
        "image": hit.image_cosine,
        "text": hit.text_cosine,
        "changes": list(hit.changes),
    }


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)


def _sentence(error: InputError) -> str:
    """Message of an error, with the name of its file and not the folders above it."""
    return f"{Path(error.file).name}: {error.message}" if error.file else error.message
