"""The store under attack: flipped bytes, clocks that jump, four writers of which one is killed."""

from __future__ import annotations

import os
import random
import signal
import time
import warnings
from contextlib import suppress
from multiprocessing import get_context
from pathlib import Path

import numpy as np
import pytest

from contrapose.engine import AnswerStore, ScoringContext, score_examples
from contrapose.engine.context import ScoreRequest
from contrapose.engine.part_files import find_cut, footer_bytes
from contrapose.errors import DamageWarning, InputError
from contrapose.files.atomic import remove_leftovers
from contrapose.search.index import open_index
from contrapose.search.queries import SearchQuery
from contrapose.search.searcher import Searcher
from contrapose.search.writer import IndexRequest, build_index
from tests.fakes import Fake, pairs
from tests.search.photos import ColorModel, write_photos
from tests.torture.conftest import Tally
from tests.torture.mutations import ROUNDS, SEED

SCORES = ("itc", "itm", "lm")
EXPECTED = {
    score: score_examples(ScoringContext(Fake()), score, pairs(6)).scores for score in SCORES
}


def fill(folder: Path) -> None:
    for score in SCORES:
        score_examples(ScoringContext(Fake(), AnswerStore(folder)), score, pairs(6))


def test_flipped_bytes_are_said_and_scored_again(tmp_path: Path, tally: Tally) -> None:
    """Whatever byte of a part changes: a warning, the pairs asked again, and the same table."""
    rng = random.Random(f"{SEED}flip")  # noqa: S311

    def requests() -> dict[str, list[ScoreRequest]] | None:
        return {} if rng.random() < 0.7 else None  # an evaluation notes what it has planned

    fill(tmp_path)
    parts = sorted(tmp_path.rglob("*.parquet"))
    contents = [path.read_bytes() for path in parts]
    for _ in range(2 * ROUNDS):
        number = rng.randrange(len(parts))
        path, content = parts[number], bytearray(contents[number])
        begin, end = rng.choice((vector_span(bytes(content)), (0, len(content))))
        for _ in range(rng.choice((1, 1, 2, 8))):
            content[rng.randrange(begin, end)] ^= 1 << rng.randrange(8)
        if content == contents[number]:
            continue
        path.write_bytes(content)
        asked = 0
        with warnings.catch_warnings(record=True) as said:
            warnings.simplefilter("always")
            for score in SCORES:
                model = Fake()
                context = ScoringContext(model, AnswerStore(tmp_path), requests=requests())
                if rng.random() < 0.3:  # another benchmark of the same run plans some pairs before
                    first = score_examples(context, score, pairs(6)[:3]).scores
                    assert np.array_equal(first, EXPECTED[score][:3])
                scores = score_examples(context, score, pairs(6)).scores
                assert np.array_equal(scores, EXPECTED[score])
                asked += len([*model.images, *model.texts, *model.pairs])
        assert [one.category for one in said] == [DamageWarning]
        assert asked
        for other in tmp_path.rglob("*.parquet*"):
            if other not in parts:
                other.unlink()
        path.write_bytes(contents[number])
    tally.add("flipped bytes in parts of the store", 2 * ROUNDS)


def vector_span(content: bytes) -> tuple[int, int]:
    """Where the vectors of a part lie; all of a part without vectors."""
    end = len(content) - footer_bytes(content)
    begin = find_cut(content[end:])
    return (begin, end) if begin is not None and begin < end else (0, len(content))


def test_flipped_bytes_in_an_index_are_said_and_made_again(tmp_path: Path, tally: Tally) -> None:
    """Whatever byte of an index changes: a search is refused or the same, and so is an update."""
    rng = random.Random(f"{SEED}index")  # noqa: S311
    photos, model = write_photos(tmp_path / "photos", 12), ColorModel()
    request = IndexRequest(photos, tmp_path / "index")
    build_index(request, model)
    contents = {path: path.read_bytes() for path in (tmp_path / "index").glob("[!.]*")}
    wanted = search_colors(tmp_path / "index")
    refused = 0
    for _ in range(2 * ROUNDS):
        path = rng.choice(sorted(contents))
        content = bytearray(contents[path])
        content[rng.randrange(len(content))] ^= 1 << rng.randrange(8)
        path.write_bytes(content)
        try:
            assert search_colors(tmp_path / "index") == wanted
        except InputError:
            refused += 1
        with warnings.catch_warnings(), suppress(InputError):
            warnings.simplefilter("ignore", DamageWarning)
            build_index(request, model)
            assert search_colors(tmp_path / "index") == wanted
        for old in (tmp_path / "index").glob("[!.]*"):
            old.unlink()
        for file, before in contents.items():
            file.write_bytes(before)
    assert refused > 1.5 * ROUNDS  # some bytes of an array's header mean nothing
    tally.add("flipped bytes in an index", 2 * ROUNDS)


def search_colors(folder: Path) -> list[tuple[str, float]]:
    result = Searcher(open_index(folder), ColorModel()).search(SearchQuery(text="red"), 12)
    return [(hit.path, hit.score) for hit in result.hits]


@pytest.mark.parametrize("jump", [-10 * 365 * 86400, -3600, 3600, 10 * 365 * 86400])
def test_the_newest_score_counts_when_the_clock_jumps(
    jump: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, tally: Tally
) -> None:
    def add(value: float) -> None:
        table = AnswerStore(tmp_path).table("m", "s")
        table.add(["a"], ["x"], {"value": np.array([value])})

    add(1.0)
    real = time.time_ns
    monkeypatch.setattr(time, "time_ns", lambda: real() + jump * 10**9)
    add(2.0)
    monkeypatch.setattr(time, "time_ns", real)
    add(3.0)
    table = AnswerStore(tmp_path).table("m", "s")
    assert table.values(table.find(["a"], ["x"])).tolist() == [3.0]
    tally.add("clock jumps", 2)


def test_leftovers_of_the_future_do_no_harm(tmp_path: Path, tally: Tally) -> None:
    """A file under a temporary name, dated tomorrow or in 1970, is never read as a part."""
    fill(tmp_path)
    for folder in {path.parent for path in tmp_path.rglob("*.parquet")}:
        for days in (-20_000, 1, 4000):
            part = folder / f".left{days}.parquet"
            part.write_bytes(b"PAR1")
            moment = max(0.0, time.time() + days * 86400)
            os.utime(part, (moment, moment))
        remove_leftovers(folder)
    for score in SCORES:
        model = Fake()
        context = ScoringContext(model, AnswerStore(tmp_path))
        assert np.array_equal(score_examples(context, score, pairs(6)).scores, EXPECTED[score])
        assert not [*model.images, *model.texts, *model.pairs]
    tally.add("clock jumps", 3)


def write_rows(folder: Path, writer: int, rows: int) -> None:
    table = AnswerStore(folder).table("m", "s")
    for row in range(rows):
        names = [f"{writer}-{row}", f"shared-{row}"]
        table.add(names, ["x", "x"], {"value": np.array([writer * 1000.0 + row, float(row)])})


def test_four_writers_of_which_one_is_killed(tmp_path: Path, tally: Tally) -> None:
    rng = random.Random(f"{SEED}writers")  # noqa: S311
    rows = 10 + ROUNDS // 4
    processes = [
        get_context("fork").Process(target=write_rows, args=(tmp_path, writer, rows))
        for writer in range(4)
    ]
    for process in processes:
        process.start()
    time.sleep(rng.uniform(0, 0.05))
    os.kill(processes[3].pid or 0, signal.SIGKILL)
    for process in processes:
        process.join()
    assert [process.exitcode for process in processes[:3]] == [0, 0, 0]
    table = AnswerStore(tmp_path).table("m", "s")
    for writer in range(3):
        places = table.find([f"{writer}-{row}" for row in range(rows)], ["x"] * rows)
        wanted = [writer * 1000.0 + row for row in range(rows)]
        assert table.values(places).tolist() == wanted
    shared = table.values(table.find([f"shared-{row}" for row in range(rows)], ["x"] * rows))
    assert shared.tolist() == [float(row) for row in range(rows)]
    tally.add("parts by four writers at once", 3 * rows)
