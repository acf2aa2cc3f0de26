"""Export to mteb: `<model>/<revision>/<Task>.json`, and `model_meta.json` beside it.

A benchmark is a task, and each of its parts is one: mteb takes the mean over the scores of a file,
which need not be the benchmark's headline. mteb knows one score per model; every score but `itc` is
an experiment there.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from contrapose.results.exports.tasks import (
    ExportTask,
    FolderRun,
    RunFolder,
    list_tasks,
    standard_error,
    unique_name,
)

SPLIT = "test"
DEFAULT = "default"
LANGUAGES = ("eng-Latn",)
"""The captions of every public benchmark here are English."""

PLAIN = ("", "itc")
"""Scores that are written to the model's folder."""

Json = dict[str, Any]


@dataclass(frozen=True, slots=True)
class MtebBenchmark:
    """Benchmark that mteb has too, of the same examples.

    Attributes:
        task: its name there.
        metrics: mteb's name of a metric → names here, of which the first present counts.
        main: mteb's main score.
    """

    task: str
    metrics: Mapping[str, Sequence[str]]
    main: str


MTEB_BENCHMARKS = {
    "winoground": MtebBenchmark(
        "Winoground",
        {"text_acc": ("text",), "image_acc": ("image",), "accuracy": ("group",)},
        "accuracy",
    ),
    "sugarcrepe": MtebBenchmark(
        "SugarCrepe", {"text_acc": ("accuracy_micro", "accuracy")}, "text_acc"
    ),
}  # fmt: skip


def mteb_exports(source: RunFolder, languages: Sequence[str] = LANGUAGES) -> dict[str, Json]:
    """Export every run of a folder to mteb: path → content of the file."""
    files: dict[str, Json] = {}
    for run in source.runs:
        name, revision = model_identity(run)
        folder = f"{name.replace('/', '__').replace(' ', '_')}/{_safe_name(revision)}"
        if run.score not in PLAIN:
            folder += f"/experiments/score_{_safe_name(run.score)}"
        files.setdefault(f"{folder}/model_meta.json", _build_meta(run, name, revision, source))
        taken = {
            path.rpartition("/")[2].removesuffix(".json")
            for path in files
            if path.startswith(f"{folder}/")
        }
        for task in list_tasks(run):
            if task.metrics:
                title = unique_name(_task_title(run, task), taken)
                files[f"{folder}/{title}.json"] = _build_task(run, task, title, source, languages)
    return files


def model_identity(run: FolderRun) -> tuple[str, str]:
    """Name of a model with an organization, and its revision: mteb needs both.

    The revision is that of the model's name, or else the fingerprint of the weights.
    """
    family, colon, rest = run.model.partition(":")
    plain = re.split(r"\?|,(?=\w+=)", rest if colon else run.model, maxsplit=1)[0]
    name, at, revision = plain.partition("@")
    name = re.sub(r"[^\w./ -]+", "_", name).strip("/. ") or "unnamed"
    parts = [part for part in name.split("/") if part.strip(". ")]
    if colon and family == "hf" and len(parts) == 2:
        plain = "/".join(parts)
    else:
        plain = f"{_safe_name(family) if colon else 'contrapose'}/{'_'.join(parts)}"
    return plain, (revision if at and revision else run.fingerprint or "no_revision_available")


def _task_title(run: FolderRun, task: ExportTask) -> str:
    """Title of a task: mteb's own where it has the benchmark, else in camel case."""
    known = MTEB_BENCHMARKS.get(run.results.benchmark)
    root = known.task if known else _to_camel(run.results.benchmark)
    return root + _to_camel(task.part) if task.part else root


def _build_task(
    run: FolderRun, task: ExportTask, title: str, source: RunFolder, languages: Sequence[str]
) -> Json:
    scores: Json = {}
    for metric, value in task.metrics.items():
        scores[metric] = value.value
        scores[f"{metric}_stderr"] = standard_error(value)
        scores[f"{metric}_ci95"] = None if value.ci95 is None else list(value.ci95)
        scores[f"{metric}_chance"] = value.chance
        scores[f"{metric}_n"] = value.n
    main = scores.get(task.main)
    known = MTEB_BENCHMARKS.get(run.results.benchmark)
    if known is not None and not task.part:
        for theirs, ours in known.metrics.items():
            name = next((name for name in ours if name in task.metrics), None)
            if name is not None:
                scores[theirs] = task.metrics[name].value
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


def _build_meta(run: FolderRun, name: str, revision: str, source: RunFolder) -> Json:
    """Metadata of a model for mteb; unknown fields are null."""
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


def _to_camel(text: str) -> str:
    words = re.split(r"[\W_]+", text)
    return "".join(word[:1].upper() + word[1:] for word in words)


def _safe_name(text: str) -> str:
    return re.sub(r"[^\w.-]+", "_", text).strip(".") or "unnamed"
