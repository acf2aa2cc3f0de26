"""Export to FiftyOne: a folder that `fo.Dataset.from_dir` reads as a `FiftyOneDataset`.

`samples.json` has one sample per image of an example. FiftyOne itself is not needed to write it.
"""

from __future__ import annotations

import io
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from contrapose import __version__
from contrapose.data import Example, ImageRef, open_image
from contrapose.errors import InputError
from contrapose.report.run_examples import (
    ExampleScores,
    example_scores,
    find_cases,
    is_debiased,
)
from contrapose.results import RunRecord


def fiftyone_files(runs: Sequence[RunRecord]) -> dict[str, bytes]:
    """Files of the dataset by name: metadata, samples, and images that are not files already.

    Every sample has its example, captions and the fitting caption; for each run the preferred
    caption (none where the best ones tie), the scores of all captions, the margin, and whether the
    image is right.

    Args:
        runs: of one benchmark or several, whose images can be found.

    Raises:
        InputError: no run has scores of pairs, or their images are not to be had.
    """
    known = [
        (run, scores, cases)
        for run, cases in zip(runs, find_cases(runs), strict=True)
        if (scores := example_scores(run)) is not None and not is_debiased(run.results)
    ]
    if not known:
        raise InputError("the runs have no scores of images with captions, which samples show.")
    if not any(cases for _, _, cases in known):
        raise InputError("the images of the runs are not to be had where their benchmark was read.")
    files: dict[str, bytes] = {}
    samples: dict[tuple[str, str, int], dict[str, Any]] = {}
    names = _field_names([run for run, _, _ in known])
    for (run, scores, cases), name in zip(known, names, strict=True):
        for i, identifier in enumerate(scores.ids):
            if (case := cases.get(identifier)) is None:
                continue
            for k, fields in _image_fields(scores, i, case):
                key = (run.results.benchmark, identifier, k)
                if key not in samples:
                    samples[key] = _sample(key, case, files, scores.parts[i])
                samples[key] |= {f"{name}_{field}": value for field, value in fields.items()}
    metadata = {
        "media_type": "image",
        "info": {
            "contrapose": __version__,
            "runs": dict(zip(names, map(_title, known), strict=True)),
        },
    }
    files["metadata.json"] = _to_json(metadata)
    files["samples.json"] = _to_json({"samples": list(samples.values())})
    return files


def _title(known: tuple[RunRecord, Any, Any]) -> str:
    results = known[0].results
    return " ".join(filter(None, (results.model or results.scores, results.score)))


def _field_names(runs: Sequence[RunRecord]) -> list[str]:
    """Distinct names of fields: letters, digits and underscores, not starting with a digit."""
    names: list[str] = []
    for run in runs:
        words = (run.results.model or "scores", run.results.score or "")
        plain = re.sub(r"\W+", "_", "_".join(filter(None, words)), flags=re.ASCII).strip("_")
        plain = plain if plain[:1].isalpha() else f"run_{plain}"
        number, name = 2, plain
        while name in names:
            name = f"{plain}_{number}"
            number += 1
        names.append(name)
    return names


def _sample(
    key: tuple[str, str, int], case: Example, files: dict[str, bytes], parts: tuple[str, ...]
) -> dict[str, Any]:
    benchmark, identifier, k = key
    right = [text for text, fits in zip(case.texts, case.match[k], strict=True) if fits]
    return {
        "filepath": _image_path(case.images[k], len(files), files),
        "tags": [benchmark, *parts],
        "metadata": None,
        "example": identifier,
        "image": k,
        "captions": list(case.texts),
        "ground_truth": {"_cls": "Classification", "label": right[0]} if right else None,
    }


def _image_path(ref: ImageRef, number: int, files: dict[str, bytes]) -> str:
    """Path of an image: its own file, or a copy in `data/` where it is none or only a part."""
    plain = ref.crop is None and ref.cell is None and not ref.square
    if plain and ref.path is not None and ref.path.suffix != ".npy":
        return str(ref.path.resolve())
    stream = io.BytesIO()
    open_image(ref).save(stream, format="PNG")
    name = f"data/{number:06d}.png"
    files[name] = stream.getvalue()
    return name


def _image_fields(
    scores: ExampleScores, i: int, case: Example
) -> Iterator[tuple[int, Mapping[str, Any]]]:
    """Fields of a run for every image of an example that has all its scores."""
    values, match = scores.matrix(i)
    for k, row in enumerate(values):
        if np.isnan(row).any() or len(row) > len(case.texts):
            continue
        fits = match[k]
        margin = (
            float(row[fits].min() - row[~fits].max()) if fits.any() and not fits.all() else None
        )
        best = np.flatnonzero(row == row.max())
        label = {"_cls": "Classification", "label": case.texts[int(best[0])]}
        yield (
            k,
            {
                "prediction": label
                if len(best) == 1
                else None,  # captions that tie: none is chosen
                "scores": row.tolist(),
                "margin": margin,
                "correct": None if margin is None else margin > 0,
            },
        )


def _to_json(content: Any) -> bytes:
    return f"{json.dumps(content, ensure_ascii=False, allow_nan=False)}\n".encode()
