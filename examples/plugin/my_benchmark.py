"""A benchmark of one's own: which colour is this? Every image is named after the right one."""

from contrapose.data import Benchmark, Card, Example, ImageRef, Micro, register_benchmark
from contrapose.data.examples import single_match

COLOURS = ("red", "green", "blue", "yellow")
CARD = Card(
    name="colours",
    title="Colours: one image, four colour words",
    paper="none",
    licence="Apache-2.0",
    source="examples/plugin/colours",
    layout="<colour>.png",
    shape="1 × 4",
    family="choice",
    counts={"colours": 4},
    aggregation=Micro(),
    chance={"accuracy": 1 / 4},
    by=(),
)


def read(root, problems):
    for right, colour in enumerate(COLOURS):
        image = ImageRef(colour, root / f"{colour}.png")
        texts = tuple(f"something {word}" for word in COLOURS)
        yield Example(colour, (image,), texts, single_match(len(COLOURS), right), {})


register_benchmark(Benchmark(CARD, read))
