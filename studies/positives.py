"""Hard positives: does tuning on hard negatives teach that any change of words is wrong?

    python studies/positives.py run --keep DIR [--parts scenes audit photos] [--device cuda]
        [--seeds 5] [--first-seed 0] [--jobs 5] [--smoke] [--pack FILE]
        [--flickr DIR] [--encoder NAME] [--add FILE …] [--pack-texts FILE]
    python studies/positives.py report [--kept FILE] [--docs docs/studies]

`run` tunes `tiny-clip` in every arm and seed (`scenes`), audits the negatives (`audit`, on the CPU)
and trains heads on Flickr8k features (`photos`, on the CPU); answers are kept one by one, and a run
that broke off goes on. `report` prints every table from the packed answers and draws the pictures.
Settings are those of pilots on other seeds; each seed has scenes of its own to tune on and to be
judged on.
"""

from __future__ import annotations

import argparse
import sys
import traceback
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from multiprocessing import get_context
from pathlib import Path

import numpy as np

from studies.kept import FOLDER, Answer, KeptAnswers
from studies.positives_tuning import ARMS, BEFORE, DOSES, SMOKE, SeedCourse, Sizes

PACKED = FOLDER / "positives.npz"
PARTS = ("scenes", "audit", "photos")
TEXTS = "texts"
"""Folder of the texts that the audit asks about; they are not packed with the answers."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the study or report on it; gives the exit status."""
    given = _parse(arguments)
    if given.command == "report":
        return _report(given.kept, given.docs)
    failed = 0
    kept = KeptAnswers(given.keep)
    for file in given.add:
        for key, answer in KeptAnswers(file).items():
            there = KeptAnswers(given.keep / TEXTS) if key["part"] == TEXTS else kept
            there.once(key, lambda answer=answer: answer)  # type: ignore[misc]
    sizes = SMOKE if given.smoke else Sizes()
    seeds = range(given.first_seed, given.first_seed + given.seeds)
    if "scenes" in given.parts:
        failed += run_scenes(given.keep, seeds, sizes, given.device, given.jobs)
    if "audit" in given.parts:
        for seed in seeds:
            texts = KeptAnswers(given.keep / TEXTS).get({"part": TEXTS, "seed": seed})
            if texts is None:
                print(f"audit: seed {seed} has no texts yet: run its scenes first", file=sys.stderr)
                failed += 1
                continue
            key = {"part": "scenes", "arm": "blind", "seed": seed}
            kept.once(key, lambda texts=texts: audit_negatives(texts))  # type: ignore[misc]
            print(f"audit: seed {seed}", flush=True)
    if "photos" in given.parts:
        from studies.positives_photos import run_photos

        run_photos(kept, given.flickr, given.keep / "captions", seeds, given.encoder)
    if given.pack:
        print(f"{kept.pack(given.pack)} answers in {given.pack}")
    if given.pack_texts:
        print(f"{KeptAnswers(given.keep / TEXTS).pack(given.pack_texts)} sets of texts")
    return int(failed > 0)


def run_scenes(keep: Path, seeds: Sequence[int], sizes: Sizes, device: str, jobs: int) -> int:
    """Tune and judge every arm and seed that is not kept, several processes side by side.

    Returns:
        Number of processes that failed; their errors are printed, and the others go on.
    """
    shares = max(1, jobs // max(1, len(seeds)))
    names = ("examples", BEFORE, *ARMS)
    tasks = [(seed, names[i::shares]) for seed in seeds for i in range(shares)]
    if jobs < 2:
        return sum(_try_arms(keep, seed, some, sizes, device) for seed, some in tasks)
    with ProcessPoolExecutor(jobs, get_context("spawn")) as pool:
        futures = [pool.submit(_try_arms, keep, seed, some, sizes, device) for seed, some in tasks]
        failed = 0
        for future in as_completed(futures):
            try:
                failed += future.result()
            except Exception:
                traceback.print_exc()
                failed += 1
        return failed


def _try_arms(keep: Path, seed: int, names: Sequence[str], sizes: Sizes, device: str) -> int:
    try:
        _run_arms(keep, seed, names, sizes, device)
    except Exception:
        traceback.print_exc()
        return 1
    return 0


def _run_arms(keep: Path, seed: int, names: Sequence[str], sizes: Sizes, device: str) -> None:
    import torch

    torch.set_num_threads(1 if device != "cpu" else torch.get_num_threads())
    kept = KeptAnswers(keep)
    keys = {name: {"part": "scenes", "arm": name, "seed": seed} for name in names}
    texts, texts_key = KeptAnswers(keep / TEXTS), {"part": TEXTS, "seed": seed}
    missing = [name for name, key in keys.items() if kept.get(key) is None]
    if not missing:
        return
    course = SeedCourse(seed, sizes, device)
    print(f"seed {seed}: data", flush=True)
    for name in missing:
        if name == "examples":
            texts.once(texts_key, course.texts)
            kept.once(keys[name], course.judging.example_kinds)
            continue
        answer = kept.once(keys[name], lambda name=name: course.answer(name))  # type: ignore[misc]
        print(f"seed {seed}, {name}: {float(answer['seconds'][0]):.1f} s", flush=True)


def audit_negatives(texts: Answer) -> Answer:
    """Whether the audit's n-gram model prefers the caption, for one negative of each caption.

    The model is fitted to the captions of every other tuning scene, and asked of the rest: about
    negatives at every dose, and about the negatives and rewordings of the judged triples.
    """
    from contrapose import metrics
    from contrapose.evaluation.audit.scores import ngram_scores, split_words

    corpus = [split_words(str(text)) for text in texts["corpus"]]
    plain, uniform = texts["plain"], np.asarray(texts["uniform"], np.float64)
    marked = np.where(texts["marked"] == "", plain, texts["marked"])
    pairs = {
        f"q={dose:g}": (texts["asked"], np.where(uniform < dose, marked, plain)) for dose in DOSES
    }
    pairs["judged"] = texts["caption"], texts["negative"]
    pairs["rewordings"] = texts["caption"], texts["rewording"]
    answer: Answer = {}
    for name, sides in pairs.items():
        scores = np.stack([ngram_scores(corpus, side.tolist()) for side in sides], axis=1)
        right = metrics.audit(scores, [1, 0]).outcome.values
        # A tie is half a point: an n-gram model cannot tell, and neither can a guess.
        answer[name] = np.where(scores[:, 0] == scores[:, 1], 0.5, right).astype(np.float16)
    return answer


def _report(file: Path, docs: Path | None) -> int:
    from studies.positives_report import report_lines, write_charts

    if not file.exists():
        print(f"{file} is not there: run the study first, with --pack", file=sys.stderr)
        return 1
    kept = KeptAnswers(file)
    for line in report_lines(kept):
        print(line)
    if docs is not None:
        for chart in write_charts(kept, docs):
            print(f"\n{chart.name} written", file=sys.stderr)
    return 0


def _parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", maxsplit=1)[0])
    commands = parser.add_subparsers(dest="command", required=True)
    run = commands.add_parser("run", help="Tune, judge and keep the answers.")
    run.add_argument("--keep", type=Path, required=True, help="Folder of the answers.")
    run.add_argument("--parts", nargs="+", choices=PARTS, default=["scenes"])
    run.add_argument("--device", default="cpu")
    run.add_argument("--seeds", type=int, default=5)
    run.add_argument("--first-seed", type=int, default=0, help="100 and up for choosing settings.")
    run.add_argument("--jobs", type=int, default=1, help="Processes side by side.")
    run.add_argument("--smoke", action="store_true", help="Tiny sizes, to see that all runs.")
    run.add_argument("--flickr", type=Path, help="Folder of Flickr8k features and captions.")
    run.add_argument("--encoder", default="sentence-transformers/all-MiniLM-L6-v2")
    run.add_argument("--add", type=Path, nargs="*", default=[], help="Packed answers to join.")
    run.add_argument("--pack", type=Path, help="Write all answers into one file.")
    run.add_argument("--pack-texts", type=Path, help="The same for the texts of the audit.")
    report = commands.add_parser("report", help="Print the tables, draw the pictures.")
    report.add_argument("--kept", type=Path, default=PACKED)
    report.add_argument("--docs", type=Path, help="Folder of the pictures.")
    given = parser.parse_args(arguments)
    if given.command == "run" and "photos" in given.parts and given.flickr is None:
        parser.error("--parts photos needs --flickr, the folder of the features")
    return given


if __name__ == "__main__":
    sys.exit(main())
