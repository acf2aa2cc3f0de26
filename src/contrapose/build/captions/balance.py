"""Blind audit of hard negatives, and their balance: negatives that no blind score can tell.

A negative that is less likely than its caption is found without an image. Balancing is SugarCrepe's
adversarial refinement: the gap of every blind score between caption and negative is cut into bins,
and of each cell of gaps and its mirror image as many negatives are kept. Each score then prefers
the caption as often as the negative, in every kind of change and by any margin. Since the n-gram
model is fitted to what is kept, the cut is repeated until the audit agrees.

Hsieh et al., SugarCrepe: Fixing Hackable Benchmarks for Vision-Language Compositionality (2023).
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from contrapose.build.captions.pairs import CaptionPairs, Tally
from contrapose.data import Example, ImageRef, in_memory_benchmark
from contrapose.data.examples import single_match
from contrapose.engine import Progress
from contrapose.evaluation.audit import AuditRequest, audit_benchmark
from contrapose.evaluation.audit.captions import collect_captions
from contrapose.evaluation.audit.scores import blind_scores
from contrapose.evaluation.selection import select
from contrapose.metrics import FloatArray, IntArray
from contrapose.results.schema import WHOLE, AuditReport

BINS = 4
"""Bins of the size of a gap, on either side of zero; with more than two scores the sign alone."""
ROUNDS = 6
CANDIDATES = 4
"""Negatives that are proposed for every one that a caption may keep."""
AUDIT_SAMPLE = 2000
"""Negatives of each kind that the audit measures."""
AUDIT_CAPTIONS = 50_000
"""Captions that the audit of an unbalanced build looks at."""
BALANCED_AWAY = "told blind"
"""Reason why a negative is dropped."""


@dataclass(frozen=True, slots=True)
class BlindTest:
    """Blind scores of a build.

    Attributes:
        lm: a language model; None for none.
        device: its device.
        cache: folder or URL of its scores; None keeps none.
        seed: of folds and draws.
        progress: called with a description, the number done and the total.
    """

    lm: str | None = None
    device: str = "auto"
    cache: Path | str | None = None
    seed: int = 0
    progress: Progress | None = None

    def request(self, examples: Sequence[Example], **options: Any) -> AuditRequest:
        """Audit request of examples."""
        return AuditRequest(
            benchmark=in_memory_benchmark(examples, name="the negatives"),
            lm=self.lm,
            device=self.device,
            cache=self.cache,
            seed=self.seed,
            **options,
        )


def negative_examples(pairs: Iterable[CaptionPairs]) -> list[Example]:
    """Examples of one image with a caption and one of its negatives; no image is opened."""
    examples = []
    for row, one in enumerate(pairs):
        key = f"caption {row}" if one.image is None else one.image
        image = ImageRef(key, path=Path(key))
        for column, negative in enumerate(one.negatives):
            examples.append(
                Example(
                    f"{row}.{column}",
                    (image,),
                    (one.caption, negative.text),
                    single_match(2, 0),
                    {"subset": negative.kind},
                )
            )
    return examples


def audit_pairs(pairs: Iterable[CaptionPairs], test: BlindTest) -> dict[str, Any] | None:
    """Audit the negatives of pairs: how many blind scores solve, by kind, and the verdict.

    Returns:
        The audit as the manifest has it; None where there are no negatives.
    """
    examples = negative_examples(pairs)
    if not examples:
        return None
    request = test.request(examples, sample=AUDIT_SAMPLE)
    report = audit_benchmark(request, progress=test.progress)
    return {
        "negatives": len(examples),
        "scores": {score.label: _score_summary(report, score.label) for score in report.scores},
        "flagged": [part.name for part in report.parts if part.solved_by and part.name != WHOLE],
        "verdict": list(report.verdict),
        "notes": list(report.notes),
    }


def _score_summary(report: AuditReport, label: str) -> dict[str, Any]:
    (score,) = (one for one in report.scores if one.label == label)
    value = score.metrics["accuracy"]
    return {
        "accuracy": value.value,
        "ci95": None if value.ci95 is None else list(value.ci95),
        "kinds": {
            name: metrics["accuracy"].value
            for name, metrics in score.subsets.items()
            if "accuracy" in metrics
        },
    }


def audit_for_manifest(request: AuditRequest, progress: Progress | None) -> dict[str, Any]:
    """Blind audit of what was built, as a manifest has it."""
    report = audit_benchmark(request, progress=progress)
    return {
        "scores": [score.label for score in report.scores],
        "flagged": [part.name for part in report.parts if part.solved_by and part.name != WHOLE],
        "verdict": list(report.verdict),
        "notes": list(report.notes),
    }


def balance_pairs(
    pairs: Sequence[CaptionPairs], per_caption: int, test: BlindTest, tally: Tally | None = None
) -> list[CaptionPairs]:
    """Keep negatives of which every blind score prefers as many to their captions as not.

    Args:
        pairs: captions with more negatives than they may keep.
        per_caption: the most negatives that a caption keeps.
        test: the blind scores; a language model scores every proposal.
        tally: counter of proposals, which learns what was dropped.
    """
    kept = [one.negatives for one in pairs]
    for turn in range(ROUNDS):
        current = [replace(one, negatives=some) for one, some in zip(pairs, kept, strict=True)]
        examples = negative_examples(current)
        gaps = blind_gaps(examples, test) if examples else None
        if gaps is None:
            break
        owners = [int(example.id.partition(".")[0]) for example in examples]
        kinds = [str(example.tags["subset"]) for example in examples]
        solved = set(kinds) if turn == 0 else find_told_kinds(gaps, kinds)
        if not solved:
            break
        inside = [i for i, kind in enumerate(kinds) if kind in solved]
        cut = choose_balanced(
            gaps[inside],
            [kinds[i] for i in inside],
            [owners[i] for i in inside],
            per_caption,
            np.random.default_rng([test.seed, turn]),
        )
        dropped = {i for position, i in enumerate(inside) if position not in cut}
        at = iter(range(len(examples)))
        kept = [tuple(one for one in some if next(at) not in dropped) for some in kept]
    result = [replace(one, negatives=some) for one, some in zip(pairs, kept, strict=True)]
    if tally is not None:
        _count_dropped(pairs, result, tally)
    return result


def blind_gaps(examples: Sequence[Example], test: BlindTest) -> FloatArray | None:
    """(n, scores) how much more each blind score likes the caption than the negative.

    Returns:
        None where there is too little to fit an n-gram model to.
    """
    request = test.request(examples)
    captions, _ = collect_captions(select(request.benchmark))
    scores, _ = blind_scores(captions, request, test.progress)
    columns = [score.captions[""] for score in scores]
    if not any(score.score == "ngram" for score in scores):
        return None
    return np.stack([values[:, 0] - values[:, 1] for values in columns], axis=1)


def choose_balanced(
    gaps: FloatArray,
    kinds: Sequence[str],
    owners: Sequence[int],
    per_caption: int,
    rng: np.random.Generator,
) -> set[int]:
    """Indices of negatives whose gaps are symmetric around zero, in every kind.

    Args:
        gaps: (n, scores) of the negatives.
        kinds: of the negatives.
        owners: number of each negative's caption.
        per_caption: the most that are chosen of a caption.
        rng: order of the choice.
    """
    cells = _gap_cells(gaps)
    queues: dict[tuple[str, tuple[int, ...]], list[int]] = defaultdict(list)
    for i in rng.permutation(len(kinds)).tolist():
        queues[kinds[i], tuple(cells[i].tolist())].append(i)
    taken: Counter[int] = Counter()
    chosen: set[int] = set()

    def pop(queue: list[int], other: int | None = None) -> int | None:
        while queue:
            i = queue.pop()
            same = other is not None and owners[other] == owners[i]
            if taken[owners[i]] + same < per_caption:
                return i
        return None

    # A pair of mirrored cells has its turn, then the next: no kind takes all of a caption's room.
    open_ = sorted(key for key in queues if key[1] >= tuple(-size for size in key[1]))
    while open_:
        rest = []
        for kind, cell in open_:
            mirror = tuple(-size for size in cell)
            first = pop(queues[kind, cell])
            second = first
            if first is not None and cell != mirror:
                second = pop(queues[kind, mirror], first) if (kind, mirror) in queues else None
            if first is None or second is None:
                continue
            for i in {first, second}:
                taken[owners[i]] += 1
                chosen.add(i)
            rest.append((kind, cell))
        open_ = rest
    return chosen


def _gap_cells(gaps: FloatArray) -> IntArray:
    """(n, scores) signed bin of every gap, 0 for a tie; the bins hold equal shares."""
    cells = np.zeros(gaps.shape, dtype=np.int64)
    count = BINS if gaps.shape[1] <= 2 else 1
    for column in range(gaps.shape[1]):
        sizes = np.abs(gaps[:, column])
        some = sizes[sizes > 0]
        if len(some):
            edges = np.quantile(some, np.arange(1, count) / count)
            bins = 1 + np.searchsorted(edges, sizes, side="left")
            cells[:, column] = np.sign(gaps[:, column]).astype(np.int64) * bins
    return cells


def find_told_kinds(gaps: FloatArray, kinds: Sequence[str]) -> set[str]:
    """Kinds of which some score prefers more captions, or fewer, than half by chance allows."""
    names = np.array(kinds)
    solved = set()
    for kind in set(kinds):
        inside = gaps[names == kind]
        ahead, behind = (inside > 0).sum(axis=0), (inside < 0).sum(axis=0)
        if np.any(np.abs(ahead - behind) > max(2.0, len(inside) ** 0.5 / 2)):
            solved.add(kind)
    return solved


def _count_dropped(
    before: Sequence[CaptionPairs], after: Sequence[CaptionPairs], tally: Tally
) -> None:
    for old, new in zip(before, after, strict=True):
        counts: Mapping[str, int] = Counter(one.kind for one in old.negatives)
        left = Counter(one.kind for one in new.negatives)
        for kind, count in counts.items():
            tally.kept[kind] -= count - left[kind]
            for _ in range(count - left[kind]):
                tally.drop(kind, BALANCED_AWAY)
        tally.captions["without a negative"] += bool(old.negatives) and not new.negatives
