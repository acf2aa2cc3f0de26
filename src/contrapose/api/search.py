"""`search`: find images by text, by image, and by image with a change."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

from contrapose.api.index import load_index
from contrapose.api.inputs import ModelLike, PathLike, Words, list_words, one_path
from contrapose.errors import InputError

if TYPE_CHECKING:
    from contrapose.search.queries import SearchResult, WordChange
    from contrapose.search.searcher import Searcher


def search(
    where: PathLike | Searcher,
    *,
    text: str | None = None,
    image: PathLike | bytes | None = None,
    change: str | WordChange | Iterable[str | WordChange] = (),
    without: Words = None,
    fusion: str | None = None,
    scale: float | None = None,
    captions: PathLike | Iterable[str] | None = None,
    k: int = 10,
    model: ModelLike | None = None,
    device: str = "auto",
    dtype: str | None = None,
    trust_remote_code: bool = False,
    subjects: Words = None,
    styles: Words = None,
    lance: str | None = None,
    out: PathLike | None = None,
) -> SearchResult:
    """Find the images of an index that fit a text, an image, or an image with a change.

    The query image itself is left out, by its content.

    Args:
        where: a folder of images that was indexed, an index, or what `load_index` returns.
        text: free text.
        image: an image file, or the bytes of one.
        change: words to replace, as `cat -> dog`; several as a list. One side may be empty.
        without: words to avoid: `rain` is the change `rain -> `.
        fusion: `text`, `image`, `sum`, `product`, `weicom`, `delta` or `basic`; None takes `delta`
            for changes, and `weicom` for an image with a text.
        scale: λ, how strong a change or a text is; None calibrates it on the index for `delta`.
        captions: captions, or a file with one a line: a change is then the mean difference of
            captions with the word replaced.
        k: how many images.
        model: as in `load_index`; so are `device`, `dtype`, `trust_remote_code`, `subjects`,
            `styles` and `lance`. They are not taken where `where` is open already.
        device: where the model computes.
        dtype: `fp32`, `bf16` or `fp16`.
        trust_remote_code: run code that comes with the weights.
        subjects: see `load_index`.
        styles: see `load_index`.
        lance: see `load_index`.
        out: write the result too: `.json`, or a contact sheet as `.html` or `.png`.

    Returns:
        `hits` with path, score, and cosines that tell why; `scale`, `fusion` and `notes`.

    Raises:
        InputError: there is no index, the query is incomplete, or the model cannot read it.

    Example:
        >>> import contrapose as cp
        >>> _ = cp.build_scenes(out="photos", part="replace-color", examples=20)
        >>> _ = cp.index("photos", model="tiny-clip", device="cpu")
        >>> result = cp.search("photos", text="a red cube", k=3, device="cpu")
        >>> result.fusion, len(result.hits)
        ('text', 3)
        >>> first = "photos/" + result.hits[0].path
        >>> edited = cp.search("photos", image=first, change="red -> blue", device="cpu")
        >>> edited.fusion, edited.left_out == (result.hits[0].path,)
        ('delta', True)
    """
    from contrapose.engine.corpora import read_texts
    from contrapose.search.queries import SearchQuery, WordChange, parse_change

    target = one_path(out)
    if target is not None and target.suffix not in (".html", ".json", ".png"):
        raise InputError("must end in .html, .json or .png.", file=target)
    changes = [change] if isinstance(change, str | WordChange) else list(change)
    if isinstance(captions, str | Path):
        sentences = read_texts(Path(captions))
    else:
        sentences = tuple(captions or ())
    query = SearchQuery(
        text=text,
        image=Path(image) if isinstance(image, str) else image,
        changes=(
            *(parse_change(item) for item in changes),
            *(WordChange(word.strip(), "") for word in list_words(without)),
        ),
        fusion=fusion,
        scale=scale,
        captions=sentences,
    )
    query.choose_fusion()  # what is wrong with it is said before a model is loaded
    if isinstance(where, str | Path):
        searcher = load_index(
            where,
            model=model,
            device=device,
            dtype=dtype,
            trust_remote_code=trust_remote_code,
            subjects=subjects,
            styles=styles,
            lance=lance,
        )
    else:
        searcher = where
    result = searcher.search(query, k)
    if target is not None:
        from contrapose.report.contact_sheet import write_result

        write_result(result, target)
    return result
