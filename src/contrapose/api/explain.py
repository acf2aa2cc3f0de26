"""`explain`: what each word and region of one pair adds to the score."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from contrapose.api.diagnose import PLAYERS, TAGGERS
from contrapose.api.inputs import (
    Cache,
    ModelLike,
    PathLike,
    one_model,
    one_path,
    require_choice,
    store_place,
)
from contrapose.errors import InputError, option
from contrapose.files import local_path, write_text
from contrapose.models.options import parse_dtype

if TYPE_CHECKING:
    from contrapose.diagnose.explain import ExplanationRun
    from contrapose.engine import Progress


def explain(
    model: ModelLike,
    image: PathLike,
    text: str,
    *,
    against: str | None = None,
    players: Literal["groups", "words", "superpixels"] = "groups",
    groups: str | None = None,
    regions: str | None = None,
    superpixels: int | None = None,
    baseline: str | None = None,
    score: str | None = None,
    tagger: Literal["textblob", "spacy"] = "textblob",
    device: str = "auto",
    dtype: str | None = None,
    cache: Cache = True,
    trust_remote_code: bool = False,
    out: PathLike | None = None,
    seed: int = 0,
    progress: Progress | None = None,
) -> ExplanationRun:
    """Say what each word group and region of one pair adds to a model's score.

    Args:
        model: a model string or a loaded model.
        image: an image file.
        text: a caption.
        against: another caption, to compare with the first.
        players: word groups, every word by itself, or patches of the image.
        groups: word groups, as `O=cat,mat;R=sits on`, or a `.jsonl` file with the image.
        regions: regions, as `O1=X,Y,WIDTH,HEIGHT;O2=mask.png`, or a `.jsonl` file.
        superpixels: patches that the image is cut into where no regions are given; None is 8,
            and 0 leaves it in one piece.
        baseline: what stands in place of what is hidden, as in `diagnose`.
        score: `itc`, `itm`, `lm` or `vqa`; None takes the first that the model gives.
        tagger: parts of speech of captions that follow no template.
        device: where the model computes.
        dtype: `fp32`, `bf16` or `fp16`.
        cache: as in `evaluate`.
        trust_remote_code: run code that comes with the weights.
        out: an `.html` file to write.
        seed: of everything random.
        progress: called with a description, what is done and what there is to do.

    Returns:
        `value` has the score and the dividends of every pattern of words and regions.

    Raises:
        InputError: the image cannot be read, or the model gives no such score.

    Example:
        >>> import contrapose as cp
        >>> image = "examples/shapes/images/replace-colour-00-0.png"
        >>> explained = cp.explain("tiny-clip", image, "a green cube and a blue ball")
        >>> len(explained.value.pairs)
        1
    """
    from contrapose.diagnose.explain import ExplainRequest, explain_pair
    from contrapose.diagnose.regions import DEFAULT_SUPERPIXELS
    from contrapose.diagnose.run import choose_baseline

    if superpixels is not None and regions is not None:
        raise InputError(f"{option('superpixels')} and {option('regions')} do not go together.")
    target = one_path(out)
    if target is not None and (target.is_dir() or target.suffix != ".html"):
        raise InputError("must be a file whose name ends in .html.", file=target)
    request = ExplainRequest(
        image=local_path(image),
        text=text,
        against=against,
        players=require_choice("players", players, PLAYERS),
        superpixels=DEFAULT_SUPERPIXELS if superpixels is None else superpixels,
        groups=groups,
        regions=regions,
        tagger=require_choice("tagger", tagger, TAGGERS),
        baseline=choose_baseline(baseline, None, seed),
        score=score,
        device=device,
        dtype=None if dtype is None else parse_dtype(dtype),
        cache=store_place(cache),
        trust_remote_code=trust_remote_code,
    )
    explained = explain_pair(one_model(model), request, progress=progress)
    if target is not None:
        from contrapose.report.html.explanation import render_explanation

        try:
            write_text(target, render_explanation(explained))
        except OSError as error:
            raise InputError(f"cannot be written ({error.strerror}).", file=target) from None
    return explained
