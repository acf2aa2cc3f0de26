from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from contrapose.errors import InputError
from contrapose.losses.gather import Processes
from contrapose.models import load_model
from contrapose.models.masking.text import full_captions, hide
from contrapose.models.tiny.weights import WEIGHT_FILE
from contrapose.tune.feed import Feed
from contrapose.tune.objective import parse_objective
from contrapose.tune.settings import Settings
from contrapose.tune.students import load_student
from contrapose.tune.trainer import train
from tests.models.hf.small import save_clip, save_siglip
from tests.models.hf.small_fusion import bert_tokenizer, hf, saved
from tests.models.hf.test_blip import config, processor
from tests.tune.small import small_rows, small_student, weights

KINDS = ("clip", "siglip", "blip")
SETTINGS = Settings(steps=2, batch=4, rate=1e-3, save_every=0, log_every=1)


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    root = tmp_path_factory.mktemp("models")
    save_clip(root / "clip")
    save_siglip(root / "siglip")
    (root / "blip").mkdir()
    saved(root / "blip", hf.BlipForImageTextRetrieval(config()), bert_tokenizer(), processor())
    return {kind: root / kind for kind in KINDS}


def vectors(model: Any) -> tuple[torch.Tensor, torch.Tensor]:
    images = small_rows(kept=False).images.open(range(4))
    return model.embed_images(images), model.embed_texts(["a red dog", "the blue cat"])


@pytest.mark.parametrize("kind", KINDS)
def test_the_trained_network_gives_the_scores(kind: str, folders: dict[str, Path]) -> None:
    student: Any = load_student(str(folders[kind]))
    rows = small_rows(kept=False)
    with torch.no_grad():
        seen = student.see(student.pixels(rows.images, range(4))).vectors
        read = student.read(student.tokens(["a red dog", "the blue cat"]))
    asked = vectors(student.model)
    torch.testing.assert_close(seen, asked[0], rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(read, asked[1], rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("kind", KINDS)
def test_hidden_words_are_hidden_as_when_asked(kind: str, folders: dict[str, Path]) -> None:
    student: Any = load_student(str(folders[kind]))
    assert student.hides
    texts = ["a red dog", hide("the blue cat", [(4, 8)]), hide("the blue cat", [(4, 8), (9, 12)])]
    tokens = student.tokens(full_captions(texts))
    flags = student.flags(texts, tokens)
    assert flags.any(dim=1).tolist() == [False, True, True]
    assert not student.flags(["a red dog"], tokens).any()
    weight = student._words.weight.requires_grad_()
    read = student.read(tokens, flags)
    torch.testing.assert_close(
        read.detach(), student.model.embed_texts(texts), rtol=1e-4, atol=1e-5
    )
    whole = student.read(tokens).detach()
    assert torch.allclose(read[0], whole[0], atol=1e-5)
    assert not torch.allclose(read[1], whole[1], atol=1e-4)
    (slope,) = torch.autograd.grad(read[2].sum(), weight)
    ids = tokens["input_ids"][2]
    gone = sorted(set(ids[flags[2]].tolist()) - set(ids[~flags[2]].tolist()))
    assert gone
    assert slope.any()
    assert not slope[gone].any()


@pytest.mark.parametrize("kind", KINDS)
def test_masked_captions_are_trained(kind: str, folders: dict[str, Path]) -> None:
    student: Any = load_student(str(folders[kind]))
    trained = train(student, small_rows(kept=False), parse_objective("dividend+hn"), SETTINGS)
    assert trained.losses["dividend"] > 0


def test_a_match_is_what_is_asked(folders: dict[str, Path]) -> None:
    student: Any = load_student(str(folders["blip"]))
    rows = small_rows(kept=False)
    with torch.no_grad():
        states = student.see(student.pixels(rows.images, [0, 1])).states
        found = student.match(states, student.tokens(["a red dog", "the blue cat"]))
    asked = student.model.match(rows.images.open([0, 1]), ["a red dog", "the blue cat"])
    torch.testing.assert_close(found, asked, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("kind", KINDS)
def test_tuned_it_loads_by_its_folder(kind: str, folders: dict[str, Path], tmp_path: Path) -> None:
    student: Any = load_student(str(folders[kind]))
    before = vectors(student.model)
    trained = train(student, small_rows(kept=False), parse_objective("hp+hn"), SETTINGS)
    wanted = {"contrast", "hn", "hp"} | ({"itm", "itm_hn", "itm_hp"} if kind == "blip" else set())
    assert set(trained.losses) == wanted
    student.save(tmp_path, {})
    after = vectors(student.model)
    for side in range(2):
        assert not torch.allclose(after[side], before[side])
        loaded = vectors(load_model(str(tmp_path)))
        torch.testing.assert_close(loaded[side], after[side], rtol=1e-5, atol=1e-6)


def test_siglip_is_trained_with_its_own_loss(folders: dict[str, Path]) -> None:
    student: Any = load_student(str(folders["siglip"]))
    assert student.contrast == "sigmoid"
    before = float(student.network.logit_bias.detach())
    train(student, small_rows(kept=False), parse_objective("plain"), SETTINGS)
    assert float(student.network.logit_bias.detach()) != before


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("side", ["image", "text"])
def test_towers_are_whole(kind: str, side: Any, folders: dict[str, Path]) -> None:
    student: Any = load_student(str(folders[kind]))
    before = vectors(student.model)
    settings = Settings(steps=2, batch=4, rate=1e-3, save_every=0, freeze=(side,))
    train(student, small_rows(kept=False), parse_objective("plain"), settings)
    after = vectors(student.model)
    frozen, free = (0, 1) if side == "image" else (1, 0)
    assert torch.equal(after[frozen], before[frozen])
    assert not torch.allclose(after[free], before[free])


@pytest.mark.parametrize("fusion", [False, True])
def test_a_built_in_one_loads_by_its_folder(fusion: bool, tmp_path: Path) -> None:
    student = small_student(fusion=fusion)
    student.save(tmp_path, {"with": "hn"})
    assert [each.name for each in tmp_path.iterdir()] == [WEIGHT_FILE]
    loaded: Any = load_model(str(tmp_path))
    for name, weight in loaded.network.state_dict().items():
        torch.testing.assert_close(weight, weights(student)[name], rtol=1e-3, atol=1e-4)
    cut: Any = load_model(f"{tmp_path},long=cut")
    assert cut.cuts
    again = load_student(str(tmp_path))
    assert again.matches == fusion


def test_images_of_another_size_are_prepared() -> None:
    student = small_student()
    rows = small_rows()
    kept = student.pixels(rows.images, [0, 1])["pixels"]
    assert kept.dtype == torch.uint8
    prepared = student.pixels(small_rows(kept=False).images, [0, 1])["pixels"]
    with torch.no_grad():
        one, other = (student.see({"pixels": p}).vectors for p in (kept, prepared))
    torch.testing.assert_close(one, other)


def test_models_that_cannot_be_trained_are_refused(folders: dict[str, Path]) -> None:
    with pytest.raises(InputError, match="float32"):
        load_student("tiny-clip,dtype=bf16")
    with pytest.raises(InputError, match="cannot be tuned here"):
        load_student("tests.tune.test_students:Strange")


class Strange:
    """A model of one's own."""

    name, fingerprint, batch_size = "strange", "strange", 1


COARSE_SETTINGS = Settings(steps=4, batch=6, rate=1e-2, save_every=2, log_every=1)


def test_vectors_are_those_of_the_model_before_training() -> None:
    student = small_student(fusion=True)
    feed = Feed(small_rows(), student, COARSE_SETTINGS, needs={"coarse"})
    batch = feed.batch(3)
    with torch.no_grad():
        image, text = student.see(batch.pixels).vectors, student.read(batch.text)
        assert batch.coarse is not None
        torch.testing.assert_close(batch.coarse[0], image)
        torch.testing.assert_close(batch.coarse[1], text)
        for weight in student.network.parameters():
            weight.add_(0.1)
    again = feed.batch(3)
    assert again.coarse is not None
    assert torch.equal(again.coarse[0], batch.coarse[0])
    assert again.seed == batch.seed != feed.batch(2).seed
    assert Feed(small_rows(), student, COARSE_SETTINGS).batch(3).coarse is None


def test_only_what_is_trained_on_is_encoded() -> None:
    """A process encodes its part of the batches of the run."""
    student = small_student(fusion=True)
    settings = replace(COARSE_SETTINGS, steps=1)
    feed = Feed(small_rows(), student, settings, needs={"coarse"}, job=Processes(1, 2))
    assert feed.coarse is not None
    batch = feed.batch(0)
    assert feed.coarse.rows.tolist() == sorted(batch.rows.tolist())
    assert feed.coarse.texts.tolist() == np.unique(batch.captions.numpy()).tolist()
    assert student.network.training is False


def test_a_resumed_run_samples_the_same_pairs(tmp_path: Path) -> None:
    objective = parse_objective("eqsim:sampled=3:close=1")
    unbroken = small_student(fusion=True)
    train(unbroken, small_rows(), objective, COARSE_SETTINGS, folder=tmp_path / "unbroken")
    for name in ("log.jsonl", "checkpoints/step-00000004.safetensors"):
        (tmp_path / "unbroken" / name).unlink()
    resumed = small_student(fusion=True)
    train(
        resumed, small_rows(), objective, COARSE_SETTINGS, folder=tmp_path / "unbroken", resume=True
    )  # fmt: skip
    expected = weights(unbroken)
    assert all(torch.equal(it, expected[name]) for name, it in weights(resumed).items())
