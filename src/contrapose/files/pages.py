"""Pages of one file: a script and a style sheet put into their HTML, allowed by their hashes."""

from __future__ import annotations

import base64
import hashlib
from importlib.resources.abc import Traversable


def inline_page(folder: Traversable, name: str) -> tuple[str, tuple[str, str]]:
    """Page with its script and style inside, and their hashes for a content policy.

    Args:
        folder: holds `NAME.html`, `NAME.js` and `NAME.css`; comments such as `/* NAME.js */` in the
            page are where they go.
        name: of the three files.
    """
    text = folder.joinpath(f"{name}.html").read_text(encoding="utf-8")
    hashes = []
    for file in (f"{name}.js", f"{name}.css"):
        code = folder.joinpath(file).read_text(encoding="utf-8")
        text = text.replace(f"/* {file} */", code)
        digest = hashlib.sha256(code.encode()).digest()
        hashes.append(f"'sha256-{base64.b64encode(digest).decode()}'")
    return text, (hashes[0], hashes[1])
