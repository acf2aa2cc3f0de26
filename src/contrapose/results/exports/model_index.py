"""Export to the metadata of a model card: the `model-index` of the Hugging Face hub.

The YAML stands between the two lines `---` at the top of a model's README.md. Every benchmark is a
dataset, with the main metric first; chance levels and intervals are in `args` and in the name.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from contrapose.results.exports.mteb import model_identity
from contrapose.results.exports.tasks import FolderRun, RunFolder, slugify, unique_name
from contrapose.results.schema import MetricValue
from contrapose.results.shapes import main_metric

TASK = {"type": "image-text-to-text", "name": "Compositional image-text matching"}
"""Task of all results: the hub has no identifier of image-text matching."""


def model_index_files(source: RunFolder) -> dict[str, str]:
    """YAML files of a run folder by name, one per model."""
    by_model: dict[str, list[FolderRun]] = {}
    for run in source.runs:
        by_model.setdefault(run.model, []).append(run)
    files: dict[str, str] = {}
    taken: set[str] = set()
    for runs in by_model.values():
        name, _ = model_identity(runs[0])
        results = [result for run in runs for result in _results(run)]
        content = {"model-index": [{"name": name.rpartition("/")[2], "results": results}]}
        file = unique_name(slugify(name.replace("/", "_")), taken)
        files[f"{file}.yaml"] = to_yaml(content)
    return files


def _results(run: FolderRun) -> Iterator[dict[str, Any]]:
    """Results of a run: the benchmark, then every part with its main metric."""
    name = run.results.benchmark
    yield _result(run, name, name, run.results.metrics)
    for part, metrics in run.results.subsets.items():
        main = main_metric(metrics)
        if "/" not in part and main is not None:
            yield _result(run, f"{name}/{part}", f"{name}: {part}", {main: metrics[main]})


def _result(
    run: FolderRun, identifier: str, title: str, metrics: Mapping[str, MetricValue]
) -> dict[str, Any]:
    main = main_metric(metrics)
    names = sorted(metrics, key=lambda name: name != main)
    return {
        "task": TASK,
        "dataset": {"type": identifier, "name": title, "split": "test"},
        "metrics": [_metric(run, name, metrics[name]) for name in names],
    }


def _metric(run: FolderRun, name: str, metric: MetricValue) -> dict[str, Any]:
    """Metric of a result; its name says the score and the interval, since the hub shows no more."""
    score = f" ({run.score})" if run.score else ""
    bounds = "" if metric.ci95 is None else f", 95 % {metric.ci95[0]:.4f} to {metric.ci95[1]:.4f}"
    arguments: dict[str, Any] = {"n": metric.n}
    arguments |= {} if metric.chance is None else {"chance": metric.chance}
    arguments |= {} if metric.ci95 is None else {"low": metric.ci95[0], "high": metric.ci95[1]}
    return {
        "type": name,
        "name": f"{name}{score}{bounds}",
        "value": metric.value,
        "args": arguments,
    }


def to_yaml(value: Any, indent: int = 0) -> str:
    """YAML of mappings, lists and plain values; texts are quoted as in JSON, which YAML reads."""
    space = " " * indent
    lines = []
    if isinstance(value, Mapping):
        for key, item in value.items():
            if isinstance(item, Mapping | list):
                lines.append(f"{space}{key}:\n{to_yaml(item, indent + 2)}")
            else:
                lines.append(f"{space}{key}: {_scalar(item)}\n")
    elif isinstance(value, Sequence):
        for item in value:
            block = to_yaml(item, indent + 2)
            lines.append(f"{space}- {block[indent + 2 :]}")
    return "".join(lines)


def _scalar(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, allow_nan=False)
