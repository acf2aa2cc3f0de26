"""Model cards: YAML that the hub's own library reads."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from contrapose.results.exports import export_run
from contrapose.results.exports.model_index import to_yaml
from tests.results.exports.conftest import WHEN

yaml = pytest.importorskip("yaml")


def test_yaml_is_read_back() -> None:
    content: dict[str, Any] = {
        "a": [{"b": 'x: "y" # z', "c": {"d": 1.5, "e": None}}, {"b": "- no"}],
        "f": True,
    }
    assert yaml.safe_load(to_yaml(content)) == content


def test_the_hub_reads_it(asked: Path, tmp_path: Path) -> None:
    hub = pytest.importorskip("huggingface_hub.repocard_data")
    files = export_run(asked, tmp_path / "out", "model-index", time=WHEN)
    cards = [file for file in files if file.suffix == ".yaml"]
    assert len(cards) == 2
    read = yaml.safe_load(cards[0].read_text(encoding="utf-8"))
    name, results = hub.model_index_to_eval_results(read["model-index"])
    assert name == "fake"
    first = results[0]
    assert (first.dataset_type, first.metric_type) == ("patches", "average")
    assert 0 <= first.metric_value <= 1
    assert "itc" in first.metric_name
    assert first.metric_args["chance"] < 1
    assert any(result.dataset_type == "patches/pairs" for result in results)
