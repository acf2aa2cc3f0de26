"""`build_features`: vectors of images and captions as plain arrays."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from contrapose.api.inputs import (
    Cache,
    PathLike,
    one_path,
    require_at_least,
    require_choice,
    store_place,
)
from contrapose.errors import InputError, option
from contrapose.files import local_path

if TYPE_CHECKING:
    from contrapose.build.features import FeatureInputs
    from contrapose.engine import Progress
    from contrapose.models import Model
    from contrapose.models.joined import JoinedSpec


def build_features(
    images: PathLike | Iterable[PathLike] | None = None,
    *,
    out: PathLike,
    captions: PathLike | None = None,
    model: str | Path | None = None,
    image_encoder: str | None = None,
    text_encoder: str | None = None,
    split: str = "train",
    save_as: Literal["float16", "float32"] = "float32",
    caption_field: str | None = None,
    image_field: str | None = None,
    device: str = "auto",
    dtype: str | None = None,
    batch_size: int | None = None,
    workers: int | None = None,
    trust_remote_code: bool = False,
    cache: Cache = True,
    overwrite: bool = False,
    progress: Progress | None = None,
) -> dict[str, Any]:
    """Embed images, captions or both once, and write the vectors as `.npy` files.

    `out` is what `tune_heads` and `tune` with heads read. A run that was stopped goes on from the
    cache.

    Args:
        images: a folder, searched with its subfolders; a `.txt` file with a path a line; or a list
            of files. With captions: the folder where the paths of their images start; None is
            beside the captions.
        out: the folder of features; other splits in it stay.
        captions: a table with a caption and an image in each row, plain text with a caption a line,
            or COCO's or Karpathy's `.json`.
        model: a dual encoder, for both sides.
        image_encoder: an image encoder, in place of a model: a folder or an id on the hub.
        text_encoder: a sentence encoder, likewise; captions alone need no image encoder.
        split: `train`, or `test` for the features that heads are measured on.
        save_as: number format of the arrays.
        caption_field: the table's column of captions, if it has another name.
        image_field: the table's column of images, if it has another name.
        device: where the model computes.
        dtype: `fp32`, `bf16` or `fp16`.
        batch_size: images or captions of a model call; None grows while there is room.
        workers: threads that decode images.
        trust_remote_code: run code that comes with the weights.
        cache: where vectors are stored, as in `evaluate`.
        overwrite: replace the same split.
        progress: called with a description, what is done and what there is to do.

    Returns:
        The manifest: shapes of the arrays, the encoders, and what was left out.

    Raises:
        InputError: the files, the encoders or the folder cannot be used.

    Example:
        >>> import contrapose as cp
        >>> _ = cp.build_scenes(out="photos", part="replace-color", examples=3)
        >>> manifest = cp.build_features("photos", out="features", model="tiny-clip", device="cpu")
        >>> manifest["arrays"]["images"][0]
        3
    """
    from contrapose.build.features import require_feature_folder, write_feature_split
    from contrapose.engine import AnswerStore, LocalExecutor, ScoringContext

    require_at_least(1, batch_size=batch_size, workers=workers)
    numbers = require_choice("save_as", save_as, ("float16", "float32"))
    if images is None and captions is None:
        raise InputError(f"there is nothing to embed: pass images or {option('captions')}.")
    if (model is None) == (image_encoder is None and text_encoder is None):
        raise InputError(
            f"pass either {option('model')}, or {option('image_encoder')} and "
            f"{option('text_encoder')}, or one of these."
        )
    folder = local_path(out)
    encoder, spec = _load_encoder(
        None if model is None else str(model),
        image_encoder, text_encoder, device, dtype, trust_remote_code,
    )  # fmt: skip
    require_feature_folder(folder, split, spec, overwrite=overwrite)
    inputs = _read_inputs(
        images, one_path(captions), "image" in spec.sides, caption_field, image_field
    )
    context = ScoringContext(
        encoder,
        AnswerStore(store_place(cache)),
        batch_size=batch_size,
        progress=progress,
        executor=LocalExecutor(workers),
    )
    return write_feature_split(
        folder, split, inputs, context, spec, save_as=numbers, overwrite=overwrite
    )


def _read_inputs(
    images: PathLike | Iterable[PathLike] | None,
    captions: Path | None,
    wanted: bool,
    caption_field: str | None,
    image_field: str | None,
) -> FeatureInputs:
    """Images and captions of the files; images of captions only where they are wanted."""
    from contrapose.build.features import FeatureInputs, read_captioned_images

    if captions is None:
        from contrapose.search.image_files import list_images

        files = Path(images) if isinstance(images, str | Path) else [Path(i) for i in images or ()]
        root, listed, skipped = list_images(files)
        return FeatureInputs(root, [file.name for file in listed], skipped=skipped)
    if images is not None and not isinstance(images, str | Path):
        raise InputError(
            f"with {option('captions')} the images must be the folder where their paths start."
        )
    start = one_path(images)
    if start is not None and not start.is_dir():
        raise InputError("is no folder of images.", file=start)
    plain = captions.suffix.lower() in (".txt", "") and start is None
    return read_captioned_images(
        captions, start,
        images=wanted and not plain, caption_field=caption_field, image_field=image_field,
    )  # fmt: skip


def _load_encoder(
    model: str | None,
    image_encoder: str | None,
    text_encoder: str | None,
    device: str,
    dtype: str | None,
    trust_remote_code: bool,
) -> tuple[Model, JoinedSpec]:
    """Load the model or the encoders, and describe them by absolute paths."""
    from contrapose.models import load_model
    from contrapose.models.joined import JoinedSpec, load_encoders, model_side
    from contrapose.models.options import LoadOptions, find_device, parse_dtype
    from contrapose.search.writer import require_encoder

    if model is None:
        options = LoadOptions(
            device=find_device(device),
            dtype=parse_dtype(dtype or "fp32"),
            cut=True,  # as sentence encoders do everywhere
            trust_remote_code=trust_remote_code,
        )
        return load_encoders(image_encoder, text_encoder, options)
    loaded = load_model(
        model,
        device=device,
        dtype=None if dtype is None else parse_dtype(dtype),
        trust_remote_code=trust_remote_code,
    )
    side = model_side(model)
    sides = getattr(loaded, "sides", ("image", "text"))
    if "image" in sides:
        require_encoder(loaded)
    spec = JoinedSpec(side if "image" in sides else None, side if "text" in sides else None)
    return loaded, spec
