from __future__ import annotations

import base64
import hashlib
from pathlib import Path

from contrapose.files.pages import inline_page


def test_script_and_style_are_inside_and_hashed(tmp_path: Path) -> None:
    (tmp_path / "p.html").write_text("<style>/* p.css */</style><script>/* p.js */</script>")
    (tmp_path / "p.js").write_text("let a = 'ä';", encoding="utf-8")
    (tmp_path / "p.css").write_text("b {}")
    text, (script, style) = inline_page(tmp_path, "p")
    assert text == "<style>b {}</style><script>let a = 'ä';</script>"
    digest = base64.b64encode(hashlib.sha256("let a = 'ä';".encode()).digest()).decode()
    assert script == f"'sha256-{digest}'"
    assert style != script
