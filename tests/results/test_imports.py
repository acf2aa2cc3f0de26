"""Logs of other programs as runs: values, filters, epochs, damage."""

from __future__ import annotations

import json
import struct
import zipfile
import zlib
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import contrapose as cp
from contrapose.errors import InputError
from tests.conftest import Cli


def write_jsonl(path: Path, rows: list[dict[str, Any]]) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def lm_eval_sample(doc: int, right: bool, filter_name: str = "none", **more: Any) -> dict[str, Any]:
    """Sample of a multiple-choice task, as lm-eval's `save_results_samples` writes it."""
    return {
        "doc_id": doc,
        "doc": {"q": f"Question {doc}?"},
        "target": str(doc % 4),
        "arguments": {f"gen_args_{i}": {"arg_0": "Q", "arg_1": f" {i}"} for i in range(4)},
        "resps": [[["-1.0", "False"]]] * 4,
        "filtered_resps": [["-1.0", "False"]] * 4,
        "filter": filter_name,
        "metrics": ["acc", "acc_norm", "items"],
        "doc_hash": "0",
        "prompt_hash": "0",
        "target_hash": "0",
        "acc": float(right),
        "acc_norm": 1.0,
        "items": [1, 2],
        **more,
    }


def test_lm_eval(tmp_path: Path) -> None:
    rows = [lm_eval_sample(i, i % 4 == 0) for i in range(40)]
    time = "2026-01-31T12-00-00.000001"
    path = write_jsonl(tmp_path / "org__model" / f"samples_toy_mc_{time}.jsonl", rows)
    results = {"model_name": "org/model", "higher_is_better": {"toy_mc": {"acc_norm": False}}}
    path.with_name(f"results_{time}.json").write_text(json.dumps(results))
    (run,) = cp.import_logs(path, resamples=100, out=tmp_path / "run")
    assert (run.benchmark, run.model, run.score) == ("lm-eval:toy_mc", "org/model", "lm-eval")
    assert run.metrics["accuracy"].value == 0.25
    assert run.metrics["accuracy"].chance == 0.25
    assert run.record.measured.measures["accuracy_norm"].better == "lower"
    assert any("items" in note for note in run.results.notes)
    assert cp.load_run(tmp_path / "run") == run


def test_filters_are_runs_and_doubles_are_refused(tmp_path: Path) -> None:
    rows = [lm_eval_sample(i, i % 2 == 0, name) for name in ("strict", "loose") for i in range(20)]
    runs = cp.import_logs(write_jsonl(tmp_path / "m" / "samples_gen.jsonl", rows), resamples=100)
    assert [(run.score, run.model) for run in runs] == [("strict", "m"), ("loose", "m")]
    doubled = write_jsonl(tmp_path / "samples_x.jsonl", [rows[0], rows[0]])
    with pytest.raises(InputError, match=r"line 2.*twice"):
        cp.import_logs(doubled)


def test_export_and_import_of_a_run_agree(tmp_path: Path) -> None:
    """Samples that we write as lm-eval give the same outcomes when they are read."""
    scores = np.random.default_rng(0).normal(size=(400, 2, 2))
    run = cp.measure(scores, "winoground", resamples=100)
    files = cp.export(run, out=tmp_path / "exported", format="lm-eval")
    (samples,) = (file for file in files if file.name.startswith("samples_"))
    (back,) = cp.import_logs(tmp_path / "exported" / samples, resamples=100)
    for name in ("text", "image", "group"):
        assert back.metrics[name].value == run.metrics[name].value
    ours, theirs = ([row["outcomes"]["group"] for row in one.examples()] for one in (run, back))
    assert ours == theirs


def test_lmms_eval(tmp_path: Path) -> None:
    """Samples without doc and arguments; metrics are numbers or objects with a score."""
    rows = [
        {
            "doc_id": i, "target": "yes", "filtered_resps": "yes", "token_counts": [None],
            "doc_hash": "0", "input": "Q?", "exact_match": i % 2,
            "mme_score": {"question_id": i, "category": "color", "score": 1.0},
            "other": {"id": i, "pred": "yes"},
        }
        for i in range(30)
    ]  # fmt: skip
    path = write_jsonl(tmp_path / "llava" / "20260131_120000_samples_mme.jsonl", rows)
    (run,) = cp.import_logs(path, resamples=100)
    assert (run.benchmark, run.model) == ("lmms-eval:mme", "llava")
    assert run.metrics["exact_match"].value == 0.5
    assert run.metrics["mme_score"].value == 1.0
    assert "other" not in run.metrics


def test_mteb_predictions_give_winogrounds_figures(shared: Path, tmp_path: Path) -> None:
    scores = np.zeros((400, 2, 2))
    for line in (shared / "winoground_scores/clip.jsonl").read_text().splitlines():
        row = json.loads(line)
        example, caption, image = row["label"].split("_")
        scores[int(example), int(image[1:]), int(caption[1:])] = row["score"]
    content: dict[str, Any] = {
        "mteb_model_meta": {"model_name": "openai/clip", "revision": "x"},
        "default": {"test": scores.tolist()},
    }
    path = tmp_path / "Winoground_predictions.json"
    path.write_text(json.dumps(content))
    (run,) = cp.import_logs(path, resamples=100)
    assert (run.benchmark, run.model) == ("mteb:Winoground", "openai/clip")
    values = {name: metric.value for name, metric in run.metrics.items()}
    assert values == {"text": 0.3075, "image": 0.105, "group": 0.08}
    content["default"] = {"test": {"q1": {"d1": 0.5}}}
    path.write_text(json.dumps(content))
    with pytest.raises(InputError, match="image-text pair"):
        cp.import_logs(path)


def write_zstd(archive: Path, members: dict[str, Any]) -> None:
    """Zip of Zstandard members (method 93), which Python's zipfile cannot write before 3.14."""
    body, directory = b"", b""
    for name, value in members.items():
        data = json.dumps(value).encode()
        packed = bytes(pa.Codec("zstd").compress(data))
        sizes = struct.pack("<III", zlib.crc32(data), len(packed), len(data))
        fields = struct.pack("<HHHHH", 20, 0, 93, 0, 33)
        directory += b"PK\x01\x02" + struct.pack("<H", 20) + fields + sizes
        directory += struct.pack("<HHHHHII", len(name), 0, 0, 0, 0, 0, len(body)) + name.encode()
        body += b"PK\x03\x04" + fields + sizes + struct.pack("<HH", len(name), 0) + name.encode()
        body += packed
    count = len(members)
    end = struct.pack("<HHHHIIH", 0, 0, count, count, len(directory), len(body), 0)
    archive.write_bytes(body + directory + b"PK\x05\x06" + end)


def inspect_members(epochs: int = 1) -> dict[str, Any]:
    members: dict[str, Any] = {
        f"samples/{i}_epoch_{epoch}.json": {
            "id": i, "epoch": epoch, "choices": ["a", "b"], "target": "A",
            "scores": {"choice": {"value": "C" if (i + epoch) % 2 else "I"}},
        }
        for i in range(20)
        for epoch in range(1, epochs + 1)
    }  # fmt: skip
    members["samples/bad_epoch_1.json"] = {"id": "bad", "epoch": 1, "error": {"message": "x"}}
    header = {"version": 2, "status": "success", "eval": {"task": "org/toy", "model": "mock/m"}}
    return {**members, "header.json": header, "summaries.json": [], "../x.json": "ignored"}


@pytest.mark.parametrize("compression", ["zstd", "deflate", "json"])
def test_inspect(tmp_path: Path, compression: str) -> None:
    members = inspect_members()
    path = tmp_path / "log.eval"
    if compression == "zstd":
        write_zstd(path, members)
    elif compression == "deflate":
        with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
            for name, value in members.items():
                archive.writestr(name, json.dumps(value))
    else:
        path = tmp_path / "log.json"
        samples = [value for name, value in members.items() if name.startswith("samples/")]
        path.write_text(json.dumps({**members["header.json"], "samples": samples}))
    (run,) = cp.import_logs(path, resamples=100)
    assert (run.benchmark, run.model) == ("inspect:toy", "mock/m")
    assert run.metrics["accuracy"].value == 0.5
    assert run.metrics["accuracy"].chance == 0.5
    assert run.metrics["accuracy"].n == 20
    assert any("without a score" in note for note in run.results.notes)


def test_epochs_are_means(tmp_path: Path) -> None:
    write_zstd(tmp_path / "log.eval", inspect_members(epochs=2))
    (run,) = cp.import_logs(tmp_path / "log.eval", resamples=100)
    assert {row["outcomes"]["accuracy"] for row in run.examples()} == {0.5}
    assert any("2 epochs" in note for note in run.results.notes)


def test_damage_is_one_sentence(cli: Cli, tmp_path: Path) -> None:
    path = tmp_path / "log.eval"
    write_zstd(path, inspect_members())
    content = bytearray(path.read_bytes())
    content[80] ^= 0xFF
    for broken in (b"", b"PK", bytes(content), bytes(content[:200])):
        path.write_bytes(broken)
        assert "log" in cli("import", path, "--out", tmp_path / "run").refused()
    assert not (tmp_path / "run").exists()
    other = tmp_path / "samples_x.jsonl"
    for text in ('{"a": 1}\n', "", "{", '{"doc_id": 1, "acc": NaN}\n', '{"doc_id": 1}\n'):
        other.write_text(text)
        assert cli("import", other).refused()
    assert cli("import", tmp_path / "nothing.jsonl").refused()
    other = tmp_path / "other.json"
    other.write_text('{"a": 1}')
    assert "no log" in cli("import", other).refused()


def test_import_rank_and_compare(cli: Cli, tmp_path: Path) -> None:
    paths = []
    for name, rate in (("weak", 0.3), ("strong", 0.9)):
        random = np.random.default_rng(len(name))
        rows = [lm_eval_sample(i, bool(right)) for i, right in enumerate(random.random(200) < rate)]
        paths.append(write_jsonl(tmp_path / name / "samples_toy.jsonl", rows))
    said = cli("import", *paths, "--out", tmp_path / "run", "--resamples", 100)
    assert said.status == 0, said
    found = json.loads(cli("rank", tmp_path / "run", "--resamples", 100, "--json").out)
    models = found["rankings"][0]["models"]
    assert [(model["name"], model["tier"]) for model in models] == [("strong", 1), ("weak", 2)]
    message = cli("import", paths[0], paths[0]).refused()
    assert "folders of their own" in message


def test_metrics_without_chance_are_compared(tmp_path: Path) -> None:
    """Free answers have no chance level, so no metric is a share; all are compared."""
    runs = []
    for shift in (0, 1):
        rows = [
            {
                "doc_id": i,
                "target": "x",
                "filtered_resps": "x",
                "input": "",
                "exact_match": (i + shift) % 2,
                "fluent": 1,
            }
            for i in range(20)
        ]
        path = write_jsonl(tmp_path / str(shift) / "1_samples_t.jsonl", rows)
        runs.append(cp.import_logs(path, resamples=100))
        low, high = runs[-1][0].metrics["fluent"].ci95 or (1.0, 1.0)
        assert low < 0.9  # 20 of 20 are no certainty
        assert high == 1
    assert list(cp.compare(*runs, resamples=100).metrics) == ["exact_match", "fluent"]


def test_metrics_reads_logs_as_a_benchmark(tmp_path: Path, cli: Cli) -> None:
    """Scores of mteb give all metrics of the benchmark, outcomes of others their own."""
    scores = np.random.default_rng(0).normal(size=(400, 2, 2))
    predictions = {"mteb_model_meta": {"model_name": "m"}, "default": {"test": scores.tolist()}}
    path = tmp_path / "Winoground_predictions.json"
    path.write_text(json.dumps(predictions))
    run = cp.measure(path, "winoground", resamples=100)
    assert run.metrics["group"] == cp.measure(scores, "winoground", resamples=100).metrics["group"]
    rows = [lm_eval_sample(i, i % 4 == 0, target="x") for i in range(400)]
    samples = write_jsonl(tmp_path / "samples_winoground.jsonl", rows)
    shown = cli("metrics", "winoground", "--scores", samples, "--resamples", "100")
    assert "25.00" in shown.out
    assert "0.250" not in shown.out
    assert "log of winoground" in shown.out
    few = write_jsonl(tmp_path / "samples_few.jsonl", rows[:30])
    refusal = cli("metrics", "winoground", "--scores", few).refused()
    assert "30 items" in refusal
    assert "400 examples" in refusal
    assert (
        "--protocol"
        in cli("metrics", "winoground", "--scores", samples, "--protocol", "official").refused()
    )


def test_metrics_refuses_a_log_of_several_runs(tmp_path: Path) -> None:
    rows = [lm_eval_sample(i, True, name) for name in ("strict", "loose") for i in range(400)]
    with pytest.raises(InputError, match=r"2 runs .*import"):
        cp.measure(write_jsonl(tmp_path / "samples_w.jsonl", rows), "winoground")
