"""Where the tests find real annotations and scores, when the machine has them."""

from __future__ import annotations

from pathlib import Path

import pytest

SHARED = Path(__file__).resolve().parents[2] / "shared" / "data"


@pytest.fixture(scope="session")
def shared() -> Path:
    """Public annotation and score files that are not part of the project."""
    if not SHARED.is_dir():
        pytest.skip(f"{SHARED} is not here; real annotations and scores are not shipped")
    return SHARED
