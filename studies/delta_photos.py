"""Delta vectors on photographs: heads between two encoders that never met, on Flickr8k features.

There is no SIMAT truth for these photographs. A query is an image, one of its captions and the
nearest caption of another image, which is to be retrieved, as in `contrapose tune heads`. Images
are cut into blocks: each seed judges on a block of its own, one block chooses λ and τ, and a seed
learns from all the others.
"""

from __future__ import annotations

import time
from pathlib import Path

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import normalize

from contrapose import metrics
from contrapose.metrics.delta_scales import EditVectors
from contrapose.metrics.types import FloatArray
from contrapose.tune.heads.features import Features, read_features
from contrapose.tune.heads.training import TrainedHeads
from contrapose.tune.settings import HeadSettings
from studies.delta_heads import STARTS, TAUS, Start, edit_hits, train_start
from studies.kept import Answer, KeptAnswers

PART = "photos"
SCALES = (0.0, 0.25, 0.5, 0.75, 1.0, 1.25, 1.5, 1.75, 2.0, 2.5, 3.0, 4.0, 5.0)
DEPTH = 10
"""The photograph must be among so many: a single one is asked for, not any that fits."""
SMOKE_IMAGES, SMOKE_EPOCHS, EPOCHS = 200, 1, 30


def run_photos(
    kept: KeptAnswers, seed: int, seeds: int, folder: Path, *, device: str, stop_at: float,
    smoke: bool = False,
) -> list[str]:  # fmt: skip
    """Train and judge all heads of a seed; gives what went wrong."""
    begun, failures = time.time(), []
    train, dev, test = split_blocks(read_all(folder, smoke=smoke), seed, seeds)
    epochs = SMOKE_EPOCHS if smoke else EPOCHS
    for start, tau in ((start, tau) for tau in TAUS for start in STARTS):
        arm = f"{start} {tau:g}"
        if time.time() > stop_at:
            failures.append(f"seed {seed}, photos, {arm}: no time left")
            continue

        def answer(start: Start = start, tau: float = tau) -> Answer:
            settings = HeadSettings(tau=tau, epochs=epochs, seed=seed)
            return judge_heads(train_start(train, start, settings, device), dev, test, device)

        try:
            kept.once({"part": PART, "arm": arm, "seed": seed}, answer)
        except Exception as error:
            failures.append(f"seed {seed}, photos, {arm}: {type(error).__name__}: {error}")
    print(f"seed {seed}: photos in {time.time() - begun:.1f} s", flush=True)
    return failures


def read_all(folder: Path, *, smoke: bool = False) -> Features:
    """Training and test features of a folder as one set."""
    parts = [read_features(folder, split) for split in ("train", "test")]
    owners = [parts[0].image_of_text, parts[1].image_of_text + len(parts[0].images)]
    joined = Features(
        np.concatenate([it.images for it in parts]),
        np.concatenate([it.texts for it in parts]),
        np.concatenate(owners).astype(np.int64),
    )
    return joined.of_images(np.arange(min(SMOKE_IMAGES, len(joined.images)))) if smoke else joined


def split_blocks(features: Features, seed: int, seeds: int) -> tuple[Features, Features, Features]:
    """Training, dev and test images of a seed; no image is judged by two seeds.

    Blocks 0 … seeds − 1 are those of the tests, the next one is dev for all seeds, and the last is
    always learnt from.
    """
    order = np.random.default_rng(31).permutation(len(features.images))
    size = len(order) // (seeds + 2)
    test, dev = order[seed * size : (seed + 1) * size], order[seeds * size : (seeds + 1) * size]
    train = np.setdiff1d(order, np.concatenate([test, dev]))
    first, second, third = (features.of_images(np.sort(rows)) for rows in (train, dev, test))
    return first, second, third


@torch.no_grad()
def judge_heads(heads: TrainedHeads, dev: Features, test: Features, device: str) -> Answer:
    """Hits of the test queries, scores of the dev queries, and retrieval.

    Returns:
        `delta` (λ, test queries), `text` (queries), `text_to_image` (captions) and `image_to_text`
        (images) as bits, `owners` (queries), and `dev` (λ,) R@10 of the dev queries.
    """
    queries, targets, images, texts = _queries(heads, test)
    fits = np.eye(len(test.images), dtype=np.bool_)
    nothing = np.zeros_like(queries.start)
    target_texts = EditVectors(targets, nothing, queries.gallery, queries.excluded, queries.targets)
    dev_queries = _queries(heads, dev)[0]
    dev_hits = edit_hits(
        dev_queries, np.eye(len(dev.images), dtype=np.bool_), SCALES, DEPTH, device
    )
    outcomes = metrics.recalls(images @ texts.T, test.pairs, (1,))
    return {
        "delta": np.packbits(edit_hits(queries, fits, SCALES, DEPTH, device), axis=1),
        "text": np.packbits(edit_hits(target_texts, fits, (0.0,), DEPTH, device)),
        "dev": dev_hits.mean(axis=1).astype(np.float32),
        "owners": test.image_of_text.astype(np.uint16),
        **{
            way: np.packbits(outcomes[f"{way}_r1"].values.astype(np.bool_))
            for way in ("text_to_image", "image_to_text")
        },
    }


def _queries(
    heads: TrainedHeads, part: Features
) -> tuple[EditVectors, FloatArray, FloatArray, FloatArray]:
    """Vectors of the delta queries, their target captions, the images and the captions."""
    owners = part.image_of_text.astype(np.int64)
    images = heads.embed_images(torch.from_numpy(np.array(part.images))).cpu().numpy()
    texts = heads.embed_texts(torch.from_numpy(np.array(part.texts))).cpu().numpy()
    nearest = nearest_captions(part).numpy()
    vectors = EditVectors(images[owners], texts[nearest] - texts, images, owners, owners[nearest])
    return vectors, texts[nearest], images, texts


def nearest_captions(part: Features) -> Tensor:
    """Nearest caption of another image, by the sentence encoder's own vectors."""
    rows = normalize(torch.from_numpy(np.array(part.texts)).float(), dim=1)
    owners = torch.from_numpy(part.image_of_text.astype(np.int64))
    cosines = (rows @ rows.T).masked_fill_(owners[:, None] == owners, -torch.inf)
    return cosines.argmax(dim=1)
