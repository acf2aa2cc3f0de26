"""Tuning and judging of `tiny-clip` in the hard-positive study.

The image tower is frozen, so that images are encoded once; the text tower is trained by the losses
of the package, each arm from the same weights, on the same batches of the same scenes. The
temperature is frozen unless the arm learns it.
"""

from __future__ import annotations

import copy
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from contrapose import metrics
from contrapose.losses import LossBatch
from contrapose.tune.objective import parse_objective
from contrapose.tune.settings import Settings
from contrapose.tune.students import Student, load_student
from studies.kept import Answer
from studies.positives_scenes import (
    MARKED_KINDS,
    NEGATIVE_KINDS,
    REWORDING_KINDS,
    SceneSet,
    StudyCaption,
    class_names,
    draw_triples,
    make_scene_set,
    make_single_things,
)

MODEL = "tiny-clip"
RATE = 3e-4
SETTINGS = Settings(steps=300, batch=96, rate=RATE, freeze=("image",))
ATTRIBUTE_KINDS = ("color", "size", "material", "pattern")
OTHER_KINDS = ("shape", "relation", "order")
"""The two halves of the kinds of rewordings: an arm learns from one and is judged on the other."""
DOSES = (0.0, 0.1, 0.3, 1.0)
BEFORE = "before"
TUNING, TRIPLES, GALLERY = range(3)
FLOOR, STEP = -0.25, 0.005
"""Kept cosines are bytes, in steps above the floor; their order is kept exactly beside them."""

HITS = tuple(
    f"{prefix}{way}_r{k}"
    for prefix in ("", "reworded_")
    for way in ("image_to_text", "text_to_image")
    for k in (1, 5)
)
"""Recalls that are kept as bits of one byte for each scene of the gallery."""

IntArray = NDArray[np.int64]
FloatArray = NDArray[np.float64]


class Arm(NamedTuple):
    """Losses as `contrapose tune --with` takes them, dose, kinds of positives, and temperature."""

    losses: str
    dose: float = 0.0
    kinds: tuple[str, ...] = MARKED_KINDS
    learn_scale: bool = False


class Sizes(NamedTuple):
    """Numbers of scenes to tune on, for triples, in the gallery, of single things; and of steps."""

    tuning: int = 2500
    triples: int = 3200
    gallery: int = 1000
    things: int = 600
    steps: int = SETTINGS.steps


SMOKE = Sizes(24, 32, 16, 12, 3)


def make_arms() -> dict[str, Arm]:
    """Every arm by its name."""
    arms = {"plain": Arm("plain"), "hp": Arm("hp")}
    for dose in DOSES:
        arms[f"hn, q={dose:g}"] = Arm("hn", dose)
        arms[f"hp+hn, q={dose:g}"] = Arm("hp+hn", dose)
        arms[f"infonce-hn, q={dose:g}"] = Arm("infonce-hn", dose)
    for dose in DOSES[2:]:
        arms[f"hp:hn 1:4, q={dose:g}"] = Arm("hp=0.4+hn=1.6", dose)
        arms[f"hp:hn 4:1, q={dose:g}"] = Arm("hp=1.6+hn=0.4", dose)
        arms[f"hp-even+hn, q={dose:g}"] = Arm("hp-even+hn", dose)
    arms |= {
        "infonce-hn+hp, q=1": Arm("infonce-hn+hp", 1.0),
        "infonce-hn+hn, q=1": Arm("infonce-hn+hn", 1.0),
        "svlc, q=1": Arm("infonce-hn+hn+hp:symmetric=no", 1.0),
        "hp+hn, attributes, q=1": Arm("hp+hn", 1.0, ATTRIBUTE_KINDS),
        "hp+hn, others, q=1": Arm("hp+hn", 1.0, OTHER_KINDS),
        "plain, learnt": Arm("plain", learn_scale=True),
        "hn, learnt, q=1": Arm("hn", 1.0, learn_scale=True),
        "hp+hn, learnt, q=1": Arm("hp+hn", 1.0, learn_scale=True),
    }
    return arms


ARMS: Mapping[str, Arm] = make_arms()


@dataclass(frozen=True, slots=True, eq=False)
class Choices:
    """Texts that may be drawn for each caption, flat: those of caption i begin at `first[i]`."""

    first: IntArray
    count: IntArray
    texts: IntArray

    @staticmethod
    def of(lists: Sequence[Sequence[int]]) -> Choices:
        """Choices of lists of text numbers."""
        count = np.array([len(some) for some in lists], np.int64)
        flat = np.array([text for some in lists for text in some] + [0], np.int64)
        return Choices(np.cumsum(count) - count, count, flat)

    def draw(self, captions: IntArray, uniform: FloatArray) -> tuple[IntArray, NDArray[np.bool_]]:
        """A text of each caption, and whether it has any."""
        count = self.count[captions]
        at = self.first[captions] + (uniform * count).astype(np.int64)
        return self.texts[np.where(count > 0, at, 0)], count > 0


class TuningData:
    """Tuning scenes of a seed: encoded images, tokens of all texts, and choices by caption."""

    def __init__(self, scenes: SceneSet, student: Student, device: str):
        self.image = encode_images(student, scenes.images)
        numbers: dict[str, int] = {}

        def number(text: str) -> int:
            return numbers.setdefault(text, len(numbers))

        flat: list[StudyCaption] = [it for some in scenes.captions for it in some]
        self.caption = np.array([number(it.text) for it in flat], np.int64)
        self.plain = Choices.of([[number(n.plain) for n in it.negatives] for it in flat])
        self.marked = Choices.of(
            [[number(n.marked or n.plain) for n in it.negatives] for it in flat]
        )
        self.rewordings = [[(kind, number(t)) for kind, t in it.rewordings] for it in flat]
        self.captions_of = Choices.of(_ranges([len(some) for some in scenes.captions]))
        self.tokens = student.tokens(list(numbers))["tokens"].to(device)

    def batches(self, arm: Arm, seed: int, steps: int) -> dict[str, Tensor]:
        """Text and image numbers of all steps, (steps, batch): the same for all arms of a seed."""
        rng = np.random.default_rng((seed, 5))
        images, size = len(self.image), SETTINGS.batch
        rounds = -(-steps * size // images)
        order = np.concatenate([rng.permutation(images) for _ in range(rounds)])[: steps * size]
        uniform = rng.random((4, steps * size))
        captions, _ = self.captions_of.draw(order, uniform[0])
        plain, has_negative = self.plain.draw(captions, uniform[1])
        marked, _ = self.marked.draw(captions, uniform[1])
        allowed = Choices.of(
            [[text for kind, text in some if kind in arm.kinds] for some in self.rewordings]
        )
        positive, has_positive = allowed.draw(captions, uniform[3])
        columns = {
            "image": order,
            "text": self.caption[captions],
            "negative": np.where(uniform[2] < arm.dose, marked, plain),
            "has_negative": has_negative,
            "positive": positive,
            "has_positive": has_positive,
        }
        device = self.tokens.device
        return {
            name: torch.from_numpy(column.reshape(steps, size)).to(device)
            for name, column in columns.items()
        }


def _ranges(counts: Sequence[int]) -> list[range]:
    ends = np.cumsum(counts).tolist()
    return [range(end - count, end) for end, count in zip(ends, counts, strict=True)]


def tune(student: Student, data: TuningData, arm: Arm, seed: int, steps: int) -> nn.Module:
    """Text tower after an arm's training; the student stays as it is."""
    text: nn.Module = copy.deepcopy(student.towers["text"][0]).train()
    scale = student.scale()[0].detach().clone().log()
    parameters = list(text.parameters())
    if arm.learn_scale:
        scale.requires_grad_()
        parameters.append(scale)  # type: ignore[arg-type]
    optimizer = torch.optim.AdamW(
        [
            {"params": [w for w in parameters if w.dim() > 1], "weight_decay": SETTINGS.decay},
            {"params": [w for w in parameters if w.dim() <= 1], "weight_decay": 0.0},
        ]
    )
    objective = parse_objective(arm.losses)
    contrastive = objective.contrastive_loss(student)
    batches = data.batches(arm, seed, steps)
    settings = Settings(steps=steps, batch=SETTINGS.batch, rate=RATE)
    for step in range(steps):
        for group in optimizer.param_groups:
            group["lr"] = RATE * settings.learning_rate_factor(step)
        now = {name: column[step] for name, column in batches.items()}
        names = ["text", *sorted(objective.needs)]
        vectors = text(data.tokens[torch.cat([now[name] for name in names])])
        given = dict(zip(names, vectors.chunk(len(names)), strict=True))
        batch = LossBatch(
            data.image[now["image"]],
            scale=scale.exp().clamp(max=100),
            same=now["text"],
            same_negative=now["negative"][:, None] if "negative" in given else None,
            has_negative=now["has_negative"],
            has_positive=now["has_positive"],
            **given,
        )
        loss = objective.contrast * contrastive(batch)
        for term in objective.terms:
            loss = loss + term.weight * term.loss(batch)
        optimizer.zero_grad(set_to_none=True)
        loss.backward()  # type: ignore[no-untyped-call]
        nn.utils.clip_grad_norm_(parameters, SETTINGS.clip)
        optimizer.step()
    return text.eval()


@torch.no_grad()
def encode_images(student: Student, images: Tensor, size: int = 256) -> Tensor:
    """(n, d) unit vectors of images, of bytes."""
    parts = [student.see({"pixels": some}).vectors for some in torch.split(images, size)]
    return torch.cat(parts)


class JudgingData:
    """Triples, gallery and single things of a seed: images encoded, captions as tokens."""

    def __init__(self, seed: int, sizes: Sizes, student: Student, device: str):
        scenes = make_scene_set(sizes.triples, seed, TRIPLES, device)
        self.triples, rows = draw_triples(scenes, np.random.default_rng((seed, 7)))
        gallery = make_scene_set(sizes.gallery, seed, GALLERY, device, rewordings_only=True)
        rng = np.random.default_rng((seed, 9))
        captions, reworded = [], []
        for some in gallery.captions:
            one = some[int(rng.integers(len(some)))]
            other = [text for kind, text in one.rewordings if kind in MARKED_KINDS]
            captions.append(one.text)
            reworded.append(other[int(rng.integers(len(other)))] if other else one.text)
        things, self.classes = make_single_things(sizes.things, seed, device)
        self.images = {
            "triples": encode_images(student, scenes.images[rows]),
            "gallery": encode_images(student, gallery.images),
            "things": encode_images(student, things),
        }
        texts = {
            "caption": [it.caption for it in self.triples],
            "negative": [it.negative for it in self.triples],
            "rewording": [it.rewording for it in self.triples],
            "gallery": captions,
            "reworded": reworded,
            "names": class_names(),
        }
        self.tokens = {
            name: student.tokens(some)["tokens"].to(device) for name, some in texts.items()
        }

    def example_kinds(self) -> Answer:
        """Kinds of negative and rewording of every triple, as places in their lists."""
        negative = [NEGATIVE_KINDS.index(it.negative_kind) for it in self.triples]
        rewording = [REWORDING_KINDS.index(it.rewording_kind) for it in self.triples]
        return {
            "negative": np.array(negative, np.uint8),
            "rewording": np.array(rewording, np.uint8),
        }

    @torch.no_grad()
    def judge(self, text: nn.Module) -> Answer:
        """Per-example values of a text tower: triples, recalls, names of things."""
        vectors = {
            name: torch.cat([text(some) for some in torch.split(tokens, 1024)])
            for name, tokens in self.tokens.items()
        }
        image = self.images["triples"]
        columns = [(image * vectors[it]).sum(1) for it in ("caption", "negative", "rewording")]
        answer = pack_triples(torch.stack(columns, 1).double().cpu().numpy())
        count = len(vectors["gallery"])
        pairs = np.stack([np.arange(count)] * 2, axis=1)
        hits = np.zeros(count, np.uint8)
        for name, prefix in (("gallery", ""), ("reworded", "reworded_")):
            scores = (self.images["gallery"] @ vectors[name].T).cpu().numpy()
            for metric, outcome in metrics.recalls(scores, pairs, (1, 5)).items():
                hits |= outcome.values.astype(np.uint8) << HITS.index(prefix + metric)
        answer["hits"] = hits
        named = (self.images["things"] @ vectors["names"].T).cpu().numpy()
        answer["naming"] = metrics.top_k(named, self.classes).values.astype(np.bool_)
        return answer


def pack_triples(scores: FloatArray) -> Answer:
    """Order of (k, 3) scores around the negative, exactly, and the scores as bytes."""
    order = np.sign(scores[:, [0, 2]] - scores[:, [1]]).astype(np.int8) + 1
    steps = np.clip(np.round((scores - FLOOR) / STEP), 0, 255).astype(np.uint8)
    return {"order": (3 * order[:, 0] + order[:, 1]).astype(np.uint8), "scores": steps}


def unpack_order(order: NDArray[np.generic]) -> FloatArray:
    """(k, 3) scores with the same order around the negative, which is 0."""
    codes = np.asarray(order, np.int64)
    return np.stack([codes // 3 - 1, np.zeros_like(codes), codes % 3 - 1], axis=1).astype(float)


def unpack_scores(steps: NDArray[np.generic]) -> FloatArray:
    """(k, 3) cosines of caption, negative and rewording, within half a step."""
    return np.asarray(steps, np.float64) * STEP + FLOOR


def unpack_hits(hits: NDArray[np.generic], name: str) -> FloatArray:
    """(n,) values of one recall."""
    return ((np.asarray(hits, np.int64) >> HITS.index(name)) & 1).astype(np.float64)


class SeedCourse:
    """Everything of one seed: data made when first needed, arms tuned and judged."""

    def __init__(self, seed: int, sizes: Sizes, device: str):
        self.seed, self.sizes, self.device = seed, sizes, device
        self.student = load_student(MODEL, device=device)
        self.judging = JudgingData(seed, sizes, self.student, device)
        self.scenes = make_scene_set(sizes.tuning, seed, TUNING, device)
        self.data = TuningData(self.scenes, self.student, device)

    def texts(self) -> Answer:
        """Texts that the audit asks about: tuning captions, negatives, judged triples."""
        rng = np.random.default_rng((self.seed, 11))
        asked = [it for some in self.scenes.captions[1::2] for it in some if it.negatives]
        chosen = [it.negatives[int(rng.integers(len(it.negatives)))] for it in asked]
        triples = self.judging.triples
        return {
            "corpus": np.array([it.text for some in self.scenes.captions[::2] for it in some]),
            "asked": np.array([it.text for it in asked]),
            "plain": np.array([it.plain for it in chosen]),
            "marked": np.array([it.marked for it in chosen]),
            "uniform": rng.random(len(asked)),
            "caption": np.array([it.caption for it in triples]),
            "negative": np.array([it.negative for it in triples]),
            "rewording": np.array([it.rewording for it in triples]),
        }

    def answer(self, name: str) -> Answer:
        """Per-example values of an arm, with the seconds that it took."""
        begun = time.perf_counter()
        text: nn.Module = self.student.towers["text"][0]
        if name != BEFORE:
            text = tune(self.student, self.data, ARMS[name], self.seed, self.sizes.steps)
        answer = self.judging.judge(text)
        return answer | {"seconds": np.array([time.perf_counter() - begun], np.float32)}
