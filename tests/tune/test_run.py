from __future__ import annotations

import json
import sys
import types
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from PIL import Image

from contrapose.errors import InputError, MissingExtraError
from contrapose.models import load_model
from contrapose.tune import run as running
from contrapose.tune.report import Guard
from contrapose.tune.run import tune
from contrapose.tune.settings import Settings, TuneRequest
from contrapose.tune.students import TinyStudent
from tests.tune.small import class_folders, small_student, write_pairs

SETTINGS = Settings(steps=4, batch=4, rate=1e-2, save_every=2, log_every=1)


@pytest.fixture(scope="module")
def pairs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Pictures and a file of pairs."""
    root = tmp_path_factory.mktemp("pairs")
    return write_pairs(root, 12)


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("small")
    small_student().save(folder, {})
    return folder


def request(model: Path, pairs: Path, out: Path, **changes: Any) -> TuneRequest:
    plain = TuneRequest(str(model), str(pairs), out, "hp+hn", SETTINGS, held_out=0.5, device="cpu")
    return replace(plain, **changes)


def test_the_whole_way(model: Path, pairs: Path, tmp_path: Path) -> None:
    out = tmp_path / "tuned"
    tuned = tune(request(model, pairs, out))
    assert tuned.bill is not None
    names = [item.name for item in tuned.bill.items]
    for name in ("replacements/accuracy", "close-pairs/group", "close-pairs/equivariance_text_std",
                 "hard-positives/augmented_accuracy", "hard-positives/brittleness",
                 "hard-positives/mean_score", "retrieval/image_to_text_r1",
                 "retrieval/text_to_image_r10"):  # fmt: skip
        assert name in names
    assert tuned.trained.step == 4
    first: Any = load_model(str(model))
    after: Any = load_model(str(out))
    assert not torch.equal(first.embed_texts(["a red ball"]), after.embed_texts(["a red ball"]))
    written = json.loads((out / "training" / "bill.json").read_text())
    assert [item["name"] for item in written["items"]] == names
    asked = json.loads((out / "training" / "request.json").read_text())
    assert asked["objective"]["hp"] == 1.0
    assert asked["settings"]["steps"] == 4
    assert {each.name for each in out.iterdir()} == {"training", "contrapose-tiny.safetensors"}


def test_the_bill_has_the_interactions_share(
    model: Path, pairs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    said = pairs.read_text(encoding="utf-8").replace("replace-color", "swap-attribute")
    file = pairs.with_name("swaps.jsonl")
    file.write_text(said, encoding="utf-8")
    tuned = tune(request(model, file, tmp_path / "tuned", objective="dividend+hn"))
    assert tuned.bill is not None
    assert 0 < tuned.bill.item("interaction_share").before < 1
    assert tuned.bill.notes[0].startswith("dividend: ")
    plain = tune(request(model, file, tmp_path / "plain", objective="hn"))
    assert plain.bill is not None
    assert "swaps/interaction_share" not in [item.name for item in plain.bill.items]
    monkeypatch.setattr(TinyStudent, "hides", False)
    with pytest.raises(InputError, match="cannot hide words"):
        tune(request(model, file, tmp_path / "third", objective="dividend"))
    assert not (tmp_path / "third").exists()


def test_killed_and_resumed(
    model: Path, pairs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole, part = tmp_path / "whole", tmp_path / "part"
    tune(request(model, pairs, whole))

    def kill(step: int, steps: int, losses: object) -> None:
        if step == 3:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        tune(request(model, pairs, part), on_step=kill)
    with pytest.raises(InputError, match=r"resume.*overwrite"):
        tune(request(model, pairs, part))
    tune(request(model, pairs, part, resume=True))
    name = "contrapose-tiny.safetensors"
    one, other = (load_model(str(folder)) for folder in (whole, part))
    assert one.fingerprint != ""
    for mine, theirs in zip(_weights(one), _weights(other), strict=True):
        assert torch.equal(mine, theirs)
    assert (part / name).is_file()
    again = tune(request(model, pairs, part, overwrite=True))
    assert again.trained.step == 4


@pytest.mark.parametrize("objective", ["hn", "heads"])
def test_two_runs_do_not_write_one_folder(
    model: Path, pairs: Path, tmp_path: Path, objective: str
) -> None:
    settings = Settings() if objective == "heads" else replace(SETTINGS, steps=1)
    wanted = request(model, pairs, tmp_path / "tuned", objective=objective, settings=settings)
    refused: list[str] = []

    def meet(step: int, steps: int, losses: object) -> None:
        if not refused:
            with pytest.raises(InputError, match="another run") as error:
                tune(replace(wanted, resume=True))
            refused.append(str(error.value))

    tune(wanted, on_step=meet)
    assert len(refused) == 1
    refused.clear()
    tune(replace(wanted, overwrite=True), on_step=meet)
    assert len(refused) == 1


@pytest.mark.parametrize("objective", ["hn", "heads"])
def test_the_earlier_model_stays_until_the_new_one_is_whole(
    model: Path, pairs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, objective: str
) -> None:
    out = tmp_path / "tuned"
    changes = {"objective": objective} | ({"settings": Settings()} if objective == "heads" else {})
    tune(request(model, pairs, out, **changes))
    before = {path: path.read_bytes() for path in out.rglob("*") if path.is_file()}

    def fail(*_: object) -> None:
        raise InputError("a broken image")

    with monkeypatch.context() as broken:
        broken.setattr(running, "write_bill", fail)
        with pytest.raises(InputError, match="broken"):
            tune(request(model, pairs, out, overwrite=True, **changes))
    after = {path: path.read_bytes() for path in out.rglob("*") if path.is_file()}
    assert after == before
    out.rename(tmp_path / ".tuned.old")  # killed between the renames of the swap
    load_model(str(out))
    tune(request(model, pairs, out, resume=True, **changes))
    assert [path.name for path in tmp_path.iterdir()] == ["tuned"]
    bill = (out / "training/bill.json").read_bytes()
    assert bill == before[out / "training/bill.json"]


def _weights(model: Any) -> list[torch.Tensor]:
    return list(model.network.state_dict().values())


def test_a_guard_goes_back(
    model: Path, pairs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[int] = []

    class Late(Guard):
        def __call__(self, step: int) -> tuple[str, bool]:
            asked.append(step)
            return ("too much was lost" if step == 4 else ""), False

    monkeypatch.setattr(running, "Guard", Late)
    out = tmp_path / "tuned"
    tuned = tune(request(model, pairs, out, guards={"replacements": 0.1}))
    assert asked == [2, 4]
    assert tuned.bill is not None
    assert any("too much was lost" in note for note in tuned.bill.notes)
    assert any("step 2" in note for note in tuned.bill.notes)
    from contrapose.tune.parameters import read_state

    loaded: Any = load_model(str(out))
    state = read_state(out / "training/checkpoints/step-00000002.safetensors", loaded.network)
    kept = state.tensors["weights.image.project.weight"].half()
    assert torch.equal(loaded.network.image.project.weight.half(), kept)


def test_a_guard_that_trips_at_once(
    model: Path, pairs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Strict(Guard):
        def __call__(self, step: int) -> tuple[str, bool]:
            return "too much was lost", False

    monkeypatch.setattr(running, "Guard", Strict)
    with pytest.raises(InputError, match="no checkpoint was within it"):
        tune(request(model, pairs, tmp_path / "tuned", guards={"replacements": 0.1}))
    assert not (tmp_path / "tuned" / "contrapose-tiny.safetensors").exists()


def test_the_best_checkpoint_is_taken(model: Path, pairs: Path, tmp_path: Path) -> None:
    tuned = tune(request(model, pairs, tmp_path / "tuned", best="mean_score"))
    assert tuned.trained.best is not None
    assert tuned.trained.best.is_file()


def test_distilled(model: Path, pairs: Path, tmp_path: Path) -> None:
    teacher = tmp_path / "teacher"
    teacher.mkdir()
    small_student(fusion=True, seed=2).save(teacher, {})
    tuned = tune(
        request(model, pairs, tmp_path / "tuned", objective="distill", teacher=str(teacher))
    )
    assert "distill" in tuned.trained.losses


def test_a_model_that_judges_pairs_has_both_bills(pairs: Path, tmp_path: Path) -> None:
    folder = tmp_path / "fused"
    folder.mkdir()
    small_student(fusion=True).save(folder, {})
    tuned = tune(request(folder, pairs, tmp_path / "tuned"))
    assert tuned.bill is not None
    names = [item.name for item in tuned.bill.items]
    assert "itm/replacements/accuracy" in names
    assert {"itm", "lm", "itm_hn"} <= set(tuned.trained.losses)


def test_nothing_is_left_when_it_cannot_begin(model: Path, pairs: Path, tmp_path: Path) -> None:
    out = tmp_path / "tuned"
    for changes, said in (
        ({"settings": replace(SETTINGS, batch=64)}, "batch_size"),
        ({"data": str(pairs.parent / "gone.jsonl")}, "is not there"),
        ({"objective": "distill"}, "go together"),
        ({"guards": {"nonsense": 0.1}}, "no metric"),
        ({"held_out": 1.5}, "held_out is a share"),
        ({"resume": True}, "no run to resume"),
    ):
        with pytest.raises(InputError, match=said):
            tune(request(model, pairs, out, **changes))
    assert not out.exists() or not any(out.rglob("*.safetensors"))


def test_a_folder_of_something_else_is_not_touched(
    model: Path, pairs: Path, tmp_path: Path
) -> None:
    out = tmp_path / "mine"
    out.mkdir()
    Image.new("RGB", (2, 2)).save(out / "photo.png")
    for overwrite in (False, True):
        with pytest.raises(InputError, match="choose another out"):
            tune(request(model, pairs, out, overwrite=overwrite))
    assert [each.name for each in out.iterdir()] == ["photo.png"]


def test_a_full_disk_at_the_end(
    model: Path, pairs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import errno

    from contrapose.tune.students import TinyStudent

    def full(self: Any, folder: Path, recipe: Any) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    out = tmp_path / "tuned"
    with monkeypatch.context() as patch:
        patch.setattr(TinyStudent, "save", full)
        with pytest.raises(InputError, match=r"No space left.*resume"):
            tune(request(model, pairs, out))
    assert {each.name for each in out.iterdir()} == {"training"}
    tuned = tune(request(model, pairs, out, resume=True))
    assert tuned.bill is not None
    load_model(str(out))


def test_zero_shot_is_a_line_and_can_be_guarded(model: Path, pairs: Path, tmp_path: Path) -> None:
    from contrapose.data.benchmarks.classes import TEMPLATE

    folder = class_folders(tmp_path / "classes", classes=7, each=3)
    asked = request(model, pairs, tmp_path / "tuned", zero_shot=folder)
    tuned = tune(asked)
    assert tuned.bill is not None
    item = tuned.bill.item("zero-shot/top1")
    assert (item.n, tuned.bill.item("zero-shot/top5").n) == (21, 21)
    before, after = _right(model, folder, TEMPLATE), _right(tmp_path / "tuned", folder, TEMPLATE)
    assert (item.before, item.after) == (before, after)
    assert not any("zero-shot" in note for note in tuned.bill.notes)
    assert "21 images of 7 classes" in tuned.bill.source
    with pytest.raises(InputError, match="did you mean zero-shot"):
        tune(request(model, pairs, tmp_path / "b", zero_shot=folder, guards={"zeroshot": 0.1}))
    held = tune(
        request(model, pairs, tmp_path / "c", zero_shot=folder, guards={"zero-shot/top1": 1})
    )
    assert held.trained.step == 4
    without = tune(request(model, pairs, tmp_path / "d"))
    assert without.bill is not None
    assert any("zero_shot" in note for note in without.bill.notes)


def _right(model: Path, folder: Path, template: str) -> float:
    """The share of pictures that are nearest to their own class, one by one."""
    asked: Any = load_model(str(model))
    names = sorted(each.name for each in folder.iterdir())
    texts = asked.embed_texts([template.replace("{}", name) for name in names])
    wins = [
        int((asked.embed_images([Image.open(file)]) @ texts.T).argmax()) == i
        for i, name in enumerate(names)
        for file in sorted((folder / name).iterdir())
    ]
    return sum(wins) / len(wins)


def test_a_run_of_another_kind_is_not_resumed(model: Path, pairs: Path, tmp_path: Path) -> None:
    out = tmp_path / "tuned"
    tune(request(model, pairs, out))
    with pytest.raises(InputError, match=r"holds a run .*hp\+hn"):
        tune(request(model, pairs, out, objective="heads", settings=Settings(), resume=True))
    tune(request(model, pairs, out, objective="heads", settings=Settings(), overwrite=True))
    assert {each.name for each in out.iterdir()} == {"training", "joined.json", "heads.safetensors"}
    with pytest.raises(InputError, match=r"holds a run .*heads"):
        tune(request(model, pairs, out, resume=True))


def test_event_files_hold_every_step_and_the_bill(model: Path, pairs: Path, tmp_path: Path) -> None:
    events = pytest.importorskip("tensorboard.backend.event_processing.event_accumulator")
    settings = replace(SETTINGS, log_every=3, save_every=0)
    asked = request(
        model, pairs, tmp_path / "tuned", settings=settings, tensorboard=tmp_path / "events"
    )
    tuned = tune(asked)
    assert tuned.bill is not None
    read = events.EventAccumulator(str(tmp_path / "events"))
    read.Reload()
    losses = {name for name in read.Tags()["scalars"] if name.startswith("loss/")}
    assert losses == {f"loss/{name}" for name in tuned.trained.losses}
    for name, value in tuned.trained.losses.items():
        scalars = read.Scalars(f"loss/{name}")
        assert [scalar.step for scalar in scalars] == [1, 2, 3, 4]
        assert scalars[-1].value == pytest.approx(value)
    rates = [scalar.value for scalar in read.Scalars("learning_rate")]
    factors = [settings.learning_rate_factor(step) for step in range(4)]
    assert rates == pytest.approx([1e-2 * factor for factor in factors])
    for item in tuned.bill.items:
        both = [(scalar.step, scalar.value) for scalar in read.Scalars(f"bill/{item.name}")]
        assert both == [(0, pytest.approx(item.before)), (4, pytest.approx(item.after))]


def test_event_files_need_tensorboard_and_a_folder(
    model: Path, pairs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "torch.utils.tensorboard", None)
    asked = request(model, pairs, tmp_path / "tuned", tensorboard=tmp_path / "events")
    with pytest.raises(MissingExtraError, match=r"tensorboard.*\[tensorboard\]"):
        tune(asked)
    assert not (tmp_path / "tuned").exists()
    fake = types.ModuleType("torch.utils.tensorboard")
    fake.__dict__["SummaryWriter"] = object
    monkeypatch.setitem(sys.modules, "torch.utils.tensorboard", fake)
    (tmp_path / "events").write_text("a file")
    with pytest.raises(InputError, match="event files cannot be written"):
        tune(asked)
    assert not (tmp_path / "tuned").exists()
