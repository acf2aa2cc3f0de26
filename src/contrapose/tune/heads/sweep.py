"""Temperature sweep of heads, with delta scales: the τ × λ sweep of the SIMAT paper."""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch.nn.functional import normalize

from contrapose.data import EditQuery, EditSet, Gallery
from contrapose.errors import InputError, option
from contrapose.files import new_folder, require_free, write_bytes, write_text
from contrapose.models.joined import HEADS, SPEC, JoinedSpec, Side, read_joined_spec, save_joined
from contrapose.results.schema import MetricValue
from contrapose.results.summary import summarize
from contrapose.tune.heads.features import Features, has_features, read_features
from contrapose.tune.heads.training import TrainedHeads, train_heads
from contrapose.tune.heads.vectors import (
    FeatureModel,
    HeadEmbedder,
    embed_features,
    feature_gallery,
)
from contrapose.tune.panels import make_panel
from contrapose.tune.report import Evaluator, group_by_units
from contrapose.tune.settings import HeadSettings, ProgressCallback

FORMAT = "contrapose-heads-1"
RESULTS = "results.json"


KS = (1, 5, 10)
RESAMPLES = 2_000


@dataclass(frozen=True, slots=True)
class HeadMetrics:
    """Metrics of two heads on test features.

    Attributes:
        retrieval: `image_to_text_r1` … `text_to_image_r10` and `mean_recall`.
        deltas: for each λ: `r1`, `r5`, `r10`.
    """

    retrieval: dict[str, MetricValue]
    deltas: dict[float, dict[str, MetricValue]]


def measure(
    heads: HeadEmbedder,
    features: Features,
    *,
    scales: Sequence[float] = (),
    seed: int = 0,
    resamples: int = RESAMPLES,
) -> HeadMetrics:
    """Measure retrieval, and delta queries at each scale λ, as `contrapose eval` does.

    A delta query is made from captions alone: an image I, one of its captions t1, and the nearest
    caption t2 of another image J, by the sentence encoder's own vectors. The query is
    E(I) + λ·(E(t2) − E(t1)) at unit length, I left out; J is the answer (equation 2 of Couairon et
    al. 2022 with sentences for words). It asks for one photograph, and so is stricter than SIMAT's
    oracle. An image and its captions are resampled together.

    Raises:
        InputError: there are too few images to choose from.
    """
    parts: dict[str, Gallery | EditSet] = {"retrieval": feature_gallery(features)}
    if scales:
        queries = delta_queries(features)
        parts |= {f"delta {scale!r}": replace(queries, scale=scale) for scale in scales}
    model = FeatureModel(*embed_features(heads, features))
    values: dict[str, dict[str, MetricValue]] = {}
    for name, measured in Evaluator(make_panel("features", parts)).measure(model).items():
        values[name] = summarize(measured, resamples=resamples, seed=seed)
        for _, units in group_by_units(measured):
            values[name] |= summarize(measured.take(units), resamples=resamples, seed=seed)
    others = len(features.images) - 1
    return HeadMetrics(
        values["retrieval"],
        {
            scale: {
                f"r{k}": values[f"delta {scale!r}"][f"simat_n{k}"].model_copy(
                    update={"chance": k / others}
                )
                for k in KS
            }
            for scale in scales
        },
    )


def delta_queries(features: Features) -> EditSet:
    """Edit queries: each caption's image, from that caption to the nearest of another image.

    Raises:
        InputError: there are too few images to choose from.
    """
    owners = features.image_of_text.astype(np.int64)
    if len(features.images) <= max(KS):
        raise InputError(f"deltas need more than {max(KS)} images to choose from.")
    gallery = feature_gallery(features)
    count = len(features.images)
    return EditSet(
        gallery.images,
        tuple(map(str, range(count))),  # an image's caption, by which it is known, is its number
        tuple(range(count)),
        tuple(
            EditQuery(str(i), int(owners[i]), str(i), str(j), int(owners[i]), int(owners[j]), 1.0)
            for i, j in enumerate(_nearest_captions(features, owners))
        ),
        depths=KS,
    )


def _nearest_captions(features: Features, owners: NDArray[np.int64]) -> list[int]:
    """The nearest caption of another image, by the vectors of the sentence encoder."""
    rows = normalize(torch.from_numpy(np.array(features.texts)).float(), dim=1)
    images = torch.from_numpy(owners)
    nearest: list[int] = []
    for part, image in zip(torch.split(rows, 1024), torch.split(images, 1024), strict=True):
        cosines = (part @ rows.T).masked_fill_(image[:, None] == images, -torch.inf)
        nearest += cosines.argmax(dim=1).tolist()
    return nearest


@dataclass(frozen=True, slots=True)
class SweepRun:
    """Heads at one temperature.

    Attributes:
        trained: the heads.
        measured: on the test features; None without any.
        seconds: that training took.
    """

    trained: TrainedHeads
    measured: HeadMetrics | None
    seconds: float

    @property
    def tau(self) -> float:
        """The temperature."""
        return self.trained.settings.tau

    @property
    def folder(self) -> str:
        """Name of its folder."""
        return f"tau-{self.tau:g}"


@dataclass(frozen=True, slots=True)
class SweepRequest:
    """Options of `sweep_folder`.

    Attributes:
        features: the folder of arrays.
        out: where the heads go; None writes nothing.
        taus: temperatures.
        scales: λ of the deltas to measure.
        settings: all else of the training.
        image: the image encoder's name; None takes the `joined.json` of the features, if any.
        text: the sentence encoder's.
        device: where to train.
        overwrite: let `out` take the place of an earlier sweep.
    """

    features: Path
    out: Path | None = None
    taus: tuple[float, ...] = (0.1, 0.05, 0.01)
    scales: tuple[float, ...] = (0.5, 1.0, 1.5, 2.0)
    settings: HeadSettings = field(default_factory=HeadSettings)
    image: str | None = None
    text: str | None = None
    device: str = "cpu"
    overwrite: bool = False


@dataclass(frozen=True, slots=True)
class Sweep:
    """Results of a temperature sweep.

    Attributes:
        runs: one a temperature.
        joining: the encoders, where they are known.
        counts: images and captions, learnt from and measured on.
    """

    runs: tuple[SweepRun, ...]
    joining: JoinedSpec | None
    counts: dict[str, int]

    def as_dict(self) -> dict[str, Any]:
        """JSON values, without the heads."""
        return {
            "format": FORMAT,
            "counts": self.counts,
            "encoders": None if self.joining is None else asdict(self.joining),
            "runs": [_run_as_dict(run) for run in self.runs],
        }


def sweep_folder(request: SweepRequest, progress: ProgressCallback | None = None) -> Sweep:
    """Train heads at each temperature on the features of a folder, measure them, write them.

    Raises:
        InputError: the features, a setting or the place to write cannot be used.
    """
    if request.out is not None:
        _require_output(request.out, overwrite=request.overwrite)
    joining = _find_encoders(request)
    settings = request.settings
    if joining is not None:
        if joining.image is None or joining.text is None:
            raise InputError(
                f"holds features of one side alone, by {joining.describe()}: heads need both.",
                file=request.features,
            )
        unit = (joining.image.normalise, joining.text.normalise)
        settings = replace(settings, unit=unit)
    learnt = read_features(request.features, "train")
    test = None
    if has_features(request.features, "test"):
        test = read_features(request.features, "test")
        _require_same_width(learnt, test, request.features)
    runs = sweep(
        learnt,
        test,
        request.taus,
        request.scales,
        settings,
        device=request.device,
        progress=progress,
    )
    counts = {"train_images": len(learnt.images), "train_captions": len(learnt.texts)}
    if test is not None:
        counts |= {"test_images": len(test.images), "test_captions": len(test.texts)}
    result = Sweep(runs, joining, counts)
    if request.out is not None:
        _write_sweep(result, request.out, overwrite=request.overwrite)
    return result


def sweep(
    features: Features,
    test: Features | None,
    taus: Sequence[float],
    scales: Sequence[float] = (),
    settings: HeadSettings | None = None,
    *,
    device: str = "cpu",
    progress: ProgressCallback | None = None,
) -> tuple[SweepRun, ...]:
    """Train and measure heads at each temperature, all else equal.

    Raises:
        InputError: a temperature or a scale makes no sense, or training fails.
    """
    settings = settings or HeadSettings()
    wanted = [replace(settings, tau=tau) for tau in dict.fromkeys(taus)]
    if not wanted:
        raise InputError("there is no temperature to train at.")
    if any(scale < 0 for scale in scales):
        raise InputError("the scale of a delta must not be negative.")
    runs = []
    for trial in wanted:
        start = time.perf_counter()
        trained = train_heads(features, trial, device=device, progress=progress)
        seconds = time.perf_counter() - start
        measured = None
        if test is not None:
            measured = measure(trained, test, scales=tuple(dict.fromkeys(scales)), seed=trial.seed)
        runs.append(SweepRun(trained, measured, seconds))
    return tuple(runs)


def _run_as_dict(run: SweepRun) -> dict[str, Any]:
    trained, measured = run.trained, run.measured
    values: dict[str, Any] = {
        "folder": run.folder,
        "settings": asdict(trained.settings),
        "epoch": trained.epoch,
        "losses": list(trained.losses),
        "held_out": list(trained.held_out),
        "seconds": run.seconds,
    }
    if measured is not None:
        values["retrieval"] = {
            name: _value_as_dict(value) for name, value in measured.retrieval.items()
        }
        values["deltas"] = [
            {"scale": scale} | {name: _value_as_dict(value) for name, value in values.items()}
            for scale, values in measured.deltas.items()
        ]
    return values


def _value_as_dict(value: MetricValue) -> dict[str, Any]:
    low, high = value.ci95 or (None, None)
    return {
        "value": value.value, "low": low, "high": high, "chance": value.chance, "count": value.n,
    }  # fmt: skip


def _find_encoders(request: SweepRequest) -> JoinedSpec | None:
    """The encoders by name, or from the features' own `joined.json`."""
    if (request.image is None) != (request.text is None):
        raise InputError(
            f"name both encoders, {option('image_encoder')} and {option('text_encoder')}, "
            "or neither."
        )
    if request.image is not None and request.text is not None:
        return JoinedSpec(Side(request.image), Side(request.text)).resolve_paths(Path())
    spec = request.features / SPEC
    if not spec.is_file():
        return None
    return read_joined_spec(spec).resolve_paths(spec.parent)


def _require_same_width(learnt: Features, test: Features, folder: Path) -> None:
    for name in ("images", "texts"):
        wide = [getattr(features, name).shape[1] for features in (learnt, test)]
        if wide[0] != wide[1]:
            raise InputError(
                f"{name} have {wide[0]} numbers a row to learn from and {wide[1]} to measure on: "
                "they are of different encoders.",
                file=folder,
            )


def _require_output(out: Path, *, overwrite: bool) -> None:
    """Raise `InputError` unless the folder is free or holds an earlier sweep."""
    require_free(out, overwrite=overwrite)
    if out.is_dir() and any(out.iterdir()) and not (out / RESULTS).is_file():
        raise InputError("holds no heads, and is not written over; choose another.", file=out)


def _write_sweep(result: Sweep, out: Path, *, overwrite: bool) -> None:
    """Write a folder per temperature and the results, atomically."""
    from safetensors.torch import save

    with new_folder(out, overwrite=overwrite) as target:
        for run in result.runs:
            heads = {name: head.cpu().contiguous() for name, head in run.trained.heads.items()}
            if result.joining is None:
                write_bytes(target / run.folder / HEADS, save(heads))
            else:
                save_joined(target / run.folder, result.joining, heads)
        write_text(target / RESULTS, json.dumps(result.as_dict(), indent=2) + "\n")
