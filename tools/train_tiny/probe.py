"""Probe: accuracy on fresh scenes by change, for the training log."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from PIL import Image

from contrapose.metrics import FloatArray, token_mean
from contrapose.models.tiny.model import Tiny, TinyClip
from contrapose.world.captions import CHANGES, Caption, Kind, describe
from contrapose.world.render import pack, render
from contrapose.world.sample import World, sample_scenes
from contrapose.world.scene import OPPOSITE, RELATIONS, Scene
from tools.train_tiny.data import is_well_visible

SEED = 900_001
"""Far from the seeds of training sets."""


def probe(
    model: TinyClip, count: int = 200, world: World = "balanced", batch: int = 256
) -> dict[str, dict[str, float]]:
    """Accuracy of choosing a caption over each change of it, by score."""
    device = str(model.device)
    scenes = sample_scenes(
        4 * count, SEED, world, keep=lambda s: is_well_visible(pack(s).to(device)).tolist(),
        block=min(512, 8 * count),
    )  # fmt: skip
    accuracies: dict[str, dict[str, float]] = {}
    for name, change in CHANGES.items():
        pairs: list[tuple[Scene, Caption, Caption]] = []
        for i, scene in enumerate(scenes):
            rng = np.random.default_rng((SEED, i))
            caption = next(
                filter(None, (describe(scene, rng, kind) for kind in _caption_kinds(name))), None
            )
            wrong = None if caption is None else change(caption, scene, rng)
            if caption is not None and wrong is not None:
                pairs.append((scene, caption, wrong))
        pairs = pairs[:count]
        if pairs:
            accuracies[name] = _accuracy(model, pairs, device, batch) | {"n": len(pairs)}
        if name == "swap-relation":
            for relation in RELATIONS[::2]:
                both = (relation, OPPOSITE[relation])
                if some := [pair for pair in pairs if pair[1].relation in both]:
                    accuracies[f"{name}: {' or '.join(both)}"] = _accuracy(
                        model, some, device, batch
                    )
    return accuracies


def _caption_kinds(change: str) -> tuple[Kind, ...]:
    kinds: Mapping[str, tuple[Kind, ...]] = {
        "replace-relation": ("relation",),
        "swap-relation": ("relation",),
        "replace-count": ("count",),
        "swap-attribute": ("and", "relation"),
    }
    return kinds.get(change, ("and", "relation", "one"))


def _accuracy(
    model: TinyClip, pairs: list[tuple[Scene, Caption, Caption]], device: str, batch: int
) -> dict[str, float]:
    wins: dict[str, list[float]] = {}
    for start in range(0, len(pairs), batch):
        some = pairs[start : start + batch]
        drawn = render([scene for scene, _, _ in some], 96, device).images.cpu().numpy()
        images = [Image.fromarray(pixels) for pixels in drawn]
        right = [caption.text for _, caption, _ in some]
        wrong = [changed.text for _, _, changed in some]
        vectors = model.embed_images(images)
        itc = [(vectors * model.embed_texts(texts)).sum(dim=1).cpu() for texts in (right, wrong)]
        wins.setdefault("itc", []).extend((itc[0] > itc[1]).tolist())
        if isinstance(model, Tiny):
            itm = [model.match(images, texts).cpu() for texts in (right, wrong)]
            wins.setdefault("itm", []).extend((itm[0] > itm[1]).tolist())
            lm = [_mean_logprobs(model, images, texts) for texts in (right, wrong)]
            wins.setdefault("lm", []).extend((lm[0] > lm[1]).tolist())
    return {score: round(float(np.mean(won)), 4) for score, won in wins.items()}


def _mean_logprobs(model: Tiny, images: list[Image.Image], texts: list[str]) -> FloatArray:
    ragged = model.token_logprobs(images, texts)
    return token_mean(ragged.values.numpy(), np.asarray(ragged.offsets))
