"""Environment of a run: when, by which command, on which machine and with which versions."""

from __future__ import annotations

import os
import platform
import shlex
import sys
from collections.abc import Mapping
from datetime import UTC, datetime
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import TYPE_CHECKING, Any

from contrapose import __version__
from contrapose.errors import command_words, hide_credentials

if TYPE_CHECKING:
    from contrapose.results.tables import RunRecord

LIBRARIES = ("numpy", "torch", "transformers", "open_clip_torch", "timm", "pillow", "pyarrow")
"""Libraries that can change a number, and whose versions are noted where they are loaded."""
MODULES = {"open_clip_torch": "open_clip", "pillow": "PIL"}
"""Modules of the libraries that are not called as their packages are."""


def capture_environment() -> dict[str, Any]:
    """Date, command, machine and versions of this moment, as JSON values."""
    words = command_words()
    command = "Python" if words is None else shlex.join(["contrapose", *words])
    return {
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "command": hide_credentials(command),
        "python": platform.python_version(),
        "system": platform.platform(terse=True),
        "hardware": _describe_hardware(),
        "versions": {"contrapose": __version__, **_library_versions()},
    }


def describe_origin(run: RunRecord) -> dict[str, str]:
    """How a run was made, in words by name; what is not known is left out."""
    results, spec = run.results, run.spec
    made: Mapping[str, Any] = spec.get("made", {})
    card: Mapping[str, Any] = spec.get("loaded", {})
    versions: Mapping[str, str] = made.get("versions", {"contrapose": results.contrapose})
    parts = [f"Python {made['python']}"] if "python" in made else []
    parts += [f"{name} {number}" for name, number in versions.items()]
    skipped = results.skipped
    values = {
        "benchmark": results.benchmark,
        "model": results.model,
        "revision": card.get("revision"),
        "weights": spec.get("fingerprint"),
        "scores": results.scores,
        "score": spec.get("stored_as") or results.score,
        "dtype": card.get("dtype"),
        "device": card.get("device"),
        "examples": f"{results.examples:,}",
        "skipped": f"{skipped.examples:,}" if skipped is not None else "0",
        "protocol": results.protocol,
        "aggregation": results.aggregation,
        "date": made.get("date"),
        "command": made.get("command"),
        "hardware": made.get("hardware"),
        "system": made.get("system"),
        "versions": ", ".join(parts),
    }
    return {name: str(value) for name, value in values.items() if value}


def describe_loaded(model: object) -> dict[str, str]:
    """Revision, dtype and device of a loaded model, as far as it tells them."""
    card = getattr(model, "card", None)
    values = {
        "revision": getattr(model, "revision", None),
        "dtype": getattr(card, "dtype", None),
        "device": getattr(model, "device", getattr(model, "_device", None)),
    }
    return {name: str(value) for name, value in values.items() if value is not None}


def _library_versions() -> dict[str, str]:
    versions = {}
    for name in LIBRARIES:
        if MODULES.get(name, name) in sys.modules:
            try:
                versions[name] = version(name)
            except PackageNotFoundError:
                continue
    return versions


def _describe_hardware() -> str:
    """Processor, and the graphics processors that are in use."""
    words = [f"{os.cpu_count() or 1} × {_processor_name()}"]
    torch = sys.modules.get("torch")
    if torch is not None and torch.cuda.is_initialized():
        count = torch.cuda.device_count()
        words += [torch.cuda.get_device_name(number) for number in range(count)]
    return ", ".join(words)


@cache
def _processor_name() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        lines = []
    names = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return next(names, "") or platform.processor() or platform.machine()
