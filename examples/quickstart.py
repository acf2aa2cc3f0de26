"""Contrapose in one script: evaluate, measure, compare, diagnose and tune, with the Python API.

Run it from a clone: `python examples/quickstart.py`. It needs nothing but the package with its
extra `torch`, and takes about half a minute on one core.
"""

import math
import tempfile
from pathlib import Path

from PIL import ImageColor

import contrapose as cp

SHAPES = Path(__file__).parent / "shapes"
COLORS = ("red", "orange", "yellow", "green", "blue", "purple")


def color_match(image, text):
    """A model in three lines: how near does the image come to the colors of the caption?"""
    pixels = [color for _, color in image.resize((16, 16), 0).getcolors()]
    named = [ImageColor.getrgb(word) for word in text.split() if word in COLORS]
    return -sum(min(math.dist(color, pixel) for pixel in pixels) for color in named)


def main():
    out = Path(tempfile.mkdtemp(prefix="contrapose-"))

    # A function on a file of examples: no class, no registration.
    run = cp.evaluate(color_match, on=SHAPES / "examples.jsonl")
    print(f"{run.model}: {run.metrics['text'].value:.0%} of the captions chosen right")

    # Two built-in models on one part of the built-in benchmark.
    runs = cp.evaluate(["tiny", "tiny-clip"], on="scenes/swap-relation", score="itc", limit=40)
    for run in runs:
        accuracy = run.metrics["accuracy"]
        low, high = accuracy.ci95
        print(f"{run.model}: {accuracy.value:.0%} right ({low:.0%} to {high:.0%})")
    runs.save(out / "runs")
    print(cp.load_runs(out / "runs") == runs)

    # Scores that are there already.
    measured = cp.measure(SHAPES / "bag-of-words.csv", SHAPES / "examples.jsonl")
    print(f"group score of a bag of words: {measured.metrics['group'].value:.0%}")

    # The same examples, pair by pair.
    for name, change in cp.compare(*runs).metrics.items():
        print(f"{name}: {change.difference:+.1%} (p = {change.p:.3f}), {change.verdict}")

    # Which words does the model react to?
    diagnosis = cp.diagnose("tiny-clip", on="scenes", subset="swap-relation", side="text", limit=8)
    print(diagnosis.report.models[0].findings[0].sentence)

    # Repair it a little, and print what changed.
    tuned = cp.tune(
        "tiny-clip",
        data="scenes",
        losses="hn+hp",
        steps=20,
        batch_size=16,
        scenes=80,
        examples=10,
        out=out / "tuned",
    )
    for item in tuned.bill.items:
        print(f"{item.name}: {item.before:.3f} → {item.after:.3f}, {item.verdict}")


if __name__ == "__main__":
    main()
