"""Hard positives on photographs: heads on Flickr8k features, pairs of `contrapose build pairs`.

Encoders stay frozen (EfficientNet-Lite0 and MiniLM, which never met); one linear head a side is
trained with InfoNCE and with the losses `hn` and `hp` on captions that `build pairs` makes. Three
sets of negatives differ in how often they are told without the image: balanced ones, contrasts and
exchanges, and word orders with negations.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn.functional import normalize

from contrapose import metrics
from contrapose.losses import InfoNCE, LossBatch
from contrapose.models.joined import apply_head
from contrapose.tune.heads.features import Features, read_features
from contrapose.tune.heads.training import HeadTrainer, TrainedHeads
from contrapose.tune.objective import Objective, parse_objective
from contrapose.tune.settings import HeadSettings, learning_rate_factor
from studies.kept import Answer, KeptAnswers
from studies.positives_tuning import pack_triples

PART = "photos"
CAPTIONS_PER_IMAGE = 1
"""Captions of a training image that are rewritten."""
SHARE = 2 / 3
"""Share of the training images that a seed learns from."""
SETS = {"balanced": ("contrast", "exchange"), "pairs": ("contrast", "exchange"),
        "orders": ("order", "negation")}  # fmt: skip
"""Sets of negatives and the groups of `build pairs` that they come from."""
POSITIVE_GROUPS = ("replace", "swap")
ENCODER = "sentence-transformers/all-MiniLM-L6-v2"
LEAST_COSINE = 0.999
"""Least cosine of a caption's vector with its kept feature: the encoder is the same one."""
SETTINGS = HeadSettings(tau=0.05, width=256, batch_size=512, steps=200, lr=1e-3)

IntArray = NDArray[np.int64]


class PhotoArm(NamedTuple):
    """Losses beside InfoNCE, the set of negatives, and the kinds of positives (none means all)."""

    losses: str
    negatives: str = "pairs"
    positives: tuple[str, ...] = ()


ARMS: Mapping[str, PhotoArm] = {
    "plain": PhotoArm("plain"),
    "hn, balanced": PhotoArm("hn", "balanced"),
    "hn": PhotoArm("hn"),
    "hn, orders": PhotoArm("hn", "orders"),
    "hp": PhotoArm("hp"),
    "hp+hn": PhotoArm("hp+hn"),
    "hp+hn, orders": PhotoArm("hp+hn", "orders"),
    "hp+hn, objects": PhotoArm("hp+hn", "pairs", ("replace-object",)),
}
"""Every arm by its name; the last has positives of one kind alone."""


@dataclass(frozen=True, slots=True, eq=False)
class HardCaptions:
    """Hard captions of a split: which captions have them, their kinds and their features.

    Attributes:
        rows: (m,) caption rows of the split that were rewritten.
        features: (m, d) for `positive` and for each set of negatives; zeros where there is none.
        kinds: (m,) kind of each, by the same names; empty where there is none.
        texts: (m,) the captions themselves, by the same names.
    """

    rows: IntArray
    features: Mapping[str, NDArray[np.float16]]
    kinds: Mapping[str, NDArray[np.str_]]
    texts: Mapping[str, NDArray[np.str_]]

    def take(self, some: NDArray[np.bool_], rows: IntArray) -> HardCaptions:
        """Those of some captions, which are now at other rows."""
        columns = ({name: it[some] for name, it in side.items()} for side in self._sides())
        return HardCaptions(rows, *columns)

    def _sides(self) -> tuple[Mapping[str, NDArray[Any]], ...]:
        return self.features, self.kinds, self.texts


def run_photos(
    kept: KeptAnswers, data: Path, cache: Path, seeds: Sequence[int], encoder: str = ENCODER
) -> None:
    """Train and judge every arm and seed on the CPU, unless it is kept.

    Args:
        kept: where answers are kept.
        data: folder of the Flickr8k features and captions.
        cache: folder of the encoded hard captions.
        seeds: seeds to run.
        encoder: MiniLM, as sentence-transformers loads it.
    """
    splits = {split: read_features(data, split) for split in ("train", "test")}
    hard = {split: _hard_captions(data, cache, split, encoder) for split in splits}
    kept.once({"part": PART, "arm": "blind"}, lambda: _audit(data, hard["train"]))
    for seed in seeds:
        test, triples = _judging_part(splits["test"], hard["test"], seed, len(seeds))
        names = {"part": PART, "arm": "examples", "seed": seed}
        kept.once(names, lambda triples=triples: _example_kinds(triples))  # type: ignore[misc]
        for name, arm in ARMS.items():

            def answer(arm: PhotoArm = arm, seed: int = seed) -> Answer:
                heads = _train(splits["train"], hard["train"], arm, seed)
                return _judge(heads, test, triples)  # noqa: B023 - called at once

            kept.once({"part": PART, "arm": name, "seed": seed}, answer)
            print(f"photos: seed {seed}, {name}", flush=True)


def _hard_captions(data: Path, cache: Path, split: str, encoder: str) -> HardCaptions:
    """Hard captions of a split, made and encoded once."""
    answers = KeptAnswers(cache)
    made = answers.once(
        {"part": "hard captions", "split": split}, lambda: _make_hard(data, split, encoder)
    )
    names = ["positive", *SETS]
    return HardCaptions(
        made["rows"].astype(np.int64),
        {name: made[f"{name}_features"].astype(np.float16) for name in names},
        {name: made[f"{name}_kinds"].astype(np.str_) for name in names},
        {name: made[f"{name}_texts"].astype(np.str_) for name in names},
    )


def _make_hard(data: Path, split: str, encoder: str) -> Answer:
    captions = (data / f"{split}_captions.txt").read_text(encoding="utf-8").splitlines()
    features = read_features(data, split)
    rows = _chosen_captions(features.image_of_text, CAPTIONS_PER_IMAGE if split == "train" else 5)
    texts = make_texts([captions[row] for row in rows])
    encode = _load_encoder(encoder)
    sample = rows[:64]
    ours = normalize(torch.from_numpy(encode([captions[row] for row in sample])).float(), dim=1)
    theirs = normalize(torch.from_numpy(features.texts[sample]).float(), dim=1)
    if float((ours * theirs).sum(1).min()) < LEAST_COSINE:
        raise ValueError(f"{encoder} is not the encoder of the captions of {data}")
    answer: Answer = {"rows": rows}
    for name, pairs in texts.items():
        vectors = np.zeros((len(rows), features.texts.shape[1]), np.float16)
        there = [i for i, (text, _) in enumerate(pairs) if text]
        vectors[there] = encode([pairs[i][0] for i in there])
        answer[f"{name}_features"] = vectors
        answer[f"{name}_kinds"] = np.array([kind for _, kind in pairs])
        answer[f"{name}_texts"] = np.array([text for text, _ in pairs])
    return answer


def _chosen_captions(image_of_text: NDArray[Any], most: int) -> IntArray:
    """Caption rows, the first few of every image."""
    seen: dict[int, int] = {}
    rows = []
    for row, image in enumerate(image_of_text.tolist()):
        seen[image] = seen.get(image, 0) + 1
        if seen[image] <= most:
            rows.append(row)
    return np.array(rows, np.int64)


def make_texts(captions: Sequence[str], seed: int = 0) -> dict[str, list[tuple[str, str]]]:
    """Positive and a negative of each set for every caption, as (text, kind); empty for none."""
    from contrapose.build.captions import CaptionRecord, Recipe, make_pairs
    from contrapose.build.captions.balance import CANDIDATES, BlindTest, balance_pairs
    from contrapose.build.captions.pairs import parse_kinds

    records = [CaptionRecord(caption, str(row)) for row, caption in enumerate(captions)]

    def pairs_of(groups: Sequence[str], most: int) -> list[Any]:
        recipe = Recipe(parse_kinds((*POSITIVE_GROUPS, *groups)), seed=seed, per_caption=most)
        return list(make_pairs(records, recipe))

    proposed = pairs_of(SETS["pairs"], CANDIDATES)
    chosen = {
        "pairs": proposed,
        "balanced": balance_pairs(proposed, 1, BlindTest(seed=seed)),
        "orders": pairs_of(SETS["orders"], 1),
    }
    texts = {name: [_first(one.negatives) for one in made] for name, made in chosen.items()}
    return {"positive": [_first(one.positives) for one in proposed], **texts}


def _first(rewrites: Sequence[Any]) -> tuple[str, str]:
    return (rewrites[0].text, rewrites[0].kind) if rewrites else ("", "")


def _load_encoder(name: str) -> Callable[[Sequence[str]], NDArray[np.float32]]:
    from sentence_transformers import SentenceTransformer

    model = SentenceTransformer(name, device="cpu")
    return lambda texts: np.asarray(
        model.encode(list(texts), batch_size=128, show_progress_bar=False), np.float32
    )


def _audit(data: Path, hard: HardCaptions) -> Answer:
    """Whether the n-gram model of the audit finds the caption, for each set of negatives.

    The model is fitted to the captions that were not rewritten.
    """
    from contrapose.evaluation.audit.scores import ngram_scores, split_words

    captions = (data / "train_captions.txt").read_text(encoding="utf-8").splitlines()
    rewritten = set(hard.rows.tolist())
    corpus = [split_words(text) for row, text in enumerate(captions) if row not in rewritten]
    answer: Answer = {}
    for name in SETS:
        there = np.flatnonzero(hard.kinds[name] != "")
        texts = [captions[hard.rows[i]] for i in there], hard.texts[name][there].tolist()
        scores = np.stack([ngram_scores(corpus, some) for some in texts], axis=1)
        answer[name] = metrics.audit(scores, [1, 0]).outcome.values.astype(np.float32)
    return answer


def _judging_part(
    test: Features, hard: HardCaptions, seed: int, seeds: int
) -> tuple[Features, HardCaptions]:
    """Test images of a seed with their captions and triples: no image serves two seeds."""
    count = len(test.images)
    order = np.random.default_rng(17).permutation(count)
    images = np.sort(order[seed % seeds :: seeds])
    part = test.of_images(images)
    places = np.full(len(test.texts), -1)
    inside = np.isin(test.image_of_text, images)
    places[inside] = np.arange(int(inside.sum()))
    complete = (hard.kinds["positive"] != "") & (hard.kinds["pairs"] != "")
    some = complete & (places[hard.rows] >= 0)
    return part, hard.take(some, places[hard.rows[some]])


def _example_kinds(triples: HardCaptions) -> Answer:
    return {"negative": triples.kinds["pairs"], "rewording": triples.kinds["positive"]}


class PairHeadTrainer(HeadTrainer):
    """Head trainer with losses on hard captions beside InfoNCE."""

    def __init__(
        self, features: Features, settings: HeadSettings, objective: Objective,
        negative: NDArray[np.float16], positive: NDArray[np.float16],
    ):  # fmt: skip
        """Train on captions with one hard negative and one hard positive each, or zeros."""
        super().__init__(features, settings, torch.device("cpu"))
        self.objective = objective
        self.hard: dict[str, tuple[Tensor, Tensor]] = {}
        for name, rows in (("negative", negative), ("positive", positive)):
            there = torch.from_numpy(rows.any(axis=1))
            vectors = normalize(torch.from_numpy(rows.astype(np.float32)), dim=1)
            self.hard[name] = self.start.text(vectors), there

    def _step(self, rows: NDArray[np.int64]) -> Tensor:
        settings = self.settings
        for group in self.optimizer.param_groups:
            group["lr"] = settings.lr * learning_rate_factor(self.done, self.total)
        taken = torch.from_numpy(rows)
        images = self.owners[taken]
        image = self._embed("image", self.images[images])
        text = self._embed("text", self.texts[taken])
        batch = LossBatch(image, text, scale=1 / settings.tau, same=images)
        if "negative" in self.objective.needs:
            vectors, there = self._hard_captions("negative", taken)
            batch = replace(batch, negative=vectors, has_negative=there)
        if "positive" in self.objective.needs:
            vectors, there = self._hard_captions("positive", taken)
            batch = replace(batch, positive=vectors, has_positive=there)
        loss = InfoNCE()(batch)
        for term in self.objective.terms:
            loss = loss + term.weight * term.loss(batch)
        self.optimizer.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        self.optimizer.step()
        return loss.detach()

    def _hard_captions(self, name: str, taken: Tensor) -> tuple[Tensor, Tensor]:
        vectors, there = self.hard[name]
        return self._embed("text", vectors[taken]), there[taken]

    def _embed(self, side: str, rows: Tensor) -> Tensor:
        return normalize(apply_head(self._drop_features(rows), self.heads, side), dim=1)


def _train(train: Features, hard: HardCaptions, arm: PhotoArm, seed: int) -> TrainedHeads:
    """Heads of an arm: the captions that were rewritten, of a share of the images."""
    rng = np.random.default_rng((seed, 29))
    images = np.sort(rng.permutation(len(train.images))[: round(SHARE * len(train.images))])
    owners = train.image_of_text[hard.rows]
    some = np.isin(owners, images)
    places = np.full(len(train.images), -1)
    places[images] = np.arange(len(images))
    features = Features(
        train.images[images], train.texts[hard.rows[some]], places[owners[some]].astype(np.int64)
    )
    positive = hard.features["positive"][some].copy()
    if arm.positives:
        positive[~np.isin(hard.kinds["positive"][some], arm.positives)] = 0
    trainer = PairHeadTrainer(
        features, replace(SETTINGS, seed=seed), parse_objective(arm.losses),
        hard.features[arm.negatives][some], positive,
    )  # fmt: skip
    for _ in trainer.steps():
        pass
    return trainer.trained()


def _judge(heads: TrainedHeads, test: Features, triples: HardCaptions) -> Answer:
    with torch.no_grad():
        image = heads.embed_images(torch.from_numpy(np.array(test.images)))
        text = heads.embed_texts(torch.from_numpy(np.array(test.texts)))
        hard = [
            heads.embed_texts(torch.from_numpy(triples.features[name]))
            for name in ("pairs", "positive")
        ]
        shown = image[torch.from_numpy(test.image_of_text[triples.rows].astype(np.int64))]
        captions = (text[torch.from_numpy(triples.rows)], *hard)
        scores = torch.stack([(shown * it).sum(1) for it in captions], dim=1).double().numpy()
        gallery = (image @ text.T).numpy()
    outcomes = metrics.recalls(gallery, test.pairs, (1, 5))
    return pack_triples(scores) | {
        name: outcome.values.astype(np.bool_) for name, outcome in outcomes.items()
    }
