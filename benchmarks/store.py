"""How long a second run takes when every answer is in the store: one million pairs by default.

    python benchmarks/store.py [--pairs 1000000] [--captions 10] [--images 20000] [--parts 100]

Makes a benchmark file of examples with one image and some captions, small image files, and a store
in which a matcher has answered every pair, in so many parts; no two pairs are alike. Then runs
`contrapose eval … --score itm --cache-use only --out …` as a program of its own, and prints its
time from command to results, by the clock and of the processor.
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
from PIL import Image

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "src"))

from contrapose.data import text_id
from contrapose.data.images import ImageRef, content_id
from contrapose.engine import AnswerStore

MODEL = '''
from contrapose.models import register_model

@register_model("silent")
class Silent:
    """Knows its name, and is never asked."""

    name, fingerprint, batch_size = "silent", "silent-1", 64

    def match(self, images, texts):
        raise RuntimeError("everything is in the store")
'''


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    arguments.add_argument("--pairs", type=int, default=1_000_000)
    arguments.add_argument("--captions", type=int, default=10, help="of each example")
    arguments.add_argument("--images", type=int, default=20_000)
    arguments.add_argument("--parts", type=int, default=100)
    options = arguments.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        build(folder, options)
        model = folder / "silent.py"
        model.write_text(MODEL)
        command = [
            sys.executable, "-c", "from contrapose.cli import main; main()",
            "eval", "silent", "--include", str(model), "--on", str(folder / "made.jsonl"),
            "--score", "itm", "--cache-use", "only", "--cache", str(folder / "store"),
            "--out", str(folder / "run"), "--quiet",
        ]  # fmt: skip
        start = time.perf_counter()
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
        whole = time.perf_counter() - start
        used = resource.getrusage(resource.RUSAGE_CHILDREN)
        print(f"{options.pairs:,} pairs, {options.captions} captions an example, "
              f"{options.images:,} images, {options.parts} parts")  # fmt: skip
        print(f"second run, from command to results: {whole:.1f} s "
              f"({used.ru_utime + used.ru_stime:.1f} s of processor time)")  # fmt: skip


def build(folder: Path, options: argparse.Namespace) -> None:
    """The benchmark's file, its images, and a store with every answer."""
    draw = np.random.default_rng(0)
    examples = options.pairs // options.captions
    (folder / "images").mkdir()
    ids = []
    for i in range(options.images):
        path = folder / "images" / f"{i}.png"
        Image.new("RGB", (8, 8), (i % 256, i // 256, 7)).save(path)
        ids.append(content_id(ImageRef(path.name, path)))
    images, texts = [], []
    with (folder / "made.jsonl").open("w") as stream:
        for k in range(examples):
            captions = [f"caption {j} of example {k}" for j in range(options.captions)]
            row = {"id": str(k), "images": [f"images/{k % options.images}.png"]}
            stream.write(json.dumps({**row, "texts": captions, "right": 0}) + "\n")
            images += [ids[k % options.images]] * len(captions)
            texts += map(text_id, captions)
    table = AnswerStore(folder / "store").table("silent-1", "itm:logit")
    for part in np.array_split(np.arange(len(images)), options.parts):
        values = {"value": draw.normal(size=len(part))}
        table.add([images[i] for i in part], [texts[i] for i in part], values)


if __name__ == "__main__":
    main()
