"""How long a second run takes when every answer is in the store: one million pairs by default.

    python benchmarks/store.py [--shape choice] [--score itm] [--pairs 1000000] [--captions 2]
                               [--images 20000] [--parts 100] [--rounds 5] [--speed 0.5] [--no-out]

Makes a benchmark file of some shape, small image files, and a store in which a matcher has answered
every pair, in so many parts; no two pairs are alike. With `--score itc` the store holds a vector of
512 numbers of every image and caption, 2 GB for a million captions. A first run finds nothing to
score, and notes the content ids of the image files. Then `contrapose eval … --cache-use only` runs
as a program of its own; printed is its time from command to results, by the clock and of the
processor: the median of some rounds. It writes a run folder and its report unless
`--no-out` says otherwise. The package's modules are compiled before, as an installer does it.
`--speed 0.5` stops the program for half of every 20 ms, as if the processors were half as fast.

    choice     one image and some captions, of which one is right (JSON lines)
    csv        the same as a table (CSV)
    cells      the same as a table whose cells hold lists as JSON
    negatives  one image, its caption and negatives, as `contrapose build pairs` writes them
    columns    the same as a table with a column for each negative
    images     two images and one caption
    pairs      two images and two captions, with a tag of seven values
    judgement  one image and one caption, true or false
    ratings    one image and one caption, rated from 0 to 4 in steps of a half
    mixed      choices, pairs, judgements and choices of images in turn
    gallery    every image against every caption; as many images as captions
    vl-checklist   choices in eight files of VL-CheckList's own form, read by its reader
"""

from __future__ import annotations

import argparse
import csv
import json
import os
import resource
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
from PIL import Image

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "src"))

from contrapose.data import text_id
from contrapose.data.images import ImageRef, content_id
from contrapose.engine import AnswerStore

WIDTH = 512
"""Numbers of a vector."""

SLICE = 0.02
"""Seconds of which a slowed program runs for a share."""

MODEL = '''
from contrapose.models import register_model

@register_model("silent")
class Silent:
    """Knows its name, and is never asked."""

    name, fingerprint, batch_size = "silent", "silent-1", 64

    def match(self, images, texts):
        raise RuntimeError("everything is in the store")

    def embed_images(self, images):
        raise RuntimeError("everything is in the store")

    embed_texts = embed_images
'''


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    arguments.add_argument("--shape", choices=list(SHAPES), default="choice")
    arguments.add_argument("--score", choices=("itm", "itc"), default="itm")
    arguments.add_argument("--pairs", type=int, default=1_000_000)
    arguments.add_argument("--captions", type=int, default=2, help="of each example of a choice")
    arguments.add_argument("--images", type=int, default=20_000)
    arguments.add_argument("--parts", type=int, default=100)
    arguments.add_argument("--rounds", type=int, default=5)
    arguments.add_argument("--speed", type=float, default=1.0, help="share of time that it runs")
    arguments.add_argument("--no-out", action="store_true", help="write no run folder")
    options = arguments.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        benchmark = build(folder, options)
        model = folder / "silent.py"
        model.write_text(MODEL)
        command = [
            sys.executable, "-c", "from contrapose.cli import main; main()",
            "eval", "silent", "--include", str(model), "--on", *benchmark,
            "--score", options.score, "--rerank", "all", "--quiet",
            "--cache", str(folder / "store"),
        ]  # fmt: skip
        source = Path(__file__).resolve().parent.parent / "src"
        os.environ["PYTHONPATH"] = str(source)  # this program, not one that is installed
        subprocess.run([sys.executable, "-m", "compileall", "-q", str(source)], check=True)
        time.sleep(2)  # files that were changed a moment ago are always read
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
        command += ["--cache-use", "only"]
        os.sync()  # what was made is on the disk before the clock runs
        runs = []
        for number in range(options.rounds):
            target = () if options.no_out else ("--out", str(folder / f"run{number}"))
            before = children_seconds()
            start = time.perf_counter()
            run_at_speed([*command, *target], options.speed)
            runs.append((time.perf_counter() - start, children_seconds() - before))
        used = resource.getrusage(resource.RUSAGE_CHILDREN)
        clock, processor = zip(*runs, strict=True)
        target = "no run folder" if options.no_out else "a run folder"
        target += f", at speed {options.speed:g}" * (options.speed < 1)
        print(f"{options.shape}, {options.score}, {options.pairs:,} pairs, "
              f"{options.images:,} images, {options.parts} parts, {target}")  # fmt: skip
        print(f"second run, from command to results: {median(clock):.1f} s "
              f"({min(clock):.1f} to {max(clock):.1f} in {options.rounds}; "
              f"{median(processor):.1f} s of processor time, "
              f"{used.ru_maxrss / 2**20:.2f} GiB)")  # fmt: skip


def run_at_speed(command: list[str], speed: float) -> None:
    """Run a program and those that it starts, stopped for a share of the time."""
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, start_new_session=True) as program:
        try:
            while speed < 1 and program.poll() is None:
                time.sleep(SLICE * speed)
                with suppress(ProcessLookupError):
                    os.killpg(program.pid, signal.SIGSTOP)
                    time.sleep(SLICE * (1 - speed))
                    os.killpg(program.pid, signal.SIGCONT)
        except BaseException:
            program.kill()
            raise
    if program.returncode:
        raise SystemExit(f"the program ended with status {program.returncode}")


def children_seconds() -> float:
    """Processor seconds of the programs that were run so far."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


Rows = Iterator[tuple[dict[str, Any], list[tuple[int, str]]]]
"""Records of a file, and the pairs of image number and caption that each adds."""


def choices(options: argparse.Namespace) -> Rows:
    for k in range(options.pairs // options.captions):
        texts = [f"caption {j} of example {k}" for j in range(options.captions)]
        image = k % options.images
        row = {"id": str(k), "images": [f"images/{image}.png"], "texts": texts, "right": 0}
        yield row, [(image, text) for text in texts]


def flat_choices(options: argparse.Namespace) -> Rows:
    for row, pairs in choices(options):
        texts = {f"text_{j}": text for j, text in enumerate(row["texts"])}
        yield {"id": row["id"], "image": row["images"][0], **texts, "right": 0}, pairs


def pairs_of_two(options: argparse.Namespace) -> Rows:
    for k in range(options.pairs // 4):
        texts = [f"caption {j} of example {k}" for j in range(2)]
        images = [(2 * k + i) % options.images for i in range(2)]
        row = {
            "id": str(k),
            "images": [f"images/{i}.png" for i in images],
            "texts": texts,
            "match": [[True, False], [False, True]],
            "tags": {"subset": f"s{k % 7}"},
        }
        yield row, [(image, text) for image in images for text in texts]


def image_choices(options: argparse.Namespace) -> Rows:
    for k in range(options.pairs // 2):
        images, text = [(2 * k + i) % options.images for i in range(2)], f"caption of example {k}"
        names = [f"images/{i}.png" for i in images]
        row = {"id": str(k), "images": names, "texts": [text], "match": [[True], [False]]}
        yield row, [(image, text) for image in images]


def negatives(options: argparse.Namespace) -> Rows:
    for row, pairs in choices(options):
        right, *wrong = row["texts"]
        kinds = {"negatives": [f"kind {j}" for j in range(len(wrong))]}
        image = row["images"][0]
        yield {"image": image, "caption": right, "negatives": wrong, "kinds": kinds}, pairs


def negative_columns(options: argparse.Namespace) -> Rows:
    for row, pairs in negatives(options):
        wrong = {f"negative_{j}": text for j, text in enumerate(row["negatives"])}
        yield {"image": row["image"], "caption": row["caption"], **wrong}, pairs


def mixed(options: argparse.Namespace) -> Rows:
    sources = [make(options) for make in (choices, pairs_of_two, judgements, image_choices)]
    left, k = options.pairs, 0
    while left > 0:
        row, pairs = next(sources[k % 4])
        yield {**row, "id": f"{k % 4}-{row['id']}"}, pairs
        left, k = left - len(pairs), k + 1


def judgements(options: argparse.Namespace) -> Rows:
    for k in range(options.pairs):
        image, text = k % options.images, f"caption of example {k}"
        row = {"id": str(k), "image": f"images/{image}.png", "text": text, "label": k % 3 != 0}
        yield row, [(image, text)]


def ratings(options: argparse.Namespace) -> Rows:
    for k, (row, pairs) in enumerate(judgements(options)):
        yield {**row, "tags": {"rating": k % 9 / 2}}, pairs


def gallery(options: argparse.Namespace) -> Rows:
    side = options.images = round(options.pairs**0.5)
    for k in range(side):
        row = {"image": f"images/{k}.png", "caption": f"caption {k}"}
        yield row, [(k, f"caption {j}") for j in range(side)]


SHAPES: dict[str, Callable[[argparse.Namespace], Rows]] = {
    "choice": choices,
    "csv": flat_choices,
    "cells": choices,
    "negatives": negatives,
    "columns": negative_columns,
    "images": image_choices,
    "pairs": pairs_of_two,
    "mixed": mixed,
    "judgement": judgements,
    "ratings": ratings,
    "gallery": gallery,
    "vl-checklist": choices,
}

CSV_SHAPES = ("csv", "cells", "columns")
"""Shapes that are written as a table."""


def build(folder: Path, options: argparse.Namespace) -> list[str]:
    """Write the benchmark's file, its images and a store with every answer; return its name."""
    draw = np.random.default_rng(0)
    rows = list(SHAPES[options.shape](options))
    images_folder = folder / ("vg" if options.shape == "vl-checklist" else "images")
    images_folder.mkdir()
    ids = []
    for i in range(options.images):
        path = images_folder / f"{i}.png"
        Image.new("RGB", (8, 8), (i % 256, i // 256 % 256, i // 65536)).save(path)
        ids.append(content_id(ImageRef(path.name, path)))
    pairs = [pair for _, some in rows for pair in some]
    images, texts = [ids[image] for image, _ in pairs], [text_id(text) for _, text in pairs]
    fill_store(AnswerStore(folder / "store"), options, (ids, images, texts), draw)
    if options.shape == "vl-checklist":
        write_vl_checklist(folder, rows)
        return ["vl-checklist", "--root", str(folder)]
    file = folder / ("made.csv" if options.shape in CSV_SHAPES else "made.jsonl")
    with file.open("w", newline="") as stream:
        if options.shape in CSV_SHAPES:
            writer = csv.writer(stream)
            writer.writerow(rows[0][0])
            for row, _ in rows:
                cells = (json.dumps(v) if isinstance(v, list) else v for v in row.values())
                writer.writerow(cells)
        else:
            stream.writelines(json.dumps(row) + "\n" for row, _ in rows)
    return [str(file)]


def write_vl_checklist(folder: Path, rows: list[tuple[dict[str, Any], Any]]) -> None:
    """Write choices of two captions in VL-CheckList's form."""
    names = [f"{source}/{aspect}" for source in ("vg", "vaw")
             for aspect in ("action", "color", "material", "size")]  # fmt: skip
    for name, part in zip(names, np.array_split(np.arange(len(rows)), len(names)), strict=True):
        path = folder / "Attribute" / f"{name}.json"
        path.parent.mkdir(parents=True, exist_ok=True)
        entries = []
        for k in part.tolist():
            row = rows[k][0]
            right, wrong = row["texts"]
            image = row["images"][0].removeprefix("images/")
            entries.append([image, {"POS": [right], "NEG": [wrong]}])
        path.write_text(json.dumps(entries))


def fill_store(
    store: AnswerStore,
    options: argparse.Namespace,
    given: tuple[list[str], list[str], list[str]],
    draw: np.random.Generator,
) -> None:
    """Add an answer of each pair, or a vector of each image and caption.

    Args:
        store: the store.
        options: of the command.
        given: ids of all images, and of the image and the caption of each pair.
        draw: draws the answers.
    """
    ids, images, texts = given
    if options.score == "itc":
        add_vectors(store, "image", ids, options.parts, draw)
        add_vectors(store, "text", list(dict.fromkeys(texts)), options.parts, draw)
        return
    table = store.table("silent-1", "itm:logit")
    for part in np.array_split(np.arange(len(images)), options.parts):
        values = {"value": draw.normal(size=len(part))}
        table.add([images[i] for i in part], [texts[i] for i in part], values)


def add_vectors(
    store: AnswerStore, what: str, ids: list[str], parts: int, draw: np.random.Generator
) -> None:
    """Add a unit vector of each image or caption."""
    table = store.table("silent-1", f"itc:cosine:{what}")
    for part in np.array_split(np.arange(len(ids)), parts):
        vectors = draw.normal(size=(len(part), WIDTH)).astype(np.float32)
        vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
        some, none = [ids[i] for i in part], [""] * len(part)
        table.add(*((some, none) if what == "image" else (none, some)), {"vector": vectors})


if __name__ == "__main__":
    main()
