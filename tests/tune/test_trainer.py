from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from contrapose.errors import InputError
from contrapose.losses.gather import Processes
from contrapose.tune import trainer
from contrapose.tune.objective import parse_objective
from contrapose.tune.parameters import add_lora, latest_checkpoint, read_state, write_state
from contrapose.tune.settings import Settings
from contrapose.tune.step import TrainingStep
from contrapose.tune.trainer import LossCallback, train
from tests.tune.small import small_rows, small_student, weights

SETTINGS = Settings(steps=6, batch=6, rate=1e-2, save_every=2, log_every=1, ema=0.9)


class KilledError(Exception):
    """What a kill looks like from within."""


def killed_at(step: int) -> LossCallback:
    def on_step(done: int, total: int, losses: object) -> None:
        if done == step:
            raise KilledError

    return on_step


@pytest.mark.parametrize("fusion", [False, True])
def test_resumed_is_as_unbroken(tmp_path: Path, fusion: bool) -> None:
    objective, rows = parse_objective("hp+hn"), small_rows()
    whole = small_student(fusion=fusion)
    train(whole, rows, objective, SETTINGS, folder=tmp_path / "whole")
    first = small_student(fusion=fusion)
    with pytest.raises(KilledError):
        train(first, rows, objective, SETTINGS, folder=tmp_path / "part", on_step=killed_at(5))
    again = small_student(fusion=fusion)
    train(again, rows, objective, SETTINGS, folder=tmp_path / "part", resume=True)
    expected, found = weights(whole), weights(again)
    assert all(torch.equal(found[name], expected[name]) for name in expected)
    lines = [json.loads(line) for line in (tmp_path / "part/log.jsonl").read_text().splitlines()]
    assert [line["step"] for line in lines if "step" in line] == list(range(1, 7))


def test_draws_are_those_of_the_step_and_the_process(monkeypatch: pytest.MonkeyPatch) -> None:
    """A step that is done again, whatever came before, draws as it did; others draw otherwise."""
    drawn: list[torch.Tensor] = []

    def backward(self: TrainingStep, batch: object) -> dict[str, torch.Tensor]:
        drawn.append(torch.rand(3))
        return {"contrast": torch.zeros(())}

    monkeypatch.setattr(TrainingStep, "backward", backward)
    settings = replace(SETTINGS, steps=2, ema=None)
    for rank in (0, 0, 1):
        monkeypatch.setattr(trainer, "processes", lambda rank=rank: Processes(rank, 2))
        train(small_student(), small_rows(), parse_objective("plain"), settings)
        torch.rand(5)
    assert all(torch.equal(drawn[i], drawn[i + 2]) for i in range(2))
    assert len({tuple(each.tolist()) for each in drawn}) == 4


def test_killed_before_a_checkpoint_has_its_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    objective, rows, whole = parse_objective("hp+hn"), small_rows(), small_student()
    train(whole, rows, objective, SETTINGS)
    place, named = tmp_path / "checkpoints", Path.replace

    def replaced(self: Path, target: Path) -> Path:
        if "00000004" in self.name:
            raise KilledError
        return named(self, target)

    with monkeypatch.context() as patch:
        patch.setattr(Path, "replace", replaced)
        with pytest.raises(KilledError):
            train(small_student(), rows, objective, SETTINGS, folder=tmp_path)
    assert [file.name for file in place.iterdir()] == ["step-00000002.safetensors"]
    again = small_student()
    train(again, rows, objective, SETTINGS, folder=tmp_path, resume=True)
    expected, found = weights(whole), weights(again)
    assert all(torch.equal(found[name], expected[name]) for name in expected)
    assert {each.name[:5] for each in place.iterdir()} == {"step-"}


@pytest.mark.parametrize("kill", [3, 5])
def test_resumed_the_best_is_as_unbroken(tmp_path: Path, kill: int) -> None:
    """Best at step 2 or at step 4; the run goes on from 2 or from 4."""
    objective, rows = parse_objective("plain"), small_rows()
    for best in (2, 4):
        files = []
        for name in ("whole", "part"):
            folder = tmp_path / f"{best}-{name}"
            check = Measured(best)
            if name == "part":
                with pytest.raises(KilledError):
                    train(
                        small_student(), rows, objective, SETTINGS, folder=folder, check=check,
                        on_step=killed_at(kill),
                    )  # fmt: skip
                check = Measured(best)
            trained = train(
                small_student(), rows, objective, SETTINGS, folder=folder, check=check,
                resume=name == "part",
            )  # fmt: skip
            assert trained.best == folder / "checkpoints" / "best.safetensors"
            assert check.highest == 1.0
            files.append(trained.best)
        whole, part = (read_state(file, small_student().network) for file in files)
        assert whole.step == part.step == best
        assert all(torch.equal(part.tensors[name], it) for name, it in whole.tensors.items())


class Measured:
    """Knows one step as the best, as a guard does: by what was highest so far."""

    def __init__(self, best: int):
        self.best = best
        self.highest = float("-inf")

    def __call__(self, step: int) -> tuple[str, bool]:
        value = 1.0 if step == self.best else 0.5
        better = value > self.highest
        self.highest = max(value, self.highest)
        return "", better


def test_resumed_with_low_rank_updates(tmp_path: Path) -> None:
    pytest.importorskip("peft")
    objective, rows, settings = parse_objective("hn"), small_rows(), replace(SETTINGS, lora=2)

    def student() -> Any:
        made = small_student(fusion=True)
        add_lora(made, settings)
        return made

    torch.manual_seed(1)
    whole = student()
    train(whole, rows, objective, settings)
    torch.manual_seed(1)
    with pytest.raises(KilledError):
        train(student(), rows, objective, settings, folder=tmp_path, on_step=killed_at(5))
    again = student()  # begun with other updates: the checkpoint has them all
    train(again, rows, objective, settings, folder=tmp_path, resume=True)
    expected, found = weights(whole), weights(again)
    assert all(torch.equal(found[name], expected[name]) for name in expected)


def test_it_learns() -> None:
    student = small_student()
    settings = replace(SETTINGS, steps=60, batch=12, ema=None, save_every=0)
    seen: list[float] = []
    rows = small_rows()
    train(
        student,
        rows,
        parse_objective("hn"),
        settings,
        on_step=lambda s, n, it: seen.append(it["hn"]),
    )
    assert seen[-1] < 0.5 * seen[0]
    assert not student.network.training


def test_the_same_seed_gives_the_same() -> None:
    found = []
    for seed in (1, 1, 2):
        student = small_student()
        train(student, small_rows(), parse_objective("eqsim"), replace(SETTINGS, seed=seed))
        found.append(weights(student)["image.project.weight"])
    assert torch.equal(found[0], found[1])
    assert not torch.equal(found[0], found[2])


@pytest.mark.parametrize("side", ["image", "text"])
def test_a_frozen_tower_stays(side: Any) -> None:
    student = small_student()
    before = weights(student)
    settings = replace(SETTINGS, freeze=(side,))
    train(student, small_rows(), parse_objective("plain"), settings)
    after = weights(student)
    for name in before:
        changed = not torch.equal(before[name], after[name])
        assert changed != name.startswith(f"{side}."), name


def test_a_running_mean_is_kept_instead() -> None:
    last, mean = small_student(), small_student()
    plain = parse_objective("plain")
    train(last, small_rows(), plain, replace(SETTINGS, ema=None))
    train(mean, small_rows(), plain, SETTINGS)
    first, at_last, at_mean = (
        weights(s)["text.project.weight"] for s in (small_student(), last, mean)
    )
    assert 0 < (at_mean - first).norm() < (at_last - first).norm()


def test_a_loss_that_is_no_number(tmp_path: Path) -> None:
    student = small_student()

    def spoil(done: int, total: int, losses: object) -> None:
        if done == 3:
            with torch.no_grad():
                student.network.text.project.weight[0, 0] = torch.nan

    with pytest.raises(InputError, match=r"no number at step 4; .*step-00000002.*lower lr"):
        train(
            student,
            small_rows(),
            parse_objective("plain"),
            SETTINGS,
            folder=tmp_path,
            on_step=spoil,
        )
    again = small_student()
    trained = train(
        again, small_rows(), parse_objective("plain"), SETTINGS, folder=tmp_path, resume=True
    )
    assert trained.step == 6


def test_another_run_is_not_gone_on_with(tmp_path: Path) -> None:
    train(small_student(), small_rows(), parse_objective("hn"), SETTINGS, folder=tmp_path)
    with pytest.raises(InputError, match=r"rate was 0\.01, now 0\.5"):
        train(
            small_student(), small_rows(), parse_objective("hn"), replace(SETTINGS, rate=0.5),
            folder=tmp_path, resume=True,
        )  # fmt: skip
    with pytest.raises(InputError, match="other objective"):
        train(
            small_student(), small_rows(), parse_objective("hp"), SETTINGS,
            folder=tmp_path, resume=True,
        )  # fmt: skip
    other: Any = small_student()
    other.model.fingerprint = "another"
    with pytest.raises(InputError, match=r"other model \(small, now another\)"):
        train(other, small_rows(), parse_objective("hn"), SETTINGS, folder=tmp_path, resume=True)
    with pytest.raises(InputError, match="another architecture"):
        train(
            small_student(width=24), small_rows(), parse_objective("hn"), SETTINGS,
            folder=tmp_path, resume=True,
        )  # fmt: skip


class Checked:
    """Says to stop at a step, and which was best."""

    highest = 0.0

    def __init__(self, stop: int, best: int):
        self.stop, self.best = stop, best
        self.asked: list[int] = []

    def __call__(self, step: int) -> tuple[str, bool]:
        self.asked.append(step)
        self.highest = 1.0
        return ("enough" if step == self.stop else ""), step == self.best


def test_a_check_stops_and_names_the_best(tmp_path: Path) -> None:
    check = Checked(stop=4, best=2)
    trained = train(
        small_student(),
        small_rows(),
        parse_objective("plain"),
        SETTINGS,
        folder=tmp_path,
        check=check,
    )
    assert check.asked == [2, 4]
    assert (trained.step, trained.stopped) == (4, "enough")
    assert trained.best == tmp_path / "checkpoints" / "best.safetensors"
    names = {each.name for each in (tmp_path / "checkpoints").iterdir()}
    assert names == {"best.safetensors", "step-00000002.safetensors"}


def test_looking_does_not_change_what_is_learnt(tmp_path: Path) -> None:
    found = []
    for check in (None, Checked(0, 0)):
        student = small_student()
        train(student, small_rows(), parse_objective("hn"), SETTINGS, check=check)
        found.append(weights(student))
    assert all(torch.equal(found[0][name], found[1][name]) for name in found[0])


def test_bf16_trains() -> None:
    trained = train(
        small_student(), small_rows(), parse_objective("hp+hn"), replace(SETTINGS, dtype="bf16")
    )
    assert all(value == value for value in trained.losses.values())


def test_a_checkpoint_without_its_tensors_is_damage(tmp_path: Path) -> None:
    objective, rows = parse_objective("hn"), small_rows()
    train(small_student(), rows, objective, SETTINGS, folder=tmp_path)
    file = latest_checkpoint(tmp_path / "checkpoints")
    assert file is not None
    state = read_state(file, small_student().network)
    state.tensors.popitem()
    write_state(file, state)
    with pytest.raises(InputError, match="damaged"):
        train(small_student(), rows, objective, SETTINGS, folder=tmp_path, resume=True)
