"""mteb's own evaluator and CLIP wrapper, driven as `mteb.evaluate` drives them for SugarCrepe.

Where mteb itself cannot be imported, because one of its many requirements is missing, the same
module files are imported without their packages' `__init__`, unmodified; only the data set's class
and the base classes that do nothing here are then stood in for.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from importlib import import_module
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np

from scorejob.job import Job
from scorejob.ways import Asked, Scores, Way

EVALUATOR = "mteb._evaluators.image.imagetext_pairclassification_evaluator"
CLIP = "mteb.models.model_implementations.clip_models"
IMAGES, TEXTS = ("images",), ("caption", "negative_caption")
"""Columns, as mteb's task SugarCrepe names them."""
BATCH = 32
"""What `mteb.evaluate` takes when the user does not say. Its evaluator gives it to captions only:
images go to the model one at a time."""


def mteb_way(weights: Path, device: str) -> Way | None:
    """mteb, or None where there is none of it."""
    if find_spec("mteb") is None:
        return None
    try:
        import_module("mteb")
        whole = True
    except ImportError:
        _stand_in()
        whole = False
    note = f"mteb {_version()}: ImageTextPairClassificationEvaluator, CLIPModel, unmodified" + (
        "" if whole else "; the datasets library stood in for"
    )

    def load() -> Asked:
        evaluator = import_module(EVALUATOR).ImageTextPairClassificationEvaluator
        model = import_module(CLIP).CLIPModel(str(weights), revision=None, device=device)
        timing = import_module("mteb.timing").TimingStack

        def ask(job: Job) -> Scores:
            evaluate = evaluator(
                _dataset(job),
                images_column_names=IMAGES,
                texts_column_names=TEXTS,
                num_images_per_sample=1,
                num_texts_per_sample=2,
                task_metadata=None,
                hf_split="test",
                hf_subset="default",
                timer=timing(),
            )
            encode_kwargs = {"batch_size": BATCH, "show_progress_bar": False}
            scores = evaluate(model, encode_kwargs=encode_kwargs)
            return np.stack([each.double().numpy().reshape(2) for each in scores])

        return ask

    return Way("mteb", "fp32", load, note)


def _version() -> str:
    try:
        return version("mteb")
    except PackageNotFoundError:
        return "of an unknown version"


def _dataset(job: Job) -> Any:
    columns = {
        "images": [str(job.images / row.image) for row in job.rows],
        "caption": [row.caption for row in job.rows],
        "negative_caption": [row.negative for row in job.rows],
    }
    datasets = import_module("datasets")
    found = datasets.Dataset.from_dict(columns)
    return found.cast_column("images", datasets.Image())


class Rows:
    """As much of `datasets.Dataset` as mteb's evaluator touches, decoding as it does."""

    def __init__(self, columns: dict[str, list[Any]], images: tuple[str, ...] = ()) -> None:
        self.columns, self.images, self.features = columns, images, dict.fromkeys(columns)

    @classmethod
    def from_dict(cls, columns: dict[str, list[Any]]) -> Rows:
        """From lists."""
        return cls(columns)

    def cast_column(self, name: str, _: object) -> Rows:
        """The same with a column of paths as images."""
        return Rows(self.columns, (*self.images, name))

    def __len__(self) -> int:
        return len(next(iter(self.columns.values())))

    def __getitem__(self, index: int) -> dict[str, Any]:
        return {
            name: self._decoded(values[index]) if name in self.images else values[index]
            for name, values in self.columns.items()
        }

    def __iter__(self) -> Iterator[dict[str, Any]]:
        return (self[i] for i in range(len(self)))

    @staticmethod
    def _decoded(path: str) -> Any:
        from PIL import Image

        image = Image.open(path)
        image.load()
        return image


def _stand_in() -> None:
    """Packages without their `__init__`, and stand-ins for what is imported but does nothing."""
    for name in [name for name in sys.modules if name.split(".")[0] in ("mteb", "datasets")]:
        del sys.modules[name]  # left over from the import that failed
    found = find_spec("mteb")
    if found is None or not found.submodule_search_locations:
        raise SystemExit("mteb is not there")
    root = Path(next(iter(found.submodule_search_locations)))
    packages = {".".join(name.split(".")[:i]) for name in (EVALUATOR, CLIP) for i in range(1, 4)}
    for name in sorted(packages):
        package = ModuleType(name)
        package.__path__ = [str(root.joinpath(*name.split(".")[1:]))]
        sys.modules[name] = package

    class Anything:
        COSINE = "cosine"

        def __init__(self, *_: object, **__: object) -> None: ...

    stand_ins: dict[str, dict[str, Any]] = {
        "datasets": {"Dataset": Rows, "Image": Anything},
        "mteb.types": {"ConversationTurn": Anything, "PromptType": Anything},
        "mteb.models.abs_encoder": {"AbsEncoder": object},
        "mteb.models.model_meta": {"ModelMeta": Anything, "ScoringFunction": Anything},
    }
    for name, holds in stand_ins.items():
        module = ModuleType(name)
        module.__dict__.update(holds)
        sys.modules[name] = module
