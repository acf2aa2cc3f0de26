"""`tune_heads`: align two frozen encoders from cached features."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Literal

from contrapose.errors import InputError, MissingExtraError, option
from contrapose.files import local_path

if TYPE_CHECKING:
    from contrapose.api.inputs import PathLike
    from contrapose.engine import Progress
    from contrapose.tune.heads.sweep import Sweep


def tune_heads(
    features: PathLike,
    *,
    out: PathLike | None = None,
    tau: float | Iterable[float] = (0.1, 0.05, 0.01),
    scales: float | Iterable[float] = (0.5, 1.0, 1.5, 2.0),
    head: Literal["linear", "mlp"] = "linear",
    width: int = 512,
    epochs: int = 30,
    batch_size: int = 4096,
    lr: float = 1e-3,
    drop: float = 0.2,
    weight_decay: float = 0.0,
    hold_out: float = 0.0,
    image_encoder: str | None = None,
    text_encoder: str | None = None,
    device: str = "auto",
    seed: int = 0,
    plot: PathLike | None = None,
    overwrite: bool = False,
    progress: Progress | None = None,
) -> Sweep:
    """Train heads on cached features at each temperature, and measure retrieval and deltas.

    Args:
        features: a folder with `train_images.npy`, `train_texts.npy` and
            `train_image_of_text.npy`, and the same for `test`, on which is measured.
        out: the folder to write: heads for each temperature, and results.
        tau: temperatures, each fixed.
        scales: λ, scales of the deltas to measure.
        head: one linear map for each side, or `mlp` with a hidden layer beside it.
        width: of the common space.
        epochs: how often each caption is seen.
        batch_size: captions a step.
        lr: highest learning rate.
        drop: share of the features that each step leaves out.
        weight_decay: of AdamW.
        hold_out: share of the images that the best epoch is chosen by.
        image_encoder: the encoder that made the image features, `ORG/NAME` or a folder; None is as
            a `joined.json` among the features says.
        text_encoder: the sentence encoder, in the same way.
        device: where to train.
        seed: of everything random.
        plot: an `.svg` file to write: R@10 of the deltas by λ, a curve for each temperature.
        overwrite: let `out` take the place of earlier heads.
        progress: called with a description, what is done and what there is to do.

    Raises:
        InputError: the features, a setting or the folder to write cannot be used.

    Example:
        >>> import contrapose as cp
        >>> sweep = cp.tune_heads("features", tau=0.1, width=8, epochs=2, batch_size=16)
        >>> [run.tau for run in sweep.runs]
        [0.1]
    """
    try:
        import torch  # noqa: F401
    except ImportError:
        raise MissingExtraError("torch", "torch", "Training heads") from None
    from contrapose.api.inputs import one_path, require_choice
    from contrapose.models.options import find_device
    from contrapose.tune.heads.sweep import SweepRequest, sweep_folder
    from contrapose.tune.settings import HeadSettings

    taus = _list_numbers(tau)
    settings = HeadSettings(
        tau=taus[0],
        kind=require_choice("head", head, ("linear", "mlp")),
        width=width,
        epochs=epochs,
        batch_size=batch_size,
        lr=lr,
        drop=drop,
        weight_decay=weight_decay,
        hold_out=hold_out,
        seed=seed,
    )
    request = SweepRequest(
        features=local_path(features),
        out=one_path(out),
        taus=taus,
        scales=_list_numbers(scales),
        settings=settings,
        image=image_encoder,
        text=text_encoder,
        device=find_device(device),
        overwrite=overwrite,
    )
    target = one_path(plot)
    if target is not None:
        if target.exists() and not overwrite:
            raise InputError(f"is there already; see {option('overwrite')}.", file=target)
        if len(request.scales) < 2:
            raise InputError(f"{option('plot')} needs two values of λ or more.")
    result = sweep_folder(request, progress=progress)
    if target is not None:
        from contrapose.report.html.scale_plots import write_scale_plot
        from contrapose.report.tuning import delta_curves

        title = "Deltas of captions by λ and temperature τ"
        write_scale_plot(target, title, delta_curves(result), "R@10")
    return result


def _list_numbers(numbers: float | Iterable[float]) -> tuple[float, ...]:
    """Several numbers; a single one is one of them."""
    return tuple(numbers) if isinstance(numbers, Iterable) else (float(numbers),)
