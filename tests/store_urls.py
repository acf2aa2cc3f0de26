"""URLs of stores that fsspec reaches: memory, a folder, and S3 where moto and s3fs are installed.

from tests.store_urls import STORES, bucket_server, open_url
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import fsspec
import pytest

STORES = ("memory", "file", "s3")


@contextmanager
def open_url(kind: str, folder: Path, patch: pytest.MonkeyPatch) -> Iterator[str]:
    """Give the URL of an empty store, which is removed afterwards."""
    name = uuid.uuid4().hex
    if kind == "file":
        yield f"file://{folder}/{name}"
    elif kind == "memory":
        yield f"memory://{name}/deep"
        fsspec.filesystem("memory").rm(f"/{name}", recursive=True)
    else:
        with bucket_server(patch):
            fsspec.filesystem("s3").mkdir(name)
            yield f"s3://{name}/deep"


@contextmanager
def bucket_server(patch: pytest.MonkeyPatch) -> Iterator[str]:
    """Start a server of buckets on this machine, and let s3fs speak to it alone."""
    pytest.importorskip("s3fs")
    server_module: Any = pytest.importorskip("moto.server")
    server = server_module.ThreadedMotoServer(port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    address = f"http://{host}:{port}"
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        patch.setenv(name, "test")
    patch.setenv("AWS_DEFAULT_REGION", "us-east-1")
    patch.setitem(fsspec.config.conf, "s3", {"endpoint_url": address})
    fsspec.filesystem("s3").clear_instance_cache()
    try:
        yield address
    finally:
        fsspec.filesystem("s3").clear_instance_cache()
        server.stop()
