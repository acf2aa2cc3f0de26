"""Pages of one file: a script and a style sheet put into their HTML, allowed by their hashes."""

from __future__ import annotations

import base64
import hashlib
import json
from importlib.resources.abc import Traversable
from typing import Any


def hash_source(code: str) -> str:
    """Hash of a script or a style sheet, as a content policy names it."""
    digest = hashlib.sha256(code.encode()).digest()
    return f"'sha256-{base64.b64encode(digest).decode()}'"


def escape_json(value: Any) -> str:
    """JSON that may stand inside a script element, whatever texts it holds."""
    text = json.dumps(value, ensure_ascii=False, allow_nan=False)
    for sign in "<>&\u2028\u2029":
        text = text.replace(sign, f"\\u{ord(sign):04x}")
    return text.encode("utf-8", "replace").decode()


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
        hashes.append(hash_source(code))
    return text, (hashes[0], hashes[1])
