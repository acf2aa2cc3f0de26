"""The command line itself: any failure is one sentence, and any terminal can show the output."""

from __future__ import annotations

import io
import json
import os
import signal
import subprocess
import sys
from contextlib import ExitStack
from importlib import import_module
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from contrapose.cli import main
from contrapose.cli.app import MALLOC_OPTIONS
from contrapose.errors import InputError
from tests.conftest import Cli

FULL = Path("/dev/full")
FAULT = 70


def print_in(monkeypatch: pytest.MonkeyPatch, encoding: str, *arguments: str) -> str:
    """Output of a command where standard output has an encoding."""
    sink = io.BytesIO()
    with io.TextIOWrapper(sink, encoding=encoding) as stream:
        monkeypatch.setattr(sys, "stdout", stream)
        with pytest.raises(SystemExit) as ended:
            main(arguments)
        assert not ended.value.code
        return sink.getvalue().decode(encoding)


@pytest.mark.parametrize(
    ("error", "status", "words"),
    [
        (KeyError("players"), FAULT, "KeyError: 'players'"),
        (RecursionError(), FAULT, "RecursionError"),
        (MemoryError("2.3 GB"), 2, "memory ran out"),
        (PermissionError(13, "Permission denied", "there"), 2, "there: cannot be used"),
        (OSError(28, "No space left on device"), 2, "a file cannot be read or written (No space"),
        (RuntimeError("can't start new thread"), 2, "threads ran out"),
        (OSError(24, "Too many open files"), 2, "open files ran out"),
        (ValueError("one\ntwo\x1b[2J"), FAULT, "ValueError: one"),
        (InputError("is bad.", file=Path("a\nb\tc")), 2, r"a\nb\tc: is bad"),
    ],
)
def test_an_unexpected_error_is_one_sentence(
    cli: Cli, monkeypatch: pytest.MonkeyPatch, error: Exception, status: int, words: str
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise error

    import_module("contrapose.cli.listing")  # else it would keep what is patched
    monkeypatch.setattr("contrapose.cli.console.output_console", fail)
    said = cli("list", "benchmarks")
    assert said.status == status
    assert said.err.startswith("contrapose: ")
    assert len(said.err.strip().split("\n")) == 1
    assert words in said.err
    assert "Traceback" not in said.err
    assert ("--debug" in said.err) == (status == FAULT)


@pytest.mark.parametrize(
    "words", [("--debug", "list", "benchmarks"), ("list", "benchmarks", "--debug")]
)
def test_debug_raises_it(monkeypatch: pytest.MonkeyPatch, words: tuple[str, ...]) -> None:
    def fail(*_: object) -> None:
        raise KeyError("players")

    import_module("contrapose.cli.listing")  # else it would keep what is patched
    monkeypatch.setattr("contrapose.cli.console.output_console", fail)
    with pytest.raises(KeyError):
        main(words)


@pytest.mark.skipif(not FULL.exists(), reason="this system has no device that is always full")
def test_a_full_output() -> None:
    with FULL.open("w") as full:
        command = [sys.executable, "-m", "contrapose", "list", "benchmarks"]
        ended = subprocess.run(  # noqa: S603
            command, stdout=full, stderr=subprocess.PIPE, text=True, check=False
        )
    assert ended.returncode == 2
    assert len(ended.stderr.strip().split("\n")) == 1
    assert "the output cannot be written (No space left" in ended.stderr


def status_without_reader(monkeypatch: pytest.MonkeyPatch, both: bool, *arguments: str) -> int:
    """Status of a command whose output, or also standard error, nobody reads."""
    with ExitStack() as stack:
        for name in ("stdout", "stderr") if both else ("stdout",):
            reader, writer = os.pipe()
            os.close(reader)
            monkeypatch.setattr(sys, name, stack.enter_context(os.fdopen(writer, "w")))
        with pytest.raises(SystemExit) as ended:
            main(arguments)
    monkeypatch.undo()
    return int(ended.value.code or 0)


@pytest.mark.parametrize("both", [False, True])
@pytest.mark.parametrize("words", ["list benchmarks", "list benchmarks --json", "-h", "--version"])
def test_a_closed_pipe_is_no_fault(monkeypatch: pytest.MonkeyPatch, words: str, both: bool) -> None:
    assert status_without_reader(monkeypatch, both, *words.split()) == 0


@pytest.mark.parametrize("both", [False, True])
def test_work_is_finished_when_nobody_reads(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, both: bool
) -> None:
    """The page of an explanation is written, and a gate fails for its own reason alone."""
    Image.new("RGB", (32, 32)).save(tmp_path / "a.png")
    out = tmp_path / "page.html"
    words = ["explain", "tiny-clip", "--image", str(tmp_path / "a.png"), "--text", "a cat"]
    words += ["--superpixels", "0", "--no-cache", "--out", str(out)]
    assert status_without_reader(monkeypatch, both, *words) == 0
    assert out.stat().st_size > 1000
    examples, scores = tmp_path / "e.jsonl", []
    rows = [{"image": f"{i}.png", "texts": ["a cat", "a dog"], "right": 0} for i in range(40)]
    examples.write_text("".join(json.dumps(row) + "\n" for row in rows))
    for name, right in (("good", 1.0), ("bad", -1.0)):
        scores.append(str(tmp_path / f"{name}.npy"))
        np.save(scores[-1], np.array([[right, 0.0]] * 40))
    for pair, status in ((scores, 1), (scores[::-1], 0)):
        words = ["compare", *pair, "--on", str(examples), "--gate", "--resamples", "100"]
        assert status_without_reader(monkeypatch, both, *words) == status


@pytest.mark.parametrize("columns", ["0", "1", "19"])
@pytest.mark.parametrize("words", ["list benchmarks", "-h"])
def test_a_width_in_which_nothing_fits_counts_for_none(
    monkeypatch: pytest.MonkeyPatch, cli: Cli, columns: str, words: str
) -> None:
    monkeypatch.setenv("COLUMNS", columns)
    narrow = cli(*words.split()).out
    monkeypatch.delenv("COLUMNS", raising=False)
    assert narrow == cli(*words.split()).out
    assert len(narrow) > 1000


@pytest.mark.parametrize("encoding", ["ascii", "cp1252", "cp437"])
def test_any_encoding_shows_the_tables(monkeypatch: pytest.MonkeyPatch, encoding: str) -> None:
    out = print_in(monkeypatch, encoding, "list", "benchmarks")
    assert "winoground" in out
    assert ("2 x 2" if encoding != "cp1252" else "2 × 2") in out


def test_json_is_json_in_any_encoding(monkeypatch: pytest.MonkeyPatch) -> None:
    out = print_in(monkeypatch, "ascii", "list", "benchmarks", "--json")
    plain = print_in(monkeypatch, "utf-8", "list", "benchmarks", "--json")
    assert not plain.isascii()
    assert json.loads(out) == json.loads(plain)


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["search", "x", "--overwrite"], "--overwrite"),
        (["sarch"], "search"),
        (["eval"], "models"),
        (["metrics", "--resamples", "x"], "--resamples"),
        (["list", "nothing"], "nothing"),
    ],
)
def test_words_that_are_not_understood(cli: Cli, words: list[str], says: str) -> None:
    assert says in cli(*words).refused()


@pytest.mark.parametrize(("name", "status"), [("SIGINT", 130), ("SIGTERM", 143), ("SIGHUP", 129)])
@pytest.mark.parametrize("swallowed", [False, True])
def test_signals_end_a_command_with_its_cleanup(
    cli: Cli, monkeypatch: pytest.MonkeyPatch, name: str, status: int, swallowed: bool
) -> None:
    cleaned: list[str] = []
    before = signal.getsignal(getattr(signal, name))
    if before not in (signal.SIG_DFL, signal.default_int_handler):
        pytest.skip(f"{name} is ignored or handled where the tests run")

    def interrupt(*_: object, **__: object) -> None:
        try:
            os.kill(os.getpid(), getattr(signal, name))
        except KeyboardInterrupt:
            if swallowed:
                raise RuntimeError("a library's own error") from None
            raise
        finally:
            cleaned.append(name)

    monkeypatch.setattr("contrapose.cli.console.output_console", interrupt)
    said = cli("list", "benchmarks")
    assert (said.status, said.out, cleaned) == (status, "", [name])
    assert said.err.startswith(f"contrapose: interrupted ({name})")
    assert len(said.err.strip().split("\n")) == 1
    assert signal.getsignal(getattr(signal, name)) is before


@pytest.mark.parametrize(("verb", "words"), [("tune", "--resume"), ("eval", "goes on")])
def test_interrupted_verbs_say_how_to_go_on(
    cli: Cli, monkeypatch: pytest.MonkeyPatch, verb: str, words: str
) -> None:
    def interrupt(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("contrapose.cli.app.import_module", interrupt)
    monkeypatch.setattr("contrapose.cli.app._load_command", interrupt)
    said = cli(verb, "tiny-clip")
    assert said.status == 130
    assert words in said.err


@pytest.mark.skipif(sys.platform != "linux", reason="options of glibc")
def test_memory_that_was_freed_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    import ctypes

    calls: list[tuple[int, ...]] = []

    class Library:
        def __init__(self, name: None):
            self.mallopt = lambda *options: calls.append(options)

    def run() -> None:
        with pytest.raises(SystemExit):
            main(["--version"])

    for name in MALLOC_OPTIONS:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(ctypes, "CDLL", Library)
    run()
    assert calls[0] == (-8, len(os.sched_getaffinity(0)))
    assert [number for number, _ in calls] == [-8, -1, -2, -3]
    for name in MALLOC_OPTIONS:
        with monkeypatch.context() as patch:
            patch.setenv(name, "3")
            run()
    assert len(calls) == 4
    monkeypatch.setattr(ctypes, "CDLL", lambda name: object())  # another C library
    run()
