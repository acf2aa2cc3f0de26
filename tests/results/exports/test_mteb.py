"""The shape of mteb: the schema it checks, and every number is the run's."""

from __future__ import annotations

import json
import warnings
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel, ConfigDict, field_validator

from contrapose.evaluation.evaluate import evaluate_models
from contrapose.evaluation.parts import EvalRequest
from contrapose.results import Results, write_run
from contrapose.results.exports import FolderRun, export_run
from contrapose.results.exports.mteb import model_identity
from contrapose.results.measures import Measurements
from tests.fakes import Fake
from tests.results.exports.conftest import WHEN


class TaskResult(BaseModel):
    """What `mteb.results.TaskResult` of mteb 2.26.24 takes, and what it checks."""

    dataset_revision: str
    task_name: str
    mteb_version: str | None
    scores: dict[str, list[dict[str, Any]]]
    evaluation_time: float | None
    kg_co2_emissions: float | None = None
    date: float | None = None
    evaluation_phases: list[Any] | None = None

    @field_validator("scores")
    @classmethod
    def _scores(cls, scores: dict[str, list[dict[str, Any]]]) -> dict[str, list[dict[str, Any]]]:
        for entries in scores.values():
            for entry in entries:
                assert isinstance(entry["main_score"], float)
                assert isinstance(entry["hf_subset"], str)
                assert isinstance(entry["languages"], list)
                json.dumps(entry, allow_nan=False)
        return scores


class ModelMeta(BaseModel):
    """The fields of `mteb.models.model_meta.ModelMeta` of mteb 2.26.24, which takes no others."""

    model_config = ConfigDict(extra="forbid")

    loader: None
    loader_kwargs: dict[str, Any]
    name: str
    revision: str | None
    release_date: str | None
    languages: list[str] | None
    n_parameters: int | None
    n_active_parameters_override: int | None = None
    n_embedding_parameters: int | None = None
    memory_usage_mb: float | None
    max_tokens: float | None
    embed_dim: int | None
    license: str | None
    open_weights: bool | None
    public_training_code: str | None
    public_training_data: str | bool | None
    framework: list[str]
    reference: str | None = None
    similarity_fn_name: str | None
    use_instructions: bool | None
    training_datasets: list[str] | None
    adapted_from: str | None = None
    superseded_by: str | None = None
    modalities: list[str]
    model_type: list[str]
    citation: str | None = None
    contacts: list[str] | None = None
    experiment_kwargs: dict[str, Any] | None = None
    output_dtypes: str | None = None
    extra_requirements_groups: list[str] | None = None

    @field_validator("name")
    @classmethod
    def _organisation(cls, name: str) -> str:
        assert "/" in name
        return name


def exported(run: Path, out: Path) -> dict[str, Any]:
    export_run(run, out, "mteb", time=WHEN)
    return {
        str(file.relative_to(out)): json.loads(file.read_text()) for file in out.glob("*/**/*.json")
    }


def test_places_and_schema(asked: Path, tmp_path: Path) -> None:
    found = exported(asked, tmp_path / "out")
    assert {
        "acme__fake/v2/model_meta.json",
        "acme__fake/v2/Plain.json",
        "acme__fake/v2/Patches.json",
        "acme__fake/v2/PatchesChoices.json",
        "acme__fake/v2/experiments/score_itm/Plain.json",
        "acme__fake/v2/experiments/score_lm/model_meta.json",
        "contrapose__tower/tower-1/Plain.json",
    } <= set(found)
    for path, content in found.items():
        file = Path(path)
        if file.name == "model_meta.json":
            meta = ModelMeta.model_validate(content)
            assert file.parts[0] == meta.name.replace("/", "__")
            assert file.parts[1] == meta.revision
            if "experiments" in file.parts:
                assert meta.experiment_kwargs is not None
                assert file.parts[3] == f"score_{meta.experiment_kwargs['score']}"
        else:
            result = TaskResult.model_validate(content)
            assert result.task_name == file.stem
            assert result.date == WHEN.timestamp()
            assert (tmp_path / "out" / file.parent / "model_meta.json").is_file()
            assert [len(entries) for entries in result.scores.values()] == [1]


def test_every_value_is_the_runs(asked: Path, tmp_path: Path) -> None:
    found = exported(asked, tmp_path / "out")
    runs = json.loads((asked / "results.json").read_text())["runs"]
    wanted = {"model": "hf:acme/fake@v2", "benchmark": "patches", "score": "itc"}
    (run,) = (each for each in runs if wanted.items() <= each.items())
    (headline,) = found["acme__fake/v2/Patches.json"]["scores"]["test"]
    assert headline["main_score"] == run["metrics"]["average"]["value"]
    assert headline["hf_subset"] == "default"
    (part,) = found["acme__fake/v2/PatchesPairs.json"]["scores"]["test"]
    value = run["subsets"]["pairs"]["group"]
    assert part["main_score"] == part["group"] == value["value"]
    assert part["group_ci95"] == value["ci95"]
    assert part["group_n"] == value["n"]
    assert part["group_stderr"] == pytest.approx((value["ci95"][1] - value["ci95"][0]) / 3.92)
    assert part["hf_subset"] == "pairs"


def test_names_that_mteb_has_too(given: Path, tmp_path: Path) -> None:
    found = exported(given, tmp_path / "out")
    result = found["contrapose__clip/no_revision_available/Winoground.json"]
    results = Results.model_validate_json((given / "results.json").read_text())
    (scores,) = result["scores"]["test"]
    assert scores["text_acc"] == results.metrics["text"].value
    assert scores["image_acc"] == results.metrics["image"].value
    assert scores["accuracy"] == scores["main_score"] == results.metrics["group"].value


@pytest.mark.parametrize(
    ("model", "name", "revision"),
    [
        ("tiny", "contrapose/tiny", "f-1"),
        ("hf:openai/clip@3d74acf", "openai/clip", "3d74acf"),
        ("hf:openai/clip,dtype=bf16", "openai/clip", "f-1"),
        ("openclip:ViT-B-32/laion2b", "openclip/ViT-B-32_laion2b", "f-1"),
        ("../../etc/passwd", "contrapose/etc_passwd", "f-1"),
        ("hf:../x", "hf/x", "f-1"),
        ("my.py:Mine", "my.py/Mine", "f-1"),
        ("...", "contrapose/unnamed", "f-1"),
    ],
)
def test_names_of_models(model: str, name: str, revision: str) -> None:
    results = Results(
        contrapose="0", benchmark="b", model=model, protocol="strict", aggregation="", examples=0,
        clusters=None, resamples=1, seed=0, metrics={}, subsets={},
    )  # fmt: skip
    run = FolderRun(results, Measurements((), {}, None, {}), {}, "f-1")
    assert model_identity(run) == (name, revision)


def test_mteb_reads_it(asked: Path, tmp_path: Path) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        mteb = pytest.importorskip("mteb")
        meta = import_module("mteb.models.model_meta").ModelMeta
        out = tmp_path / "cache" / "results"
        for path, content in exported(asked, out).items():
            if path.endswith("model_meta.json"):
                meta(**content)
                continue
            result = mteb.results.TaskResult.from_disk(out / path)
            assert result.task_name == Path(path).stem
            (scores,) = content["scores"]["test"]
            assert result.get_score() == pytest.approx(scores["main_score"])
        loaded = mteb.ResultCache(tmp_path / "cache").load_results(
            include_remote=False, load_experiments="match_name"
        )
    assert {model.model_name for model in loaded.model_results} == {
        "acme/fake",
        "contrapose/tower",
    }


@pytest.mark.usefixtures("asked")  # it plugs the benchmark in
def test_runs_without_a_headline(tmp_path: Path) -> None:
    request = EvalRequest(("patches",), scores=("itc",), subsets=("gallery",), resamples=100)
    write_run(evaluate_models([Fake()], request), tmp_path / "gallery")
    found = exported(tmp_path / "gallery", tmp_path / "out")
    tasks = {Path(path).name for path in found}
    assert tasks == {"PatchesGallery.json", "model_meta.json"}
