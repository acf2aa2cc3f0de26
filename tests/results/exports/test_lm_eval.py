"""The shape of lm-eval: its own functions read it, and every number is the run's."""

from __future__ import annotations

import hashlib
import json
import warnings
from pathlib import Path
from typing import Any

import pytest

from contrapose.results import Evaluation, read_run
from contrapose.results.exports import export_run, lm_eval_exports, read_run_folder
from contrapose.results.run_files import read_spec, write_spec
from tests.results.exports.conftest import STAMP, WHEN

TABLES = {
    "results": dict,
    "group_subtasks": dict,
    "configs": dict,
    "versions": dict,
    "n-shot": dict,
    "higher_is_better": dict,
    "n-samples": dict,
    "config": dict,
    "date": float,
    "task_hashes": dict,
    "model_source": str,
    "model_name": str,
    "model_name_sanitized": str,
}
"""`lm_eval.result_schema.EvalResults` of lm-eval 0.4.13, as far as it has a meaning here."""

SAMPLE = {
    "doc_id": int,
    "doc": dict,
    "target": str,
    "arguments": dict,
    "resps": list,
    "filtered_resps": list,
    "filter": str,
    "metrics": list,
    "doc_hash": str,
    "prompt_hash": str,
    "target_hash": str,
}
"""`lm_eval.result_schema.SampleResult` of the same."""


def exported(run: Path, out: Path) -> dict[str, Any]:
    """Every results file by its folder."""
    export_run(run, out, "lm-eval", time=WHEN)
    return {file.parent.name: json.loads(file.read_text()) for file in out.glob("*/results_*.json")}


def lines(file: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in file.read_text().splitlines()]


def test_a_folder_for_each_model_and_score(asked: Path, tmp_path: Path) -> None:
    found = exported(asked, tmp_path / "out")
    assert set(found) == {
        "hf__acme__fake@v2__itc",
        "hf__acme__fake@v2__itm",
        "hf__acme__fake@v2__lm",
        "tower,dtype=bf16__itc",
    }
    for folder, results in found.items():
        for name, kind in TABLES.items():
            assert isinstance(results[name], kind), name
        assert results["model_name_sanitized"] == folder
        assert results["config"]["model_args"]["score"] == folder.rpartition("__")[2]
        assert results["config"]["limit"] == 10
        assert results["date"] == WHEN.timestamp()
        names = set(results["results"])
        for table in ("configs", "versions", "n-shot", "higher_is_better", "n-samples"):
            assert set(results[table]) == names, table


def test_every_value_is_the_runs(asked: Path, tmp_path: Path) -> None:
    found = exported(asked, tmp_path / "out")
    runs = Evaluation.model_validate_json((asked / "results.json").read_text()).runs
    compared = 0
    for run in runs:
        results = found[
            f"{run.model}__{run.score}".replace("hf:acme/", "hf__acme__").replace("?", "__")
        ]
        tasks = {run.benchmark: run.metrics}
        tasks |= {f"{run.benchmark}_{part}": metrics for part, metrics in run.subsets.items()}
        for task, metrics in tasks.items():
            row = results["results"][task]
            for name, value in metrics.items():
                there = name.replace("accuracy", "acc")
                assert value.ci95 is not None
                low, high = value.ci95
                assert row[f"{there},none"] == value.value
                assert row[f"{there}_stderr,none"] == pytest.approx((high - low) / 3.92)
                compared += 1
        if run.subsets:
            assert results["group_subtasks"][run.benchmark] == [
                f"{run.benchmark}_{part}" for part in run.subsets
            ]
            assert results["groups"][run.benchmark] == results["results"][run.benchmark]
    assert compared > 40


def test_which_way_is_better(asked: Path, tmp_path: Path) -> None:
    results = exported(asked, tmp_path / "out")["hf__acme__fake@v2__itc"]
    ways = results["higher_is_better"]
    assert ways["plain"]["group"] is True
    assert ways["plain"]["equivariance_text_mean_abs"] is False
    assert ways["patches"]["average"] is True
    assert ways["patches_choices"]["acc"] is True
    assert ways["patches_gallery"]["mean_recall"] is True


def test_samples_are_the_examples(asked: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    results = exported(asked, out)["hf__acme__fake@v2__itm"]
    folder = out / "hf__acme__fake@v2__itm"
    names = {file.name for file in folder.glob("samples_*")}
    tasks = ("patches_pairs", "patches_choices", "plain_pairs")
    assert {f"samples_{task}_{STAMP}.jsonl" for task in tasks} <= names
    _, measured = read_run(asked, ("hf:acme/fake@v2", "plain", "itm"))
    samples = lines(folder / f"samples_plain_pairs_{STAMP}.jsonl")
    assert [sample["doc"]["example"] for sample in samples] == list(measured.ids)
    for i, sample in enumerate(samples):
        assert {name for name in SAMPLE if not isinstance(sample[name], SAMPLE[name])} == set()
        assert sample["doc_id"] == i
        assert sample["group"] == measured.measures["group"].values[i]
        assert set(sample["metrics"]) <= set(sample)
        scores = [float(value) for value in sample["filtered_resps"]]
        assert sample["resps"] == [[value] for value in sample["filtered_resps"]]
        assert len(scores) == len(sample["arguments"]) == 4
        text = scores[0] > scores[1] and scores[3] > scores[2]
        assert sample["text"] == text
        assert sample["arguments"]["gen_args_1"] == {"arg_0": "image 0", "arg_1": "caption 1"}
        assert json.loads(sample["target"]) == [[0, 0], [1, 1]]
    mean = sum(sample["group"] for sample in samples) / len(samples)
    assert mean == pytest.approx(results["results"]["plain"]["group,none"])
    joined = "".join(s["doc_hash"] + s["prompt_hash"] + s["target_hash"] for s in samples)
    assert results["task_hashes"]["plain_pairs"] == hashlib.sha256(joined.encode()).hexdigest()


def test_a_score_file(given: Path, tmp_path: Path) -> None:
    results = exported(given, tmp_path / "out")["clip"]
    assert results["model_name"] == "clip"
    assert results["n-samples"]["winoground"] == {"original": 400, "effective": 400}
    samples = lines(tmp_path / "out" / "clip" / f"samples_winoground_{STAMP}.jsonl")
    assert len(samples) == 400


def test_skipped_examples_count_as_original(asked: Path) -> None:
    file = asked / "results.json"
    content = json.loads(file.read_text())
    content["runs"][0]["skipped"] = {"examples": 3, "reasons": {"no file": 3}, "first": "gone."}
    spec = read_spec(asked)
    file.write_text(json.dumps(content))
    write_spec(asked, spec)
    results = lm_eval_exports(read_run_folder(asked, WHEN))[0].results
    count = results["n-samples"]["patches"]
    assert count["original"] == count["effective"] + 3


def test_lm_eval_reads_it(asked: Path, tmp_path: Path) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        utils = pytest.importorskip("lm_eval.utils")
    out = tmp_path / "out"
    for folder, results in exported(asked, out).items():
        table = utils.make_table(results)
        for task, row in results["results"].items():
            assert row["alias"] in table, task
        value = results["results"]["plain"]["group,none"]
        assert f"{value:.4f}" in table
        assert "N/A" not in table
        groups = utils.make_table(results, "groups")
        assert "patches" in groups
        assert results["model_name_sanitized"] == folder
        score = results["config"]["model_args"]["score"]
        named = f"{results['model_name']}/{score}"
        assert utils.sanitize_model_name(named) == folder
    files = [str(file) for file in out.rglob("*.json*")]
    assert len(utils.get_results_filenames(files)) == 4
    samples = utils.get_sample_results_filenames(files)
    assert samples
    for file in samples:
        assert utils.get_file_datetime(Path(file).name) == STAMP
        task = utils.get_file_task_name(Path(file).name)
        results = json.loads(next(Path(file).parent.glob("results_*.json")).read_text())
        assert task in results["results"]
    first = lines(Path(samples[0]))[0]
    doc = json.dumps(first["doc"], indent=2, ensure_ascii=False)
    assert first["doc_hash"] == utils.hash_string(doc)
