"""Jobs that are killed at random instants, or run out of disk, and then have to end as in peace.

    python -m tests.torture.jobs {kill,fill,both} FOLDER ROUNDS SEED JOB…

Each job is one verb on a small input: eval, tune, build, index, fetch, and served, which is eval
of a model behind a server with many requests in flight. A job runs once in peace.
Then it is started and killed again and again until one attempt ends, or started on disks of growing
size; its result must be that of the calm run. Everything is imported once and every attempt is
forked. The counts are printed as JSON.
"""

from __future__ import annotations

import faulthandler
import hashlib
import json
import os
import random
import resource
import shutil
import signal
import subprocess
import sys
import time
import traceback
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image
from pyarrow import parquet

from contrapose.build.minimal_pairs import MinimalPair, PairImage, PairSource, SourcePairs
from contrapose.build.pair_sets import write_pair_set
from contrapose.data import in_memory_benchmark
from contrapose.data.cached_data import data_status
from contrapose.data.fetch import fetch_source
from contrapose.engine import part_writer
from contrapose.errors import ContraposeError, DamageWarning, InputError
from contrapose.evaluation.evaluate import evaluate_models
from contrapose.evaluation.parts import EvalRequest
from contrapose.files import download as downloader
from contrapose.results import write_run
from contrapose.results.runs import read_runs
from contrapose.search.index import open_index
from contrapose.search.writer import IndexRequest, build_index
from contrapose.tune.run import tune
from contrapose.tune.settings import Settings, TuneRequest
from tests.build.test_pair_sets import settings
from tests.data.test_fetch import ANNOTATIONS, NAMES, make_image, make_source
from tests.engine.killed import evaluate
from tests.fakes import pairs
from tests.search.photos import ColorModel, write_photos
from tests.torture.word_server import WordServer, load_words, serve_words
from tests.tune.small import small_student, write_pairs
from tests.web_server import WebServer, run_web_server

REFUSED, BROKEN, DONE = 2, 1, 0
LONGEST_END = 300
"""Seconds that a process may take to end after a signal, on a busy machine too."""
MOST_KILLS = 8
"""Kills of one attempt after another, before it is left to end."""


class SlowColors(ColorModel):
    """Dual encoder that takes its time, with vectors of 8 KiB, so that disks fill in any file."""

    def embed_images(self, images: Sequence[Image.Image]) -> Any:
        time.sleep(0.01)
        return np.tile(super().embed_images(images), 512) / 512**0.5


@dataclass(frozen=True)
class Job:
    """A verb on a small input.

    Attributes:
        prepare: writes the input into a folder that every attempt reads.
        work: does the job, or goes on with it: (input, output).
        outcome: the result in the output, without times and paths.
        requests: count of the requests so far, where a server is asked.
    """

    prepare: Callable[[Path], None]
    work: Callable[[Path, Path], None]
    outcome: Callable[[Path], dict[str, Any]]
    requests: Callable[[], int] | None = None


def run_eval(source: Path, out: Path) -> None:
    evaluate(str(out / "store"), str(out / "run"))


def eval_outcome(out: Path) -> dict[str, Any]:
    read_runs(out / "run")
    files = (path for path in (out / "run").iterdir() if path.name != "spec.json")
    return {path.name: path.read_bytes() for path in files}


def prepare_tune(source: Path) -> None:
    (source / "model").mkdir(parents=True)
    small_student().save(source / "model", {})
    (source / "pairs").mkdir()
    write_pairs(source / "pairs", 12)


def run_tune(source: Path, out: Path) -> None:
    """Go on where there is something to go on with, as a user would after a kill."""
    plain = Settings(steps=6, batch=4, rate=1e-2, save_every=2, log_every=1)
    pairs = next((source / "pairs").glob("*.jsonl"))
    request = TuneRequest(
        str(source / "model"), str(pairs), out / "tuned", "hp+hn", plain, held_out=0.5,
        device="cpu", resume=(out / "tuned" / "training").is_dir(),
    )  # fmt: skip
    tune(request)


def tune_outcome(out: Path) -> dict[str, Any]:
    bill = json.loads((out / "tuned/training/bill.json").read_text())
    weights = (out / "tuned/contrapose-tiny.safetensors").read_bytes()
    return {"weights": weights[-2000:], "items": bill["items"]}


def make_pairs(number: int) -> PairSource:
    def make() -> SourcePairs:
        time.sleep(0.01)
        images = [
            PairImage(f"v{number}/{i}", Image.new("RGB", (64, 64), (number, i, 0)))
            for i in range(3)
        ]
        pairs = [
            MinimalPair(f"{number}-{i}", (images[i], images[i + 1]), (f"cube {i}", f"cube {i + 1}"))
            for i in range(2)
        ]
        return SourcePairs(pairs, {"pairs": 2})

    return PairSource(f"video {number}", f"print {number}", make)


def run_build(source: Path, out: Path) -> None:
    write_pair_set([make_pairs(i) for i in range(20)], out / "set", settings())


def build_outcome(out: Path) -> dict[str, Any]:
    files = (path for path in sorted((out / "set").rglob("*")) if path.is_file())
    return {path.relative_to(out).as_posix(): path.read_bytes() for path in files}


def prepare_index(source: Path) -> None:
    write_photos(source / "photos", 60)


def run_index(source: Path, out: Path) -> None:
    part_writer.WRITE_INTERVAL = part_writer.MAX_WRITE_INTERVAL = 0.0
    build_index(IndexRequest(source / "photos", out / "index"), SlowColors())


def index_outcome(out: Path) -> dict[str, Any]:
    index = open_index(out / "index")
    return {"vectors": index.vectors.tobytes(), "table": index.table.to_pylist()}


WEB = WebServer()
"""The server of the fetches."""


def run_fetch(source: Path, out: Path) -> None:
    os.environ["CONTRAPOSE_DATA"] = str(out / "data")
    fetch_source(make_source(WEB))


def fetch_outcome(out: Path) -> dict[str, Any]:
    os.environ["CONTRAPOSE_DATA"] = str(out / "data")
    assert data_status(make_source(WEB)).state == "complete"
    manifest = next((out / "data").rglob("manifest.json"))
    listed = json.loads(manifest.read_text())["files"]
    files = {name: (manifest.parent / name).read_bytes() for name in listed}
    left = [path.name for path in manifest.parent.rglob(".*") if path.suffix == ".part"]
    return {**files, "left": left}


WORDS = WordServer()
"""The server of the served model."""


def run_served(source: Path, out: Path) -> None:
    part_writer.WRITE_INTERVAL = part_writer.MAX_WRITE_INTERVAL = 0.0
    request = EvalRequest(
        (in_memory_benchmark(pairs(24), name="plain"),), ("lm", "vqa"), resamples=200,
        batch_size=16, cache=out / "store",
    )  # fmt: skip
    runs = evaluate_models([load_words(WORDS, "vllm", ",parallel=8")], request)
    assert WORDS.url
    write_run(runs, out / "run")


def count_requests() -> int:
    return len(WORDS.scored)


def nothing(source: Path) -> None:
    source.mkdir(parents=True, exist_ok=True)


JOBS = {
    "eval": Job(nothing, run_eval, eval_outcome),
    "tune": Job(prepare_tune, run_tune, tune_outcome),
    "build": Job(nothing, run_build, build_outcome),
    "index": Job(prepare_index, run_index, index_outcome),
    "fetch": Job(nothing, run_fetch, fetch_outcome),
    "served": Job(nothing, run_served, eval_outcome, count_requests),
}


def start(work: Callable[[], None]) -> int:
    """Fork a process that does some work; its status says how that ended."""
    child = os.fork()
    if child:
        return child
    status = BROKEN
    try:
        faulthandler.enable()
        warnings.simplefilter("error", DamageWarning)
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        work()
        status = DONE
    except (ContraposeError, OSError) as error:
        # The command line says both in one sentence.
        if isinstance(error, InputError | OSError):
            status = REFUSED
        print(f"{type(error).__name__}: {error}", file=sys.stderr)
        if os.environ.get("TORTURE_TRACE"):
            traceback.print_exc()
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stderr.flush()
        os._exit(status)


def finish(work: Callable[[], None]) -> int:
    return os.waitstatus_to_exitcode(os.waitpid(start(work), 0)[1])


def count_stored(out: Path) -> int:
    """Scores in the store of a job, by a process of its own."""
    file = out.parent / "rows"

    def work() -> None:
        files = (out / "store").rglob("[!.]*.parquet")
        parts = [part for part in files if part.parent.name != "tokens"]
        file.write_text(str(sum(parquet.read_metadata(part).num_rows for part in parts)))

    assert finish(work) == DONE
    return int(file.read_text())


def digest_outcome(job: Job, out: Path) -> str:
    """Digest of a job's result, by a process of its own: Arrow's threads outlive no fork."""
    file = out.parent / "digest"

    def work() -> None:
        content = repr(sorted(job.outcome(out).items())).encode()
        file.write_text(hashlib.sha256(content).hexdigest())

    file.unlink(missing_ok=True)
    assert finish(work) == DONE, "the result cannot be read"
    return file.read_text()


def finish_rest(job: Job, folder: Path, out: Path, counts: dict[str, Any]) -> int:
    """Let a job end; of a server it asks only what is not stored."""
    work = partial(job.work, folder / "input", out)
    if job.requests is None:
        return finish(work)
    stored, before = count_stored(out), job.requests()
    status = finish(work)
    rest = count_stored(out) - stored
    assert job.requests() - before == rest, f"{job.requests() - before} requests for {rest} pairs"
    counts["stored"] = counts.get("stored", 0) + stored
    counts["asked"] = counts.get("asked", 0) + rest
    return status


def calm_run(job: Job, folder: Path) -> tuple[str, float]:
    """Digest of the result of a run in peace, and its seconds."""
    (folder / "calm").mkdir(parents=True)
    began = time.monotonic()
    assert finish(lambda: job.work(folder / "input", folder / "calm")) == DONE
    seconds = time.monotonic() - began
    return digest_outcome(job, folder / "calm"), seconds


def wait_until(child: int, deadline: float) -> int | None:
    """Status of a process that ends before a moment of the monotonic clock; else none."""
    while time.monotonic() < deadline:
        done, status = os.waitpid(child, os.WNOHANG)
        if done:
            return os.waitstatus_to_exitcode(status)
        time.sleep(0.002)
    return None


def kill_after(child: int, seconds: float, number: int = signal.SIGKILL) -> int:
    """Send a signal to a process after some seconds, unless it ends before; return its status.

    A process that goes on after the signal is ended by SIGABRT, which prints where its threads are.
    """
    status = wait_until(child, time.monotonic() + seconds)
    if status is not None:
        return status
    os.kill(child, number)
    status = wait_until(child, time.monotonic() + LONGEST_END)
    if status is None:
        os.kill(child, signal.SIGABRT)
        os.waitpid(child, 0)
        raise AssertionError(f"signal {number} did not end the process in {LONGEST_END} s")
    return status


def wait_for_requests(job: Job) -> None:
    """Wait until requests that a killed process had sent have come in, on a busy machine too."""
    if job.requests is None:
        return
    before, still = job.requests(), 0
    while still < 10:
        time.sleep(0.05)
        now = job.requests()
        before, still = now, still + 1 if now == before else 0


def kill_job(
    job: Job, folder: Path, rounds: int, rng: random.Random, calm: tuple[str, float]
) -> dict[str, Any]:
    """Kill a job until so many kills have hit; every result must be that of the calm run."""
    wanted, seconds = calm
    counts: dict[str, Any] = {"kills": 0, "results": 0}
    while counts["kills"] < rounds:
        out = folder / f"killed-{counts['results']}"
        out.mkdir()
        status: int = -1
        for attempt in range(min(MOST_KILLS, rounds - counts["kills"])):
            child, began = start(partial(job.work, folder / "input", out)), time.monotonic()
            status = kill_after(child, rng.uniform(0, seconds))
            counts["kills"] += status == -signal.SIGKILL
            if status >= 0 and not attempt:  # the calm run was slower, on a busy machine
                seconds = min(seconds, time.monotonic() - began)
            # An attempt that was killed at its very end leaves a result, which is not replaced.
            assert status in (DONE, REFUSED, -signal.SIGKILL), f"an attempt ended with {status}"
            if status >= 0:
                break
        if status < 0:
            wait_for_requests(job)
            status = finish_rest(job, folder, out, counts)
            assert status in (DONE, REFUSED), f"the last attempt ended with {status}"
        assert digest_outcome(job, out) == wanted, f"another result after {counts}"
        counts["results"] += 1
        shutil.rmtree(out)
    return counts


def evaluate_together(
    folder: Path, rounds: int, rng: random.Random, calm: tuple[str, float]
) -> int:
    """Let four evaluations write one store at once, one of them killed; all tables are the same."""
    for turn in range(rounds):
        shared = folder / f"together-{turn}"
        outs = [shared / str(i) for i in range(4)]
        for out in outs:
            out.mkdir(parents=True)
        works = [partial(evaluate, str(shared / "store"), str(out / "run")) for out in outs]
        children = [start(work) for work in works]
        kill_after(children[0], rng.uniform(0, calm[1]))
        for child in children[1:]:
            assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == DONE
        shutil.rmtree(outs[0])
        outs[0].mkdir()
        assert finish(works[0]) == DONE
        for out in outs:
            assert digest_outcome(JOBS["eval"], out) == calm[0], "another table beside others"
        shutil.rmtree(shared)
    return rounds


@contextmanager
def small_disk(folder: Path, size: int) -> Iterator[str]:
    """A folder that takes so many bytes: a tmpfs, or a limit of file sizes without one."""
    folder.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", f"size={size}", "torture", str(folder)]
    mounted = subprocess.run(command, capture_output=True, check=False).returncode == 0  # noqa: S603
    try:
        yield "tmpfs" if mounted else "limit"
    finally:
        if mounted:
            subprocess.run(["umount", "-l", str(folder)], check=True)  # noqa: S603, S607
        shutil.rmtree(folder, ignore_errors=True)


def grow_disk(folder: Path) -> None:
    command = ["mount", "-o", "remount,size=200m", str(folder)]
    subprocess.run(command, check=True)  # noqa: S603


def used_bytes(folder: Path) -> int:
    """Bytes of a tmpfs that the files of a folder take, by pages of 4 KiB."""
    files = [path for path in folder.rglob("*") if path.is_file()]
    return sum(-(-path.stat().st_size // 4096) * 4096 for path in files)


def fill_job(
    job: Job, folder: Path, rounds: int, rng: random.Random, wanted: str
) -> dict[str, Any]:
    """Run a job on disks that are too small: it refuses, and ends well when there is room."""
    largest = max(path.stat().st_size for path in (folder / "calm").rglob("*") if path.is_file())
    counts: dict[str, Any] = {"disks": 0, "refused": 0}
    for i in range(rounds):
        share = (i + rng.random()) / rounds
        # A job may need more for a while than its result takes.
        size = 4096 + int(1.5 * share * used_bytes(folder / "calm")) // 4096 * 4096
        with small_disk(folder / "disk", size) as kind:
            out = folder / "disk"

            def limited(kind: str = kind, out: Path = out, share: float = share) -> None:
                if kind == "limit":
                    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
                    most = max(1, int(share * largest))
                    resource.setrlimit(resource.RLIMIT_FSIZE, (most, most))
                job.work(folder / "input", out)

            status = finish(limited)
            counts["disks"] += 1
            counts["refused"] += status == REFUSED
            counts["kind"] = kind
            assert status in (DONE, REFUSED), f"a full disk ended with {status}"
            if status == REFUSED:
                if kind == "tmpfs":
                    grow_disk(out)
                status = finish(partial(job.work, folder / "input", out))
                assert status == DONE, f"with room again it ended with {status}"
            assert digest_outcome(job, out) == wanted, f"another result after {counts}"
    return counts


def main(how: str, folder: Path, rounds: int, seed: str, names: Sequence[str]) -> None:
    """Torture some jobs, and print the counts."""
    downloader.BACKOFF = 0.0
    result = {}
    with run_web_server() as web, serve_words(seconds=0.02) as words:
        WEB.url, WORDS.url, WORDS.scored = web.url, words.url, words.scored
        web.files["/data/swap_obj.json"] = ANNOTATIONS
        web.files |= {f"/val2017/{name}": make_image(i) for i, name in enumerate(NAMES)}
        web.always |= {f"/val2017/{name}": "slow" for name in NAMES}
        for name in names:
            job, rng = JOBS[name], random.Random(f"{seed} {name}")  # noqa: S311
            job.prepare(folder / name / "input")
            wanted = calm_run(job, folder / name)
            result[name] = {"seconds": round(wanted[1], 2)}
            if how in ("kill", "both"):
                result[name] |= kill_job(job, folder / name, rounds, rng, wanted)
                if name == "eval":
                    together = evaluate_together(folder / name, -(-rounds // 4), rng, wanted)
                    result[name]["together"] = together
            if name == "served":
                assert words.busiest > 4, f"{words.busiest} requests in flight"
                result[name]["in flight"] = words.busiest
            if how in ("fill", "both"):
                result[name] |= fill_job(job, folder / name, max(2, rounds // 4), rng, wanted[0])
    print(json.dumps(result))


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]), int(sys.argv[3]), sys.argv[4], sys.argv[5:])
