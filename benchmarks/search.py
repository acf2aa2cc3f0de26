"""Search as ratios measured in one run: exact search over faiss, a query's latency, indexing.

    OMP_NUM_THREADS=2 python benchmarks/search.py                # all three
    OMP_NUM_THREADS=2 python benchmarks/search.py --part exact --repeats 5

exact: top-5 of 18,000 queries over 6,000 × 512 and of 256 over 1,000,000 × 512, against faiss's
IndexFlatIP with the same threads, alternately; the median of each and of the ratios. Vectors have
length 1, which search is told, as an index tells it. Rows are compared too. Needs faiss-cpu, and
5 GB of memory for the second.

latency: queries of text and of image with a change on an index of 100,000 × 512 on disk, after the
first, with a model whose encoders cost nothing; the text vectors are new each time. Beside the
time on the clock the processor time, which other programs on the machine do not change. Then the
same queries as the web page sends them, over HTTP to the server of `contrapose serve` and back.

index: `contrapose index` over a bare loop that opens, prepares and encodes the same images in
batches of the same size, alternately. The model is tiny-clip.
"""

from __future__ import annotations

import argparse
import http.client
import json
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "src"))

from contrapose.search.exact import search_exact
from contrapose.search.index import BLOCK_ROWS, block_checksum, open_index, write_index

WIDTH = 512
QUERIES = 21
"""Queries of a latency; the first is told apart."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--part", choices=("exact", "latency", "index"), action="append")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--images", type=int, default=1500, help="of the part index")
    arguments = parser.parse_args()
    parts = arguments.part or ["exact", "latency", "index"]
    print(f"load {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores")
    if "exact" in parts:
        compare_with_faiss(18_000, 6_000, arguments.repeats)
        compare_with_faiss(256, 1_000_000, arguments.repeats)
    if "latency" in parts:
        measure_latency(100_000)
    if "index" in parts:
        measure_indexing(arguments.images, arguments.repeats)


def draw(rng: np.random.Generator, count: int) -> np.ndarray[Any, Any]:
    vectors = rng.standard_normal((count, WIDTH), dtype=np.float32)
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    return vectors


def clock(call: Callable[[], Any]) -> tuple[float, Any]:
    start = time.perf_counter()
    result = call()
    return time.perf_counter() - start, result


def compare_with_faiss(queries: int, size: int, repeats: int) -> None:
    import faiss

    faiss.omp_set_num_threads(int(os.environ.get("OMP_NUM_THREADS", os.cpu_count() or 1)))
    rng = np.random.default_rng(0)
    gallery, asked = draw(rng, size), draw(rng, queries)
    index = faiss.IndexFlatIP(WIDTH)
    index.add(gallery)
    times: list[tuple[float, float]] = []
    agree = 0.0
    for _ in range(repeats):
        theirs, (_, rows) = clock(lambda: index.search(asked, 5))
        ours, neighbors = clock(lambda: search_exact(asked, gallery, 5, longest=1.0))
        times.append((ours, theirs))
        agree = float((rows == neighbors.rows).mean())
    ours, theirs = (statistics.median(column) for column in zip(*times, strict=True))
    ratio = statistics.median(a / b for a, b in times)
    print(
        f"top-5 of {queries:,} over {size:,} × {WIDTH}: {ours:.2f} s, faiss {theirs:.2f} s, "
        f"ratio {ratio:.2f}; {agree:.2%} of the rows agree; load {os.getloadavg()[0]:.1f}"
    )


@dataclass
class FreeModel:
    """Dual encoder whose vectors are drawn by a hash of the text; it costs nothing."""

    name: str = "free"
    fingerprint: str = "free-1"
    batch_size: int = 64

    def embed_images(self, images: Sequence[Any]) -> Any:
        """Unit vectors."""
        return np.eye(WIDTH)[: len(images)]

    def embed_texts(self, texts: Sequence[str]) -> Any:
        """Vectors drawn by a hash."""
        return np.stack(
            [np.random.default_rng(abs(hash(text))).standard_normal(WIDTH) for text in texts]
        )


def measure_latency(size: int) -> None:
    from PIL import Image

    from contrapose.search.queries import SearchQuery, WordChange
    from contrapose.search.searcher import Searcher

    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        vectors = root / "vectors.npy"
        drawn = draw(np.random.default_rng(0), size)
        np.save(vectors, drawn)
        names = [f"{row:06d}.png" for row in range(size)]
        table = {"path": names, "size": [0] * size, "mtime": [0] * size, "content": names}
        blocks = [drawn[start : start + BLOCK_ROWS] for start in range(0, size, BLOCK_ROWS)]
        checked = vectors, [block_checksum(block) for block in blocks]
        write_index(root, root, ("free", "free-1"), table, checked, {}, 1)
        searcher = Searcher(open_index(root), FreeModel())
        image = root / "query.png"
        Image.new("RGB", (32, 32), "red").save(image)
        kinds = {
            "text": lambda i: SearchQuery(text=f"text {i}"),
            "image + change": lambda i: SearchQuery(
                image=image, changes=(WordChange(f"a {i}", f"b {i}"),)
            ),
            "image + text (weicom)": lambda i: SearchQuery(image=image, text=f"text {i}"),
            "image + text (basic)": lambda i: SearchQuery(
                image=image, text=f"text {i}", fusion="basic"
            ),
        }
        for name, make in kinds.items():
            calls = [partial(searcher.search, make(i)) for i in range(QUERIES)]
            print_latency(f"{name} on {size:,} images", calls)
        image.replace(root / names[0])
        measure_http(searcher, names[0], size)


def measure_http(searcher: Any, path: str, size: int) -> None:
    """Queries as the page sends them, on one connection that is kept open."""
    from contrapose.search.server import SearchServer

    edits = {
        "text": lambda i: {"edit": f"text {i}"},
        "image + change": lambda i: {"path": path, "edit": f"a{i} -> b{i}"},
        "image + text (weicom)": lambda i: {"path": path, "edit": f"text {i}"},
        "image + text (basic)": lambda i: {"path": path, "edit": f"t {i}", "fusion": "basic"},
    }
    with SearchServer(searcher) as server:
        connection = http.client.HTTPConnection(server.url.split("/")[2], timeout=60)

        def ask(values: dict[str, Any]) -> None:
            connection.request("POST", "/api/search", json.dumps(values))
            answer = json.loads(connection.getresponse().read())
            if "hits" not in answer:
                raise SystemExit(f"the server refused a query: {answer}")

        for name, make in edits.items():
            calls = [partial(ask, make(i)) for i in range(QUERIES)]
            print_latency(f"{name} over HTTP on {size:,} images", calls)
        connection.close()


def print_latency(name: str, calls: Sequence[Callable[[], Any]]) -> None:
    times, busy = [], []
    for call in calls:
        before = time.process_time()
        times.append(1e3 * clock(call)[0])
        busy.append(1e3 * (time.process_time() - before))
    median, worst = statistics.median(times[1:]), max(times[1:])
    print(
        f"{name}: first {times[0]:.0f} ms, then median {median:.0f} ms, worst {worst:.0f} ms; "
        f"processor time {statistics.median(busy[1:]):.0f} ms"
    )


def measure_indexing(count: int, repeats: int) -> None:
    import torch
    from PIL import Image

    from contrapose.data import ImageRef
    from contrapose.data.images import open_image
    from contrapose.engine.images import prepare_image
    from contrapose.models import load_model
    from contrapose.search.writer import IndexRequest, build_index

    model: Any = load_model("tiny-clip", device="cpu")
    rng = np.random.default_rng(0)
    with tempfile.TemporaryDirectory() as folder:
        photos = Path(folder) / "photos"
        photos.mkdir()
        for number in range(count):
            small = Image.fromarray(rng.integers(0, 256, (12, 16, 3), dtype=np.uint8))
            small.resize((320, 240)).save(photos / f"{number}.jpg", quality=85)
        files = sorted(photos.iterdir())

        def encode() -> None:
            for start in range(0, count, model.batch_size):
                refs = [
                    ImageRef(file.name, file) for file in files[start : start + model.batch_size]
                ]
                with torch.inference_mode():
                    model.embed_images(
                        [prepare_image(model, ref.key, ref, open_image(ref)) for ref in refs]
                    )

        ratios = []
        for number in range(repeats):
            bare, _ = clock(encode)
            request = IndexRequest(photos, Path(folder) / f"index-{number}")
            whole, _ = clock(lambda request=request: build_index(request, model))
            ratios.append(whole / bare)
            print(f"index of {count:,} images: {whole:.2f} s, bare encoder {bare:.2f} s")
        print(f"ratio {statistics.median(ratios):.2f}; load {os.getloadavg()[0]:.1f}")


if __name__ == "__main__":
    main()
