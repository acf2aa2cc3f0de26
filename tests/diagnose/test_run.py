"""Runs of a diagnosis: the preset `released` against a slow computation of its own."""

from __future__ import annotations

import json
from collections.abc import Iterator
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image

from contrapose.data import Example, ImageRef
from contrapose.data.examples import single_match
from contrapose.diagnose.planning import Baseline
from contrapose.diagnose.run import DiagnoseRequest, diagnose_models
from contrapose.diagnose.words import REPEATED_RELATION
from contrapose.models.openclip import OpenClip
from contrapose.models.options import LoadOptions
from tests.models.hf.small import randomised
from tests.models.openclip.torchvision_parts import import_open_clip

SMALL = {
    "embed_dim": 16,
    "vision_cfg": {"image_size": 32, "layers": 1, "width": 32, "head_width": 8, "patch_size": 8},
    "text_cfg": {"context_length": 77, "vocab_size": 49408, "width": 32, "heads": 4, "layers": 2},
}
THINGS = ("man", "horse", "grass", "in-line skater", "surfboard", "dog", "tall fence", "on-ramp")
RELATIONS = ("riding", "to the left of", "on", "in", "standing next to")


@pytest.fixture(scope="module")
def clip(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Any, Any, Any]]:
    """Small CLIP with random weights: the adapter, the library's network and its tokenizer."""
    library = import_open_clip()
    folder = tmp_path_factory.mktemp("configs")
    (folder / "Least.json").write_text(json.dumps(SMALL))
    paths = library.factory._MODEL_CONFIG_PATHS
    before = list(paths)
    library.add_model_config(folder)
    network = randomised(library.create_model("Least"))
    tokenizer = library.get_tokenizer("Least")
    yield (
        OpenClip("least", "least", network, tokenizer, LoadOptions(), quick=False),
        network,
        tokenizer,
    )
    paths[:] = before
    del library.factory._MODEL_CONFIGS["Least"]


def relations_like_aro(folder: Path, count: int = 40) -> list[Example]:
    """ARO-like examples: the right caption, and the one with its things exchanged."""
    random = np.random.default_rng(3)
    examples = []
    for i in range(count):
        x, y = random.choice(THINGS, 2, replace=False)
        relation = str(random.choice(RELATIONS))
        Image.fromarray(random.integers(0, 256, (32, 32, 3), np.uint8)).save(folder / f"{i}.png")
        captions = (f"the {y} is {relation} the {x}", f"the {x} is {relation} the {y}")
        ref = ImageRef(f"{i}.png", folder / f"{i}.png")
        match = single_match(2, 1)
        examples.append(Example(str(i), (ref,), captions, match, {"relation": relation}))
    return examples


@torch.no_grad()
def slow_sensitivities(network: Any, tokenizer: Any, adapter: Any, example: Example) -> Any:
    """Q_O, Q_R, Q_R&O of one example by the library alone; None where it is dropped."""
    image = adapter.prepare_image(Image.open(str(example.images[0].path)))
    seen = network.encode_image(adapter.normalize_image(image)[None], normalize=True)[0]
    phrase = tokenizer.encode(example.tags["relation"])
    w: list[dict[str, float]] = []
    for caption in example.texts:
        tokens = tokenizer([caption])[0]
        inner = tokenizer.encode(caption)
        if inner.count(phrase[0]) != 1:
            return None
        start = 1 + inner.index(phrase[0])
        relation = list(range(start - 1, start + len(phrase)))  # "is" and the relation
        objects = [p for p in range(1, 1 + len(inner)) if p not in relation]
        v = {}
        for with_objects, with_relation in product((False, True), repeat=2):
            row = tokens.clone()
            if not with_objects:
                row[objects] = 0
            if not with_relation:
                row[relation] = 0
            read = network.encode_text(row[None], normalize=True)[0]
            v[with_objects, with_relation] = float(seen.double() @ read.double())
        w.append(
            {
                "Q_O": v[True, False] - v[False, False],
                "Q_R": v[False, True] - v[False, False],
                "Q_R&O": v[True, True] - v[True, False] - v[False, True] + v[False, False],
            }
        )
    z = sum(value**2 for one in w for value in one.values()) / 6
    return {key: (w[1][key] - w[0][key]) ** 2 / z for key in w[0]}


def test_released_preset_is_the_authors_script(clip: Any, tmp_path: Path) -> None:
    adapter, network, tokenizer = clip
    examples = relations_like_aro(tmp_path)
    slow = {one.id: slow_sensitivities(network, tokenizer, adapter, one) for one in examples}
    dropped = {id_ for id_, one in slow.items() if one is None}
    # “the in-line skater is in the grass” has the token “in” twice, and the word once.
    assert 2 <= len(dropped) < 20
    request = DiagnoseRequest(
        examples, preset="released", baseline=Baseline(text="token-0"), resamples=50
    )
    run = diagnose_models([adapter], request)
    (model,) = run.report.models
    assert {one.example for one in model.left_out} == dropped
    assert {one.reason for one in model.left_out} == {REPEATED_RELATION}
    for key in ("Q_O", "Q_R", "Q_R&O"):
        compared = run.models[0].diagnosis.comparisons["text"]
        column = compared.sensitivities[:, compared.family.keys.index(key)]
        by_example = dict(zip(compared.ids, column.tolist(), strict=True))
        assert set(by_example) == set(slow) - dropped
        for id_, value in by_example.items():
            assert value == pytest.approx(slow[id_][key], rel=1e-3, abs=1e-6)
        mean = np.mean([one[key] for one in slow.values() if one is not None])
        assert model.metrics[key].value == pytest.approx(mean, rel=1e-4)
    assert "as released" in (run.report.words or "")
