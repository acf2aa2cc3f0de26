from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor

from contrapose.errors import InputError
from contrapose.losses import Dividend
from contrapose.models.exact import normalize_rows
from contrapose.models.masking.text import MaskedText, full_captions
from contrapose.tune.data.rows import TrainingCaption, TrainingSet
from contrapose.tune.feed import Feed, TrainingBatch, complete_games, mask_players, player_spans
from contrapose.tune.objective import parse_objective
from contrapose.tune.settings import Settings
from contrapose.tune.step import TrainingStep
from contrapose.tune.students import TinyStudent
from contrapose.tune.trainer import train
from tests.tune.small import COLOURS, SHAPES, Painted, small_rows, small_student

SETTINGS = Settings(steps=1, batch=6)


def feed(student: TinyStudent, rows: TrainingSet | None = None, **changes: Any) -> Feed:
    return Feed(rows or small_rows(), student, SETTINGS, needs={"negative", "masked"}, **changes)


def texts_of(batch: TrainingBatch, rows: TrainingSet, row: int) -> list[str]:
    """The caption of a row, and its negative."""
    return [rows.texts[int(batch.captions[row])], rows.texts[int(batch.negatives[row])]]


def read_by_hand(student: TinyStudent, text: str, mask: int) -> Tensor:
    """The vector of a caption of known words, of which objects (1) and the others (2) may stay."""
    net = student.network.text
    tokens = student.tokens([text])["tokens"]
    hidden = torch.zeros(tokens.shape[1], dtype=torch.bool)
    for place, word in enumerate(text.split(), start=1):
        player = 1 if word in SHAPES else 2 if word in (*COLOURS, "of") else 0
        hidden[place] = bool(player and not player & mask)
    x = net.words(tokens) * ~hidden[:, None] + net.place[: tokens.shape[1]]
    for block in net.blocks:
        x = block(x)
    return normalize_rows(net.project(net.norm(x).mean(dim=1)))[0]


def loss_by_hand(student: TinyStudent, batch: TrainingBatch, rows: TrainingSet) -> Tensor:
    """−log of the share, over the rows that have a negative."""
    found = []
    images = student.see(batch.pixels).vectors
    for row in range(len(batch)):
        if batch.negatives[row] < 0:
            continue
        right, wrong = (
            [images[row] @ read_by_hand(student, text, mask) for mask in range(4)]
            for text in texts_of(batch, rows, row)
        )
        v = [one - other for one, other in zip(right, wrong, strict=True)]
        parts = torch.stack([v[3] - v[2] - v[1] + v[0], v[1] - v[0], v[2] - v[0]]).square() + 1e-12
        found.append(-(parts[0] / parts.sum()).log())
    return torch.stack(found).mean()


def test_loss_and_gradients_are_those_written_out() -> None:
    objective = parse_objective("dividend=0.7").for_model(matches=False, writes=False, hides=True)
    plain = parse_objective("plain").for_model(matches=False, writes=False)
    one, other = small_student(), small_student()
    source = feed(one)
    batch = source.batch(0)
    assert 0 < int(batch.has_negative.sum()) < 6
    losses = TrainingStep(one, objective, SETTINGS, source, None, "cpu").backward(batch)
    assert set(losses) == {"contrast", "dividend"}
    theirs = loss_by_hand(other, batch, source.rows)
    torch.testing.assert_close(losses["dividend"], theirs.detach(), rtol=1e-4, atol=1e-5)
    (0.7 * theirs).backward()  # type: ignore[no-untyped-call]
    TrainingStep(other, plain, SETTINGS, feed(other), None, "cpu").backward(
        Feed(small_rows(), other, SETTINGS).batch(0)
    )
    for (name, mine), (_, same) in zip(
        one.network.named_parameters(), other.network.named_parameters(), strict=True
    ):
        if mine.grad is not None and same.grad is not None:
            near = 1e-4 * max(1.0, float(same.grad.abs().max()))
            torch.testing.assert_close(mine.grad, same.grad, rtol=1e-3, atol=near, msg=name)
    assert one.network.text.words.weight.grad is not None


def test_games_are_what_the_model_is_asked() -> None:
    student = small_student()
    source = feed(student)
    batch = source.batch(1)
    assert batch.masked is not None
    with torch.no_grad():
        found = batch.masked.read(student)
    for row in range(len(batch)):
        if batch.masked.has[row]:
            masked = [
                each
                for text in texts_of(batch, source.rows, row)
                for each in mask_players(text) or ()
            ]
            asked = student.model.embed_texts(masked)
            torch.testing.assert_close(found[row], asked, rtol=1e-4, atol=1e-5)


def test_who_plays() -> None:
    text = "a red ball of a cube"
    assert [[text[a:b] for a, b in each] for each in player_spans(text)] == [
        ["ball", "cube"],
        ["of", "red"],
    ]
    found = mask_players(text)
    assert found is not None
    nobody, objects, others = found
    assert full_captions(found) == [text] * 3
    assert isinstance(nobody, MaskedText)
    assert isinstance(objects, MaskedText)
    assert isinstance(others, MaskedText)
    assert sorted((*objects.hidden, *others.hidden)) == sorted(nobody.hidden)
    assert [text[a:b] for a, b in objects.hidden] == ["red", "of"]
    assert mask_players("a ball") is None
    assert mask_players("red") is None


def of_captions(*said: tuple[str, str | None]) -> TrainingSet:
    pictures = small_rows(len(said)).images
    assert isinstance(pictures, Painted)
    return TrainingSet(
        pictures,
        [
            [TrainingCaption(text, () if wrong is None else ((wrong, "swap"),))]
            for text, wrong in said
        ],
    )


def test_captions_without_both_players_are_left_out() -> None:
    rows = of_captions(
        ("a red ball", "a blue ball"),
        ("a ball", "a red ball"),  # nothing binds the ball
        ("a red ball left of a cube", "a cube left of"),
        ("a white cone", "a cone"),
        ("red", "a red cube"),
        ("a green tube", None),
    )
    source = feed(small_student(), rows)
    batch = source.batch(0)
    assert batch.masked is not None
    assert sorted(batch.rows[batch.masked.has.numpy()].tolist()) == [0, 2]
    assert source.players is not None
    assert source.players.note.startswith("dividend: 2 of 5 captions with a negative")


def test_nobody_plays() -> None:
    rows = of_captions(*[("a ball", "a cube")] * 6)
    with pytest.raises(InputError, match="needs captions with words for objects"):
        feed(small_student(), rows)
    with pytest.raises(InputError, match="needs negatives"):
        feed(small_student(), small_rows(negatives=False))


def test_a_text_whose_words_cannot_be_told_apart_is_left_out() -> None:
    student = small_student()
    flags = student.flags

    def some(texts: Any, tokens: Any) -> Tensor:
        if any("blue" in text for text in texts):
            raise InputError("cannot be told apart")
        return flags(texts, tokens)

    student.flags = some  # type: ignore[method-assign]
    source = feed(student)
    assert source.players is not None
    assert source.players.masks.any()
    for place, text in enumerate(source.rows.texts):
        if "blue" in text:
            assert not source.players.plays[place]
    whole = feed(small_student()).players
    assert whole is not None
    assert 0 < source.players.played < whole.played


def share(student: TinyStudent, batch: TrainingBatch) -> float:
    assert batch.masked is not None
    assert batch.negative is not None
    with torch.no_grad():
        games = complete_games(
            batch.masked.read(student), student.read(batch.text), student.read(batch.negative)
        )
        found = Dividend().shares(student.see(batch.pixels).vectors[:, None], *games)
    return float(found[batch.masked.has].mean())


def test_a_few_steps_raise_the_share() -> None:
    settings = Settings(steps=30, batch=12, rate=3e-3, save_every=0)
    shares = {}
    for objective in ("hn", "dividend=1+hn"):
        student = small_student()
        batch = Feed(small_rows(), student, settings, needs={"negative", "masked"}).batch(0)
        before = share(student, batch)
        trained = train(student, small_rows(), parse_objective(objective), settings)
        shares[objective] = share(student, batch)
    assert "dividend" in trained.losses
    assert trained.notes[0].startswith("dividend: ")
    assert shares["dividend=1+hn"] > before + 0.1
    assert shares["dividend=1+hn"] > shares["hn"] + 0.1
