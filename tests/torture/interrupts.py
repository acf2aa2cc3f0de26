"""Commands that SIGINT, SIGTERM or SIGHUP ends at random instants.

    python -m tests.torture.interrupts FOLDER ROUNDS SEED [COMMAND…]

Each command runs twice in peace. Then it is started, interrupted after a random time, and started
again until it ends. An interrupted command says one sentence, ends with 128 and the number of the
signal, and leaves no temporary file; the result after all is that of the runs in peace. Everything
is imported once and every attempt is forked. The counts are printed as JSON.
"""

from __future__ import annotations

import faulthandler
import gc
import hashlib
import json
import os
import random
import re
import shutil
import signal
import sys
import time
import traceback
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from contrapose.cli import main as run_command
from contrapose.files import download as downloader
from contrapose.files.atomic import TEMPORARY
from tests.data.test_fetch import ANNOTATIONS, NAMES, make_image, make_source
from tests.torture.jobs import kill_after
from tests.tune.small import small_student, write_pairs
from tests.web_server import WebServer, run_web_server

SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
SHAPES = Path(__file__).resolve().parents[2] / "examples" / "shapes"
BROKEN = 99
MOST = 4
"""Interrupts of one attempt after another, before it is left to end."""

STORE = ("--cache", "{out}/store")
COMMANDS: dict[str, tuple[str, ...]] = {
    "eval": ("eval", "tiny-clip", "--on", "{in}/examples.jsonl", "--limit", "4", *STORE,
             "--resamples", "200", "--out", "{out}/run"),
    "metrics": ("metrics", "{in}/examples.jsonl", "--scores", "{in}/bag-of-words.csv",
                "--resamples", "20000", "--out", "{out}/run"),
    "compare": ("compare", "{in}/bag-of-words.csv", "{in}/looks-left-and-right.csv", "--on",
                "{in}/examples.jsonl", "--out", "{out}/compare"),
    "rank": ("rank", "{in}/bag-of-words.csv", "{in}/looks-left-and-right.csv", "--on",
             "{in}/examples.jsonl", "--out", "{out}/rank"),
    "audit": ("audit", "{in}/examples.jsonl", "--lm", "none", *STORE, "--resamples", "200",
              "--out", "{out}/audit"),
    "diagnose": ("diagnose", "tiny-clip", "--on", "{in}/examples.jsonl", "--limit", "2", *STORE,
                 "--resamples", "200", "--out", "{out}/diagnosis"),
    "explain": ("explain", "tiny-clip", "--image", "{in}/0.png", "--text", "a red ball",
                "--against", "a blue ball", "--no-cache", "--out", "{out}/page.html"),
    "tune": ("tune", "{in}/model", "--data", "{in}/pairs.jsonl", "--with", "hp+hn", "--steps", "6",
             "--batch-size", "4", "--save-every", "2", "--held-out", "0.5", "--device", "cpu",
             "--out", "{out}/tuned"),
    "build scenes": ("build", "scenes", "--subset", "swap-relation", "--examples", "3", "--out",
                     "{out}/scenes"),
    "build pairs": ("build", "pairs", "{in}/captions.txt", "--no-cache", "--out", "{out}/pairs"),
    "build features": ("build", "features", "{in}/images", "--model", "tiny-clip", *STORE, "--out",
                       "{out}/features"),
    "index": ("index", "{in}/images", "--model", "tiny-clip", "--out", "{out}/index"),
    "fetch": ("data", "fetch", "sugarcrepe"),
}  # fmt: skip
"""Commands by name; `{in}` and `{out}` stand for their folders."""
SERVERS = {
    "view": ("view", "{in}/runs", "--no-browser"),
    "serve": ("serve", "{in}/index"),
}
"""Commands that run until a signal, which is their usual end."""
GIVES_NO_RESULT = 2
"""Status of a command whose result is there already: it was interrupted at its very end."""


def prepare(folder: Path) -> None:
    """Write the input of all commands."""
    shutil.copytree(SHAPES, folder)
    write_pairs(folder, 12)
    (folder / "model").mkdir()
    small_student().save(folder / "model", {})
    captions = [f"a {color} cube left of a red ball" for color in ("red", "blue", "green", "gray")]
    (folder / "captions.txt").write_text("\n".join(captions * 5))


def use_server(web: WebServer) -> None:
    """Let the benchmark `sugarcrepe` come from a local server, slowly."""
    from contrapose.data.benchmarks import sugarcrepe

    downloader.BACKOFF = 0.0
    web.files["/data/swap_obj.json"] = ANNOTATIONS
    web.files |= {f"/val2017/{name}": make_image(i) for i, name in enumerate(NAMES)}
    web.always |= {f"/val2017/{name}": "slow" for name in NAMES}
    (sugarcrepe.BENCHMARK,) = make_source(web).parts


def words_of(name: str, source: Path, out: Path) -> list[str]:
    """Words of a command; one of tune goes on where there is something to go on with."""
    words = {**COMMANDS, **SERVERS}[name]
    resume = ["--resume"] if name == "tune" and (out / "tuned" / "training").is_dir() else []
    return [word.format(**{"in": source, "out": out}) for word in words] + resume


def start(words: Sequence[str], out: Path) -> int:
    """Fork a process that runs a command, with its output in files beside a folder."""
    for name in ("stdout", "stderr"):
        (out.parent / f"{out.name}.{name}").write_bytes(b"")
    child = os.fork()
    if child:
        return child
    status = BROKEN
    # A command leaves signals alone that nohup or a shell lets it ignore. And after the command a
    # signal ends the process; it must not run on in what it was forked from.
    for number in SIGNALS:
        signal.signal(number, signal.SIG_DFL)
    try:
        os.environ["CONTRAPOSE_DATA"] = str(out / "data")
        os.environ["XDG_CACHE_HOME"] = str(out / "cache")
        for stream, name in ((1, "stdout"), (2, "stderr")):
            os.dup2(os.open(out.parent / f"{out.name}.{name}", os.O_WRONLY), stream)
        faulthandler.enable(2)
        run_command(list(words))
    except SystemExit as error:
        status = int(str(error.code or 0))
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(status)


def finish(words: Sequence[str], out: Path) -> int:
    return os.waitstatus_to_exitcode(os.waitpid(start(words, out), 0)[1])


def interrupt_after(child: int, seconds: float, number: int, out: Path) -> int:
    """Status of a command after a signal; one that goes on says where it is.

    The first moments are those of Python, not of the command, and last longer on a busy machine:
    seconds count from the moment on in which the command handles signals.
    """
    while not (handles_signals(child) or has_ended(child)):
        time.sleep(0.001)
    try:
        return kill_after(child, seconds, number)
    except AssertionError as error:
        raise AssertionError(f"{error}: {said_by(out)}") from None


def handles_signals(child: int) -> bool:
    """Whether a process handles all signals by itself."""
    caught = re.search(r"SigCgt:\s*([0-9a-f]+)", Path(f"/proc/{child}/status").read_text())
    mask = int(caught[1], 16) if caught else 0
    return all(mask >> (number - 1) & 1 for number in SIGNALS)


def has_ended(child: int) -> bool:
    """Whether a child has ended; its status can still be asked for."""
    return os.waitid(os.P_PID, child, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None


def said_by(out: Path) -> str:
    return (out.parent / f"{out.name}.stderr").read_text(errors="replace")


def read_content(path: Path) -> bytes:
    """Bytes of a file, of a log without the seconds; safetensors writes metadata in any order."""
    content = path.read_bytes()
    if path.name == "log.jsonl":
        return re.sub(rb'"seconds": [0-9.e-]+', b"", content)
    if path.suffix != ".safetensors":
        return content
    end = 8 + int.from_bytes(content[:8], "little")
    return json.dumps(json.loads(content[8:end]), sort_keys=True).encode() + content[end:]


def digest_files(out: Path) -> dict[str, str]:
    """Digests of the files of a result; those of a store have names of their own."""
    return {
        path.relative_to(out).as_posix(): hashlib.sha256(read_content(path)).hexdigest()
        for path in sorted(out.rglob("*"))
        if path.is_file() and not {"store", "cache"} & set(path.relative_to(out).parts)
    }


def check_interrupt(number: int, status: int, out: Path) -> None:
    """Check the status and the sentence of an interrupted command, and that it cleaned up."""
    said = said_by(out)
    assert status == 128 + number, (number, status, said[-2000:])
    lines = [line for line in said.splitlines() if line.startswith("contrapose: ")]
    assert sum("interrupted" in line for line in lines) == 1, said
    assert "Traceback" not in said, said
    assert "Error" not in said, said
    left = list(out.rglob(f"*{TEMPORARY}"))
    assert left == [], left


def calm_runs(name: str, folder: Path) -> tuple[dict[str, str], set[str], float]:
    """Digests of a result in peace, the files that differ between two runs, and the seconds."""
    results, began = [], time.monotonic()
    for turn in range(2):
        out = folder / f"calm-{turn}"
        out.mkdir(parents=True)
        status = finish(words_of(name, folder.parent / "input", out), out)
        assert status == 0, (name, status, said_by(out))
        results.append(digest_files(out))
    assert results[0].keys() == results[1].keys(), name
    varying = {file for file in results[0] if results[0][file] != results[1][file]}
    return results[0], varying, (time.monotonic() - began) / 2


def interrupt_command(name: str, folder: Path, rounds: int, rng: random.Random) -> dict[str, Any]:
    """Interrupt a command until so many signals have hit; every result must be that in peace."""
    wanted, varying, seconds = calm_runs(name, folder)
    counts: dict[str, Any] = {
        "interrupts": 0,
        "results": 0,
        "late": 0,
        "seconds": round(seconds, 2),
    }
    while counts["interrupts"] < rounds:
        out = folder / f"out-{counts['results']}"
        out.mkdir()
        for attempt in range(min(MOST, rounds - counts["interrupts"])):
            number = rng.choice(SIGNALS)
            child, began = (
                start(words_of(name, folder.parent / "input", out), out),
                time.monotonic(),
            )
            status = interrupt_after(child, rng.uniform(0, seconds), number, out)
            if status == -number:  # in the last moments, which are those of Python again
                counts["late"] += 1
                assert counts["late"] < 5 + rounds, "the signals are not handled"
                continue
            if status in (0, GIVES_NO_RESULT):
                assert "Traceback" not in said_by(out), said_by(out)
                if not attempt:  # the calm runs were slower, on a busy machine
                    seconds = min(seconds, time.monotonic() - began)
                break
            check_interrupt(number, status, out)
            counts["interrupts"] += 1
        status = finish(words_of(name, folder.parent / "input", out), out)
        assert status in (0, GIVES_NO_RESULT), (name, status, said_by(out))
        result = digest_files(out)
        assert result.keys() == wanted.keys(), (name, result.keys() ^ wanted.keys())
        other = {file for file in wanted if wanted[file] != result[file]} - varying
        assert not other, (name, other)
        counts["results"] += 1
        shutil.rmtree(out)
    return counts


def prepare_servers(source: Path) -> None:
    """Write what the servers show."""
    scores = ("--scores", str(source / "bag-of-words.csv"), "--resamples", "200")
    examples, images = str(source / "examples.jsonl"), str(source / "images")
    for words in (
        ("metrics", examples, *scores, "--out", str(source / "runs")),
        ("index", images, "--model", "tiny-clip", "--out", str(source / "index")),
    ):
        assert finish(words, source) == 0, said_by(source)


def stop_server(name: str, folder: Path, rounds: int, rng: random.Random) -> dict[str, Any]:
    """End a server by signals; it closes and ends well, or was interrupted before it served."""
    out = folder / "out"
    out.mkdir(parents=True)
    if not (folder.parent / "input" / "runs").exists():
        prepare_servers(folder.parent / "input")
    for _ in range(rounds):
        number = rng.choice(SIGNALS)
        child = start(words_of(name, folder.parent / "input", out), out)
        status = interrupt_after(child, rng.uniform(0, 1.0), number, out)
        if status not in (0, -number):
            check_interrupt(number, status, out)
        assert "Traceback" not in said_by(out), said_by(out)
    return {"interrupts": rounds, "results": 0}


def main(folder: Path, rounds: int, seed: str, names: Sequence[str]) -> None:
    """Interrupt some commands, or all, and print the counts."""
    prepare(folder / "input")
    gc.collect()
    gc.freeze()  # or a forked process may look through all that was imported, after its command
    result = {}
    with run_web_server() as web:
        use_server(web)
        for name in names or (*COMMANDS, *SERVERS):
            rng = random.Random(f"{seed} {name}")  # noqa: S311
            work: Callable[..., dict[str, Any]] = (
                stop_server if name in SERVERS else interrupt_command
            )
            began = time.monotonic()
            result[name] = work(name, folder / name.replace(" ", "-"), rounds, rng)
            took = time.monotonic() - began
            print(name, result[name], f"{took:.1f} s", file=sys.stderr, flush=True)
    print(json.dumps(result))


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]), sys.argv[3], sys.argv[4:])
