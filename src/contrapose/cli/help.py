"""Help of the command line: named groups of options, and examples below them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

GROUPS: dict[str, str] = {
    "Data": "on scores root offline subset part limit sample examples images annotations videos "
    "captions tags by common strict partial long frames benchmark caption_field image_field "
    "zero_shot held_out split data scenes world kinds relations objects min_images without where",
    "Model": "model device dtype batch_size workers shard merge include trust_remote_code lm "
    "teacher image_encoder text_encoder editor rewriter oracle attempts",
    "Score": "text image score prior alpha question answer prompt rerank likelihood_as prior_as "
    "protocol threshold dev_scores ngram_corpus likelihoods fusion scale change subjects styles",
    "Game": "side players baseline groups regions superpixels tagger preset against",
    "Training": "objective steps lr freeze lora accumulate tau epochs head ema guard best "
    "save_every resume sharpness width drop weight_decay hold_out features",
    "Filters": "faces blur duplicates motion_words same_subject per_video filter_by margin "
    "min_score balance complete present absent per_caption undecided decisions skip",
    "Images": "size image_format quality masks engine template fps bare lists pairs",
    "Statistics": "metric test level gate resamples seed",
    "Cache": "cache no_cache cache_use",
    "Output": "out overwrite every form format as_json quiet dry_run plot time browser port host k "
    "lance tensorboard save_as",
}
"""Group → names of its options, both in the order of the help; others stand in `Options`."""

PANELS = {name: group for group, names in GROUPS.items() for name in names.split()}
ORDER = {name: number for number, name in enumerate(PANELS)}

EXAMPLES: dict[str, str] = {
    "demo": "contrapose demo",
    "eval": """
contrapose eval tiny tiny-clip --on scenes --limit 20
contrapose eval hf:openai/clip-vit-base-patch32,dtype=bf16 --on sugarcrepe --root data
contrapose eval tiny --on mine.csv --out runs/mine
contrapose eval tiny --on scenes --subset swap-relation --score itc,lm --format markdown""",
    "metrics": """
contrapose metrics winoground --scores clip.jsonl
contrapose metrics winoground --scores clip.jsonl --scores vilt.jsonl --format latex
contrapose metrics mine.csv --scores scores.csv --by relation""",
    "compare": """
contrapose compare clip.jsonl vilt.jsonl
contrapose compare runs/before runs/after runs/other --metric accuracy --gate
contrapose compare runs/two@tiny runs/two@tiny-clip""",
    "rank": """
contrapose rank runs/a runs/b runs/c --common
contrapose rank CLIP=clip.jsonl ViLT=vilt.jsonl --out ranking""",
    "audit": """
contrapose audit sugarcrepe --root data/sugarcrepe
contrapose audit pairs.jsonl --lm none --format csv""",
    "diagnose": """
contrapose diagnose tiny --on scenes --limit 20
contrapose diagnose tiny-clip --on mine.jsonl --side text --out diagnosis""",
    "explain": """
contrapose explain tiny --image photo.png --text "a cat on a mat" --against "a mat on a cat" """,
    "import": "contrapose import samples_winoground.jsonl --out runs/log",
    "export": """
contrapose export runs/tiny --format mteb --out exported
contrapose export runs/tiny --format model-index --out card
contrapose export runs/tiny --format fiftyone --out for-fiftyone""",
    "view": "contrapose view runs/a runs/b",
    "list benchmarks": "contrapose list benchmarks winoground",
    "list models": "contrapose list models --format csv",
    "check data": """
contrapose check data winoground --root data/winoground
contrapose check data mine.csv
contrapose check data sugarcrepe --subset swap_obj --limit 50""",
    "check model": "contrapose check model my_file.py:MyModel",
    "build pairs": """
contrapose build pairs captions.csv --out pairs
contrapose build pairs captions.txt --kinds swap,replace --balance --out pairs.jsonl""",
    "build scenes": """
contrapose build scenes --subset swap-relation --examples 50 --out scenes""",
    "build features": """
contrapose build features photos --model tiny-clip --out features
contrapose build features photos --captions a.csv --image-encoder A --text-encoder B --out features
contrapose build features --captions test.csv --model tiny-clip --split test --out features""",
    "tune model": """
contrapose tune tiny-clip --data scenes --with hp+hn --out tuned
contrapose tune hf:openai/clip-vit-base-patch32 --data pairs/pairs.jsonl --lora 8 --out tuned

contrapose tune heads -h: align two frozen encoders from cached features""",
    "tune heads": "contrapose tune heads --features features --out heads",
    "index": "contrapose index photos --model tiny-clip",
    "search": 'contrapose search photos --text "a red cube left of a ball"',
    "serve": "contrapose serve photos",
}
"""Verb → command lines of its examples."""


def add_help(command: Any, name: str) -> Any:
    """Put the options of a command, and of its subcommands, into groups, with examples below."""
    for verb, child in getattr(command, "commands", {}).items():
        add_help(child, f"{name} {verb}")
    for parameter in command.params:
        if getattr(parameter, "param_type_name", "") == "option":
            parameter.rich_help_panel = parameter.rich_help_panel or PANELS.get(parameter.name)
    command.params.sort(key=_order)
    if name in EXAMPLES and not command.epilog:
        lines = [line.strip() for line in EXAMPLES[name].split("\n") if line.strip()]
        command.epilog = "\n\n".join(["Examples:", *_escape(lines)])
    return command


def _escape(lines: Iterable[str]) -> Iterable[str]:
    """Lines whose brackets are no markup of the help."""
    return (f"  {line}".replace("[", r"\[") for line in lines)


def _order(parameter: Any) -> tuple[int, int]:
    """Position of a parameter's group, and its own; arguments and ungrouped options come first."""
    panel = getattr(parameter, "rich_help_panel", None)
    if panel not in GROUPS:
        return -1, 0
    return list(GROUPS).index(panel), ORDER.get(parameter.name, len(ORDER))
