"""Runs in the shape of mteb: `<model>/<revision>/<Task>.json`, and `model_meta.json` beside it.

A benchmark is a task, and each of its parts is one: mteb takes the mean over what one file holds,
which need not be the benchmark's own headline. mteb knows one score a model; what is not `itc` is
an experiment there.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from contrapose.results.exports.source import Exported, Source
from contrapose.results.exports.tasks import Task, standard_error, tasks_of, unique

SPLIT = "test"
DEFAULT = "default"
LANGUAGES = ("eng-Latn",)
"""The captions of every public benchmark here are English."""

PLAIN = ("", "itc")
"""Scores that lie in the model's own folder."""

Json = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Known:
    """A benchmark that mteb has too, of the same examples.

    Attributes:
        task: its name there.
        metrics: mteb's name of a metric → ours, the first that is there.
        main: mteb's main score.
    """

    task: str
    metrics: Mapping[str, Sequence[str]]
    main: str


KNOWN = {
    "winoground": Known(
        "Winoground",
        {"text_acc": ("text",), "image_acc": ("image",), "accuracy": ("group",)},
        "accuracy",
    ),
    "sugarcrepe": Known(
        "SugarCrepe", {"text_acc": ("accuracy_micro", "accuracy")}, "text_acc"
    ),
}  # fmt: skip


def mteb_exports(source: Source, languages: Sequence[str] = LANGUAGES) -> dict[str, Json]:
    """Every run of a folder in the shape of mteb: path → what the file holds."""
    found: dict[str, Json] = {}
    for run in source.runs:
        name, revision = model_identity(run)
        place = f"{name.replace('/', '__').replace(' ', '_')}/{_safe(revision)}"
        if run.score not in PLAIN:
            place += f"/experiments/score_{_safe(run.score)}"
        found.setdefault(f"{place}/model_meta.json", _meta(run, name, revision, source))
        taken = {path.rpartition("/")[2] for path in found if path.startswith(f"{place}/")}
        for task in (each for each in tasks_of(run) if each.metrics):
            title = unique(f"{_title(run, task)}", {each.removesuffix(".json") for each in taken})
            taken.add(f"{title}.json")
            found[f"{place}/{title}.json"] = _task(run, task, title, source, languages)
    return found


def model_identity(run: Exported) -> tuple[str, str]:
    """A model's name with an organisation, and its revision: mteb wants both.

    The revision is the one that was asked for, or else the fingerprint of the weights.
    """
    family, colon, rest = run.model.partition(":")
    name, at, revision = (rest if colon else run.model).partition("?")[0].partition("@")
    name = re.sub(r"[^\w./ -]+", "_", name).strip("/. ") or "unnamed"
    parts = [part for part in name.split("/") if part.strip(". ")]
    if colon and family == "hf" and len(parts) == 2:
        plain = "/".join(parts)
    else:
        plain = f"{_safe(family) if colon else 'contrapose'}/{'_'.join(parts)}"
    return plain, (revision if at and revision else run.fingerprint or "no_revision_available")


def _title(run: Exported, task: Task) -> str:
    """A task's name: mteb's own where it has the benchmark, else its words run together."""
    known = KNOWN.get(run.results.benchmark)
    root = known.task if known else _camel(run.results.benchmark)
    return root + _camel(task.part) if task.part else root


def _task(run: Exported, task: Task, title: str, source: Source, languages: Sequence[str]) -> Json:
    scores: Json = {}
    for metric, value in task.metrics.items():
        scores[metric] = value.value
        scores[f"{metric}_stderr"] = standard_error(value)
        scores[f"{metric}_ci95"] = list(value.ci95)
        scores[f"{metric}_chance"] = value.chance
        scores[f"{metric}_n"] = value.n
    main = scores.get(task.main)
    known = KNOWN.get(run.results.benchmark)
    if known is not None and not task.part:
        for theirs, ours in known.metrics.items():
            there = next((name for name in ours if name in task.metrics), None)
            if there is not None:
                scores[theirs] = task.metrics[there].value
        main = scores.get(known.main, main)
    scores |= {
        "main_score": main,
        "hf_subset": task.part or DEFAULT,
        "languages": list(languages),
    }
    return {
        "dataset_revision": f"contrapose-{run.results.contrapose}",
        "task_name": title,
        "mteb_version": None,
        "scores": {SPLIT: [scores]},
        "evaluation_time": None,
        "kg_co2_emissions": None,
        "date": source.time.timestamp(),
        "evaluation_phases": None,
    }


def _meta(run: Exported, name: str, revision: str, source: Source) -> Json:
    """What mteb keeps of a model; what is not known is null."""
    plain = run.score in PLAIN
    return {
        "loader": None,
        "loader_kwargs": {},
        "name": name,
        "revision": revision,
        "release_date": None,
        "languages": None,
        "n_parameters": None,
        "n_active_parameters_override": None,
        "n_embedding_parameters": None,
        "memory_usage_mb": None,
        "max_tokens": None,
        "embed_dim": None,
        "license": None,
        "open_weights": None,
        "public_training_code": None,
        "public_training_data": None,
        "framework": ["PyTorch"] if run.results.model else [],
        "reference": None,
        "similarity_fn_name": "cosine" if run.score == "itc" else None,
        "use_instructions": None,
        "training_datasets": None,
        "adapted_from": None,
        "superseded_by": None,
        "modalities": ["image", "text"],
        "model_type": ["dense" if plain else "cross-encoder"],
        "citation": None,
        "contacts": None,
        "experiment_kwargs": None if plain else {"score": run.score},
        "output_dtypes": None,
        "extra_requirements_groups": None,
    }


def _camel(text: str) -> str:
    words = re.split(r"[\W_]+", text)
    return "".join(word[:1].upper() + word[1:] for word in words)


def _safe(text: str) -> str:
    return re.sub(r"[^\w.-]+", "_", text).strip(".") or "unnamed"
