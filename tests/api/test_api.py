"""The public names: imported lazily, strings or objects, one or many."""

from __future__ import annotations

import inspect
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest
from PIL import Image

import contrapose as cp
from contrapose.data import ImageRef
from contrapose.data.examples import single_match
from contrapose.errors import InputError
from contrapose.models.function import FunctionModel
from tests.fakes import Fake


@pytest.fixture
def examples(tmp_path: Path) -> list[cp.Example]:
    """Two images, each with a right and a wrong caption."""
    made = []
    for right, (name, color) in enumerate((("dark", 0), ("bright", 255))):
        Image.new("RGB", (4, 4), (color,) * 3).save(tmp_path / f"{name}.png")
        image = ImageRef(name, tmp_path / f"{name}.png")
        texts = ("something dark", "something bright")
        made.append(cp.Example(name, (image,), texts, single_match(2, right), {"subset": name}))
    return made


def brightness(image: Image.Image, text: str) -> float:
    value = image.convert("L").resize((1, 1)).getpixel((0, 0))
    assert isinstance(value, int)
    return value if "bright" in text else 255 - value


def test_import_is_light() -> None:
    code = (
        "import sys, contrapose as cp; dir(cp); "
        "print([name for name in ('torch', 'numpy', 'pydantic', 'typer') if name in sys.modules])"
    )
    ran = subprocess.run(  # noqa: S603 - our own interpreter
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )
    assert ran.stdout.strip() == "[]"


def test_every_name_is_there() -> None:
    assert set(cp.__all__) <= set(dir(cp))
    for name in cp.__all__:
        assert getattr(cp, name) is not None
    with pytest.raises(AttributeError, match="nothing"):
        cp.nothing  # noqa: B018


@pytest.mark.parametrize("name", ["models", "scores", "diagnose", "tune"])
def test_subpackages_can_be_called(name: str) -> None:
    module = getattr(cp, name)
    assert isinstance(module, ModuleType)
    assert sys.modules[f"contrapose.{name}"] is module
    assert callable(module)
    assert inspect.signature(module) == inspect.signature(cp._public(name))


def test_the_module_is_a_command() -> None:
    ran = subprocess.run(
        [sys.executable, "-m", "contrapose", "--version"],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert ran.stdout.strip() == f"contrapose {cp.__version__}"


def test_a_function_on_examples_in_memory(examples: list[cp.Example]) -> None:
    run = cp.evaluate(brightness, on=examples)
    assert isinstance(run, cp.Run)
    assert (run.model, run.benchmark, run.score) == ("brightness", "examples", "itm")
    assert run.metrics["accuracy"].value == 1
    low, high = run.metrics["accuracy"].ci95 or (0, 0)
    assert (0.1 < low < 0.2, high) == (True, 1)  # two of two: Clopper–Pearson
    assert [row["scores"] for row in run.examples()] == [[[255.0, 0.0]], [[0.0, 255.0]]]
    assert set(run.subsets) == {"dark", "bright"}


def test_images_in_memory_are_scored_and_saved_as_files_are(
    examples: list[cp.Example], tmp_path: Path
) -> None:
    given = []
    for example in examples:
        with Image.open(example.images[0].path or "") as image:
            images = (image,)
            given.append(cp.Example(example.id, images, example.texts, example.match))  # type: ignore[arg-type]
    run = cp.evaluate(brightness, on=given)
    assert isinstance(run, cp.Run)
    assert [row["scores"] for row in run.examples()] == [[[255.0, 0.0]], [[0.0, 255.0]]]
    run.save(tmp_path / "run")
    loaded = cp.load_run(tmp_path / "run")
    assert isinstance(loaded, cp.Run)
    assert loaded.metrics == run.metrics
    assert "data:image" in (tmp_path / "run" / "report.html").read_text(encoding="utf-8")
    stored = cp.evaluate("tiny-clip", on=given, cache=tmp_path / "cache")
    files = cp.evaluate("tiny-clip", on=examples, cache=False)
    assert isinstance(stored, cp.Run)
    assert isinstance(files, cp.Run)
    assert [row["scores"] for row in stored.examples()] == [
        row["scores"] for row in files.examples()
    ]


def test_a_function_is_never_stored(examples: list[cp.Example], tmp_path: Path) -> None:
    cp.evaluate(brightness, on=examples, cache=tmp_path / "cache")
    assert not list((tmp_path / "cache").rglob("*.parquet"))
    worse = cp.evaluate(lambda image, text: 0.0, on=examples, cache=tmp_path / "cache")
    assert isinstance(worse, cp.Run)
    assert worse.metrics["accuracy"].value == 0


def test_several_functions_are_told_apart(examples: list[cp.Example]) -> None:
    functions = [lambda image, text: 0.0, lambda image, text: float(len(text))]
    runs = cp.evaluate(functions, on=examples)
    assert [run.model for run in runs] == ["<lambda>", "<lambda>-2"]
    assert FunctionModel(brightness).fingerprint != FunctionModel(brightness).fingerprint


def test_one_or_many(examples: list[cp.Example]) -> None:
    model = Fake()
    one = cp.evaluate(model, on=examples, score="itc", cache=False)
    assert isinstance(one, cp.Run)
    assert list(one) == [one]
    listed = cp.evaluate([model], on=[examples], score="itc", cache=False)
    assert isinstance(listed, cp.Runs)
    assert listed == cp.Runs([one])
    several = cp.evaluate(model, on=examples, score=["itc", "itm"], cache=False)
    assert [run.score for run in several] == ["itc", "itm"]


def test_loaded_benchmarks_keep_their_root(examples: list[cp.Example], tmp_path: Path) -> None:
    named = cp.load_benchmark(examples, name="light")
    run = cp.evaluate(brightness, on=named)
    assert isinstance(run, cp.Run)
    assert run.benchmark == "light"
    (tmp_path / "mine.csv").write_text("image,text_0,text_1,right\ndark.png,dark,bright,0\n")
    mine = cp.load_benchmark(tmp_path / "mine.csv")
    assert next(iter(cp.evaluate(brightness, on=mine))).metrics["accuracy"].value == 1


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"limit": 0}, r"^limit must be at least 1"),
        ({"batch_size": 0}, r"^batch_size must be at least 1"),
        ({"cache_use": "missing"}, r"^cache_use cannot be 'missing'.*reuse"),
        ({"long": "trim"}, r"^long cannot be 'trim'"),
        ({"alpha": 2}, r"^alpha must be auto or a number from 0 to 1"),
        ({"rerank": "some"}, r"^rerank must be a number or all"),
        ({"resamples": 3}, r"^resamples must be at least 100"),
    ],
)  # fmt: skip
def test_errors_name_arguments(
    examples: list[cp.Example], options: dict[str, object], message: str
) -> None:
    with pytest.raises(InputError, match=message):
        cp.evaluate(brightness, on=examples, **options)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("bad", "said"),
    [
        ({"seed": -1}, "seed must be at least 0"),
        ({"limit": 0}, "limit must be at least 1"),
        ({"resamples": 99}, "resamples must be at least 100"),
        ({"cache_use": "reused"}, "cache_use.*reuse"),
        ({"dtype": "fp8"}, "fp8"),
    ],
)
def test_verbs_share_their_options(
    bad: dict[str, object], said: str, examples: list[cp.Example]
) -> None:
    for call in (
        lambda: cp.evaluate(brightness, on=examples, **bad),  # type: ignore[arg-type]
        lambda: cp.audit(examples, lm="none", **bad),  # type: ignore[arg-type]
        lambda: cp.diagnose("tiny-clip", on=examples, **bad),  # type: ignore[arg-type]
    ):
        with pytest.raises(InputError, match=said):
            call()


@pytest.mark.parametrize(
    ("model", "on", "message"),
    [
        (Fake, "scenes", "is a class"),
        (3, "scenes", "a model is a string"),
        ([], "scenes", "no model"),
        (brightness, 3, "not iterable|a benchmark is"),
        (brightness, [], "names no benchmark|no benchmark"),
    ],
)
def test_what_is_no_model_or_benchmark(model: object, on: object, message: str) -> None:
    with pytest.raises((InputError, TypeError), match=message):
        cp.evaluate(model, on=on)  # type: ignore[arg-type]
