"""Study of Harsanyi dividends (Wang et al. 2024): does a diagnosis name a fault that is known?

    python studies/harsanyi.py run --keep DIR [--seeds 5] [--jobs 1] [--only NAME] [--pack FILE]
    python studies/harsanyi.py report [--kept FILE] [--docs docs/studies]

`run` diagnoses the scorers of `studies/harsanyi_scorers.py`, whose faults are built in, and the
built-in models, with judging examples of its own for every seed. It keeps what each comparison
gives; what is kept is not computed again. `report` prints the tables of `docs/studies/harsanyi.md`
from what is kept and draws its charts. All of it runs on the CPU.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Collection, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, replace
from functools import partial
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from contrapose.data import Example
from contrapose.diagnose.findings import CLAIMS, derive_findings
from contrapose.diagnose.game_blocks import GameBlock
from contrapose.diagnose.metrics import FAMILIES, Comparisons, Diagnosis, build_comparisons
from contrapose.diagnose.model_diagnosis import CHANGE_KIND, examples_by_kind
from contrapose.diagnose.regions import SceneRegions
from contrapose.diagnose.words import SceneWords
from contrapose.world.benchmark.suite import part_data
from studies.harsanyi_scorers import SCORERS, PlayedTerms, play_terms
from studies.kept import FOLDER, Answer, KeptAnswers

PACKED = FOLDER / "harsanyi.npz"
MODELS = ("tiny", "tiny-clip")
NOISES = (0.1, 0.3, 0.7)
"""Spread of a scorer's noise; a term that fits is worth 1."""
LEVELS = (50, 100, 200, 400, 800)
"""Examples per part for which findings are derived."""
FIRST_SEED = 3001
"""Seed of the first judging set; pilots used 2001."""
PARTS = ("location", "attribute", "swap-attribute", "swap-relation")
"""Parts that `contrapose diagnose --on scenes` takes."""
REPLACEMENTS = ("replace-shape", "replace-relation", "replace-color", "add")
"""Parts for the tables of REPLACE and ADD, text side only."""
KINDS = tuple(dict.fromkeys(CHANGE_KIND.values()))
VERDICTS = ("dominates", "does not dominate", "undecided", "absent")
SHORT = {"text": "Q", "image": "D", "text to image": "QI", "image to text": "DT"}
"""Names of the families' columns in an answer."""


@dataclass(frozen=True, slots=True)
class Sizes:
    """Sizes of a run.

    Attributes:
        levels: examples per part for which a scorer's findings are derived.
        models: the same for the models.
        kept: examples per part whose values are kept for scorers.
        replaced: examples of each part of `REPLACEMENTS`.
        resamples: of the findings' tests.
    """

    levels: tuple[int, ...] = LEVELS
    models: tuple[int, ...] = (50, 100)
    kept: int = 100
    replaced: int = 60
    resamples: int = 2000

    @classmethod
    def smoke(cls) -> Sizes:
        """Tiny sizes, to try the code."""
        return cls((6, 12), (6, 12), 12, 6, 200)


def main(arguments: Sequence[str] | None = None) -> None:
    """Run or report."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    verbs = parser.add_subparsers(dest="verb", required=True)
    run = verbs.add_parser("run")
    run.add_argument("--keep", type=Path, required=True, help="Folder of what is kept.")
    run.add_argument("--seeds", type=int, default=5)
    run.add_argument("--jobs", type=int, default=1, help="Seeds that run side by side.")
    run.add_argument("--only", nargs="*", help="These scorers and models alone.")
    run.add_argument("--smoke", action="store_true", help="Tiny sizes, to try the code.")
    run.add_argument("--pack", type=Path, help="Write all answers into this file at the end.")
    report = verbs.add_parser("report")
    report.add_argument("--kept", type=Path, default=PACKED)
    report.add_argument("--docs", type=Path, help="Folder to draw the charts in.")
    chosen = parser.parse_args(arguments)
    if chosen.verb == "run":
        run_study(chosen)
    else:
        from studies.harsanyi_report import report_study

        print(report_study(chosen.kept, chosen.docs))


def run_study(chosen: argparse.Namespace) -> None:
    """Diagnose every scorer and model; print what failed, and exit with 1 if anything did."""
    names = [name for name in (*SCORERS, *MODELS) if not chosen.only or name in chosen.only]
    sizes = Sizes.smoke() if chosen.smoke else Sizes()
    job = partial(run_seed, names=names, sizes=sizes, keep=chosen.keep)
    seeds = range(FIRST_SEED, FIRST_SEED + chosen.seeds)
    failures: list[str] = []
    if chosen.jobs < 2:
        failures = [line for seed in seeds for line in job(seed)]
    else:
        with ProcessPoolExecutor(chosen.jobs, get_context("spawn")) as pool:
            futures = {seed: pool.submit(job, seed) for seed in seeds}
            for seed, future in futures.items():
                error = future.exception()
                failures += [f"seed {seed}: {error}"] if error else future.result()
    if chosen.pack is not None:
        print(f"{KeptAnswers(chosen.keep).pack(chosen.pack)} answers in {chosen.pack}")
    if failures:
        print("\n".join(failures))
        sys.exit(1)


def run_seed(seed: int, *, names: Sequence[str], sizes: Sizes, keep: Path) -> list[str]:
    """Answers of one seed; gives a line for each that failed, and goes on with the others."""
    kept = KeptAnswers(keep)
    failures = []
    scorers = [name for name in names if name in SCORERS]
    keys = [
        {"arm": name, "noise": noise, "seed": seed}
        for name in scorers
        for noise in (NOISES if name != "noise" else NOISES[:1])
    ]
    if any(kept.get(key) is None for key in keys):
        examples = load_examples(PARTS, sizes.levels[-1], seed)
        kinds = examples_by_kind(examples, SceneWords()) or {}
        main_games = play_terms(examples, SceneRegions())
        replaced = play_terms(load_examples(REPLACEMENTS, sizes.replaced, seed), None)
        for key in keys:
            make = partial(_diagnose_scorer, key, main_games, replaced, kinds, sizes)
            kept.once(key, make)
    for name in names:
        if name in MODELS:
            try:
                kept.once({"arm": name, "seed": seed}, partial(_diagnose_model, name, seed, sizes))
            except (RuntimeError, ValueError, OSError) as error:
                failures.append(f"{name}, seed {seed}: {error}")
    return failures


def load_examples(parts: Sequence[str], count: int, seed: int) -> list[Example]:
    """Balanced examples of several parts, with the part's name in each id.

    Those of `add` have "add-attribute" or "add-object" for the part's name.
    """
    examples = []
    for part in parts:
        data = part_data(part, "balanced", count, seed, 96)
        if not isinstance(data, Iterator):
            raise TypeError(f"{part} is no list of examples")
        for example in data:
            name = f"add-{example.tags['added']}" if part == "add" else part
            examples.append(replace(example, id=f"{name}/{example.id}"))
    return examples


PART_NAMES = (*PARTS, *REPLACEMENTS[:-1], "add-attribute", "add-object")
"""Parts by their code in an answer."""


def _diagnose_scorer(
    key: Mapping[str, object],
    main_games: Sequence[PlayedTerms],
    replaced: Sequence[PlayedTerms],
    kinds: Mapping[str, frozenset[str]],
    sizes: Sizes,
) -> Answer:
    name, noise, seed = str(key["arm"]), float(str(key["noise"])), int(str(key["seed"]))
    blocks = [one.score(name, noise, seed) for one in main_games]
    others = [one.score(name, noise, seed) for one in replaced]
    little = noise == NOISES[0]
    return summarize(
        blocks, others if little else [], kinds, sizes.levels, sizes.kept if little else 0,
        sizes.resamples, details=False,
    )  # fmt: skip


def _diagnose_model(name: str, seed: int, sizes: Sizes) -> Answer:
    from contrapose.diagnose.games import play_games
    from contrapose.engine import ImageCache, ScoringContext
    from contrapose.engine.store import AnswerStore
    from contrapose.models import load_model

    model = load_model(name)
    examples = load_examples(PARTS, sizes.models[-1], seed)
    kinds = examples_by_kind(examples, SceneWords()) or {}
    context = ScoringContext(model, AnswerStore(), images=ImageCache())
    blocks = play_games(context, "itc", examples, SceneWords(), SceneRegions())
    replaced = load_examples(REPLACEMENTS, sizes.replaced, seed)
    others = play_games(context, "itc", replaced, SceneWords(), None, side="text")
    return summarize(
        blocks, others, kinds, sizes.models, sizes.models[-1], sizes.resamples, details=True
    )


def summarize(
    blocks: Sequence[GameBlock],
    replaced: Sequence[GameBlock],
    kinds: Mapping[str, frozenset[str]],
    levels: Sequence[int],
    kept: int,
    resamples: int,
    *,
    details: bool,
) -> Answer:
    """Answer of one scorer or model and seed.

    Args:
        blocks: its games on `PARTS`.
        replaced: its games on `REPLACEMENTS`.
        kinds: ids of the examples by kind of change.
        levels: examples per part for which findings are derived.
        kept: examples per part whose comparisons are kept.
        resamples: of the findings' tests.
        details: keep differences of scores and dividends of the text side too.

    Returns:
        `findings` (levels, claims, 4): verdict, share, accuracy, lower end of its interval; `rho`
        (kinds, metrics); and for each family part, kind (a bit each), right and sensitivities of
        every comparison.
    """
    findings = [
        _findings(_first_examples(blocks, level), kinds, resamples) for level in levels
    ]  # fmt: skip
    compared = {
        family.name: build_comparisons(_first_examples(blocks, levels[-1]), family)
        for family in FAMILIES
    }
    answer: Answer = {
        "findings": np.array(findings, np.float32),
        "rho": np.array([_correlations(compared, ids) for ids in _kind_ids(kinds)], np.float32),
    }
    for family in FAMILIES if kept else ():
        some = build_comparisons(_first_examples(blocks, kept), family)
        answer |= _columns(SHORT[family.name], some, kinds, details and family is FAMILIES[0])
    if replaced:
        answer |= _columns("E", build_comparisons(replaced, FAMILIES[0]), kinds, details)
    return answer


def _first_examples(blocks: Sequence[GameBlock], count: int) -> list[GameBlock]:
    some = [
        block.only([id_ for id_ in block.ids if int(id_.split("/")[1]) < count]) for block in blocks
    ]
    return [block for block in some if block.ids]


def _findings(
    blocks: Sequence[GameBlock], kinds: Mapping[str, frozenset[str]], resamples: int
) -> list[tuple[float, ...]]:
    comparisons = {family.name: build_comparisons(blocks, family) for family in FAMILIES}
    findings = derive_findings(
        Diagnosis({}, comparisons),
        only={key: kinds[kind] for key, kind in CHANGE_KIND.items()},
        resamples=resamples,
    )
    return [
        (
            VERDICTS.index(one.verdict),
            np.nan if one.share is None else one.share,
            np.nan if one.accuracy is None else one.accuracy,
            0.0 if one.accuracy_ci95 is None else one.accuracy_ci95[0],
        )
        for one in findings
    ]


def _kind_ids(kinds: Mapping[str, frozenset[str]]) -> list[frozenset[str]]:
    return [kinds.get(kind, frozenset()) for kind in KINDS]


def _correlations(compared: Mapping[str, Comparisons], ids: Collection[str]) -> list[float]:
    """ρ of the fourteen metrics on the examples of one kind; NaN where it is undefined."""
    values = []
    for family in FAMILIES:
        some = compared[family.name]
        rows = np.array([id_ in ids for id_ in some.ids], dtype=np.bool_)
        values += [
            correlate(some.reward_differences[rows], column)
            for column in some.dividend_differences[rows].T
        ]
    return values


def correlate(first: NDArray[np.floating[Any]], second: NDArray[np.floating[Any]]) -> float:
    """Pearson's ρ where both are known; NaN where one does not vary."""
    known = ~np.isnan(first) & ~np.isnan(second)
    if known.sum() < 3 or first[known].std() == 0 or second[known].std() == 0:
        return float("nan")
    return float(np.corrcoef(first[known], second[known])[0, 1])


def _columns(
    name: str, compared: Comparisons, kinds: Mapping[str, frozenset[str]], details: bool
) -> Answer:
    parts = [PART_NAMES.index(id_.split("/")[0]) for id_ in compared.ids]
    bits = [
        sum(1 << bit for bit, ids in enumerate(_kind_ids(kinds)) if id_ in ids)
        for id_ in compared.ids
    ]
    difference = compared.reward_differences
    answer: Answer = {
        f"{name}/part": np.array(parts, np.uint8),
        f"{name}/kind": np.array(bits, np.uint8),
        f"{name}/right": difference > 0,
        f"{name}/q": compared.sensitivities.astype(np.float16),
    }
    if details:
        answer |= {
            f"{name}/reward": difference.astype(np.float32),
            f"{name}/w": compared.dividend_differences.astype(np.float16),
        }
    if name == "Q":
        squares = np.nan_to_num(compared.dividends**2).mean(axis=1)
        total = squares.sum(axis=1, keepdims=True)
        shares = np.divide(squares, total, out=np.zeros_like(squares), where=total > 0)
        answer[f"{name}/share"] = shares.astype(np.float16)
    return answer


INTERACTIONS = tuple(claim.interaction for claim in CLAIMS)
"""Interactions that findings are about, in their order."""

if __name__ == "__main__":
    main()
