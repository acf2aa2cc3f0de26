"""Decoding of image files in threads and in processes, beside a model that costs nothing.

    python benchmarks/decode.py [--images 400] [--side 224] [--workers 2] [--rounds 3]

JPEG files of 640 × 480 are opened, resized and cropped by the executor, in threads and in as many
processes; the model's answer is a constant. Prints per image the time by the clock, the processor
time of this process, and that of the thread that calls the model, medians of some rounds; the
processes are started before. Both ways must give the same bytes.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")
sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "src"))

import numpy as np
from PIL import Image

from contrapose.data import ImageRef, open_image
from contrapose.data.decoders import DecodeTask
from contrapose.engine.executor import LocalExecutor
from contrapose.resize_crop import ResizeCrop

BATCH = 64


class Decoding:
    """Work whose answer is the sum of the prepared bytes of each image."""

    def __init__(self, refs: Sequence[ImageRef], side: int):
        self.refs = refs
        self.steps = ResizeCrop(side, (side, side), int(Image.Resampling.BICUBIC))

    def inputs(self, batch: Any) -> list[int]:
        """Positions of the images."""
        return list(batch.tolist())

    def prepare(self, key: int) -> Any:
        """Bytes of an image, decoded in this process."""
        return self.steps.to_bytes(open_image(self.refs[key]))

    def decode_task(self, key: int) -> DecodeTask:
        """The same for a decoder process."""
        return DecodeTask(self.refs[key], self.steps, lambda a: a, partial(self.prepare, key))

    def answer(self, batch: Any, ready: Mapping[int, Any]) -> list[int]:
        """Sums of the images of a batch."""
        return [int(ready[i].sum()) for i in batch.tolist()]


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    arguments.add_argument("--images", type=int, default=400)
    arguments.add_argument("--side", type=int, default=224)
    arguments.add_argument("--workers", type=int, default=2, help="threads, or processes")
    arguments.add_argument("--rounds", type=int, default=3)
    options = arguments.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        work = Decoding(draw(Path(folder), options.images), options.side)
        ways = {
            "threads": LocalExecutor(options.workers, processes=0),
            "processes": LocalExecutor(options.workers, processes=options.workers),
        }
        sums = {}
        print(f"{options.images} images, {options.workers} workers; milliseconds per image")
        for name, executor in ways.items():
            with executor:
                executor.expect_images(options.images)
                rounds = []
                for _ in range(options.rounds + 1):
                    sums[name], times = measure(executor, work)
                    rounds.append(times)
            wall, used, main_thread = 1e3 / options.images * np.median(rounds[1:], axis=0)
            print(
                f"{name:9}  clock {wall:.2f}  this process {used:.2f}  calling thread "
                f"{main_thread:.2f}"
            )
        print("equal" if sums["threads"] == sums["processes"] else "NOT EQUAL")


def draw(folder: Path, count: int) -> list[ImageRef]:
    """Images of smooth noise, as JPEG."""
    rng = np.random.default_rng(0)
    refs = []
    for i in range(count):
        small = Image.fromarray(rng.integers(0, 256, (48, 64, 3), dtype=np.uint8))
        path = folder / f"{i}.jpg"
        small.resize((640, 480), Image.Resampling.BICUBIC).save(path, quality=90)
        refs.append(ImageRef(path.name, path))
    return refs


def measure(executor: LocalExecutor, work: Decoding) -> tuple[list[int], list[float]]:
    """Sums of all images, and seconds: by the clock, of the process, of this thread."""
    clocks = (time.perf_counter, time.process_time, time.thread_time)
    begin = [clock() for clock in clocks]
    kept: list[int] = []
    positions = np.arange(len(work.refs))
    jobs = [(work, positions[k : k + BATCH]) for k in range(0, len(positions), BATCH)]
    executor.run(jobs, lambda _, sums: kept.extend(sums))
    return kept, [clock() - start for clock, start in zip(clocks, begin, strict=True)]


if __name__ == "__main__":
    main()
