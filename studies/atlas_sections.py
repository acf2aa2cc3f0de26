"""Sections of the atlas of public scores, one for each benchmark."""

from __future__ import annotations

import csv
from itertools import pairwise
from pathlib import Path

import numpy as np

import contrapose as cp
from contrapose import metrics
from contrapose.data import find_single_benchmark
from contrapose.report.html.plots import DotRow
from contrapose.scores import read_scores
from studies.atlas_tables import (
    RESAMPLES,
    TEST_RESAMPLES,
    cell,
    change_of,
    draw,
    draw_rows,
    list_tiers,
    percent,
    points,
    side,
    table,
    to_dot,
)


def report_winoground(data: Path, charts: Path | None) -> str:
    """Winoground: CLIP, ViLT and people."""
    folder = data / "winoground_scores"
    files = {"CLIP ViT-B/32": "clip", "ViLT": "vilt", "human": "human"}
    runs = {
        name: cp.measure(
            folder / f"{file}.jsonl", "winoground", tags={"kind": folder / "diwan_tags.json"},
            by="kind", resamples=RESAMPLES,
        )
        for name, file in files.items()
    }  # fmt: skip
    names = {"text": "text", "image": "image", "group": "group", "group_match": "GroupMatch"}
    tiers = list_tiers(runs, "group")
    rows = [
        [name, *(cell(run.metrics[one]) for one in names),
         percent(run.metrics["group"].ties or 0), str(tiers[name])]
        for name, run in runs.items()
    ]  # fmt: skip
    draw(charts and charts / "winoground.svg", "Winoground", runs, names)
    answers = read_scores(folder / "human.jsonl", find_single_benchmark("winoground").card, None)
    loose = [
        metrics.pair_wins(
            answers.scores, answers.frame.match, answers.frame.present, one, ties="right"
        )[0]
        for one in ("text", "image")
    ]
    human, clip, vilt = (runs[name] for name in ("human", "CLIP ViT-B/32", "ViLT"))
    change = cp.compare(clip, vilt, resamples=TEST_RESAMPLES).metrics
    pure = {name: run.results.subsets["No Tag"]["group"] for name, run in runs.items()}
    return "\n\n".join(
        [
            "## Winoground",
            "400 examples of 2 images × 2 captions with the same words. Chance is 25, 25, 16.67 "
            "and 50.",
            table(["model", *names.values(), "ties (group)", "tier (group)"], rows),
            "![Winoground](atlas/winoground.svg)",
            "- **A tie rule moves a published row.** People rated some captions alike. Strictly "
            "they "
            f"get {percent(human.metrics['text'].value)} / {percent(human.metrics['image'].value)} "
            "/ "
            f"{percent(human.metrics['group'].value)}; with ≥ in place of > the same ratings give "
            f"{percent(loose[0].mean())} / {percent(loose[1].mean())} / "
            f"{percent((loose[0] * loose[1]).mean())}.",
            f"- **ViLT's lead over CLIP is noise**: text {100 * change['text'].difference:+.2f} (p "
            "= "
            f"{change['text'].p_holm:.2f} after Holm), image "
            f"{100 * change['image'].difference:+.2f} (p = "
            f"{change['image'].p_holm:.2f}), group {100 * change['group'].difference:+.2f} (p = "
            f"{change['group'].p_holm:.2f}).",
            "- **Below chance is not chance.** CLIP's image score is "
            f"{side(clip.metrics['image'])} its "
            f"chance of 25, ViLT's {side(vilt.metrics['image'])} it; by GroupMatch, where the true "
            "matching must "
            f"have the highest sum, CLIP is {side(clip.metrics['group_match'])} its chance of 50 "
            "and ViLT "
            f"{side(vilt.metrics['group_match'])} it. Both know something that the group score "
            "hides.",
            f"- On the {pure['human'].n} examples without any of Diwan et al.'s tags, where "
            "nothing but "
            "composition is hard, the group scores are "
            + ", ".join(f"{name} {cell(value)}" for name, value in pure.items())
            + ".",
        ]
    )


VALSE_ROWS = (
    "existence", "plurality", "counting", "relations", "actant-swap", "action-replacement",
    "coreference", "foil-it",
)  # fmt: skip


def report_valse(data: Path, charts: Path | None) -> str:
    """VALSE: a matcher, a captioner, and a trigram model that sees no image."""
    files = {"X-VLM 4M, `itm`": "x-vlm_4m", "ClipCap, `lm`": "clipcap_coco"}
    root = data / "valse"
    runs = {
        name: cp.measure(root / "scores" / f"{file}.jsonl", "valse", root=root, resamples=RESAMPLES)
        for name, file in files.items()
    }
    audit = cp.audit("valse", root=root, resamples=RESAMPLES)
    ngram = next(score for score in audit.scores if score.score == "ngram")
    main = "pairwise_accuracy"
    tiers = list_tiers(runs, main)
    rows = [
        [f"**mean of 11 instruments**, tier {'/'.join(str(tiers[name]) for name in runs)}",
         f"{next(iter(runs.values())).metrics[main].n:,}",
         *(cell(run.metrics[main]) for run in runs.values()), cell(ngram.metrics[main])]
    ]  # fmt: skip
    drawn = []
    for part in VALSE_ROWS:
        values = {name: run.results.subsets[part][main] for name, run in runs.items()}
        blind = ngram.subsets.get(part, {}).get(main)
        rows.append(
            [part, f"{next(iter(values.values())).n:,}", *map(cell, values.values()),
             "–" if blind is None else cell(blind)]
        )  # fmt: skip
        dots = {name.replace("`", ""): to_dot(value) for name, value in values.items()}
        if blind is not None:
            dots["trigrams, no image"] = to_dot(blind)
        drawn.append(DotRow(part, dots, 0.5))
    series = [name.replace("`", "") for name in files] + ["trigrams, no image"]
    draw_rows(charts and charts / "valse.svg", "VALSE, pairwise accuracy", drawn, series)
    matcher, captioner = runs.values()
    relations = [run.results.subsets["relations"][main] for run in runs.values()]
    swaps = [run.results.subsets["actant-swap"][main] for run in runs.values()]
    counts = [run.results.subsets["counting"][main] for run in runs.values()]
    return "\n\n".join(
        [
            "## VALSE",
            "7,702 valid pairs of caption and foil. Chance is 50. The trigram model is fitted to "
            "the "
            "benchmark's own captions, right and wrong alike, and sees no image (`contrapose audit "
            "valse`).",
            table(["instrument", "n", *files, "trigrams, no image"], rows),
            "![VALSE](atlas/valse.svg)",
            f"- **One mean hides two opposite models.** X-VLM leads by "
            f"{100 * (matcher.metrics[main].value - captioner.metrics[main].value):.2f} points, "
            "yet ClipCap has "
            f"{percent(relations[1].value)} on relations against {percent(relations[0].value)}, "
            "and "
            f"{percent(swaps[1].value)} on actant swaps against {percent(swaps[0].value)}. Where "
            "the language does "
            f"not give the answer away, in counting, it has {percent(counts[1].value)} against "
            f"{percent(counts[0].value)}.",
            "- **ClipCap's score is a likelihood of the caption**, and unusual captions lose "
            "whatever the image: "
            "a table of `lm` scores without a blind column cannot tell seeing from reading. "
            "[Likelihoods](likelihoods.md) shows how the prior is taken out.",
            f"- **Pairwise accuracy asks for an order, not a judgement.** X-VLM orders "
            f"{percent(matcher.metrics[main].value)} of the pairs, but at ½ accepts only "
            f"{percent(matcher.metrics['p_c'].value)} of the captions and rejects "
            f"{percent(matcher.metrics['p_f'].value)} of the foils; its AUROC over all captions is "
            f"{percent(matcher.metrics['auroc'].value)}.",
        ]
    )


def report_eqben(data: Path, charts: Path | None) -> str:
    """EqBen: FIBER on all subsets, and how they are averaged."""
    run = cp.measure(data / "eqben_fiber", "eqben", resamples=RESAMPLES)
    names = ("text", "image", "group", "group_match")
    total = sum(find_single_benchmark("eqben").card.counts.values())
    parts = run.results.subsets
    rows = [
        [part, f"{values['text'].n:,}", f"{100 * values['text'].n / total:.1f}",
         *(cell(values[name]) for name in names)]
        for part, values in parts.items()
    ]  # fmt: skip
    rows.append(["**mean of five sets**", f"{total:,}", "", *(cell(run.metrics[n]) for n in names)])
    rows.append(
        ["mean over examples", f"{total:,}", "", *(cell(run.metrics[f"{n}_micro"]) for n in names)]
    )
    drawn = [
        DotRow(part, {name: to_dot(values[name]) for name in names[:3]})
        for part, values in parts.items()
    ]
    draw_rows(charts and charts / "eqben.svg", "EqBen, FIBER", drawn, names[:3])
    largest = max(parts, key=lambda part: parts[part]["text"].n)
    share = 100 * parts[largest]["text"].n / total
    return "\n\n".join(
        [
            "## EqBen",
            "FIBER's released scores of all 251,048 examples. Chance is 25, 25, 16.67 and 50; no "
            "ties.",
            table(["set", "n", "share of n", "text", "image", "group", "GroupMatch"], rows),
            "![EqBen](atlas/eqben.svg)",
            "- **The printed average is not the average.** The paper prints 44.86 for this row; "
            "the mean of "
            f"the fifteen scores that it prints beside is {percent(run.metrics['average'].value)}, "
            "and so "
            "are these.",
            f"- **The average decides the story.** `{largest}` has {share:.1f} % of the examples: "
            "over examples the "
            f"average is {percent(run.metrics['average_micro'].value)}, "
            f"{100 * (run.metrics['average'].value - run.metrics['average_micro'].value):.2f} "
            "points lower.",
            "- **No subset looks like the mean.** Group scores run from "
            f"{percent(parts['gebc']['group'].value)} (gebc, "
            f"{side(parts['gebc']['group'])} chance) to {percent(parts['sd']['group'].value)} "
            "(sd).",
        ]
    )


def report_vsr(data: Path, charts: Path | None) -> str:
    """VSR: accuracy at ½, at the best threshold, and AUROC."""
    files = {"X-VLM 16M": "x-vlm_16m", "BLIP-2 ITM": "blip2_itm_pretrain", "ALBEF 4M": "albef_4m"}
    root = data / "vsr" / "v1"
    runs = {
        name: cp.measure(
            root / "scores" / f"{file}_test.jsonl", "vsr", root=root, resamples=RESAMPLES,
            dev_scores=root / "scores" / f"{file}_dev.jsonl",
        )
        for name, file in files.items()
    }  # fmt: skip
    names = {
        "accuracy": "accuracy at ½",
        "accuracy_true": "… of true captions",
        "accuracy_false": "… of false captions",
        "best_threshold_accuracy": "at dev's best threshold",
        "auroc": "AUROC",
    }
    tiers = list_tiers(runs, "accuracy")
    rows = [
        [name, *(cell(run.metrics[one]) for one in names), percent(run.metrics["yes_share"].value),
         percent(run.metrics["calibration_error"].value), str(tiers[name])]
        for name, run in runs.items()
    ]  # fmt: skip
    draw(charts and charts / "vsr.svg", "VSR", runs, names)
    albef = runs["ALBEF 4M"].metrics
    majority = albef["best_threshold_accuracy"].chance or 0
    order = list(runs)
    areas = [
        cp.compare(runs[a], runs[b], metric="auroc", resamples=TEST_RESAMPLES).metrics["auroc"]
        for a, b in pairwise(order)
    ]
    return "\n\n".join(
        [
            "## VSR",
            "2,024 captions that are true or false of a photograph, first release. Always yes gets "
            f"{percent(majority)}.",
            table(
                ["model", *names.values(), "share of yes", "calibration error", "tier (accuracy)"],
                rows,
            ),
            "![VSR](atlas/vsr.svg)",
            "- **Accuracy at ½ and AUROC tell two stories.** Papers print accuracy at ½. There "
            "ALBEF is "
            f"{points(albef['accuracy'].value, majority)} points above always yes; but it "
            f"says yes to {percent(albef['yes_share'].value)} only: it rejects "
            f"{percent(albef['accuracy_false'].value)} of the false captions and accepts "
            f"{percent(albef['accuracy_true'].value)} of the true ones, where a coin gets 50. Its "
            "AUROC, "
            f"{percent(albef['auroc'].value)}, is {100 * (albef['auroc'].value - 0.5):.2f} points "
            "above chance.",
            "- **A better threshold does not mend it.** Chosen on the dev split, it changes "
            "accuracy by "
            + ", ".join(
                f"{change_of(run, 'accuracy', 'best_threshold_accuracy'):+.2f} ({name})"
                for name, run in runs.items()
            )
            + ": what is missing is order, not calibration.",
            "- **The scores are no probabilities of being right**: calibration errors are "
            + ", ".join(percent(run.metrics["calibration_error"].value) for run in runs.values())
            + ".",
            "- The order of the models is real: neighbors differ in AUROC by "
            + " and ".join(
                f"{abs(100 * one.difference):.2f} (p = {one.p_holm:.4f})" for one in areas
            )
            + ".",
        ]
    )


def report_predicate_noun(data: Path, charts: Path | None) -> str:
    """Predicate–noun dependencies: three models and people."""
    folder = data / "predicate_noun" / "scores"
    files = {"LXMERT": "LXMERT", "ViLT": "VILT", "CLIP": "CLIP"}
    runs = {
        name: cp.measure(folder / f"{file}.csv", "predicate-noun", resamples=RESAMPLES)
        for name, file in files.items()
    }
    names = {
        "text_single": "rows right",
        "text": "pair (text)",
        "image": "image",
        "group": "group",
        "group_match": "GroupMatch",
    }
    tiers = list_tiers(runs, "group")
    rows = [
        [name, *(cell(run.metrics[one]) for one in names), str(tiers[name])]
        for name, run in runs.items()
    ]
    draw(charts and charts / "predicate-noun.svg", "Predicate–noun dependencies", runs, names)
    card = find_single_benchmark("predicate-noun").card
    scores = read_scores(folder / "CLIP.csv", card, None).scores
    sums = np.abs(scores.sum(axis=2) - 1).max()
    with (folder / "Human.csv").open(encoding="utf-8", newline="") as stream:
        human = [row["result"] == "True" for row in csv.DictReader(stream)]
    low, high = metrics.clopper_pearson(sum(human), len(human))
    clip = runs["CLIP"].metrics
    return "\n\n".join(
        [
            "## Predicate–noun dependencies",
            "1,292 pairs of images whose captions differ in one word. Chance is 50, 25, 25, 16.67 "
            "and 50; no "
            f"ties. People are right in {percent(sum(human) / len(human))} "
            f"({percent(low)}–{percent(high)}) of "
            f"{len(human)} rows.",
            table(["model", *names.values(), "tier (group)"], rows),
            "![Predicate–noun dependencies](atlas/predicate-noun.svg)",
            "- **CLIP's image score is none.** Its two scores of an image are a softmax over the "
            "captions: they "
            f"sum to 1 in every row (largest deviation {sums:.0e}). Then s(I₀,T₀) > s(I₁,T₀) and "
            "s(I₁,T₁) > s(I₀,T₁) are "
            f"the same comparison, and the image score, {percent(clip['image'].value)}, is "
            "GroupMatch, "
            f"{percent(clip['group_match'].value)}, with a chance of 50 and not 25; the group "
            "score is the text "
            f"score. Beside LXMERT's {percent(runs['LXMERT'].metrics['image'].value)} it looks "
            "close, and is not "
            "comparable.",
            f"- **CLIP's pair accuracy is {side(clip['text'])} chance** while its rows are "
            f"{side(clip['text_single'])} theirs: it tends to choose the same caption for both "
            "images. Rows hide it.",
        ]
    )


def report_bivlc(data: Path, charts: Path | None) -> str:
    """BiVLC: CLIP's outcomes, single choices apart."""
    run = cp.measure(
        data / "bivlc" / "results" / "BiVLC_ViT-B-32.csv", "bivlc", resamples=RESAMPLES
    )
    names = {
        "text": "text (I2T)",
        "image": "image (T2I)",
        "group": "group",
        "text_image_0": "caption of the photograph",
        "text_image_1": "caption of the generated image",
        "image_caption_0": "image of the caption",
        "image_caption_1": "image of the hard negative",
    }
    runs = {"CLIP ViT-B/32": run}
    rows = [
        [words, cell(run.metrics[name]), percent(run.metrics[name].chance or 0)]
        for name, words in names.items()
    ]
    draw(charts and charts / "bivlc.svg", "BiVLC", runs, names)
    photograph, generated = (run.metrics[f"image_caption_{i}"].value for i in (0, 1))
    return "\n\n".join(
        [
            "## BiVLC",
            "2,933 photographs and generated images of their hard negative captions; outcomes of "
            "CLIP ViT-B/32, so "
            "that ties are not known.",
            table(["CLIP ViT-B/32", "right", "chance"], rows),
            "![BiVLC](atlas/bivlc.svg)",
            "- **Reading is easier than looking**: with both captions before it CLIP finds the "
            "right one in "
            f"{percent(run.metrics['text'].value)} of the pairs, with both images in "
            f"{percent(run.metrics['image'].value)}. SugarCrepe, from which the captions come, "
            "asks the easier half.",
            "- **The generated image attracts**: for the hard negative caption CLIP finds its "
            "(generated) image in "
            f"{percent(generated)}, for the true caption its photograph in {percent(photograph)}. "
            "One mean hides "
            f"{100 * (generated - photograph):.2f} points between them.",
        ]
    )
