"""`--with heads`: the model stays as it is, and a map a side is learnt on its vectors."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch.nn.functional import normalize

from contrapose.errors import InputError
from contrapose.models import load_model
from contrapose.models.conformance import check_model
from contrapose.models.joined import JoinedSpec, Side, read_joined
from contrapose.models.tiny.model import TinyClip
from contrapose.tune import run as running
from contrapose.tune.heads import CaptionedImages, read_features, write_features
from contrapose.tune.report import Guard
from contrapose.tune.run import tune
from contrapose.tune.settings import HeadSettings, Settings, TuneRequest
from tests.models.hf.small import save_clip, save_siglip
from tests.tune.small import class_folders, small_student, write_pairs

WAYS = ("image_to_text", "text_to_image")
HEADS = HeadSettings(tau=0.1, epochs=6, batch_size=8)
COUNT = 16


@pytest.fixture(scope="module")
def pairs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_pairs(tmp_path_factory.mktemp("pairs"), COUNT)


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("small")
    small_student().save(folder, {})
    return folder


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many images the built-in model was shown, call by call."""
    counts: list[int] = []
    plain: Any = TinyClip.embed_images

    def counted(self: Any, images: Any) -> Any:
        counts.append(len(images))
        return plain(self, images)

    monkeypatch.setattr(TinyClip, "embed_images", counted)
    return counts


def request(model: Path | str, pairs: Path, out: Path, **changes: Any) -> TuneRequest:
    plain = TuneRequest(
        str(model), str(pairs), out, "heads", heads=HEADS, held_out=0.25, device="cpu"
    )
    return replace(plain, **changes)


def test_the_whole_way(model: Path, pairs: Path, tmp_path: Path) -> None:
    out = tmp_path / "tuned"
    before = (model / "contrapose-tiny.safetensors").read_bytes()
    tuned = tune(request(model, pairs, out))
    assert (model / "contrapose-tiny.safetensors").read_bytes() == before
    assert {each.name for each in out.iterdir()} == {"training", "joined.json", "heads.safetensors"}
    plain: Any = load_model(str(model), cut=True)
    found: Any = load_model(str(out), cut=True)
    heads = read_joined(out)[1]
    assert heads["image.weight"].shape == (8, 8)
    texts = ["a red ball", "the blue cube"]
    own = plain.embed_texts(texts)
    expected = normalize(own @ heads["text.weight"].T + heads["text.bias"], dim=1)
    torch.testing.assert_close(found.embed_texts(texts), expected)
    assert not torch.allclose(found.embed_texts(texts), own, atol=1e-3)
    assert tuned.bill is not None
    names = [item.name for item in tuned.bill.items]
    assert {"replacements/accuracy", "close-pairs/group", "retrieval/image_to_text_r1"} <= set(
        names
    )
    assert not any(name.startswith("itm_") for name in names)
    assert tuned.trained.step == 12 * 2 * 6 // 8
    log = [json.loads(line) for line in (out / "training/log.jsonl").read_text().splitlines()]
    assert [line["step"] for line in log] == [10, 18]
    assert log[-1]["contrast"] == tuned.trained.losses["contrast"]
    said = json.loads((out / "training/request.json").read_text())
    assert said["objective"] == {"name": "heads"}
    assert said["heads"]["tau"] == 0.1


def test_before_is_the_model_itself(model: Path, pairs: Path, tmp_path: Path) -> None:
    """And after is what the loop alone measures with the same model."""
    plain = Settings(steps=1, batch=4, rate=1e-9, save_every=0)
    one = tune(request(model, pairs, tmp_path / "heads"))
    other = tune(
        request(model, pairs, tmp_path / "full", objective="plain", settings=plain, heads=None)
    )
    assert one.bill is not None
    assert other.bill is not None
    assert [item.name for item in one.bill.items] == [item.name for item in other.bill.items]
    for mine, theirs in zip(one.bill.items, other.bill.items, strict=True):
        assert mine.before == pytest.approx(theirs.before, abs=1e-6)
    assert any("zero_shot" in note for note in one.bill.notes)


def test_heads_begin_where_the_model_is(model: Path, pairs: Path, tmp_path: Path) -> None:
    tune(request(model, pairs, tmp_path / "out", heads=replace(HEADS, lr=1e-12)))
    plain: Any = load_model(str(model), cut=True)
    found: Any = load_model(str(tmp_path / "out"), cut=True)
    texts = ["a red ball", "the blue cube", "a white tube"]
    torch.testing.assert_close(
        found.embed_texts(texts), plain.embed_texts(texts), rtol=1e-3, atol=1e-4
    )


def test_the_model_is_asked_once(
    model: Path, pairs: Path, tmp_path: Path, asked: list[int]
) -> None:
    out = tmp_path / "tuned"
    first = tune(request(model, pairs, out))
    held = 4
    assert sum(asked) == (COUNT - held) + 2 * held
    weights = read_joined(out)[1]
    for changes in ({"resume": True}, {"overwrite": True}):
        asked.clear()
        again = tune(request(model, pairs, out, **changes))
        assert sum(asked) == 2 * held
        assert again.trained.losses == first.trained.losses
        for name, head in read_joined(out)[1].items():
            assert torch.equal(head, weights[name])
    asked.clear()
    tune(request(model, pairs, out, overwrite=True, settings=Settings(seed=1)))
    assert sum(asked) == (COUNT - held) + 2 * held, "other images were held out"


def test_another_model_or_a_changed_image_is_asked_again(
    pairs: Path, tmp_path: Path, asked: list[int]
) -> None:
    from PIL import Image

    root = tmp_path / "pairs"
    root.mkdir()
    own = write_pairs(root, COUNT)
    out, folders = tmp_path / "tuned", [tmp_path / "a", tmp_path / "b"]
    for seed, folder in enumerate(folders):
        folder.mkdir()
        small_student(seed=seed).save(folder, {})
    tune(request(folders[0], own, out))
    asked.clear()
    tune(request(folders[1], own, out, overwrite=True))
    assert sum(asked) == 12 + 8
    features = read_features(out / "training/features", "train")
    other: Any = load_model(str(folders[1]), cut=True)
    learnt = json.loads((out / "training/features/joined.json").read_text())
    assert learnt["image"]["source"] == str(folders[1].resolve())
    assert features.texts.shape == (24, 8)
    asked.clear()
    for i in range(COUNT):
        Image.new("RGB", (30, 30), (i, 9, 9)).save(root / f"{i}.png")
    tune(request(folders[1], own, out, overwrite=True))
    assert sum(asked) == 12 + 8
    assert other.name


@pytest.mark.parametrize("kind", ["clip", "siglip", "tiny"])
def test_kinds_of_models(kind: str, pairs: Path, tmp_path: Path) -> None:
    source = tmp_path / kind
    if kind == "tiny":
        source.mkdir()
        small_student(fusion=True).save(source, {})
    else:
        (save_clip if kind == "clip" else save_siglip)(source)
    out = tmp_path / "tuned"
    tuned = tune(request(source, pairs, out))
    assert tuned.bill is not None
    assert check_model(load_model(str(out), cut=True)).failed == ()


def test_a_model_on_scenes(model: Path, tmp_path: Path) -> None:
    plain = request(model, Path("scenes"), tmp_path / "tuned", scenes=12, examples=2)
    tuned = tune(replace(plain, zero_shot=class_folders(tmp_path / "c", classes=3, each=2)))
    assert tuned.bill is not None
    names = [item.name for item in tuned.bill.items]
    assert {"swaps/accuracy", "naming/top1", "zero-shot/top1"} <= set(names)
    assert "zero-shot/top5" not in names


def test_steps_and_heads_that_stop(
    model: Path, pairs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[int] = []

    class Late(Guard):
        def __call__(self, step: int) -> tuple[str, bool]:
            seen.append(step)
            self.evaluator.measure(None)
            return ("too much was lost" if step == 5 else ""), step == 2 and bool(self.best)

    monkeypatch.setattr(running, "Guard", Late)
    heads = replace(HEADS, steps=7)
    guards = {"replacements": 0.1}
    tuned = tune(request(model, pairs, tmp_path / "a", heads=heads, guards=guards))
    assert seen == [1, 2, 3, 4, 5]
    assert tuned.bill is not None
    assert any("too much was lost" in note for note in tuned.bill.notes)
    assert any("step 4" in note for note in tuned.bill.notes)
    tuned = tune(request(model, pairs, tmp_path / "b", heads=heads, best="mean_score"))
    assert tuned.bill is not None
    assert any("step 2" in note for note in tuned.bill.notes)
    one, other = (read_joined(tmp_path / each)[1]["image.weight"] for each in "ab")
    assert not torch.equal(one, other)


def test_what_guards_measure_is_what_is_saved(model: Path, pairs: Path, tmp_path: Path) -> None:
    kept: list[dict[str, float]] = []

    class Kept(Guard):
        def __call__(self, step: int) -> tuple[str, bool]:
            found = super().__call__(step)
            kept.append(self.history[-1][1])
            return found

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(running, "Guard", Kept)
        tuned = tune(request(model, pairs, tmp_path / "a", guards={"replacements": 1.0}))
    assert tuned.bill is not None
    after = {item.name: item.after for item in tuned.bill.items}
    assert kept[-1] == pytest.approx(after, abs=1e-4)


def test_cached_features_of_the_model(model: Path, pairs: Path, tmp_path: Path) -> None:
    first = tmp_path / "first"
    tune(request(model, pairs, first))
    cached = first / "training/features"
    zero_shot = class_folders(tmp_path / "c", classes=3, each=2)
    tuned = tune(request(model, cached, tmp_path / "second", zero_shot=zero_shot))
    assert tuned.bill is not None
    assert {item.name for item in tuned.bill.items} == {
        *(f"retrieval/{way}_r{k}" for way in WAYS for k in (1, 5, 10)),
        "zero-shot/top1",
    }
    assert tuned.bill.item("image_to_text_r1").n == 3
    load_model(str(tmp_path / "second"))
    with pytest.raises(InputError, match="pass losses='heads'"):
        tune(request(model, cached, tmp_path / "third", objective="hn", heads=None))
    other = tmp_path / "other"
    other.mkdir()
    small_student(seed=1).save(other, {})
    with pytest.raises(InputError, match=r"was made by .* tune heads features"):
        tune(request(other, cached, tmp_path / "third"))
    assert not (tmp_path / "third").exists()


def test_features_of_other_encoders(model: Path, pairs: Path, tmp_path: Path) -> None:
    draw = np.random.default_rng(0)
    np.save(tmp_path / "train_images.npy", draw.normal(size=(9, 5)).astype(np.float32))
    np.save(tmp_path / "train_texts.npy", draw.normal(size=(9, 8)).astype(np.float32))
    with pytest.raises(InputError, match=r"5 numbers for images and 8 .* tune heads features"):
        tune(request(model, tmp_path, tmp_path / "out"))


def test_features_written_by_hand(model: Path, tmp_path: Path) -> None:
    """`write_features` with a whole model gives its own vectors."""
    side = Side(str(model), kind="model")
    pictures = [small_picture(i) for i in range(4)]
    captions = [["a red ball", "a ball"], ["a red ball"], ["a blue cube"], ["a tube"]]
    write_features(
        tmp_path / "f", JoinedSpec(side, side), {"train": CaptionedImages(iter(pictures), captions)}
    )
    found = read_features(tmp_path / "f", "train")
    plain: Any = load_model(str(model))
    flat = [caption for each in captions for caption in each]
    np.testing.assert_allclose(found.images, plain.embed_images(pictures), atol=1e-6)
    np.testing.assert_allclose(found.texts, plain.embed_texts(flat), atol=1e-6)
    assert found.image_of_text.tolist() == [0, 0, 1, 2, 3]


def small_picture(i: int) -> Any:
    from PIL import Image

    return Image.new("RGB", (24, 24), (60 * i, 255 - 60 * i, 30))


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"settings": Settings(lora=4)}, "lora cannot go with losses='heads'"),
        ({"settings": Settings(freeze=("image",), pieces=2)}, "freeze and accumulate cannot"),
        ({"settings": Settings(ema=0.9)}, "ema"),
        ({"settings": Settings(dtype="bf16")}, "dtype"),
        ({"settings": Settings(save_every=5)}, "save_every"),
        ({"teacher": "tiny"}, "teacher"),
        ({"objective": "heads+hn"}, "stands alone"),
        ({"objective": "hn"}, "are for losses"),
        ({"guards": {"nonsense": 0.1}}, "no metric"),
        ({"held_out": 2.0}, "held_out"),
        ({"resume": True}, "no run to resume"),
    ],
)
def test_what_is_refused(
    model: Path, pairs: Path, tmp_path: Path, changes: dict[str, Any], said: str
) -> None:
    with pytest.raises(InputError, match=said):
        tune(request(model, pairs, tmp_path / "out", **changes))
    assert not (tmp_path / "out").exists()


OWN = """
class Own:
    name, fingerprint, batch_size = "own", "own", 4

class Vectors(Own):
    def embed_images(self, images): ...
    def embed_texts(self, texts): ...

class Several(Vectors):
    pool = "max"
"""


@pytest.mark.parametrize(
    ("kind", "said"),
    [("Own", "gives no vectors"), ("Several", "several vectors"), ("Vectors", "does not say how")],
)
def test_models_that_take_no_heads(pairs: Path, tmp_path: Path, kind: str, said: str) -> None:
    (tmp_path / "own.py").write_text(OWN)
    with pytest.raises(InputError, match=said):
        tune(request(f"{tmp_path / 'own.py'}:{kind}", pairs, tmp_path / "out"))
    assert not (tmp_path / "out").exists()


def test_several_processes_are_refused(
    model: Path, pairs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WORLD_SIZE", "2")
    with pytest.raises(InputError, match="without torchrun"):
        tune(request(model, pairs, tmp_path / "out"))


def test_heads_on_heads_but_not_on_themselves(model: Path, pairs: Path, tmp_path: Path) -> None:
    first, second = tmp_path / "first", tmp_path / "second"
    tune(request(model, pairs, first))
    tune(request(f"joined:{first}", pairs, second))
    load_model(str(second))
    with pytest.raises(InputError, match="is the model itself"):
        tune(request(first, pairs, first, overwrite=True))
    load_model(str(first))
    said = json.loads((first / "joined.json").read_text())
    said["image"]["source"] = said["text"]["source"] = str(first)
    (first / "joined.json").write_text(json.dumps(said))
    with pytest.raises(InputError, match="names itself"):
        load_model(str(first))


def test_a_loss_that_is_no_number(model: Path, pairs: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    with pytest.raises(InputError, match="no longer a number"):
        tune(request(model, pairs, out, heads=replace(HEADS, lr=1e38)))
    assert not (out / "heads.safetensors").exists()
    tune(request(model, pairs, out, resume=True))
    load_model(str(out))


def test_code_that_the_user_names_is_loaded_again(model: Path, pairs: Path, tmp_path: Path) -> None:
    code = tmp_path / "mine.py"
    code.write_text(
        "from contrapose.models import load_model\n"
        f"def load(cut=False, dtype='fp32'):\n    return load_model({str(model)!r}, cut=cut)\n"
    )
    out = tmp_path / "tuned"
    tune(request(f"{code}:load", pairs, out))
    with pytest.raises(InputError, match="trust_remote_code"):
        load_model(str(out))
    load_model(str(out), trust_remote_code=True)
