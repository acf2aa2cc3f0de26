"""The vectors that heads learn from: the model is asked once, or they lie in a folder already."""

from __future__ import annotations

import json
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import normalize

from contrapose.errors import InputError
from contrapose.models.joined.spec import SPEC, Joining, Side, read_joining
from contrapose.models.names import parse_name
from contrapose.models.registry import model_names
from contrapose.tune.bill import Panel, Trial
from contrapose.tune.bill.classes import zero_shot_panel
from contrapose.tune.bill.rows import MOST
from contrapose.tune.data.marks import rows_mark
from contrapose.tune.data.rows import Rows
from contrapose.tune.heads.cache import Pairs, keep_features
from contrapose.tune.heads.features import Features, has_features, read_features
from contrapose.tune.material import are_features, material, require_share, unmeasured
from contrapose.tune.request import Progress, Request

if TYPE_CHECKING:
    from contrapose.models.capabilities import Picture

FEATURES = "features"
"""The folder of a run's vectors, beside its log."""
ASKED = "asked.json"
"""Which model was asked about which data, beside the vectors."""
WORKERS = 8
"""Threads that prepare images."""

Held = tuple[list[Trial], Tensor, Tensor]
"""Tests, and the model's vectors of images and captions that they are about."""


class Source(Protocol):
    """What heads learn from.

    Attributes:
        joining: the model, as the encoder of both sides.
        width: of its vectors.
        panel: what the model is asked before and after.
        held: what is measured by vectors alone.
        said: what that is, in words.
        notes: for the bill.
    """

    joining: Joining
    width: int
    panel: Panel | None
    held: Held | None
    said: str
    notes: tuple[str, ...]

    def require(self) -> None:
        """Raise `InputError` where it is known already that nothing can be learnt."""

    def kept(self, folder: Path) -> bool:
        """Whether an earlier run left the same vectors in its folder."""

    def features(self, folder: Path, progress: Progress | None) -> Features:
        """All vectors to learn from, kept in a run's folder."""


def source_of(request: Request, model: Any, device: str, progress: Progress | None) -> Source:
    """What a request for heads learns from.

    Raises:
        InputError: it cannot be read.
    """
    joining = _joining(request)
    if are_features(request):
        return _Cached(request, joining, model)
    rows, panel = material(request, model, device, progress)
    return _Asked(rows, panel, joining, model, unmeasured(request))


class _Asked:
    """Pairs whose vectors the model gives."""

    held: Held | None = None

    def __init__(
        self, rows: Rows, panel: Panel, joining: Joining, model: Any, notes: tuple[str, ...]
    ):
        self.rows, self.joining, self.model, self.notes = rows, joining, model, notes
        self.panel: Panel | None = panel
        self.said = panel.source
        self.width: int = model.embed_texts([rows.texts[0]]).shape[1]
        asked = {"model": model.fingerprint, "data": rows_mark(rows)}
        self.asked = json.dumps(asked, indent=2) + "\n"

    def require(self) -> None:
        if len(self.rows) < 2:
            raise InputError("heads need two images or more to learn from.")

    def kept(self, folder: Path) -> bool:
        try:
            return (folder / FEATURES / ASKED).read_text(encoding="utf-8") == self.asked
        except OSError:
            return False

    def features(self, folder: Path, progress: Progress | None) -> Features:
        if not self.kept(folder):
            captions = [[said.caption for said in sayings] for sayings in self.rows.sayings]
            keep_features(
                folder / FEATURES, self.joining, {"train": Pairs(self._prepared(), captions)},
                self.model.embed_images, self.model.embed_texts,
                overwrite=True, batch=max(1, self.model.batch_size), more={ASKED: self.asked},
                progress=progress,
            )  # fmt: skip
        return read_features(folder / FEATURES, "train")

    def _prepared(self) -> Iterator[Picture]:
        """Images as the model takes them, some batches at a time."""
        size = max(1, self.model.batch_size) * 4
        with ThreadPoolExecutor(WORKERS) as pool:
            for start in range(0, len(self.rows), size):
                some = range(start, min(start + size, len(self.rows)))
                yield from pool.map(self.model.prepare_image, self.rows.images.open(some))


class _Cached:
    """Vectors of the model that lie in a folder; measured on its test part, or on some held out."""

    def __init__(self, request: Request, joining: Joining, model: Any):
        self.joining, self.notes = joining, unmeasured(request)
        self.folder = Path(request.data)
        self._require_own(joining, model)
        learnt = read_features(self.folder, "train")
        if has_features(self.folder, "test"):
            test, self.said = read_features(self.folder, "test"), f"the test part of {self.folder}"
        else:
            learnt, test = _split(learnt, request)
            self.said = f"{len(test.images)} images held out of {self.folder}"
        self.learnt = learnt
        self.width: int = model.embed_texts(["a"]).shape[1]
        for part in (learnt, test):
            self._require_width(part)
        self.held: Held | None = _held(test)
        self.panel: Panel | None = None
        if request.zero_shot is not None:
            self.panel = zero_shot_panel(request.zero_shot)
            self.said = f"{self.said}; {self.panel.source}"

    def require(self) -> None:
        if len(self.learnt.images) < 2:
            raise InputError("heads need two images or more to learn from.", file=self.folder)

    def kept(self, folder: Path) -> bool:
        return self.folder.resolve() == (folder / FEATURES).resolve()

    def features(self, folder: Path, progress: Progress | None) -> Features:
        return self.learnt

    def _require_own(self, joining: Joining, model: Any) -> None:
        spec = self.folder / SPEC
        if not spec.is_file():
            return
        made = read_joining(spec).placed(self.folder)
        if made != joining:
            raise InputError(
                f"was made by {made.image.source} and {made.text.source}, not by {model.name}: "
                f"contrapose tune heads --features {self.folder} joins those.",
                file=self.folder,
            )

    def _require_width(self, features: Features) -> None:
        wide = features.images.shape[1], features.texts.shape[1]
        if wide != (self.width, self.width):
            raise InputError(
                f"has vectors of {wide[0]} numbers for images and {wide[1]} for captions, and the "
                f"model gives {self.width}: contrapose tune heads --features {self.folder} joins "
                "any two encoders.",
                file=self.folder,
            )


def _joining(request: Request) -> Joining:
    """The model as the encoder of both sides, named from anywhere."""
    parsed = parse_name(request.model, model_names())
    if parsed.scheme in ("folder", "joined"):
        place = Path(parsed.body).expanduser().resolve()
        if place == request.out.resolve():
            raise InputError("is the model itself: heads need another --out.", file=request.out)
        parsed = replace(parsed, body=str(place))
    side = Side(str(parsed), kind="model")
    return Joining(side, side)


def _split(features: Features, request: Request) -> tuple[Features, Features]:
    require_share(request)
    count = len(features.images)
    if count < 2:
        raise InputError(f"{request.data} has one image: at least two are needed.")
    order = np.random.default_rng((request.settings.seed, 3)).permutation(count)
    held = min(max(1, round(request.held_out * count)), count - 1)
    return features.of_images(np.sort(order[held:])), features.of_images(np.sort(order[:held]))


def _held(features: Features) -> Held:
    """Retrieval of images by their first captions."""
    count = min(len(features.images), MOST)
    first = np.unique(features.image_of_text, return_index=True)[1][:count]
    places = np.arange(count)[:, None]
    images, texts = (
        normalize(torch.from_numpy(np.array(rows)).float(), dim=1)
        for rows in (features.images[:count], features.texts[first])
    )
    return [Trial("retrieval", "gallery", places, places)], images, texts
