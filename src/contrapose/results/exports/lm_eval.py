"""Export to lm-eval: `results_<time>.json`, and `samples_<task>_<time>.jsonl` beside it.

One folder for each model and score. A benchmark with parts is a group, each part a task of it;
`accuracy` is called `acc` as there. Fields of lm-eval on prompts and tokens have no meaning here,
and are left out or null.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from contrapose import __version__
from contrapose.results.exports.tasks import (
    ExportTask,
    FolderRun,
    RunFolder,
    is_higher_better,
    list_tasks,
    standard_error,
    unique_name,
    unit_metrics,
    units_by_task,
)

FILTER = "none"
"""lm-eval names a metric with the filter of its answers; here there is none."""

Json = dict[str, Any]


@dataclass(frozen=True, slots=True, eq=False)
class LmEvalExport:
    """Export of one model and score to lm-eval.

    Attributes:
        folder: its folder's name.
        results: content of `results_<time>.json`.
        samples: for each task one line per example.
        stamp: the time in file names.
    """

    folder: str
    results: Json
    samples: dict[str, list[Json]]
    stamp: str


def lm_eval_exports(source: RunFolder) -> list[LmEvalExport]:
    """Export every model and score of a run folder to lm-eval."""
    grouped: dict[tuple[str, str], list[FolderRun]] = {}
    for run in source.runs:
        grouped.setdefault((run.model, run.score), []).append(run)
    taken: set[str] = set()
    exports = []
    for (model, score), runs in grouped.items():
        folder = unique_name(sanitize_name("/".join(filter(None, (model, score)))), taken)
        results, samples = _build_results(runs, source)
        results |= {
            "model_source": "contrapose",
            "model_name": model,
            "model_name_sanitized": folder,
        }
        exports.append(LmEvalExport(folder, results, samples, format_stamp(source.time)))
    return exports


def sanitize_name(name: str) -> str:
    """Sanitize a model's name as lm-eval names its folder."""
    return re.sub(r"[\"<>:/|\\?*\[\]]+", "__", name).lstrip(".") or "unnamed"


def format_stamp(time: datetime) -> str:
    """Format a time as lm-eval writes it in file names."""
    return time.replace(tzinfo=None).isoformat().replace(":", "-")


def _build_results(
    runs: Sequence[FolderRun], source: RunFolder
) -> tuple[Json, dict[str, list[Json]]]:
    tables: dict[str, Json] = {
        name: {}
        for name in (
            "results", "groups", "group_subtasks", "configs", "versions", "n-shot",
            "higher_is_better", "n-samples",
        )
    }  # fmt: skip
    samples: dict[str, list[Json]] = {}
    for run in runs:
        tasks = list_tasks(run)
        for task in tasks:
            children = [child.name for child in tasks if child.parent == task.name]
            _add_task(tables, run, task, children)
        for name, units in units_by_task(run, tasks).items():
            samples[name] = [_build_sample(run, number, unit) for number, unit in enumerate(units)]
    if not tables["groups"]:
        del tables["groups"]
    hashes = {
        name: _hash("".join(s["doc_hash"] + s["prompt_hash"] + s["target_hash"] for s in lines))
        for name, lines in samples.items()
    }
    return {
        **tables,
        "config": _build_config(runs[0], source),
        "git_hash": None,
        "date": source.time.timestamp(),
        "contrapose_version": __version__,
        "task_hashes": hashes,
        "total_evaluation_time_seconds": None,
    }, samples


def _add_task(
    tables: dict[str, Json], run: FolderRun, task: ExportTask, children: Sequence[str]
) -> None:
    """Add one task's row to every table."""
    row: Json = {"name": task.name, "alias": task.alias, "sample_len": task.count}
    for metric, value in task.metrics.items():
        row[f"{_metric_name(metric)},{FILTER}"] = value.value
        row[f"{_metric_name(metric)}_stderr,{FILTER}"] = standard_error(value)
    ways = {
        _metric_name(metric): is_higher_better(run.measured, task, metric)
        for metric in task.metrics
    }
    tables["results"][task.name] = row
    if children:
        tables["groups"][task.name] = row
        tables["group_subtasks"][task.name] = list(children)
    skipped = None if task.part else run.results.skipped
    tables["configs"][task.name] = {
        "task": task.name,
        "task_alias": task.alias,
        "dataset_name": task.part or None,
        "output_type": run.score or "scores",
        "num_fewshot": 0,
        "metric_list": [
            {
                "metric": _metric_name(metric),
                "aggregation": run.results.aggregation if not task.part else "mean",
                "higher_is_better": ways[_metric_name(metric)],
            }
            for metric in task.metrics
        ],
        "metadata": {
            "benchmark": run.results.benchmark,
            "protocol": run.results.protocol,
            "chance": {_metric_name(name): value.chance for name, value in task.metrics.items()},
            "ties": {_metric_name(name): value.ties for name, value in task.metrics.items()},
            "ci95": {_metric_name(name): value.ci95 for name, value in task.metrics.items()},
            "notes": list(run.results.notes),
        },
    }
    tables["versions"][task.name] = run.results.contrapose
    tables["n-shot"][task.name] = 0
    tables["higher_is_better"][task.name] = ways
    tables["n-samples"][task.name] = {
        "original": task.count + (0 if skipped is None else skipped.examples),
        "effective": task.count,
    }


def _build_sample(run: FolderRun, number: int, unit: int) -> Json:
    """Sample of one example: its pairs are the requests, their scores the responses."""
    measured = run.measured
    example = measured.ids[unit]
    pairs = run.pairs.get(example, ())
    doc = {"example": example, **{tag: values[unit] for tag, values in measured.tags.items()}}
    requests = [[f"image {pair.image}", f"caption {pair.text}"] for pair in pairs]
    target = [[pair.image, pair.text] for pair in pairs if pair.match]
    metrics = {_metric_name(name): value for name, value in unit_metrics(measured, unit).items()}
    return {
        "doc_id": number,
        "doc": doc,
        "target": json.dumps(target),
        "arguments": {
            f"gen_args_{i}": {f"arg_{j}": word for j, word in enumerate(words)}
            for i, words in enumerate(requests)
        },
        "resps": [[repr(pair.value)] for pair in pairs],
        "filtered_resps": [repr(pair.value) for pair in pairs],
        "filter": FILTER,
        "metrics": list(metrics),
        "doc_hash": _hash(json.dumps(doc, indent=2, ensure_ascii=False)),
        "prompt_hash": _hash(requests[0][0] if requests else example),
        "target_hash": _hash(json.dumps(target)),
        **metrics,
    }


def _build_config(run: FolderRun, source: RunFolder) -> Json:
    request = source.request
    return {
        "model": "contrapose",
        "model_args": {
            "pretrained": run.model,
            **({"score": run.score} if run.score else {}),
        },
        "model_sha": run.fingerprint or None,
        "model_dtype": request.get("dtype"),
        "batch_size": request.get("batch_size"),
        "batch_sizes": [],
        "device": request.get("device"),
        "use_cache": None,
        "limit": request.get("limit"),
        "bootstrap_iters": run.results.resamples,
        "gen_kwargs": {},
        "random_seed": run.results.seed,
        "numpy_seed": run.results.seed,
        "torch_seed": run.results.seed,
        "fewshot_seed": run.results.seed,
    }


def _metric_name(name: str) -> str:
    """Name of a metric in lm-eval; without commas, which separate name and filter there."""
    return re.sub(r"^accuracy(?=$|_)", "acc", name).replace(",", "_")


def _hash(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()
