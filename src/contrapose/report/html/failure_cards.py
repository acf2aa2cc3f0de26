"""Worst failures of runs, and their HTML cards with images, captions and scores."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from contrapose.data import ImageRef, open_images
from contrapose.data.video_frames import FrameImage
from contrapose.errors import InputError
from contrapose.evaluation.parts import DEBIASED
from contrapose.metrics import BoolArray, FloatArray
from contrapose.report.html.page import element, escape, image_data_uri
from contrapose.report.results import run_label
from contrapose.report.run_examples import (
    ALL,
    example_scores,
    find_cases,
    find_mistake_rule,
    is_debiased,
    measured_margins,
)
from contrapose.results import RunRecord

if TYPE_CHECKING:
    from PIL.Image import Image

PER_PART, PER_RUN, PER_REPORT = 2, 24, 120
"""Most cards of a part, of a run and of a report."""
WITHOUT_PARTS = 8
"""Most cards of a benchmark that has no parts."""


@dataclass(frozen=True, slots=True, eq=False)
class Failure:
    """Example that a model got wrong.

    Attributes:
        run: label of the run: model and score.
        part: of the benchmark; empty if it has none.
        example: id of the example.
        images: the m images; empty where they cannot be opened.
        texts: the n captions; empty where they are not known.
        scores: m × n.
        match: m × n, true where image and caption belong together.
        margin: how far a wrong choice is ahead of a right one.
        labels: words under each image, such as the time of a video's frame; empty for none.
    """

    run: str
    part: str
    example: str
    images: tuple[Image, ...]
    texts: tuple[str, ...]
    scores: FloatArray
    match: BoolArray
    margin: float
    labels: tuple[str, ...] = ()


def worst_failures(runs: Sequence[RunRecord], *, per_part: int = PER_PART) -> list[Failure]:
    """Examples with the largest wrong margin, a few for each run and part.

    A tie is a failure too: a tie is never a win. The score table of a run whose language prior was
    taken out holds the scores before that: such a run is left out where the report has the run
    of those scores as well, and labelled where not.

    Args:
        runs: with score tables; images and captions come from their examples, which are read
            again for runs that were read back, or from the captions that a run folder holds.
        per_part: most failures of a run and part.
    """
    shown = _shown_runs(runs)
    most = min(PER_RUN, max(PER_REPORT // max(len(shown), 1), 1))
    failures = []
    for (run, label), cases in zip(shown, find_cases([run for run, _ in shown]), strict=True):
        scored = example_scores(run)
        if scored is None:
            continue
        rule = find_mistake_rule(run)
        margins = measured_margins(run, scored.ids)
        if margins is None:
            margins = scored.margins() if rule is None else scored.margins_by(rule)
        chosen = _select_worst([names[0] for names in scored.parts], margins, per_part, most)
        names = [scored.ids[i] for i in chosen]
        shown_refs: dict[str, tuple[ImageRef, ...]] = {}
        matrices = {}
        for i, name in zip(chosen, names, strict=True):
            scores, match = scored.matrix(i)
            case, texts = cases.get(name), run.captions.get(name, ())
            if case is not None and (case.shape != scores.shape or texts not in ((), case.texts)):
                case = None  # the benchmark was changed since the run
            positions = range(len(scores)) if rule is None else rule(scores, match)[1].tolist()
            matrices[name] = scores[positions], match[positions]
            shown_refs[name] = () if case is None else tuple(case.images[p] for p in positions)
        images = _open_available(ref for refs in shown_refs.values() for ref in refs)
        for i, name in zip(chosen, names, strict=True):
            scores, match = matrices[name]
            refs = shown_refs[name]
            texts = cases[name].texts if refs else run.captions.get(name, ())
            part = scored.parts[i][0]
            failures.append(
                Failure(
                    run=label,
                    part="" if part == ALL else part,
                    example=name.removeprefix(f"{part}/"),
                    images=tuple(images[ref] for ref in refs) if images.keys() >= {*refs} else (),
                    texts=texts,
                    scores=scores,
                    match=match,
                    margin=float(margins[i]),
                    labels=tuple(map(_image_label, refs)),
                )
            )
    return failures


def _shown_runs(runs: Sequence[RunRecord]) -> list[tuple[RunRecord, str]]:
    """Runs whose failures are shown, with their labels."""
    raw = {
        (run.results.model, run.results.benchmark, run.results.score)
        for run in runs
        if not is_debiased(run.results)
    }
    shown = []
    for run in runs:
        results, label = run.results, run_label(run.results)
        if not is_debiased(results):
            shown.append((run, label))
        elif (results.model, results.benchmark, DEBIASED.get(results.score or "")) not in raw:
            shown.append((run, f"{label}, before the prior is taken out"))
    return shown


def _select_worst(parts: Sequence[str], margins: FloatArray, per_part: int, most: int) -> list[int]:
    """Positions of the worst failures, part by part, the worst first; ties in their order."""
    per_part = per_part if len(set(parts)) > 1 else max(per_part, WITHOUT_PARTS)
    by_part: dict[str, list[int]] = {}
    for i in np.argsort(-margins, kind="stable").tolist():
        if margins[i] < 0:
            break
        worst = by_part.setdefault(parts[i], [])
        if len(worst) < per_part:
            worst.append(i)
    chosen = sorted((i for worst in by_part.values() for i in worst), key=lambda i: -margins[i])
    kept = set(chosen[:most])
    return [i for part in dict.fromkeys(parts) for i in by_part.get(part, ()) if i in kept]


def _open_available(refs: Iterable[ImageRef]) -> Mapping[ImageRef, Image]:
    """Images that can be opened; those that cannot are left out."""
    distinct = list(dict.fromkeys(refs))
    try:
        return dict(zip(distinct, open_images(distinct), strict=True))
    except InputError:
        images = {}
        for ref in distinct:
            try:
                images[ref] = open_images([ref])[0]
            except InputError:
                continue
        return images


def render_failure(failure: Failure) -> str:
    """Render the card of one failure; without images it shows captions, or positions, alone."""
    verdict = f"wrong by {failure.margin:.3g}"
    table = _scores_table(failure)
    alts = [_image_alt(failure, i) for i in range(len(failure.images))]
    letters = _image_letters(len(failure.images))
    if any(failure.labels):
        letters = [
            f"{letter} {escape(label)}"
            for letter, label in zip(letters, failure.labels, strict=False)
        ]
    images = [
        element(
            "div",
            element("img", src=image_data_uri(image), alt=alt, loading="lazy"),
            letter,
        )
        for image, alt, letter in zip(failure.images, alts, letters, strict=True)
    ]
    header = element(
        "header",
        element("span", escape(failure.part or f"example {failure.example}")),
        element("small", verdict),
    )
    name = element("p", escape(f"example {failure.example}"), class_="note") if failure.part else ""
    shown = element("div", *images, class_="images") if images else ""
    wide = {"class_": "wide"} if len(images) > 2 else {}
    return element("article", header, shown, table, name, **wide)


def _image_label(ref: ImageRef) -> str:
    """Time of a frame of a video; empty for other images."""
    return f"{ref.source.time:g} s" if isinstance(ref.source, FrameImage) else ""


def _image_letters(count: int) -> list[str]:
    """Names of several images in the header of the scores; a single one has none."""
    return [chr(ord("A") + i) for i in range(count)] if count > 1 else [""] * count


def _scores_table(failure: Failure) -> str:
    """Scores of every caption and image; captions of a single image by their scores."""
    rows, columns = failure.scores.shape
    letters = _image_letters(rows)
    head = [element("th", "caption", class_="left", scope="col")]
    head += [element("th", f"score {letter}".strip(), scope="col") for letter in letters]
    order = range(columns)
    if rows == 1:
        order = np.argsort(-failure.scores[0], kind="stable").tolist()
    lines = [
        element(
            "tr",
            element("td", escape(_caption(failure, j)), class_="left"),
            *(_score_cell(failure, i, j) for i in range(rows)),
        )
        for j in order
    ]
    return element("table", element("thead", element("tr", *head)), element("tbody", *lines))


def _caption(failure: Failure, text: int) -> str:
    return failure.texts[text] if failure.texts else f"caption {text + 1}"


def _score_cell(failure: Failure, image: int, text: int) -> str:
    """Table cell of a score, marked if the pair is right or preferred."""
    value = failure.scores[image, text]
    right = bool(failure.match[image, text])
    # One caption of several images: the images are the choice.
    choices = failure.scores[image] if failure.scores.shape[1] > 1 else failure.scores[:, text]
    marks = [element("span", "right", class_="right")] if right else []
    if np.isfinite(value) and value == np.nanmax(choices):
        verdict = "preferred" if np.count_nonzero(choices == value) == 1 else "tied"
        marks.append(element("span", verdict, class_="right" if right else "wrong"))
    return element("td", f"{value:.3f}" if np.isfinite(value) else "–", *marks)


def _image_alt(failure: Failure, image: int) -> str:
    """Alternative text of an image: its right captions."""
    right = [text for text, fits in zip(failure.texts, failure.match[image], strict=True) if fits]
    return "; ".join(right) or "an image that no caption fits"
