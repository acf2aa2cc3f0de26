"""Temperature × λ of deltas on cached features: Couairon et al. (2022), Figure 5.

    python studies/delta_surface.py --features ../shared/data/flickr8k_features --out surface

Trains linear heads at every temperature as `contrapose tune heads` does, and keeps them in OUT, so
that a second run goes on where the first ended. A query is an image I of the test features, one of
its captions t1 and the nearest caption t2 of another image J; it ranks the images by
E(I) + λ·(E(t2) − E(t1)) and asks for J, with I left out. Half of the images choose the best (τ, λ),
the other half judge it against the paper's (0.1, 1): the difference of R@10 with a 95 % interval,
images resampled with all their queries. OUT gets `surface.json`, and `surface.svg` unless
--no-plot is given; training and measuring need numpy and torch alone.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch.nn.functional import normalize

from contrapose.files import write_text
from contrapose.tune.heads import Features, TrainedHeads, read_features, train_heads
from contrapose.tune.settings import HeadSettings

TAUS = (0.1, 0.01, 1.0, 0.3, 0.03)
SCALES = (0.0, 0.25, 0.5, 0.75, 1.0, 1.25, 1.5, 1.75, 2.0, 2.5, 3.0, 4.0, 5.0)
PAPER = (0.1, 1.0)
DEPTH = 10
RESAMPLES = 10_000

Point = tuple[float, float]


def main() -> None:
    """Train or load the heads, measure the surface, write it and print who wins."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--features", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--epochs", type=int, default=30)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--no-plot", action="store_true")
    arguments = parser.parse_args()
    arguments.out.mkdir(parents=True, exist_ok=True)
    test = read_features(arguments.features, "test")
    hits: dict[Point, NDArray[np.bool_]] = {}
    for tau in TAUS:
        settings = HeadSettings(tau=tau, epochs=arguments.epochs)
        heads = load_or_train(arguments.features, settings, arguments.out, arguments.device)
        hits |= {(tau, scale): hit for scale, hit in measure_hits(heads, test).items()}
        print(tau, [round(100 * float(hits[tau, scale].mean()), 1) for scale in SCALES], flush=True)
    result = judge(hits, test.image_of_text.astype(np.int64))
    result["epochs"] = arguments.epochs
    write_text(arguments.out / "surface.json", json.dumps(result, indent=1) + "\n")
    if not arguments.no_plot:
        write_plot(arguments.out / "surface.svg", hits)
    print(markdown_table(result))
    for name in ("best", "paper", "difference", "same_tau", "tau_at_1"):
        print(name, json.dumps(result[name]))


def load_or_train(
    folder: Path, settings: HeadSettings, out: Path, device: str
) -> dict[str, torch.Tensor]:
    """Heads of a temperature: from OUT if an earlier run left them, else trained and kept."""
    file = out / f"tau-{settings.tau:g}-epochs-{settings.epochs}.npz"
    if not file.is_file():
        trained = train_heads(read_features(folder, "train"), settings, device=device)
        temporary = file.with_suffix(".part.npz")
        arrays: dict[str, Any] = {name: it.cpu().numpy() for name, it in trained.heads.items()}
        np.savez(temporary, **arrays)
        temporary.replace(file)
    with np.load(file, allow_pickle=False) as stored:
        return {name: torch.from_numpy(stored[name]) for name in stored.files}


def measure_hits(
    heads: Mapping[str, torch.Tensor], test: Features
) -> dict[float, NDArray[np.bool_]]:
    """For every λ and query, whether the target image is among the first 10."""
    trained = TrainedHeads(dict(heads), HeadSettings(), (), (), 0)
    with torch.inference_mode():
        images = trained.embed_images(torch.from_numpy(np.array(test.images)))
        texts = trained.embed_texts(torch.from_numpy(np.array(test.texts)))
        start = torch.from_numpy(test.image_of_text.astype(np.int64))
        nearest = nearest_captions(test, start)
        rows, target, delta = torch.arange(len(texts)), start[nearest], texts[nearest] - texts
        hits = {}
        for scale in SCALES:
            scores = (images[start] + scale * delta) @ images.T
            scores[rows, start] = -torch.inf
            right = scores[rows, target][:, None]
            # Among equal scores the wrong image comes first.
            hits[scale] = ((scores >= right).sum(dim=1) <= DEPTH).numpy()
    return hits


def nearest_captions(test: Features, owners: torch.Tensor) -> torch.Tensor:
    """Nearest caption of another image, by the sentence encoder's own vectors."""
    rows = normalize(torch.from_numpy(np.array(test.texts)).float(), dim=1)
    cosines = (rows @ rows.T).masked_fill_(owners[:, None] == owners, -torch.inf)
    return cosines.argmax(dim=1)


def judge(hits: Mapping[Point, NDArray[np.bool_]], owners: NDArray[np.int64]) -> dict[str, Any]:
    """Choose the best point on half of the images, and compare it with the paper's on the other."""
    count = int(owners.max()) + 1
    chosen = np.random.default_rng(0).permutation(count) < count // 2
    dev = chosen[owners]
    recall = {point: float(hit[dev].mean()) for point, hit in hits.items()}
    best = max(recall, key=lambda point: recall[point])
    by_tau = {
        f"{tau:g}": max((recall[tau, scale], scale) for scale in SCALES)[1] for tau in sorted(TAUS)
    }
    return {
        "surface": {
            f"{tau:g}": {f"{scale:g}": float(hits[tau, scale].mean()) for scale in SCALES}
            for tau in sorted(TAUS)
        },
        "best_scale_of_tau": by_tau,
        "best": describe(hits, best, ~dev, owners),
        "paper": describe(hits, PAPER, ~dev, owners),
        "difference": interval(
            hits[best][~dev].astype(float) - hits[PAPER][~dev].astype(float), owners[~dev]
        ),
        "same_tau": interval(
            hits[PAPER[0], by_tau[f"{PAPER[0]:g}"]][~dev].astype(float)
            - hits[PAPER][~dev].astype(float),
            owners[~dev],
        ),
        "tau_at_1": {
            f"{tau:g}": interval(
                hits[PAPER][~dev].astype(float) - hits[tau, 1.0][~dev].astype(float), owners[~dev]
            )
            for tau in sorted(TAUS)
            if tau != PAPER[0]
        },
    }


def describe(
    hits: Mapping[Point, NDArray[np.bool_]],
    point: Point,
    part: NDArray[np.bool_],
    owners: NDArray[np.int64],
) -> dict[str, Any]:
    """R@10 of a point on some queries, with its interval."""
    value = interval(hits[point][part].astype(float), owners[part])
    return {"tau": point[0], "lambda": point[1], **value}


def interval(values: NDArray[np.float64], owners: NDArray[np.int64]) -> dict[str, Any]:
    """Mean with a 95 % percentile interval; images are resampled with their queries."""
    _, clusters = np.unique(owners, return_inverse=True)
    sums, sizes = np.bincount(clusters, values), np.bincount(clusters)
    drawn = np.random.default_rng(0).integers(0, len(sums), (RESAMPLES, len(sums)))
    means = sums[drawn].sum(axis=1) / sizes[drawn].sum(axis=1)
    low, high = np.percentile(means, [2.5, 97.5])
    return {"value": float(values.mean()), "ci95": [float(low), float(high)]}


def markdown_table(result: Mapping[str, Any]) -> str:
    """R@10 of all queries in %, a row for each temperature, the best λ of each row bold."""
    shown = [f"{scale:g}" for scale in SCALES]
    lines = ["| τ | " + " | ".join(shown) + " |", "|---" * (len(shown) + 1) + "|"]
    for tau, values in result["surface"].items():
        best = max(values.values())
        cells = [f"{100 * values[s]:.1f}" for s in shown]
        marked = [f"**{c}**" if values[s] == best else c for s, c in zip(shown, cells, strict=True)]
        lines.append(f"| {tau} | " + " | ".join(marked) + " |")
    return "\n".join(lines)


def write_plot(file: Path, hits: Mapping[Point, NDArray[np.bool_]]) -> None:
    """Draw R@10 of all queries by λ, a curve for each temperature."""
    from contrapose.report.html.scale_plots import write_scale_plot

    curves: dict[str, Sequence[tuple[float, float]]] = {
        f"τ = {tau:g}": [(scale, float(hits[tau, scale].mean())) for scale in SCALES]
        for tau in sorted(TAUS, reverse=True)
    }
    write_scale_plot(file, "R@10 of the deltas by λ", curves, "R@10")


if __name__ == "__main__":
    main()
