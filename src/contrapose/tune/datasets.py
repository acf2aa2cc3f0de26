"""Load the training data and the evaluation panel of a request, as pairs or as features."""

from __future__ import annotations

import json
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
import torch
from torch.nn.functional import normalize

from contrapose.errors import InputError, option
from contrapose.files import require_regular
from contrapose.models.joined import SPEC, JoinedSpec, model_side, read_joined_spec
from contrapose.models.names import parse_name
from contrapose.models.registry import model_names
from contrapose.tune.data.rows import (
    TrainingSet,
    filter_kinds,
    held_out_count,
    split_indices,
    training_set_fingerprint,
)
from contrapose.tune.heads.features import (
    CaptionedImages,
    Features,
    cache_features,
    has_features,
    read_features,
)
from contrapose.tune.heads.vectors import VectorPanel, encode_panel, feature_gallery
from contrapose.tune.panels import (
    MAX_HELD_OUT_IMAGES,
    EvaluationPanel,
    make_pairs_panel,
    make_panel,
    make_scene_panel,
    make_zero_shot_panel,
)
from contrapose.tune.report import Evaluator
from contrapose.tune.settings import SCENES, ProgressCallback, TuneRequest

if TYPE_CHECKING:
    from contrapose.models.capabilities import ImageLike


def load_datasets(
    request: TuneRequest, model: Any, device: str, progress: ProgressCallback | None = None
) -> tuple[TrainingSet, EvaluationPanel]:
    """Load the training set and the evaluation panel of a request.

    Args:
        request: names both.
        model: as it is before; finds captions that read alike.
        device: where scenes are drawn.
        progress: called with how many are done.

    Raises:
        InputError: something cannot be read, or there is too little of it.
    """
    rows, panel = _load_pairs(request, model, device, progress)
    if request.kinds:
        rows = filter_kinds(rows, request.kinds)
    if request.zero_shot is not None:
        panel += make_zero_shot_panel(request.zero_shot)
    return rows, panel


def zero_shot_notes(request: TuneRequest) -> tuple[str, ...]:
    """Note on zero-shot classification when it is not measured; scenes have `naming`."""
    if request.zero_shot is not None or request.data == SCENES:
        return ()
    return (
        f"zero-shot classification was not measured: {option('zero_shot')} does it, a folder with "
        "a folder of images for each class",
    )


def has_cached_features(request: TuneRequest) -> bool:
    """Whether the data are cached features."""
    return request.data != SCENES and has_features(Path(request.data), "train")


def require_held_out_share(request: TuneRequest) -> None:
    """Raise `InputError` unless the held-out share lies between 0 and 1."""
    if not 0 < request.held_out < 1:
        raise InputError(
            f"{option('held_out')} is a share between 0 and 1, not {request.held_out}."
        )


def _load_pairs(
    request: TuneRequest, model: Any, device: str, progress: ProgressCallback | None
) -> tuple[TrainingSet, EvaluationPanel]:
    if request.data == SCENES:
        from contrapose.tune.data.scenes import make_scene_set

        rows = make_scene_set(
            request.scenes, request.settings.seed, device=device, workers=request.workers,
            world=request.world, progress=progress,
        )  # fmt: skip
        return rows, make_scene_panel(request.examples)
    from contrapose.tune.data.files import read_training_set

    require_held_out_share(request)
    if has_cached_features(request):
        raise InputError(
            f"holds cached features, and not pairs: pass {option('losses', 'heads')}, which learns "
            "from them.",
            file=Path(request.data),
        )
    rows = read_training_set(Path(request.data), request.images)
    if len(rows) < 2:
        raise InputError(f"{request.data} has one image: at least two are needed.")
    count = held_out_count(len(rows), request.held_out)
    train, test = split_indices(len(rows), count, (request.settings.seed, 3))
    panel = make_pairs_panel(
        rows.take(test.tolist()), model, f"{count} images held out of {request.data}"
    )
    return rows.take(train.tolist()), panel


FEATURES_FOLDER = "features"
"""The folder of a run's vectors, beside its log."""
FEATURES_KEY_FILE = "asked.json"
"""The model and the data that the vectors are of, beside them."""
IMAGE_THREADS = 8
"""Threads that prepare images."""


class FeatureSource(Protocol):
    """Source of the features that heads are trained on.

    Attributes:
        joining: the model, as the encoder of both sides.
        width: of its vectors.
        panels: what the heads are evaluated on.
        source: what that is, in words.
        notes: for the bill.
    """

    joining: JoinedSpec
    width: int
    panels: list[VectorPanel]
    source: str
    notes: tuple[str, ...]

    def require(self) -> None:
        """Raise `InputError` where there is too little to train on."""

    def is_cached(self, folder: Path) -> bool:
        """Whether an earlier run cached the same features in its folder."""

    def features(self, folder: Path, progress: ProgressCallback | None) -> Features:
        """All training features, cached in a run's folder."""


def load_feature_source(
    request: TuneRequest, model: Any, device: str, progress: ProgressCallback | None
) -> FeatureSource:
    """Load the feature source of a request for heads.

    Raises:
        InputError: it cannot be read.
    """
    joining = _make_joining(request)
    if has_cached_features(request):
        return _CachedFeatures(request, joining, model, progress)
    rows, panel = load_datasets(request, model, device, progress)
    view = encode_panel(panel, model, progress)
    return _ModelFeatures(rows, view, panel.source, joining, model, zero_shot_notes(request))


class _ModelFeatures:
    """Features that the model computes from pairs."""

    def __init__(
        self,
        rows: TrainingSet,
        view: VectorPanel,
        source: str,
        joining: JoinedSpec,
        model: Any,
        notes: tuple[str, ...],
    ):
        self.rows, self.joining, self.model, self.notes = rows, joining, model, notes
        self.panels, self.source = [view], source
        self.width: int = model.embed_texts([rows.texts[0]]).shape[1]
        key = {"model": model.fingerprint, "data": training_set_fingerprint(rows)}
        self.key = json.dumps(key, indent=2) + "\n"

    def require(self) -> None:
        if len(self.rows) < 2:
            raise InputError("heads need two images or more to learn from.")

    def is_cached(self, folder: Path) -> bool:
        file = folder / FEATURES_FOLDER / FEATURES_KEY_FILE
        require_regular(file)
        try:
            return file.read_text(encoding="utf-8") == self.key
        except OSError:
            return False

    def features(self, folder: Path, progress: ProgressCallback | None) -> Features:
        if not self.is_cached(folder):
            captions = [[it.caption for it in captions] for captions in self.rows.image_captions]
            cache_features(
                folder / FEATURES_FOLDER, self.joining,
                {"train": CaptionedImages(self._prepared(), captions)},
                self.model.embed_images, self.model.embed_texts,
                overwrite=True, batch=max(1, self.model.batch_size),
                more={FEATURES_KEY_FILE: self.key},
                progress=progress,
            )  # fmt: skip
        return read_features(folder / FEATURES_FOLDER, "train")

    def _prepared(self) -> Iterator[ImageLike]:
        """Preprocessed images, some batches at a time."""
        size = max(1, self.model.batch_size) * 4
        with ThreadPoolExecutor(IMAGE_THREADS) as pool:
            for start in range(0, len(self.rows), size):
                some = range(start, min(start + size, len(self.rows)))
                yield from pool.map(self.model.prepare_image, self.rows.images.open(some))


class _CachedFeatures:
    """Features cached in a folder; evaluated on its test part, or on a held-out share."""

    def __init__(
        self,
        request: TuneRequest,
        joining: JoinedSpec,
        model: Any,
        progress: ProgressCallback | None,
    ):
        self.joining, self.notes = joining, zero_shot_notes(request)
        self.folder = Path(request.data)
        self._require_own(joining, model)
        learnt = read_features(self.folder, "train")
        if has_features(self.folder, "test"):
            test, self.source = (
                read_features(self.folder, "test"),
                f"the test part of {self.folder}",
            )
        else:
            learnt, test = _split_features(learnt, request)
            self.source = f"{len(test.images)} images held out of {self.folder}"
        self.learnt = learnt
        self.width: int = model.embed_texts(["a"]).shape[1]
        for part in (learnt, test):
            self._require_width(part)
        self.panels = [_make_retrieval_panel(test)]
        if request.zero_shot is not None:
            panel = make_zero_shot_panel(request.zero_shot)
            self.panels.append(encode_panel(panel, model, progress))
            self.source = f"{self.source}; {panel.source}"

    def require(self) -> None:
        if len(self.learnt.images) < 2:
            raise InputError("heads need two images or more to learn from.", file=self.folder)

    def is_cached(self, folder: Path) -> bool:
        return self.folder.resolve() == (folder / FEATURES_FOLDER).resolve()

    def features(self, folder: Path, progress: ProgressCallback | None) -> Features:
        return self.learnt

    def _require_own(self, joining: JoinedSpec, model: Any) -> None:
        spec = self.folder / SPEC
        if not spec.is_file():
            return
        made = read_joined_spec(spec).resolve_paths(self.folder)
        if made != joining:
            raise InputError(
                f"was made by {made.describe()}, not by {model.name}: "
                f"contrapose tune heads {option('features', str(self.folder))} joins those.",
                file=self.folder,
            )

    def _require_width(self, features: Features) -> None:
        wide = features.images.shape[1], features.texts.shape[1]
        if wide != (self.width, self.width):
            raise InputError(
                f"has vectors of {wide[0]} numbers for images and {wide[1]} for captions, and the "
                f"model gives {self.width}: contrapose tune heads "
                f"{option('features', str(self.folder))} joins any two encoders.",
                file=self.folder,
            )


def _make_joining(request: TuneRequest) -> JoinedSpec:
    """The model as the encoder of both sides, by absolute name."""
    parsed = parse_name(request.model, model_names())
    if parsed.scheme in ("folder", "joined"):
        folder = Path(parsed.body).expanduser().resolve()
        if folder == request.out.resolve():
            raise InputError(
                f"is the model itself: heads need another {option('out')}.", file=request.out
            )
    side = model_side(request.model)
    return JoinedSpec(side, side)


def _split_features(features: Features, request: TuneRequest) -> tuple[Features, Features]:
    require_held_out_share(request)
    count = len(features.images)
    if count < 2:
        raise InputError(f"{request.data} has one image: at least two are needed.")
    held = held_out_count(count, request.held_out)
    train, test = split_indices(count, held, (request.settings.seed, 3))
    return features.of_images(train), features.of_images(test)


def _make_retrieval_panel(features: Features) -> VectorPanel:
    """Retrieval of images by their first captions."""
    count = min(len(features.images), MAX_HELD_OUT_IMAGES)
    first = np.unique(features.image_of_text, return_index=True)[1][:count]
    some = Features(features.images[:count], features.texts[first], np.arange(count))
    images, texts = (
        normalize(torch.from_numpy(np.array(rows)).float(), dim=1)
        for rows in (some.images, some.texts)
    )
    panel = make_panel("features", {"retrieval": feature_gallery(some)})
    return VectorPanel(Evaluator(panel), images, texts)
