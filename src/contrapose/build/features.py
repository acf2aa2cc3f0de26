"""Features of images and captions: arrays of vectors on disk, with their names beside them.

The layout is that of cached features for heads: `SPLIT_images.npy` with a row for each line of
`SPLIT_images.txt`, `SPLIT_texts.npy` with a row for each line of `SPLIT_captions.txt`,
`SPLIT_image_of_text.npy` with the image's row of each caption, and `joined.json` with the encoders.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Literal

import numpy as np

from contrapose.arrays import find_distinct
from contrapose.build.captions.files import read_captions
from contrapose.data.images import ImageRef
from contrapose.engine import ScoringContext
from contrapose.engine.embeddings import embed_distinct
from contrapose.engine.plan import compute_caption_ids, distinct_images
from contrapose.errors import InputError, option
from contrapose.files import (
    MalformedError,
    resolve_name,
    safe_join,
    temporary_folder,
    write_text,
)
from contrapose.files.syncing import sync_folder, sync_tree
from contrapose.metrics.types import FloatArray, IntArray
from contrapose.models.joined import FORMAT, SPEC, JoinedSpec, read_joined_spec
from contrapose.models.sides import require_side
from contrapose.scores import UNKNOWN_SKIP

FeatureType = Literal["float16", "float32"]


@dataclass(frozen=True, slots=True)
class FeatureInputs:
    """Images and captions to embed.

    Attributes:
        root: absolute folder of the images; None without images.
        images: their paths below it.
        captions: the captions, in the order of the file.
        image_of_text: the image of each caption, by its position; empty where only one side is
            embedded.
        source: absolute path of the captions' file; None without captions.
        skipped: images that cannot be listed, with the reason.
    """

    root: Path | None = None
    images: Sequence[str] = ()
    captions: Sequence[str] = ()
    image_of_text: Sequence[int] = ()
    source: Path | None = None
    skipped: dict[str, str] = field(default_factory=dict)


def read_captioned_images(
    file: Path,
    root: Path | None,
    *,
    images: bool,
    caption_field: str | None,
    image_field: str | None,
) -> FeatureInputs:
    """Read captions, and the images that they name.

    Args:
        file: a table, plain text with a caption a line, or COCO's or Karpathy's JSON.
        root: where paths of images start; None is the file's folder.
        images: whether the images are embedded too.
        caption_field: the column of the caption, where it has an unusual name.
        image_field: the column of the image.

    Raises:
        InputError: the file cannot be read, has no caption, or an image is missing or outside.
    """
    records = list(read_captions(file, caption_field=caption_field, image_field=image_field))
    if not records:
        raise InputError("holds no caption.", file=file)
    captions = [record.caption for record in records]
    if not images:
        return FeatureInputs(captions=captions, source=file.resolve())
    folder = (root or file.parent).resolve()
    positions: dict[str, int] = {}
    names: dict[str, str] = {}
    for record in records:
        if record.image is None:
            raise InputError(
                f"the caption {record.caption[:40]!r} has no image: embed images and captions by "
                "two commands, or name the image of each caption.",
                file=file,
            )
        if record.image not in names:
            names[record.image] = _find_image(record.image, folder, file)
            positions.setdefault(names[record.image], len(positions))
    owners = [positions[names[record.image or ""]] for record in records]
    return FeatureInputs(folder, tuple(positions), captions, owners, file.resolve())


def _find_image(name: str, folder: Path, file: Path) -> str:
    try:
        path = resolve_name(safe_join(folder, name))
    except MalformedError as error:
        raise InputError(str(error), file=file) from None
    if path is None:
        raise InputError(
            f"the image {name!r} is not in {folder}: name its folder by {option('images')}.",
            file=file,
        )
    return path.relative_to(folder).as_posix()


def require_feature_folder(out: Path, split: str, spec: JoinedSpec, *, overwrite: bool) -> None:
    """Require, before any work, that a split can be written to a folder.

    Raises:
        InputError: the split is there already, the folder holds features of other encoders, or it
            is no folder of features.
    """
    if not split.isidentifier():
        raise InputError(f"{option('split')} must be a word such as train, found {split!r}.")
    if out.exists() and not out.is_dir():
        raise InputError(f"is not a folder; choose another {option('out')}.", file=out)
    if not out.is_dir() or not any(out.iterdir()):
        return
    if not (out / SPEC).is_file():
        raise InputError(
            f"is not empty and holds no features; choose another {option('out')}.", file=out
        )
    earlier = read_joined_spec(out / SPEC).resolve_paths(out)
    if earlier != spec:
        raise InputError(
            f"holds features of {earlier.describe()}; choose another {option('out')}.", file=out
        )
    if any(out.glob(f"{split}_*.npy")) and not overwrite:
        raise InputError(
            f"holds {split} features already: pass {option('overwrite', True)}, or another "
            f"{option('split')}.",
            file=out,
        )


@dataclass(frozen=True, slots=True, eq=False)
class _Vectors:
    """Vectors of the inputs: a row for each, and the reason for each that has none."""

    rows: FloatArray
    skipped: dict[int, str]

    def kept(self) -> IntArray:
        keep = np.ones(len(self.rows), dtype=bool)
        keep[list(self.skipped)] = False
        return np.flatnonzero(keep)


def write_feature_split(
    out: Path,
    split: str,
    inputs: FeatureInputs,
    context: ScoringContext,
    spec: JoinedSpec,
    *,
    save_as: FeatureType = "float32",
    overwrite: bool = False,
) -> dict[str, Any]:
    """Embed images and captions through the engine, and write the arrays of a split.

    Vectors are stored as they are computed, so that a run that was stopped goes on from there. An
    image that cannot be read, or has no caption left, is left out, as is a caption that the model
    does not read; the manifest counts them.

    Args:
        out: the folder of features; other splits in it stay.
        split: such as `train` or `test`.
        inputs: the images and captions.
        context: the model with its store.
        spec: the encoders, with absolute paths.
        save_as: number format of the arrays.
        overwrite: replace the same split.

    Returns:
        The manifest, which is written as `SPLIT.json`.

    Raises:
        InputError: nothing can be embedded, or the folder cannot be written.
    """
    require_feature_folder(out, split, spec, overwrite=overwrite)
    if inputs.images:
        require_side(context.model, "image")
    if inputs.captions:
        require_side(context.model, "text")
    images, texts = _embed(context, inputs)
    image_rows, text_rows = images.kept(), texts.kept()
    owners = np.asarray(inputs.image_of_text, dtype=np.int64)
    if len(owners):
        text_rows = text_rows[np.isin(owners[text_rows], image_rows)]
        image_rows = image_rows[np.isin(image_rows, owners[text_rows])]
    reasons = {inputs.images[i]: reason for i, reason in images.skipped.items()} | inputs.skipped
    for wanted, rows, skipped in (
        (inputs.images, image_rows, [*reasons.values(), *texts.skipped.values()]),
        (inputs.captions, text_rows, [*texts.skipped.values(), *reasons.values()]),
    ):
        if wanted and not len(rows):
            raise InputError(f"nothing can be embedded; the first reason: {skipped[0]}.")
    arrays: dict[str, Any] = {}
    names: dict[str, list[str]] = {}
    if inputs.captions:
        arrays["texts"] = texts.rows[text_rows].astype(save_as)
        names["captions"] = [" ".join(inputs.captions[i].split()) for i in text_rows.tolist()]
    if len(owners):
        arrays["image_of_text"] = np.searchsorted(image_rows, owners[text_rows])
    if inputs.images:
        arrays["images"] = images.rows[image_rows].astype(save_as)
        names["images"] = [inputs.images[i] for i in image_rows.tolist()]
    manifest = {
        "split": split,
        "model": context.model.name,
        "fingerprint": context.model.fingerprint,
        "root": None if inputs.root is None else str(inputs.root),
        "captions_file": None if inputs.source is None else str(inputs.source),
        "arrays": {name: list(array.shape) for name, array in arrays.items()},
        "save_as": save_as,
        "skipped_images": dict(sorted(reasons.items())),
        "skipped_captions": len(inputs.captions) - len(text_rows),
    }
    _write(out, split, arrays, names, manifest, spec)
    return manifest


def _embed(context: ScoringContext, inputs: FeatureInputs) -> tuple[_Vectors, _Vectors]:
    """Embed distinct images and captions once; return rows of all, and what was skipped."""
    root = inputs.root or Path()
    distinct = distinct_images([ImageRef(name, root / name) for name in inputs.images])
    context.skips.images.update(distinct.unreadable)
    readable = [i for i, name in enumerate(distinct.ids) if name not in distinct.unreadable]
    texts, text_of = find_distinct(inputs.captions)
    image_vectors, text_vectors = embed_distinct(
        context,
        [distinct.refs[i] for i in readable],
        [distinct.ids[i] for i in readable],
        texts,
    )
    of_images = np.full((len(distinct.ids), image_vectors.shape[1]), np.nan, dtype=np.float32)
    of_images[readable] = image_vectors
    caption_ids = compute_caption_ids(context, texts)
    skips = context.skips
    return (
        _gather(
            of_images,
            distinct.index,
            [skips.images.get(name, UNKNOWN_SKIP).reason for name in distinct.ids],
        ),
        _gather(
            text_vectors,
            np.asarray(text_of, dtype=np.int64),
            [skips.texts.get(("itc", name), UNKNOWN_SKIP).reason for name in caption_ids],
        ),
    )


def _gather(vectors: FloatArray, index: IntArray, reasons: Sequence[str]) -> _Vectors:
    """Rows of all inputs from those of the distinct ones."""
    if not vectors.shape[1]:  # not one could be embedded
        return _Vectors(vectors[index], {row: reasons[i] for row, i in enumerate(index.tolist())})
    rows = vectors[index]
    bad = np.flatnonzero(~np.isfinite(rows).all(axis=1)).tolist()
    return _Vectors(rows, {row: reasons[int(index[row])] for row in bad})


def _write(
    out: Path,
    split: str,
    arrays: dict[str, Any],
    names: dict[str, list[str]],
    manifest: dict[str, Any],
    spec: JoinedSpec,
) -> None:
    """Write all files under a temporary name, and move them when they are complete."""
    try:
        out.mkdir(parents=True, exist_ok=True)
        with temporary_folder(out, "features") as folder:
            write_text(
                folder / SPEC, json.dumps({"format": FORMAT, **asdict(spec)}, indent=2) + "\n"
            )
            for name, lines in names.items():
                write_text(folder / f"{split}_{name}.txt", "".join(f"{line}\n" for line in lines))
            text = json.dumps(manifest, indent=2, ensure_ascii=False)
            write_text(folder / f"{split}.json", text + "\n")
            for name, array in arrays.items():
                np.save(folder / f"{split}_{name}.npy", array, allow_pickle=False)
            sync_tree(folder)
            for earlier in out.glob(f"{split}_*"):
                earlier.unlink()
            # The arrays last, and of these the images: their file says that a split is there.
            order = sorted(folder.iterdir(), key=lambda file: (file.suffix == ".npy", file.name))
            for file in sorted(order, key=lambda file: file.name == f"{split}_images.npy"):
                file.replace(out / file.name)
        sync_folder(out)
    except OSError as error:
        raise InputError(
            f"the features cannot be written ({error.strerror or error}).", file=out
        ) from None
