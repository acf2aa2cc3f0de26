"""What a repair learns from, and what the model is measured by before and after."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from contrapose.errors import InputError
from contrapose.tune.bill import Panel
from contrapose.tune.bill.classes import UNMEASURED, joined_panels, zero_shot_panel
from contrapose.tune.bill.rows import rows_panel, split
from contrapose.tune.bill.scenes import scene_panel
from contrapose.tune.data.kinds import only
from contrapose.tune.data.rows import Rows
from contrapose.tune.heads.features import has_features
from contrapose.tune.request import SCENES, Progress, Request


def material(
    request: Request, model: Any, device: str, progress: Progress | None = None
) -> tuple[Rows, Panel]:
    """What is learnt from, and what is asked.

    Args:
        request: names both.
        model: as it is before; finds captions that read alike.
        device: where scenes are drawn.
        progress: told how many are.

    Raises:
        InputError: something cannot be read, or there is too little of it.
    """
    rows, panel = _paired(request, model, device, progress)
    if request.kinds:
        rows = only(rows, request.kinds)
    if request.zero_shot is not None:
        panel = joined_panels(panel, zero_shot_panel(request.zero_shot))
    return rows, panel


def unmeasured(request: Request) -> tuple[str, ...]:
    """What the bill has to say of zero-shot classification; scenes have `naming`."""
    return () if request.zero_shot is not None or request.data == SCENES else (UNMEASURED,)


def are_features(request: Request) -> bool:
    """Whether the data are cached features."""
    return request.data != SCENES and has_features(Path(request.data), "train")


def require_share(request: Request) -> None:
    """Raise `InputError` unless some of the data can be held out."""
    if not 0 < request.held_out < 1:
        raise InputError(f"--held-out is a share between 0 and 1, not {request.held_out}.")


def _paired(
    request: Request, model: Any, device: str, progress: Progress | None
) -> tuple[Rows, Panel]:
    if request.data == SCENES:
        from contrapose.tune.data.scenes import scene_rows

        rows = scene_rows(
            request.scenes, request.settings.seed, device=device, workers=request.workers,
            world=request.world, progress=progress,
        )  # fmt: skip
        return rows, scene_panel(request.examples, device=device)
    from contrapose.tune.data.files import read_rows

    require_share(request)
    if are_features(request):
        raise InputError(
            "holds cached features, and not pairs: pass --with heads, which learns from them.",
            file=Path(request.data),
        )
    rows = read_rows(Path(request.data), request.images)
    learnt, held = split(rows, request.held_out, request.settings.seed)
    if not len(held.sayings):
        raise InputError(f"{request.data} has one image: at least two are needed.")
    return learnt, rows_panel(held, model, f"{len(held)} images held out of {request.data}")
