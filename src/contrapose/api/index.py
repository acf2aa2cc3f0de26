"""`index` and `load_index`: embed a folder of images once, and open it for many searches."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from contrapose.api.inputs import (
    ModelLike,
    PathLike,
    Words,
    list_words,
    one_model,
    one_path,
    require_at_least,
)
from contrapose.models.options import parse_dtype

if TYPE_CHECKING:
    from contrapose.engine import Progress
    from contrapose.models import Model
    from contrapose.search.searcher import Searcher
    from contrapose.search.writer import IndexReport


def index(
    images: PathLike | Iterable[PathLike],
    *,
    model: ModelLike,
    out: PathLike | None = None,
    device: str = "auto",
    dtype: str | None = None,
    batch_size: int | None = None,
    workers: int | None = None,
    trust_remote_code: bool = False,
    lance: str | None = None,
    progress: Progress | None = None,
) -> IndexReport:
    """Embed images once, so that they can be searched; a second run embeds what changed.

    A run that was killed is resumed by the next. Images that cannot be read are listed in the
    index and left out.

    Args:
        images: a folder, searched with its subfolders; a `.txt` file with a path a line, relative
            to it; or a list of files.
        model: a dual encoder: a model string or a loaded model.
        out: folder of the index; None is `.contrapose/MODEL` inside the folder of images.
        device: where the model computes.
        dtype: `fp32`, `bf16` or `fp16`.
        batch_size: images of a model call; None grows while there is room.
        workers: threads that decode images.
        trust_remote_code: run code that comes with the weights.
        lance: also copy the vectors to LanceDB, in this folder or at a URL such as `s3://…`; the
            report's `recall` compares its search with the exact one.
        progress: called with a description, what is done and what there is to do.

    Returns:
        How many images were added, changed, deleted and unchanged; `index` has the vectors.

    Raises:
        InputError: there is no image, not one can be read, the index is of another model or of
            other images, another process writes it, or the model gives no vectors.

    Example:
        >>> import contrapose as cp
        >>> _ = cp.build_scenes(out="photos", part="replace-color", examples=6)
        >>> report = cp.index("photos", model="tiny-clip", device="cpu")
        >>> report.added, cp.index("photos", model="tiny-clip", device="cpu").unchanged
        (6, 6)
    """
    from contrapose.search.writer import IndexRequest, build_index

    require_at_least(1, batch_size=batch_size, workers=workers)
    files: Path | list[Path] = (
        Path(images) if isinstance(images, str | Path) else [Path(image) for image in images]
    )
    request = IndexRequest(files, one_path(out), batch_size, workers, progress)
    report = build_index(request, _load(model, device, dtype, trust_remote_code))
    if lance is None:
        return report
    from contrapose.search.backends import copy_to_lance, measure_recall

    backend = copy_to_lance(report.index, lance)
    return replace(report, recall=measure_recall(backend, report.index.vectors))


def load_index(
    where: PathLike,
    *,
    model: ModelLike | None = None,
    device: str = "auto",
    dtype: str | None = None,
    trust_remote_code: bool = False,
    subjects: Words = None,
    styles: Words = None,
    lance: str | None = None,
) -> Searcher:
    """Open an index with its model, for many searches; `search` takes it in place of a folder.

    Args:
        where: a folder of images that was indexed, or the folder of an index.
        model: the model, where the folder has indexes of several, or a loaded one; or a text
            encoder of the same space, where the index is of an image encoder alone. None is the
            model of the index.
        device: where the model computes.
        dtype: `fp32`, `bf16` or `fp16`; must be that of the index.
        trust_remote_code: run code that comes with the weights.
        subjects: texts that name what the images show, for the fusion `basic` and for words that
            are removed; None is a list of 144 common nouns.
        styles: texts that name how images show it, for `basic`; None is a list of 47.
        lance: search the copy that `index` made in LanceDB at this place.

    Returns:
        A searcher: `search(query, k)` answers queries, `index` has paths and vectors.

    Raises:
        InputError: there is no index, or it is of another model.

    Example:
        >>> import contrapose as cp
        >>> _ = cp.build_scenes(out="photos", part="replace-color", examples=6)
        >>> _ = cp.index("photos", model="tiny-clip", device="cpu")
        >>> len(cp.load_index("photos", device="cpu").index)
        6
    """
    from contrapose.engine.corpora import STYLES, SUBJECTS
    from contrapose.search.backends import open_lance
    from contrapose.search.index import find_index, open_index
    from contrapose.search.searcher import Searcher

    loaded = None if model is None else _load(model, device, dtype, trust_remote_code)
    opened = open_index(find_index(Path(where), loaded))
    if loaded is None:
        loaded = _load(opened.model, device, dtype, trust_remote_code)
    return Searcher(
        opened,
        loaded,
        load_image_model=lambda: _load(opened.model, device, dtype, trust_remote_code),
        subjects=list_words(subjects) or SUBJECTS,
        styles=list_words(styles) or STYLES,
        backend=None if lance is None else open_lance(opened, lance),
    )


def _load(model: ModelLike, device: str, dtype: str | None, trust_remote_code: bool) -> Model:
    from contrapose.models import load_model

    chosen = one_model(model)
    if not isinstance(chosen, str):
        return chosen
    return load_model(
        chosen,
        device=device,
        dtype=None if dtype is None else parse_dtype(dtype),
        trust_remote_code=trust_remote_code,
    )
