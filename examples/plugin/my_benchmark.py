"""A benchmark of your own: which color is this? Every image is named after the right one."""

from contrapose.data import Benchmark, Card, Example, ImageRef, Micro, register_benchmark
from contrapose.data.examples import single_match

COLORS = ("red", "green", "blue", "yellow")
CARD = Card(
    name="colors",
    title="Colors: one image, four color words",
    paper="none",
    license="Apache-2.0",
    source="examples/plugin/colors",
    layout="<color>.png",
    shape="1 × 4",
    family="choice",
    counts={"colors": 4},
    aggregation=Micro(),
    chance={"accuracy": 1 / 4},
    by=(),
)


def read(root, problems):
    for right, color in enumerate(COLORS):
        image = ImageRef(color, root / f"{color}.png")
        texts = tuple(f"something {word}" for word in COLORS)
        yield Example(color, (image,), texts, single_match(len(COLORS), right), {})


register_benchmark(Benchmark(CARD, read))
