"""Decoder processes: the same bytes as in this process, whatever happens to them."""

from __future__ import annotations

import io
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import CancelledError, Future
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from contrapose.data import ImageRef, content_id, open_image
from contrapose.data.decoder import LENGTH, SHAPE, serve_requests
from contrapose.data.decoders import DecoderPool, DecodeTask
from contrapose.errors import InputError
from contrapose.resize_crop import ResizeCrop

STEPS = ResizeCrop(32, (32, 32), int(Image.Resampling.BICUBIC), even=True)


def task(ref: ImageRef, steps: ResizeCrop = STEPS) -> DecodeTask:
    return DecodeTask(
        ref,
        steps,
        lambda array: ("there", array),
        lambda: ("here", steps.to_bytes(open_image(ref))),
    )


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("images")
    values = np.random.default_rng(0).integers(0, 256, (50, 70, 3), dtype=np.uint8)
    image = Image.fromarray(values)
    image.save(path / "a.jpg")
    image.save(path / "b.png")
    image.convert("RGBA").resize((33, 120)).save(path / "c ü.png")
    image.convert("L").save(path / "d.bmp")
    np.save(path / "e.npy", values)
    (path / "bad.jpg").write_bytes((path / "a.jpg").read_bytes()[:200])
    Image.new("1", (5000, 4000)).save(path / "large.png")
    Image.new("1", (9000, 9000)).save(path / "bomb.png")
    return path


@pytest.fixture(scope="module")
def pool() -> Iterator[DecoderPool]:
    pool = DecoderPool(1)
    yield pool
    pool.close()


def refs_of(folder: Path) -> list[ImageRef]:
    return [
        ImageRef("a", folder / "a.jpg"),
        ImageRef("a", folder / "a.jpg", crop=(5, 6, 40, 30)),
        ImageRef("a", folder / "a.jpg", crop=(5, 6, 40, 30), square=True),
        ImageRef("b", folder / "b.png", square=True),
        ImageRef("c", folder / "c ü.png"),
        ImageRef("d", folder / "d.bmp"),
        ImageRef("e", folder / "e.npy", channels="bgr"),
    ]


def test_bytes_are_those_of_this_process(folder: Path, pool: DecoderPool) -> None:
    for steps in (STEPS, ResizeCrop((20, 30), None, int(Image.Resampling.BILINEAR))):
        futures = [pool.submit(task(ref, steps)) for ref in refs_of(folder)]
        for ref, future in zip(refs_of(folder), futures, strict=True):
            where, array = future.result()
            assert where == "there"
            assert np.array_equal(array, steps.to_bytes(open_image(ref)))


def test_an_image_that_a_decoder_cannot_open_is_left_to_this_process(
    folder: Path, pool: DecoderPool
) -> None:
    for name in ("bad.jpg", "none.jpg", "bomb.png"):
        with pytest.raises(InputError) as alone:
            open_image(ImageRef("x", folder / name))
        with pytest.raises(InputError) as error:
            pool.submit(task(ImageRef("x", folder / name))).result()
        assert str(error.value) == str(alone.value)
    where, array = pool.submit(task(ImageRef("x", folder / "large.png"))).result()
    assert where == "here"  # more pixels than a decoder may hold
    assert array.shape == (3, 32, 32)


def test_an_image_that_is_another_one_by_now_is_left_to_this_process(
    folder: Path, pool: DecoderPool
) -> None:
    for ref in refs_of(folder)[:4]:
        for content, wanted in ((content_id(ref), "there"), ("0" * 32, "here")):
            where, _ = pool.submit(replace(task(ref), content=content)).result()
            assert where == wanted


def test_a_decoder_that_is_killed_costs_no_image(folder: Path) -> None:
    pool = DecoderPool(1)
    ref = ImageRef("a", folder / "a.jpg")
    assert pool.submit(task(ref)).result()[0] == "there"
    os.kill(pool.pids[0], signal.SIGSTOP)
    futures = [pool.submit(task(ref)) for _ in range(5)]
    os.kill(pool.pids[0], signal.SIGKILL)
    for future in futures:
        where, array = future.result()
        assert where == "here"
        assert np.array_equal(array, STEPS.to_bytes(open_image(ref)))
    pool.close()


def test_close_ends_processes_and_cancels_tasks(folder: Path) -> None:
    pool = DecoderPool(2)
    for pid in pool.pids:
        os.kill(pid, signal.SIGSTOP)
    futures: list[Future[Any]] = [
        pool.submit(task(ImageRef("a", folder / "a.jpg"))) for _ in range(8)
    ]
    pids = pool.pids
    pool.close()
    assert all(not is_running(pid) for pid in pids)
    for future in futures:
        with pytest.raises(CancelledError):
            future.result(timeout=60)


def test_interrupt_is_not_for_decoders(folder: Path, pool: DecoderPool) -> None:
    ref = ImageRef("a", folder / "a.jpg")
    assert pool.submit(task(ref)).result()[0] == "there"
    os.kill(pool.pids[0], signal.SIGINT)
    assert pool.submit(task(ref)).result()[0] == "there"


def test_no_decoder_outlives_a_killed_program() -> None:
    script = (
        "import os, signal\n"
        "from contrapose.data.decoders import DecoderPool\n"
        "pool = DecoderPool(1)\n"
        "print(pool.pids[0], flush=True)\n"
        "os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    ended = subprocess.run(  # noqa: S603 - this program
        [sys.executable, "-c", script], capture_output=True, text=True, check=False, env=paths()
    )
    assert ended.returncode == -signal.SIGKILL
    end = time.monotonic() + 60
    while is_running(int(ended.stdout)):
        assert time.monotonic() < end
        time.sleep(0.05)


def test_masks_are_a_fourth_channel(folder: Path, pool: DecoderPool) -> None:
    ref = ImageRef("a", folder / "a.jpg")
    rng = np.random.default_rng(1)
    masks = [rng.integers(0, 2, (50, 70)).astype(np.bool_) for _ in range(2)]
    packed = tuple((np.packbits(mask).tobytes(), mask.shape) for mask in masks)
    (where, array), (_, plain) = (
        pool.submit(replace(task(ref), masks=some)).result() for some in (packed, ())
    )
    assert where == "there"
    assert np.array_equal(array[:3], plain)
    assert np.array_equal(array[3], 255 * STEPS.cover(masks[0] | masks[1]))
    other = ((b"\xff" * 5, (5, 8)),)
    assert pool.submit(replace(task(ref), masks=other)).result()[0] == "here"


def test_a_decoder_imports_neither_torch_nor_numpy(folder: Path) -> None:
    request = json.dumps([task(ImageRef("a", folder / "a.jpg")).to_json()]).encode()
    script = (
        "import io, sys\n"
        "from contrapose.data.decoder import LENGTH, serve_requests\n"
        "request, reply = sys.stdin.buffer.read(), io.BytesIO()\n"
        "serve_requests(io.BytesIO(LENGTH.pack(len(request)) + request), reply)\n"
        "assert len(reply.getvalue()) > 3 * 32 * 32\n"
        "assert not {'torch', 'numpy'} & sys.modules.keys()"
    )
    ended = subprocess.run(  # noqa: S603
        [sys.executable, "-c", script], check=False, env=paths(), input=request
    )
    assert ended.returncode == 0


def test_protocol(folder: Path) -> None:
    images = [
        task(ImageRef("x", folder / name)).to_json() for name in ("a.jpg", "none.jpg", "a.jpg")
    ]
    assert images[1]["path"] == str(folder / "none.jpg")
    request = json.dumps(images).encode()
    replies = io.BytesIO()
    serve_requests(io.BytesIO(2 * (LENGTH.pack(len(request)) + request)), replies)
    content, half = replies.getvalue(), len(replies.getvalue()) // 2
    assert content[:half] == content[half:]
    good, bad = SHAPE.pack(3, 32, 32), SHAPE.pack(3, 0, 0)
    assert content[: 3 * SHAPE.size] == good + bad + good
    first, second = np.split(np.frombuffer(content[3 * SHAPE.size : half], np.uint8), 2)
    assert len(first) == 3 * 32 * 32
    assert np.array_equal(first, second)


def is_running(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return False
    return state != "Z"


def paths() -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
