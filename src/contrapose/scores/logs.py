"""Logs of other programs: outcomes of each item by lm-eval, lmms-eval, inspect, mteb, VLMEvalKit.

The layouts are those of lm-eval 0.4, lmms-eval 0.7, inspect_ai 0.3, mteb 2 and VLMEvalKit 0.3. A
log is recognized by its content. Nothing of these programs is imported.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import numpy as np

from contrapose.errors import InputError, printable
from contrapose.files import StrictProblems, parse_count, read_json, read_jsonl_records
from contrapose.metrics import FloatArray
from contrapose.scores.inspect_logs import is_inspect_log, read_inspect_log, to_float
from contrapose.scores.vlmevalkit import is_result_table, read_replies, read_result_table

MOST_NOTES = 5

LMMS_FIELDS = frozenset(
    ("doc_id", "doc", "target", "arguments", "resps", "filtered_resps", "token_counts", "doc_hash",
     "input_media", "input", "filter", "metrics", "prompt_hash", "target_hash")
)  # fmt: skip
"""Fields of a sample that are no metrics."""


@dataclass(slots=True)
class ItemLog:
    """Outcomes of one model on the items of one task.

    Attributes:
        tool: the program that wrote the log.
        task: name of the task.
        model: name of the model.
        score: filter or scorer, where a log has several; empty otherwise.
        ids: of the items.
        values: for each metric its value of each item; None where an item has none.
        chance: for each metric the chance level of each item, where it is known.
        better: the better direction, of metrics of which the log says it.
        tags: for each tag its value of each item.
        pairs: scores as (images, captions) of each item instead of values, right pairs on the
            diagonal.
        notes: sentences for the reader.
    """

    tool: Literal["lm-eval", "lmms-eval", "inspect", "mteb", "vlmevalkit"]
    task: str
    model: str
    score: str = ""
    ids: list[str] = field(default_factory=list)
    values: dict[str, list[float | None]] = field(default_factory=dict)
    chance: dict[str, list[float]] = field(default_factory=dict)
    better: dict[str, Literal["higher", "lower"]] = field(default_factory=dict)
    tags: dict[str, tuple[str, ...]] = field(default_factory=dict)
    pairs: FloatArray | None = None
    notes: list[str] = field(default_factory=list)


def is_log(path: Path) -> bool:
    """Whether a file is a log of another program, by its name and first row."""
    if is_inspect_log(path) or is_result_table(path):
        return True
    if path.suffix.lower() not in (".json", ".jsonl") or not path.is_file():
        return False
    with path.open("rb") as stream:
        start = stream.read(2**16)
    if path.suffix.lower() == ".json":
        return b'"mteb_model_meta"' in start
    first = start.split(b"\n", 1)[0]
    return b'"doc_id"' in first and (b'"resps"' in start or b'"filtered_resps"' in start)


def read_logs(path: Path, model: str | None = None) -> list[ItemLog]:
    """Read a log: one `ItemLog` for each filter, scorer or subset.

    Args:
        path: samples of lm-eval or lmms-eval (`.jsonl`), a log of inspect (`.eval` or `.json`),
            predictions of mteb (`.json`), or a result table of VLMEvalKit (`.xlsx`, `.csv`, `.tsv`
            or `.json`).
        model: name of the model; None takes the log's.

    Raises:
        InputError: it is no such log, is damaged, or holds no outcome.
    """
    if is_inspect_log(path):
        logs = _from_inspect(path)
    elif is_result_table(path):
        logs = [_from_table(path)]
    elif path.suffix.lower() == ".json":
        content = read_json(path, StrictProblems())
        if not isinstance(content, dict) or "mteb_model_meta" not in content:
            raise InputError(
                "is no log of inspect, no predictions of mteb and no table of VLMEvalKit.",
                file=path,
            )
        logs = _from_mteb(path, content)
    else:
        logs = _from_samples(path)
    for log in logs:
        log.model = model or log.model
        if not log.ids or not (log.values or log.pairs is not None):
            raise InputError(f"the log of {log.task} holds no number for any item.", file=path)
    return logs


LMMS_ANSWERS = "naturalbench_G_ACC"
"""Metric of lmms-eval's NaturalBench, whose `score` is the answer: 1 for yes or A, 0, or −1."""


def read_group_answers(path: Path) -> list[dict[str, Any]] | None:
    """Answers to NaturalBench in a log, as rows of a score file; None where it is no such log.

    Samples of lmms-eval hold answers by their index, tables of VLMEvalKit replies: four items to a
    group, question 0 with both images, then question 1.

    Raises:
        InputError: an index is no number or there twice.
    """
    if is_result_table(path):
        replies = read_replies(path)
        return [
            {"id": i, "reply": reply, **({"type": kind} if kind else {})}
            for i, (reply, kind) in enumerate(replies)
        ]
    if path.suffix.lower() != ".jsonl" or not is_log(path):
        return None
    groups: dict[int, dict[str, Any]] = {}
    for record in read_jsonl_records(path, StrictProblems()):
        value = record.value.get(LMMS_ANSWERS) if isinstance(record.value, dict) else None
        number = parse_count(str(value.get("id", ""))) if isinstance(value, dict) else None
        if number is None or value is None:
            return None
        group, position = divmod(number, 4)
        name = f"q{position // 2}_i{position % 2}"
        if name in groups.setdefault(group, {"id": str(group)}):
            raise InputError(f"index {number} is there twice.", file=path, line=record.line)
        groups[group][name] = value.get("score")
    return list(groups.values())


def _from_samples(path: Path) -> list[ItemLog]:
    """Samples of lm-eval or lmms-eval, one JSON object a line."""
    rows: list[tuple[int, Mapping[str, Any]]] = []
    for record in read_jsonl_records(path, StrictProblems()):
        if not isinstance(record.value, dict) or "doc_id" not in record.value:
            raise InputError(
                "is no sample of lm-eval or lmms-eval: it has no doc_id.",
                file=path,
                line=record.line,
            )
        rows.append((record.line, record.value))
    if not rows:
        raise InputError("is empty.", file=path)
    first = rows[0][1]
    if LMMS_ANSWERS in first:
        raise InputError(
            "holds answers to NaturalBench, which count in groups of four: "
            "`contrapose metrics naturalbench` measures them.",
            file=path,
        )
    lm_eval = "arguments" in first and "filter" in first
    results = _results_beside(path, lm_eval=lm_eval)
    task = _task_name(path, lm_eval=lm_eval)
    by_filter: dict[str, list[tuple[int, Mapping[str, Any]]]] = {}
    seen: dict[tuple[str, str], int] = {}
    for line, row in rows:
        name = str(row.get("filter", ""))
        key = (name, str(row["doc_id"]))
        seen[key] = seen.get(key, 0) + 1
        if seen[key] > 1:
            if lm_eval:
                raise InputError(
                    f"doc_id {printable(key[1])} is there twice.", file=path, line=line
                )
            name = f"filter {seen[key]}"  # lmms-eval writes one filter after the other, unnamed
        by_filter.setdefault(name, []).append((line, row))
    logs = []
    for name, some in by_filter.items():
        log = ItemLog(
            "lm-eval" if lm_eval else "lmms-eval",
            task,
            str(results.get("model_name") or path.parent.name or "model"),
            "" if len(by_filter) == 1 and name in ("none", "") else name,
            [str(row["doc_id"]) for _, row in some],
        )
        _add_values(log, [(line, _sample_metrics(row)) for line, row in some], path)
        if lm_eval:
            _add_chance(log, [row for _, row in some])
        higher = results.get("higher_is_better")
        higher = higher.get(task) if isinstance(higher, dict) else None
        for metric, way in higher.items() if isinstance(higher, dict) else ():
            if isinstance(way, bool):
                log.better[_metric_name(metric)] = "higher" if way else "lower"
        logs.append(log)
    return logs


def _sample_metrics(row: Mapping[str, Any]) -> dict[str, Any]:
    """Metrics of a sample; of lmms-eval's objects their `score`."""
    named = row.get("metrics")
    names = (
        [name for name in named if isinstance(name, str) and name in row]
        if isinstance(named, list)
        else [name for name in row if name not in LMMS_FIELDS]
    )
    return {
        _metric_name(name): value.get("score") if isinstance(value := row[name], dict) else value
        for name in names
    }


def _metric_name(name: str) -> str:
    """Name of a metric here: lm-eval's acc is accuracy."""
    return re.sub(r"^acc(?=$|_)", "accuracy", name)


def _add_values(
    log: ItemLog, rows: Sequence[tuple[int | None, Mapping[str, Any]]], path: Path
) -> None:
    """Add the metrics of all items; those that are no numbers are left out, with a note.

    Raises:
        InputError: a value is infinite or no number.
    """
    names = dict.fromkeys(name for _, row in rows for name in row)
    for name in names:
        column: list[float | None] = []
        for line, row in rows:
            value = row.get(name)
            number = to_float(value)
            if number is not None and not math.isfinite(number):
                raise InputError(f"{printable(name)} is {number}.", file=path, line=line)
            column.append(number)
        if any(value is not None for value in column):
            log.values[name] = column
        elif len(log.notes) < MOST_NOTES:
            log.notes.append(f"{printable(name)} is left out, since it is no number of an item")


def _add_chance(log: ItemLog, rows: Sequence[Mapping[str, Any]]) -> None:
    """Chance level 1/k of accuracies, where every item is a choice of one among k."""
    sizes = []
    for row in rows:
        arguments, target = row.get("arguments"), str(row.get("target", ""))
        replies = row.get("filtered_resps")
        if not isinstance(arguments, dict) or not isinstance(replies, list):
            return
        choice = (
            len(replies) == len(arguments) > 1
            and all(isinstance(reply, list) and len(reply) == 2 for reply in replies)
            and target.isdigit()
        )
        if not choice:
            return
        sizes.append(len(replies))
    for name in ("accuracy", "accuracy_norm"):
        if set(log.values.get(name, (None,))) <= {0.0, 1.0}:
            log.chance[name] = [1 / size for size in sizes]


def _task_name(path: Path, *, lm_eval: bool) -> str:
    """Task that the file's name tells: samples_TASK_TIME.jsonl, or TIME_samples_TASK.jsonl."""
    if lm_eval:
        return re.sub(r"_\d{4}-\d{2}-\d{2}T[\d.\-]+$", "", path.stem).removeprefix("samples_")
    return re.sub(r"^.*?_samples_", "", path.stem)


def _results_beside(path: Path, *, lm_eval: bool) -> dict[str, Any]:
    """Results file of the same time; empty where there is none that can be read."""
    if lm_eval:
        time = re.search(r"\d{4}-\d{2}-\d{2}T[\d.\-]+$", path.stem)
        name = f"results_{time.group()}.json" if time else ""
    else:
        name = f"{path.stem.partition('_samples_')[0]}_results.json"
    file = path.with_name(name) if name else path
    if file == path or not file.is_file():
        return {}
    content = read_json(file, StrictProblems())
    return content if isinstance(content, dict) else {}


def _from_inspect(path: Path) -> list[ItemLog]:
    source = read_inspect_log(path)
    scorers = dict.fromkeys(name for item in source.items for name in item.values)
    logs = []
    for scorer in scorers:
        log = ItemLog(
            "inspect",
            source.task,
            source.model,
            scorer if len(scorers) > 1 else "",
            [item.id for item in source.items],
            notes=list(source.notes),
        )
        _add_values(log, [(None, item.values.get(scorer, {})) for item in source.items], path)
        sizes = [item.choices for item in source.items]
        if all(sizes) and set(log.values.get("accuracy", (None,))) <= {0.0, 1.0}:
            log.chance["accuracy"] = [1 / size for size in sizes]
        logs.append(log)
    return logs


def _from_table(path: Path) -> ItemLog:
    table = read_result_table(path)
    log = ItemLog("vlmevalkit", table.task, table.model, ids=table.ids, tags=table.tags)
    _add_values(log, [(None, row) for row in table.values], path)
    if table.chance is not None and "accuracy" in log.values:
        log.chance["accuracy"] = table.chance
    log.notes += table.notes
    return log


def _from_mteb(path: Path, content: Mapping[str, Any]) -> list[ItemLog]:
    """Predictions of mteb's image-text pair classification: scores of images and captions."""
    meta = content["mteb_model_meta"]
    model = str(meta.get("model_name") or "model") if isinstance(meta, dict) else "model"
    task = path.stem.removesuffix("_predictions")
    splits = [
        (subset, split, scores)
        for subset, by_split in content.items()
        if subset != "mteb_model_meta" and isinstance(by_split, dict)
        for split, scores in by_split.items()
    ]
    logs = []
    for subset, split, scores in splits:
        try:
            array = np.array(scores, dtype=np.float64)
        except (TypeError, ValueError, OverflowError):
            array = np.zeros(0)
        if array.ndim != 3 or array.shape[1] > array.shape[2] or array.shape[2] < 2:
            raise InputError(
                f"{printable(subset)}, {printable(split)}: only predictions of image-text pair "
                "classification can be read, images × captions of every item.",
                file=path,
            )
        if not np.isfinite(array).all():
            raise InputError(
                f"{printable(subset)}, {printable(split)}: a score is NaN or infinite.", file=path
            )
        named = _join_names(task, subset, split, alone=len(splits) == 1)
        ids = [str(i) for i in range(len(array))]
        logs.append(ItemLog("mteb", named, model, ids=ids, pairs=array))
    if not logs:
        raise InputError("holds no predictions.", file=path)
    return logs


def _join_names(task: str, subset: str, split: str, *, alone: bool) -> str:
    parts: Iterable[str] = () if alone else (subset, split)
    return "/".join([task, *(part for part in parts if part not in ("default", "test"))])
