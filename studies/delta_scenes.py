"""SIMAT on scenes for the study of delta vectors: frozen models, and heads on their vectors."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from contrapose import metrics
from contrapose.data import DEV, EditSet, Gallery
from contrapose.engine.edits import EmbeddedEdits, caption_queries, query_vectors
from contrapose.files import StrictProblems
from contrapose.metrics.types import FloatArray
from contrapose.models.tiny.model import scale_pixels
from contrapose.tune.data.scenes import make_scene_set
from contrapose.tune.heads.features import Features
from contrapose.tune.heads.training import TrainedHeads
from contrapose.tune.settings import HeadSettings
from contrapose.tune.students import load_student
from contrapose.world.benchmark import scenes, simat_scenes
from contrapose.world.benchmark.annotations import scene_of
from contrapose.world.render import pack, render_packed
from studies.delta_heads import STARTS, TAUS, Start, edit_hits, train_start
from studies.kept import Answer, KeptAnswers

PART = "scenes"
MODELS = ("tiny-clip", "tiny")
FROZEN = "frozen"
SCALES = tuple(round(0.2 * step, 1) for step in range(26))
"""λ from 0 to 5 in steps of 0.2."""
JUDGING_SEED, TRAINING_SEED = 71_000, 900
"""Added to a seed: no training scene and no other seed shares its judging scenes."""
CHUNK = 256
"""Scenes drawn or embedded together."""


@dataclass(frozen=True, slots=True)
class Sizes:
    """Numbers of everything that is drawn.

    Attributes:
        queries: edit queries, half of them dev; the database has twice as many images.
        gallery: scenes with a caption each, for retrieval.
        scenes: training scenes of the heads.
        steps: of heads from random weights.
        epochs: of heads from the closed form.
    """

    queries: int = 1000
    gallery: int = 400
    scenes: int = 2000
    steps: int = 800
    epochs: int = 30

    @classmethod
    def smoke(cls) -> Sizes:
        """Tiny sizes, to try the code."""
        return cls(queries=12, gallery=6, scenes=10, steps=3, epochs=1)

    def settings(self, start: Start, tau: float, seed: int) -> HeadSettings:
        """Settings of the heads of a start and temperature."""
        if start == "closed":
            return HeadSettings(tau=tau, epochs=self.epochs, seed=seed)
        return HeadSettings(tau=tau, steps=self.steps, batch_size=1024, seed=seed)


@dataclass(frozen=True, slots=True, eq=False)
class SceneTests:
    """Judging scenes of a seed: edit queries and a gallery, with their images."""

    edits: EditSet
    images: Tensor
    gallery: Gallery
    gallery_images: Tensor


@dataclass(frozen=True, slots=True, eq=False)
class SceneVectors:
    """A model's vectors of the judging scenes: before or behind heads."""

    embedded: EmbeddedEdits
    gallery_images: FloatArray
    gallery_texts: FloatArray

    def behind(self, heads: TrainedHeads) -> SceneVectors:
        """Vectors behind heads."""

        def images(rows: FloatArray) -> FloatArray:
            return np.asarray(heads.embed_images(torch.from_numpy(rows)).cpu().numpy())

        def texts(rows: FloatArray) -> FloatArray:
            return np.asarray(heads.embed_texts(torch.from_numpy(rows)).cpu().numpy())

        plain = self.embedded
        with torch.no_grad():
            return SceneVectors(
                EmbeddedEdits(images(plain.images), texts(plain.words), texts(plain.captions)),
                images(self.gallery_images),
                texts(self.gallery_texts),
            )


def run_scenes(
    kept: KeptAnswers, seed: int, sizes: Sizes, *, device: str, workers: int, stop_at: float
) -> list[str]:
    """Judge both models and all their heads on a seed's scenes; gives what went wrong."""
    begun, failures = time.time(), []
    tests = make_tests(seed, sizes, device)
    rows = make_scene_set(
        sizes.scenes, TRAINING_SEED + seed, device=device, world="balanced", workers=workers
    )
    kept.once(
        {"part": PART, "arm": "queries", "seed": seed},
        lambda: _query_facts(tests.edits, len(tests.gallery.texts)),
    )
    print(f"seed {seed}: scenes in {time.time() - begun:.1f} s", flush=True)
    pixels = rows.images.pixels
    assert pixels is not None  # noqa: S101 - rendered ones have pixels
    captions = [it.caption for some in rows.image_captions for it in some]
    owners = np.repeat(np.arange(len(rows)), [len(some) for some in rows.image_captions])
    for name in MODELS:
        model = load_student(name, device=device).model
        vectors = embed_tests(model, tests)
        features = Features(_embed_images(model, pixels), _embed_texts(model, captions), owners)
        key = {"part": PART, "model": name, "seed": seed}
        kept.once(
            {**key, "arm": FROZEN},
            lambda vectors=vectors: judge_vectors(  # type: ignore[misc]
                vectors, tests, device, whole=True
            ),
        )
        for start, tau in ((start, tau) for tau in TAUS for start in STARTS):
            arm = f"{start} {tau:g}"
            if time.time() > stop_at:
                failures.append(f"seed {seed}, {name}, {arm}: no time left")
                continue

            def answer(
                start: Start = start, tau: float = tau, features: Features = features,
                vectors: SceneVectors = vectors,
            ) -> Answer:  # fmt: skip
                heads = train_start(features, start, sizes.settings(start, tau, seed), device)
                return judge_vectors(vectors.behind(heads), tests, device)

            try:
                kept.once({**key, "arm": arm}, answer)
            except Exception as error:
                failures.append(f"seed {seed}, {name}, {arm}: {type(error).__name__}: {error}")
        print(f"seed {seed}: {name} after {time.time() - begun:.1f} s", flush=True)
    return failures


def make_tests(seed: int, sizes: Sizes, device: str) -> SceneTests:
    """Edit queries and gallery of a seed, drawn and rendered."""
    edits = simat_scenes(examples=sizes.queries, seed=JUDGING_SEED + seed).read(
        Path(), StrictProblems()
    )
    suite = scenes(examples=sizes.gallery, seed=JUDGING_SEED + seed)
    gallery = suite.parts["gallery"].read(Path(), StrictProblems())
    assert isinstance(edits, EditSet) and isinstance(gallery, Gallery)  # noqa: S101, PT018
    return SceneTests(
        edits, _render(edits.images, device), gallery, _render(gallery.images, device)
    )


def _render(refs: Sequence[Any], device: str) -> Tensor:
    drawn = [scene_of(ref) for ref in refs]
    return torch.cat(
        [
            render_packed(pack(drawn[first : first + CHUNK]).to(device), 96).images
            for first in range(0, len(drawn), CHUNK)
        ]
    )


def embed_tests(model: Any, tests: SceneTests) -> SceneVectors:
    """Vectors of the judging scenes, their words and captions."""
    words = [word for query in tests.edits.queries for word in (query.source, query.target)]
    embedded = EmbeddedEdits(
        _embed_images(model, tests.images),
        _embed_texts(model, words),
        _embed_texts(model, tests.edits.captions),
    )
    return SceneVectors(
        embedded,
        _embed_images(model, tests.gallery_images),
        _embed_texts(model, tests.gallery.texts),
    )


@torch.no_grad()
def _embed_images(model: Any, images: Tensor) -> FloatArray:
    vectors = [
        model.embed_images(list(scale_pixels(images[first : first + CHUNK])))
        for first in range(0, len(images), CHUNK)
    ]
    return np.asarray(torch.cat(vectors).float().cpu().numpy())


@torch.no_grad()
def _embed_texts(model: Any, texts: Sequence[str]) -> FloatArray:
    vectors = [
        model.embed_texts(list(texts[first : first + 4 * CHUNK]))
        for first in range(0, len(texts), 4 * CHUNK)
    ]
    return np.asarray(torch.cat(vectors).float().cpu().numpy())


def judge_vectors(
    vectors: SceneVectors, tests: SceneTests, device: str, *, whole: bool = False
) -> Answer:
    """Hits of the test queries, scores of the dev queries, and retrieval.

    Args:
        vectors: of the judging scenes.
        tests: the judging scenes.
        device: where to compare.
        whole: also image → text → image, and the first five answers.

    Returns:
        `BASE_n1` (λ, test queries) as bits; `BASE_dev` (λ,) SIMAT score of the dev queries;
        `text_to_image`, `image_to_text`: R@1 as bits.
    """
    edits, captions = tests.edits, caption_queries(tests.edits)
    dev = _is_dev(edits)
    weights = _weights(edits)[dev]
    answer: Answer = {}
    bases = ["delta", "sentence", "text", "text-delta", *(["caption"] if whole else [])]
    for base in bases:
        data = captions if base == "text-delta" else edits
        queries = query_vectors(f"itc:{base}", edits, vectors.embedded)
        scales = SCALES if base in ("delta", "sentence", "caption") else (1.0,)
        for n in (1, 5) if whole else (1,):
            hits = edit_hits(queries, data.fits(), scales, n, device)
            answer[f"{base}_n{n}"] = np.packbits(hits[:, ~dev], axis=1)
            if n == 1 and len(scales) > 1:
                answer[f"{base}_dev"] = (hits[:, dev] @ weights / weights.sum()).astype(np.float32)
    outcomes = metrics.recalls(
        vectors.gallery_images @ vectors.gallery_texts.T, tests.gallery.pairs, (1,)
    )
    for way in ("text_to_image", "image_to_text"):
        answer[way] = np.packbits(outcomes[f"{way}_r1"].values.astype(np.bool_))
    return answer


def _query_facts(edits: EditSet, gallery: int) -> Answer:
    """Weights and chances of the test queries, and the size of the gallery."""
    test = ~_is_dev(edits)
    fits, right = edits.fits(), []
    for query in edits.queries:
        column = fits[:, query.target_caption]
        right.append(int(column.sum()) - int(column[query.image]))
    counts = np.array(right)[test]
    return {
        "weights": _weights(edits)[test].astype(np.float32),
        "gallery": np.array(gallery),
        **{
            f"chance_n{n}": metrics.edit_chance(counts, len(edits.images) - 1, n).astype(np.float32)
            for n in (1, 5)
        },
    }


def _is_dev(edits: EditSet) -> NDArray[np.bool_]:
    return np.array([query.tags.get("split") == DEV for query in edits.queries])


def _weights(edits: EditSet) -> NDArray[np.float64]:
    return np.array([query.weight for query in edits.queries])
