"""The transformers library says nothing while it loads: what matters is raised."""

from __future__ import annotations

import logging as levels
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any


@contextmanager
def quiet() -> Iterator[None]:
    """No progress bars and no reports of the library inside; as before afterwards."""
    from transformers.utils import logging as library

    logging: Any = library
    level = logging.get_verbosity()
    bars = logging.is_progress_bar_enabled()
    logging.set_verbosity(levels.CRITICAL)
    logging.disable_progress_bar()
    try:
        yield
    finally:
        logging.set_verbosity(level)
        if bars:
            logging.enable_progress_bar()
