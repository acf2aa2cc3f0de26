"""Pictures of the docs: which there are, their sizes, and that the terminal's is plain SVG."""

from __future__ import annotations

from pathlib import Path

import pytest
from PIL import Image

from tests.conftest import ROOT
from tools.pictures import COMMAND, LARGEST, PICTURES, reduce_colors, write_terminal

DOCS = ROOT / "docs"


@pytest.mark.parametrize("name", PICTURES)
def test_a_picture_is_small_and_shown(name: str) -> None:
    (file,) = [path for path in DOCS.glob(f"{name}.*") if path.suffix in (".png", ".svg")]
    assert file.stat().st_size <= LARGEST
    pages = [ROOT / "README.md", *DOCS.rglob("*.md")]
    assert any(file.name in page.read_text(encoding="utf-8") for page in pages)


def test_the_table_of_the_readme_is_that_of_its_command() -> None:
    assert f"contrapose {' '.join(COMMAND)}\n" in (ROOT / "README.md").read_text(encoding="utf-8")


def test_what_a_terminal_shows_requests_nothing(tmp_path: Path) -> None:
    file = write_terminal("\x1b[1;32m100.00*\x1b[0m <b> & more", tmp_path / "x")
    drawn = file.read_text(encoding="utf-8")
    assert "font-face" not in drawn
    assert "url(http" not in drawn
    assert "100.00*" in drawn
    assert "&lt;b&gt;" in drawn


def test_colors_are_reduced_until_the_file_is_small(tmp_path: Path) -> None:
    image = Image.effect_noise((600, 600), 90).convert("RGB")
    reduce_colors(image, tmp_path / "x.png", counts=(256, 2))
    assert len(Image.open(tmp_path / "x.png").getcolors() or ()) == 2
