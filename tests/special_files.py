"""Files that are none: pipes, sockets, folders and links that lead nowhere or to themselves."""

from __future__ import annotations

import os
import socket
from pathlib import Path

SPECIAL_FILES = ("pipe", "socket", "folder", "loop", "nothing")
"""Kinds of `make_special_file`."""


def make_special_file(path: Path, kind: str) -> None:
    """Make what is no file in the place of one."""
    path.unlink(missing_ok=True)
    if kind == "pipe":
        os.mkfifo(path)
    elif kind == "socket":
        near = Path(os.path.relpath(path))  # names of sockets are short
        with socket.socket(socket.AF_UNIX) as server:
            short = Path(f"/tmp/.contrapose-test-{os.getpid()}")  # noqa: S108
            server.bind(str(short))
            short.rename(near)
    elif kind == "folder":
        path.mkdir()
    else:
        path.symlink_to(path.name if kind == "loop" else "nothing")
