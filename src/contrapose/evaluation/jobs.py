"""Jobs of an evaluation: a model, a benchmark and a score that fits it; their plan and progress."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Sequence

from contrapose.data import DEV, Benchmark, Card, ComposedSet, EditSet, Gallery, ImageRef
from contrapose.data.example_columns import ExampleColumns, distinct_refs
from contrapose.data.video_clips import VideoClip, has_video_images, has_videos
from contrapose.engine import (
    ALL_EDIT_SCORES,
    EDIT_SCORES,
    FUSION_SCORES,
    LIKELIHOOD_SCORES,
    TEXT_ONLY_SCORES,
    Progress,
    ScoringContext,
    base_score,
    default_scores,
    has_pooling,
)
from contrapose.engine.pace import (
    PLAN,
    PaceBook,
    estimate_work,
    format_seconds,
    name_progress,
    report_sentence,
)
from contrapose.engine.score_names import is_chat
from contrapose.errors import InputError, option
from contrapose.evaluation.parts import DEBIASED, EvalRequest
from contrapose.evaluation.selection import PartData, Selection
from contrapose.evaluation.skips import count_units
from contrapose.models import Model
from contrapose.results.shapes import find_shape

Job = tuple[ScoringContext, Selection, str]

QUERY_SCORES = {**EDIT_SCORES, **FUSION_SCORES}
"""Scores of edit queries and of composed queries."""

ANSWERED = ("question_groups", "questions")
"""Families of questions, which only a score that says yes or no answers."""


def report_plan(progress: Progress | None, jobs: Sequence[Job]) -> None:
    """Report the plan: jobs, models with their scores, benchmarks, and an estimate of the time."""
    if progress is None or not jobs:
        return
    scores: dict[str, dict[str, None]] = {}
    sizes: dict[str, str] = {}
    for context, selection, score in jobs:
        scores.setdefault(context.model.name, {})[score] = None
        sizes[selection.name] = f"{selection.name} ({describe_size(selection)})"
    models = ", ".join(f"{name} ({', '.join(some)})" for name, some in scores.items())
    count = "1 job" if len(jobs) == 1 else f"{len(jobs):,} jobs"
    label = f"{PLAN}{count}: {models} on {', '.join(sizes.values())}"
    report_sentence(progress, f"{label}; {estimate_jobs(jobs)}")


def estimate_jobs(jobs: Sequence[Job]) -> str:
    """Estimate of the time that jobs take, in words: by the pace of earlier runs, or none.

    It is an upper bound: what the cache holds already, or what two jobs share, is scored once.
    """
    work: dict[int, dict[str, int]] = {}
    contexts = {id(context.model): context for context, _, _ in jobs}
    unknown: dict[str, None] = {}
    for context, selection, score in jobs:
        items = count_work(selection, score)
        if items is None:
            unknown[score] = None
            continue
        of_model = work.setdefault(id(context.model), {})
        for label, size in items.items():
            of_model[label] = of_model.get(label, 0) + size
    seconds = 0.0
    for key, items in work.items():
        context = contexts[key]
        book = PaceBook(context.store, context.model, context.batch_size)
        some, labels = estimate_work(book, items)
        seconds += some
        unknown |= dict.fromkeys(label.partition(":")[0] for label in labels)
    if not seconds:
        return "no earlier run tells how long that takes: the first batches will"
    most = f"at most about {format_seconds(seconds)}, less by what the cache holds,"
    words = f"{'less than 10 s' if seconds < 10 else most} at the pace of earlier runs"
    return f"{words}, and {', '.join(unknown)} besides" if unknown else words


def count_work(selection: Selection, score: str) -> dict[str, int] | None:
    """Count images, captions or pairs that a score needs, by the labels of their requests.

    None where that is only known as the job runs: replies of chat models, priors, pairs of
    galleries, videos.
    """
    images: set[ImageRef] = set()
    texts: set[str] = set()
    pairs = 0
    for _, data in selection.parts.values():
        some, words = _list_inputs(data)
        if has_video_images(some):
            return None
        if isinstance(data, list):
            pairs += sum(len(one.images) * len(one.texts) for one in data)
        elif isinstance(data, ExampleColumns):
            pairs += int(data.shapes().prod(axis=1).sum())
        elif not score.startswith("itc"):
            if len(selection.parts) == 1:
                return None
            continue  # such parts of a suite are asked with vectors alone
        if score.startswith("itc"):
            images.update(some)
        if score == "blind" or score.startswith("itc"):
            texts.update(words)
    if score.startswith("itc"):
        return {"itc: captions": len(texts), "itc: images": len(images)}
    if score in ("itm", *LIKELIHOOD_SCORES):
        return {f"{score}: pairs": pairs}
    return {"blind: captions": len(texts)} if score == "blind" else None


def _list_inputs(data: PartData) -> tuple[Iterable[ImageRef], Iterable[str]]:
    """Images and texts that a part gives to an encoder, each at least once."""
    if isinstance(data, ExampleColumns):
        return data.refs, data.texts
    if isinstance(data, Gallery):
        prompts = [
            template.replace("{}", text) for text in data.texts for template in data.templates
        ]
        return data.images, prompts or data.texts
    if isinstance(data, EditSet):
        words = [word for query in data.queries for word in (query.source, query.target)]
        return data.images, [*data.captions, *words]
    if isinstance(data, ComposedSet):
        return data.images, [text for query in data.queries for text in query.texts]
    texts = [text for example in data for text in example.texts]
    return [ref for example in data for ref in example.images], texts


def describe_size(selection: Selection) -> str:
    """Numbers of examples, queries and images of a selection, in words."""
    totals: dict[str, int] = {}
    for _, data in selection.parts.values():
        for kind, count in count_units(data).items():
            totals[kind] = totals.get(kind, 0) + count
    return ", ".join(f"{count:,} {kind}" for kind, count in totals.items() if count)


class JobClock:
    """Clock of jobs: names each in its progress, with an estimate of the time for the others."""

    def __init__(self, jobs: Sequence[Job]):
        self.jobs = jobs
        self.sizes = [
            sum(sum(count_units(data).values()) for _, data in selection.parts.values())
            for _, selection, _ in jobs
        ]
        self.start = time.monotonic()
        self.done = 0

    def finish(self, number: int) -> None:
        """Count a job as done."""
        self.done += self.sizes[number]

    def name_progress(self, number: int, progress: Progress | None) -> Progress | None:
        """Progress callback whose labels say the job's number, model and benchmark."""
        context, selection, score = self.jobs[number]
        total = len(self.jobs)
        count = f"{number + 1} of {total}{self.estimate(number)}: " if total > 1 else ""
        prefix = f"{count}{context.model.name} on {selection.name}"

        return name_progress(progress, prefix, score)

    def estimate(self, number: int) -> str:
        """Time that the later jobs take if they are as quick as the earlier ones, in words."""
        rest = sum(self.sizes[number + 1 :])
        if not self.done or not rest:
            return ""
        seconds = (time.monotonic() - self.start) * rest / self.done
        return f" (then about {format_seconds(seconds)})"


def list_scores(model: Model, selection: Selection, request: EvalRequest) -> Iterator[str]:
    """Scores to measure a selection by; `itc` of composed or edit queries is all of theirs."""
    scores = request.scores or default_scores(model)
    if not scores:
        raise InputError(f"{model.name} gives no score.")
    data = [data for _, data in selection.parts.values()]
    every: Sequence[str] = ()
    if all(isinstance(part, ComposedSet) for part in data):
        every = tuple(FUSION_SCORES)
    elif all(isinstance(part, EditSet) for part in data):
        every = _edit_scores([part for part in data if isinstance(part, EditSet)])
    if every:
        asked = (
            scores if request.scores else [score for score in scores if score == "itc"] or scores
        )
        for score in dict.fromkeys(asked):
            yield from every if score == "itc" else (score,)
        return
    for score in dict.fromkeys(scores):
        yield score
        if score in LIKELIHOOD_SCORES and request.prior is not None:
            yield f"{score}-alpha"


def _edit_scores(parts: Sequence[EditSet]) -> Sequence[str]:
    """Scores of edit queries; λ is chosen on dev only where all parts have dev queries."""
    dev = all(any(query.tags.get("split") == DEV for query in part.queries) for part in parts)
    return [score for score in ALL_EDIT_SCORES if dev or not score.endswith(f"={DEV}")]


def find_fitting_parts(
    context: ScoringContext, selection: Selection, score: str
) -> tuple[list[str], list[str]]:
    """Find the parts of a benchmark that a score fits, with notes on the others.

    Raises:
        InputError: it fits none.
    """
    misfits = {
        name: find_misfit(benchmark, data, context.model, score, named=name in selection.named)
        for name, (benchmark, data) in selection.parts.items()
    }
    notes = [f"{name} is not asked with {score}: {why}" for name, why in misfits.items() if why]
    names = [name for name, why in misfits.items() if not why]
    if not names:
        raise InputError(
            f"{selection.name} cannot be asked with {score}: "
            f"{notes[0] if selection.suite else next(iter(misfits.values()))}."
        )
    return names, notes


def find_misfit(
    benchmark: Benchmark, data: PartData, model: Model, score: str, *, named: bool
) -> str:
    """Reason why a part cannot be evaluated with a score; empty when it can."""
    if is_chat(score):
        return _find_chat_misfit(benchmark, data, score)
    if isinstance(data, ComposedSet | EditSet) or base_score(score) in QUERY_SCORES:
        return _find_query_misfit(data, model, score)
    if isinstance(data, Gallery):
        if score in TEXT_ONLY_SCORES:
            return "there is no choice among a few captions"
        why = "a gallery needs every image with every caption; name the subset to ask all the same"
        return why * (score != "itc" and not named)
    return _find_example_misfit(benchmark.card, score)


def _find_example_misfit(card: Card, score: str) -> str:
    """Reason why examples cannot be evaluated with a score."""
    compares_captions = find_shape(card).debiasing is not None
    if (score in TEXT_ONLY_SCORES or score in DEBIASED) and not compares_captions:
        return "there is no choice among captions"
    if card.answers and score in ("itc", "itm", "lm"):
        return f"its questions have two answers, and {score} gives neither: ask vqa"
    if card.family in ANSWERED and score in ("itc", "lm"):
        return f"its questions need a yes or a no, and {score} says neither: ask vqa, itm or chat"
    return ""


def _find_chat_misfit(benchmark: Benchmark, data: PartData, score: str) -> str:
    """Reason why a part cannot be evaluated with chat; empty when it can."""
    from contrapose.engine.chat_prompts import EQBEN, explain_unfit, find_template

    templates = tuple(find_shape(benchmark.card).chat.metrics)
    template = find_template(score, templates)
    if isinstance(data, list | ExampleColumns) and has_videos(data):
        if template is EQBEN:
            return f"{score} shows two images side by side, and no videos: ask chat:sugarcrepe"
        sources = [ref.source for ref in distinct_refs(data)]
        if any(isinstance(source, VideoClip) and source.alone for source in sources):
            return f"replies about frames have no mean: leave out :mean of {option('frames')}"
    return explain_unfit(score, template, templates)


def _find_query_misfit(data: PartData, model: Model, score: str) -> str:
    """Reason why edit or composed queries cannot be evaluated, or others with a score of those."""
    base = base_score(score)
    if isinstance(data, ComposedSet):
        if base not in FUSION_SCORES:
            return f"composed queries need a fusion of vectors, such as {', '.join(FUSION_SCORES)}"
        kind = "composed queries need"
    elif isinstance(data, EditSet):
        if score != "itc" and base not in EDIT_SCORES:
            return f"edit queries need vectors, which only itc has: {', '.join(EDIT_SCORES)}"
        kind = "edit queries add"
    else:
        return "a fusion is for composed queries and edit queries, which retrieve an image"
    return f"{kind} one vector an image, and {model.name} gives several" * has_pooling(model)
