"""Which examples are diagnosed, and by which players."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from contrapose.data import Example
from contrapose.diagnose.games import Side
from contrapose.diagnose.regions import regions_for
from contrapose.diagnose.remembered import RememberedRegions
from contrapose.diagnose.request import RELEASED, USUAL_PARTS, DiagnoseRequest
from contrapose.errors import InputError
from contrapose.results.selection import Selection, select


def chosen_parts(request: DiagnoseRequest) -> Selection:
    """The parts that the user named, or those that are usual."""
    usual = USUAL_PARTS.get(request.benchmark, ())
    return select(
        request.benchmark,
        root=request.root,
        subsets=request.subsets or usual,
        limit=request.limit,
    )


def chosen_examples(selection: Selection) -> tuple[list[Example], list[str]]:
    """All examples that have something right and something wrong, and what was passed over."""
    found: list[Example] = []
    notes: list[str] = []
    for part, (_, data) in selection.parts.items():
        chosen = (
            [example for example in data if _chooses(example)] if isinstance(data, list) else []
        )
        if not chosen:
            notes.append(f"{part or selection.name} has no right and wrong captions or images")
        for example in chosen:
            found.append(replace(example, id=f"{part}/{example.id}") if part else example)
    if not found:
        raise InputError(f"{selection.name} cannot be diagnosed: {notes[0]}.")
    return found, notes


def _chooses(example: Example) -> bool:
    rows, columns = example.match, list(zip(*example.match, strict=True))
    return any(True in each and False in each for each in (*rows, *columns))


def chosen_regions(
    request: DiagnoseRequest, examples: Sequence[Example]
) -> tuple[RememberedRegions | None, Side, list[str]]:
    """Where regions come from, which side is played, and what a reader should know.

    Raises:
        InputError: a file of regions cannot be used, or the preset has no such side.
    """
    if request.preset == RELEASED and request.side not in (None, "text"):
        raise InputError("--preset released is of the text side: the others were never released.")
    if request.side == "text" or request.preset == RELEASED:
        return None, "text", []
    found = regions_for(examples, request.players, file=request.regions, count=request.superpixels)
    if found is not None:
        return RememberedRegions(found), request.side or "all", []
    if request.side is not None:
        return None, request.side, []  # `play` says what is missing
    return None, "text", ["there are no regions for these images, so only the text side is asked"]
