"""ColorSwap: the same words with the colors exchanged, and an image of both."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from contrapose.data.benchmarks.pair_tables import PairColumns, read_pair_tables
from contrapose.data.cards import Benchmark, Card, Micro
from contrapose.data.downloads import Download, HubFiles
from contrapose.data.examples import Example
from contrapose.files import Problems

CARD = Card(
    name="colorswap",
    title="ColorSwap: the same words, colors exchanged, two images",
    paper="Burapacheep et al., ColorSwap: A Color and Word Order Dataset for Multimodal "
    "Evaluation, ACL Findings 2024 (arXiv:2402.04492)",
    license="MIT; gated on the hub",
    source="the dataset stanfordnlp/colorswap on the Hugging Face hub, after accepting its terms; "
    "replies of chat models in github.com/Top34051/colorswap (vlm_results/)",
    layout="test*.parquet of the hub, or test.json(l) with image names below this folder; here or "
    "in data/; columns id, image_1, image_2, caption_1, caption_2, image_source, caption_source",
    download=Download(
        None,
        (HubFiles("stanfordnlp/colorswap", ("*test*.parquet", "*test*.json*")),),
        gated="https://huggingface.co/datasets/stanfordnlp/colorswap",
    ),
    shape="2 × 2",
    family="pairs",
    counts={"colorswap": 300},
    aggregation=Micro(),
    chance={"text": 1 / 4, "image": 1 / 4, "group": 1 / 6},
    tags={
        "image_source": "model that made the images",
        "caption_source": "human or model that wrote the captions",
    },
    by=(),
    errata="its files are gated and were not seen: the columns are those of the released script. "
    "The 700 training examples do not count",
)

COLUMNS = PairColumns(
    ("image_1", "image_2"),
    ("caption_1", "caption_2"),
    id="id",
    tags={"image_source": "image_source", "caption_source": "caption_source"},
)


def read(root: Path, problems: Problems) -> Iterator[Example]:
    """Read the test examples."""
    return read_pair_tables(root, problems, COLUMNS, "test*")


BENCHMARK = Benchmark(CARD, read)
