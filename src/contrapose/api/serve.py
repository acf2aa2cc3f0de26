"""`serve`: a web page on this machine that searches an index."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from contrapose.api.index import load_index
from contrapose.api.inputs import ModelLike, PathLike, Words

if TYPE_CHECKING:
    from contrapose.search.searcher import Searcher
    from contrapose.search.server import SearchServer


def serve(
    where: PathLike | Searcher,
    *,
    host: str = "127.0.0.1",
    port: int = 0,
    model: ModelLike | None = None,
    device: str = "auto",
    dtype: str | None = None,
    trust_remote_code: bool = False,
    subjects: Words = None,
    styles: Words = None,
) -> SearchServer:
    """Serve a web page that searches an index, in the background.

    Only copies of the index's images are sent, and only to this machine unless `host` says
    otherwise: then everyone who reaches the port sees all images of the index, without a password.

    Args:
        where: a folder of images that was indexed, an index, or what `load_index` returns.
        host: address to listen at; `0.0.0.0` is every network of this machine.
        port: 0 is a free one.
        model: as in `load_index`; so are `device`, `dtype`, `trust_remote_code`, `subjects` and
            `styles`. They are not taken where `where` is open already.
        device: where the model computes.
        dtype: `fp32`, `bf16` or `fp16`.
        trust_remote_code: run code that comes with the weights.
        subjects: see `load_index`.
        styles: see `load_index`.

    Returns:
        A server: `url` is the page's address, `close()` ends it, `wait()` waits for that; it is a
        context manager too.

    Raises:
        InputError: there is no index, it is of another model, or the port cannot be used.

    Example:
        >>> import contrapose as cp
        >>> _ = cp.build_scenes(out="photos", part="replace-color", examples=6)
        >>> _ = cp.index("photos", model="tiny-clip", device="cpu")
        >>> with cp.serve("photos", device="cpu") as server:
        ...     server.url.startswith("http://127.0.0.1:"), server.is_local
        (True, True)
    """
    from contrapose.search.server import SearchServer

    if isinstance(where, str | Path):
        searcher = load_index(
            where,
            model=model,
            device=device,
            dtype=dtype,
            trust_remote_code=trust_remote_code,
            subjects=subjects,
            styles=styles,
        )
    else:
        searcher = where
    return SearchServer(searcher, host, port)
