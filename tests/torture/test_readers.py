"""Fuzzing of all readers of people's files: whatever the bytes, the error is one for the user."""

from __future__ import annotations

import io
import json
from collections.abc import Callable, Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from PIL import Image

from contrapose.build.captions.files import read_captions
from contrapose.data import (
    Benchmark,
    ComposedQuery,
    ComposedSet,
    ImageRef,
    Suite,
    benchmark_names,
    find_benchmark,
    open_image,
)
from contrapose.data.masks import read_region
from contrapose.diagnose.regions import UserRegions
from contrapose.diagnose.words import UserWords
from contrapose.errors import ContraposeError
from contrapose.files import ProblemList, StrictProblems, read_json
from contrapose.models.joined import read_joined_spec
from contrapose.scores.files import detect_benchmark, read_scores
from contrapose.scores.outcomes import read_outcomes
from contrapose.scores.rankings import read_rankings
from contrapose.tune.data.files import read_training_set
from tests.torture.conftest import Tally
from tests.torture.mutations import fuzz, write

RATED = {"coco_1_mini_dalle": {"text_id": "coco_1", "image_path": "1.jpg", "text": "a cat",
         "human_scores": [4, 5], "human_avg": 4.5, "bleu": 0.5}}  # fmt: skip
PAIR = {"caption": "a cat", "negative_caption": "a dog", "caption2": "one cat", "filename": "1.jpg"}
BOX = {"bbox_x": 1, "bbox_y": 2, "bbox_w": 3, "bbox_h": 4}
CHOICE = {"image_path": "1.jpg", "true_caption": "a on b", "false_caption": "b on a", **BOX}
VALSE = {"e0": {"dataset": "coco", "image_file": "1.jpg", "caption": "a", "foils": ["b"],
         "foil": "b", "mturk": {"caption": 3}}}  # fmt: skip
KARPATHY = {"images": [{"filename": "1.jpg", "filepath": "val2014", "split": "test",
            "sentences": [{"raw": "a cat", "tokens": ["a"]}]}]}  # fmt: skip
COCO = {"images": [{"id": 1, "file_name": "1.jpg"}],
        "annotations": [{"id": 2, "image_id": 1, "caption": "a cat"}]}  # fmt: skip
OWN: list[dict[str, Any]] = [{"id": "1", "images": ["1.jpg", "1.jpg"], "texts": ["a cat", "a dog"],
        "match": [[True, False], [False, True]], "tags": {"subset": "x", "more": ["a", "b"]}},
       {"id": 2, "image": "1.jpg", "texts": ["a", "b"], "right": 0, "tag_x": "1"}]  # fmt: skip
FILMS: list[dict[str, Any]] = [
    {"video": "a.mp4", "start": 1, "end": 2.5, "frames": 3, "texts": ["a", "b"], "right": 0},
    {"image": "a.mp4", "times": [0.5, 1], "caption": "a", "negative": "b"},
    {"images": [{"video": "a.mp4", "end": 9, "unit": "frames"}, "1.jpg"], "texts": ["a", "b"],
     "match": [[True, False], [False, True]]}]  # fmt: skip
FLAT = [{"id": "1", "image": "1.jpg", "text_0": "a", "text_1": "b", "right": 0, "tags": "{}"}]
EQBEN = [{"image0": "kubric_location/1.jpg", "image1": "kubric_location/2.jpg",
          "caption0": ["a"], "caption1": "b"}]  # fmt: skip
BOUNDARY = {
    "boundary_id": "v_0",
    "timestamp": 1.5,
    "prev_timestamp": 0,
    "next_timestamp": 3.5,
    "label": "Change of Action",
    "subject": "a man",
    "status_before": "sits",
    "status_after": "stands",
}
GARMENT = {"candidate": "a", "target": "b", "captions": ["is red", "is long"]}
INSTRUMENTS = (
    "actant-swap", "action-replacement", "coreference-hard", "coreference-standard",
    "counting-adversarial", "counting-hard", "counting-small-quant", "existence", "foil-it",
    "plurals", "relations",
)  # fmt: skip


def parquet(rows: list[dict[str, Any]]) -> bytes:
    sink = io.BytesIO()
    pq.write_table(pa.Table.from_pylist(rows), sink)
    return sink.getvalue()


def npy(array: np.ndarray) -> bytes:
    sink = io.BytesIO()
    np.save(sink, array)
    return sink.getvalue()


def png() -> bytes:
    sink = io.BytesIO()
    Image.fromarray(np.arange(192, dtype=np.uint8).reshape(8, 8, 3)).save(sink, "PNG")
    return sink.getvalue()


BENCHMARKS: dict[str, tuple[str, dict[str, Any]]] = {
    "sugarcrepe": ("sugarcrepe", {"add_att.json": {"0": PAIR}}),
    "sugarcrepe-pp": ("sugarcrepe-pp", {"swap_obj.json": [{"id": 1, **PAIR}]}),
    "aro-relation": ("aro-relation",
        {"visual_genome_relation.json": [{**CHOICE, "relation_name": "on"}]}),
    "aro-attribution": ("aro-attribution",
        {"visual_genome_attribution.json": [{**CHOICE, "attributes": ["red", "big"]}]}),
    "valse": ("valse", {f"{name}.json": VALSE for name in INSTRUMENTS}),
    "cola": ("cola", {"COLA_multiobjects_matching_benchmark.json": [["1.jpg", "a", "2.jpg", "b"]]}),
    "crepe": ("crepe", {"prod_vg_hard_negs_swap_complexity_4.csv": [
        {"image_id": 1, "caption": "a", "hard_negs": "['b', 'c']", "x": 1, "y": 2, "width": 3,
         "height": 4}]}),
    "vl-checklist": ("vl-checklist",
        {"Attribute/vg/color.json": [["1.jpg", {"POS": ["a"], "NEG": ["b"]}]]}),
    "winoground": ("winoground", {"examples.jsonl": [
        {"id": 0, "image_0": "a", "image_1": "b", "caption_0": "x", "caption_1": "y", "tag": "t",
         "collapsed_tag": "Object", "num_main_preds": 1}]}),
    "eqben": ("eqben", {"kubric_location.json": EQBEN}),
    "eqben submission": ("eqben", {
        "ann_json_finegrained_random.json": [
            {"image": "eqbensd/1_1.png", "caption": "b"}, {"image": "eqbensd/1_0.png",
             "caption": "a"}],
        "private_info.json": [{"dataset": "eqbensd", "sample_cnt": 0, "name": name}
                              for name in ("c0i0", "c1i1")],
        "private_random_idx.json": [1, 0]}),
    "vsr": ("vsr", {"test.jsonl": [{"image": "1.jpg", "caption": "a", "label": 1, "relation": "on",
        "reference_frame": None}]}),
    "tifa160": ("tifa160", {"tifa160.json": RATED}),
    "dsg-tifa160": ("dsg-tifa160", {"tifa160.json": RATED, "tifa160-likert-anns.csv": [
        {"t2i_model": "mini-dalle", "item_id": "t_1", "source_id": "coco_1", "answer": "3"}]}),
    "seetrue": ("seetrue", {"SeeTRUE.csv": [
        {"image": "1.jpg", "text": "a", "label": "1", "dataset_source": "editbench"}]}),
    "genai-bench": ("genai-bench", {"genai_skills.json": {"counting": [0, 1]},
        "genai_image.json": {"00000": {"prompt": "a cat", "models": {"DALLE_3": [3, 4]}}}}),
    "predicate-noun": ("predicate-noun", {"eval_set.json": [
        {"img_filename": "1.jpg", "sentence_target": "a", "sentence_distractor": "b", "pos": "x"},
        {"img_filename": "2.jpg", "sentence_target": "b", "sentence_distractor": "a"}]}),
    "naturalbench": ("naturalbench", {
        "test_set.json": [[q, f"{i}.jpg", "Yes" if q == f"q{i}" else "No", "yes_no"]
                          for q in ("q0", "q1") for i in (0, 1)],
        "train_set.jsonl": [{"messages": [{"content": q}, {"content": [{"image_path": f"{i}.jpg"}]},
                             {"content": "A"}]} for q in ("a", "b") for i in (0, 1)]}),
    "naturalbench-retrieval": ("naturalbench-retrieval", {"metadata.json": [
        {"index": 0, "image_0": "1.jpg", "image_1": "2.jpg", "caption_0": "a", "caption_1": "b"}]}),
    "colorswap": ("colorswap", {"test.json": [{"id": 1, "image_1": "1.jpg", "image_2": "2.jpg",
        "caption_1": "a", "caption_2": "b", "image_source": "x"}]}),
    "vismin": ("vismin", {"rows.jsonl": [{"id": 1, "image_0": "1.jpg", "image_1": "2.jpg",
        "text_0": "a", "text_1": "b", "category": "x"}]}),
    "whatsup/a": ("whatsup/a", {"controlled_images_dataset.json": [
        {"image_path": "a/mug_on_table.jpeg", "caption_options": ["a", "b", "c", "d"]}]}),
    "whatsup/vg-one": ("whatsup/vg-one", {"vg_qa_one_obj.json": [[1, "a", "b"]]}),
    "mmvp-vlm": ("mmvp-vlm", {"Questions.csv": [
        {"Question ID": str(i), "Type": "x", "Statement": "a cat"} for i in (1, 2)]}),
    "mmvp": ("mmvp", {"Questions.csv": [{"Index": 1, "Question": "Is it?", "Correct Answer": "(a)",
        "Options": "(a) open (b) closed"}]}),
    "negbench": ("negbench/syn-mcq", {"images/synthetic_mcq_llama3.1_rephrased.csv": [
        {"image_path": "data/x/positive/1_img.png", "correct_answer": 1, "caption_0": "a",
         "caption_1": "b", "caption_2": "c", "caption_3": "d",
         "correct_answer_template": "hybrid"}]}),
    "negbench retrieval": ("negbench/coco-retrieval", {"COCO_val_retrieval.csv": [
        {"filepath": "data/coco/1.jpg", "captions": "['a', 'b']"}]}),
    "negrefcocog": ("negrefcocog", {"NegRefCOCOg.json": [{"image": "1.jpg", "phrase": "no cat",
        "ref_bbox": [0, 0, 3.4, 4], "bbox_list": [[0, 0, 3.4, 4], [1, 2, 3, 4]]}]}),
    "cc-neg": ("cc-neg", {"ccneg.json": {"image_paths": ["/x/1.jpg"], "annotations": [
        {"json": {"caption": "a cat"}, "sop_data": {"negative-prompt": "no cat"}}]}}),
    "cc-neg rows": ("cc-neg", {"ccneg.jsonl": [
        {"image_path": "1.jpg", "caption": "a", "negative_prompt": "not a"}]}),
    "countbench": ("countbench", {"CountBench.json": [
        {"image_url": "http://x/1.jpg", "text": "two cats", "number": 2}]}),
    "pope": ("pope/popular", {"coco_pope_popular.json": {"question_id": 1,
        "image": "1.jpg", "text": "Is there a cat?", "label": "yes"}}),
    "hallusionbench": ("hallusionbench", {"HallusionBench.json": [
        {"category": "VD", "subcategory": "x", "set_id": "0", "figure_id": "0", "question_id": "0",
         "visual_input": "1", "question": "Is it?", "gt_answer": "1", "filename": "a.png"}]}),
    "boundaries": ("boundaries", {"val.json": {"v": [BOUNDARY]}}),
    "boundaries-segment": ("boundaries-segment", {"val.json": {"v": [BOUNDARY]}}),
    "karpathy": ("coco-retrieval", {"dataset_coco.json": KARPATHY}),
    "coco": ("coco-retrieval", {"captions_val2017.json": COCO}),
    "listed": ("flickr30k-retrieval", {"flickr30k_test.json":
        [{"image": "1.jpg", "caption": ["a", "b"]}]}),
    "order": ("aro-flickr-order", {"dataset_flickr30k.json": KARPATHY}),
    "coco order": ("aro-coco-order", {"dataset_coco.json": KARPATHY}),
    "bivlc": ("bivlc", {"rows.jsonl": [{"image": "1.jpg", "negative_image": "2.jpg",
        "caption": "a", "negative_caption": "b", "type": "add", "subtype": "obj"}]}),
    "bivlc parquet": ("bivlc", {"data/a.parquet": parquet([{"image": {"bytes": png(), "path": "1"},
        "negative_image": {"bytes": png(), "path": None}, "caption": "a", "negative_caption": "b",
        "type": "add", "subtype": "obj"}])}),
    "eqben-mini": ("eqben-mini", {"all_select.json": [{"image0": "eqbensd/1.jpg",
        "image1": "eqbensd/2.jpg", "caption0": "a", "caption1": "b", "private_info":
        {"dataset": "eqbensd"}}], "images/eqbensd/1.jpg": b"x"}),
    "hard-positives-replace": ("hard-positives-replace", {
        f"replace_attributes_{kind}.json": [{"image_path": "1.jpg", "true_caption": "a red cat",
            "false_caption": "a blue cat", "hard_positive": "a crimson cat"}]
        for kind in ("original", "hard_positive")}),
    "hard-positives-swap": ("hard-positives-swap", {"visual_genome_attribution.json": [
        {**CHOICE, "true_caption": "the red cat and the big dog", "attributes": ["red", "big"],
         "false_caption": "the big cat and the red dog"}]}),
    "simat": ("simat", {
        "triplets.csv": [{"region_id": 7, "dataset_id": 0, "subj": "a", "rel": "on", "obj": "b"}],
        "transfos.csv": [{"transfo_id": 0, "field": "subj", "value": "a", "target": "b",
                          "norm2": 1.0, "region_id": 7, "query_ids": 0, "target_ids": 1,
                          "is_test": "True"}],
        "retrieval_db.tsv": [{"region_id": 7, "image_id": 1, "bbox": "1,2,3,4"}]}),
    "cirr": ("cirr", {
        "captions/cap.rc2.val.json": [{"pairid": 1, "reference": "a", "target_hard": "b",
            "caption": "red", "img_set": {"id": 1, "members": ["a", "b"]}}],
        "image_splits/split.rc2.val.json": {"a": "./dev/a.png", "b": "./dev/b.png"}}),
    "cirr-test": ("cirr-test", {
        "captions/cap.rc2.test1.json": [{"pairid": 1, "reference": "a", "caption": "red",
            "img_set": {"members": ["a", "b"]}}],
        "image_splits/split.rc2.test1.json": {"a": "./test1/a.png", "b": "./test1/b.png"}}),
    "fashioniq": ("fashioniq", {
        **{f"captions/cap.{name}.val.json": [GARMENT] for name in ("dress", "shirt", "toptee")},
        **{f"image_splits/split.{name}.val.json": ["a", "b"]
           for name in ("dress", "shirt", "toptee")}}),
    "circo": ("circo", {
        "annotations/val.json": [{"id": 0, "reference_img_id": 1, "gt_img_ids": [2, 3],
            "relative_caption": "red", "semantic_aspects": ["negation"]}],
        "image_info_unlabeled2017.json": {"images": [{"id": 1}, {"id": 2}, {"id": 3}]}}),
    "circo alone": ("circo", {
        "annotations/val.json": [{"id": 0, "reference_img_id": 1, "gt_img_ids": [2, 3],
            "relative_caption": "red"}]}),
    "genecis": ("genecis-change-object", {"change_object.json": [
        {"condition": "wall", "reference": {"val_image_id": 1}, "target": {"val_image_id": 2},
         "gallery": [{"val_image_id": 3}]}]}),
    "genecis-attribute": ("genecis-focus-attribute", {"focus_attribute.json": [
        {"condition": "color", "reference": {"image_id": "1", "instance_bbox": [1, 2, 3, 4]},
         "target": {"image_id": 2, "instance_bbox": [1, 2, 3.5, 4]},
         "gallery": [{"image_id": 3, "instance_bbox": [1, 2, 3, 4]}]}]}),
    "spec": ("spec/image-to-text",
        {"count/image2text.json": [{"query": "1.jpg", "keys": ["a", "b"], "label": 1}]}),
    "spec images": ("spec/text-to-image",
        {"count/text2image.json": [{"query": "a", "keys": ["1.jpg", "2.jpg"], "label": 0}]}),
    "svo-probes": ("svo-probes", {"svo_probes.csv": [{"sentence": "a", "pos_image_id": 1,
        "neg_image_id": 2, "subj_neg": "True", "verb_neg": "False", "obj_neg": "False",
        "pos_triplet": "a,b,c"}]}),
    "imagecode": ("imagecode", {"valid_data.json": {"open-images-1": {"5": "a", "7": "b"}}}),
    "visla": ("visla", {"Generic_VISLA.tsv": [{"filename": "1.jpg", "caption": "a",
        "second positive": "b", "negative_caption": "c"}]}),
    "rococo": ("rococo/danger", {"danger.json": [{"image": "1.jpg", "caption": ["a"] * 10}]}),
    "vilma": ("vilma/relations", {"relations.json": {"0": {"dataset": "QUVA", "youtube_id": "a",
        "video_file": "a.mp4", "start_time": 1, "end_time": 2.5, "time_unit": "pts", "caption": "a",
        "foils": ["b"], "proficiency": {"caption": "c", "foils": ["d"], "human": {"caption": 1}},
        "mturk": {"caption": 3}}}}),
    "vitatecs": ("vitatecs/type", {"Type.jsonl": [{"src_dataset": "VATEX", "video_name": "a.mp4",
        "caption": "a", "counterfactual": "b"}]}),
    "classes": ("class-folders", {"a/1.png": b"x", "classnames.txt": b"a\tcat\n",
                                  "templates.txt": b"a {}\n"}),
}  # fmt: skip


def read_benchmark(name: str, root: Path) -> None:
    benchmark = find_benchmark(name)
    data = benchmark.read(root, StrictProblems())  # type: ignore[union-attr]
    list(data) if isinstance(data, Iterable) else None


def check_benchmark(name: str, root: Path) -> None:
    data = find_benchmark(name).read(root, ProblemList())  # type: ignore[union-attr]
    list(data) if isinstance(data, Iterable) else None


@pytest.mark.parametrize("name", BENCHMARKS)
def test_benchmarks(name: str, tmp_path: Path, tally: Tally) -> None:
    benchmark, files = BENCHMARKS[name]
    for file, value in files.items():
        write(tmp_path / file, value, None)
    if name != "simat":  # its caption list needs all triplets
        read_benchmark(benchmark, tmp_path)
    count = fuzz(tmp_path, files, lambda root: read_benchmark(benchmark, root), name)
    count += fuzz(tmp_path, files, lambda root: check_benchmark(benchmark, root), f"{name} check")
    tally.add("annotation files of every reader", count)


def list_readers(benchmark: Benchmark | Suite) -> set[tuple[str, str]]:
    """Modules and names of the functions that read a benchmark, or all parts of a suite."""
    if isinstance(benchmark, Suite):
        return set().union(*(list_readers(part) for part in benchmark.parts.values()))
    read = getattr(benchmark.read, "func", benchmark.read)
    return {(read.__module__, read.__qualname__)}


def test_every_reader_has_a_case() -> None:
    """A new reader of annotations needs a case above; worlds are not read."""
    known = set().union(*(list_readers(find_benchmark(name)) for name in benchmark_names()))
    tried = set().union(*(list_readers(find_benchmark(name)) for name, _ in BENCHMARKS.values()))
    missing = {reader for reader in known - tried if "contrapose.world" not in reader[0]}
    assert not missing


SCORES = [
    {"label": f"{i}_c{c}_i{j}", "score": 0.5} for i in range(2) for c in (0, 1) for j in (0, 1)
]
GENERAL = [{"example": "0", "image": 0, "text": 1, "score": 0.5}]
REGIONS = [{"id": "7", "image": 0, "regions": {"O1": [1, 2, 3, 4], "O2": [[1, 2, 3, 4, 5, 6]],
            "O3": {"size": [8, 8], "counts": [3, 61]}, "O4": {"rle": {"size": [8, 8],
            "counts": "m036000R1"}}}}]  # fmt: skip
JOINED = {"format": "contrapose-joined-1", "image": {"kind": "timm", "source": "a"},
          "text": {"kind": "hf", "source": "b"}}  # fmt: skip


def read_own(root: Path) -> None:
    file = next(path for path in sorted(root.iterdir()) if path.stem == "own")
    read_benchmark(str(file), root)
    check_benchmark(str(file), root)


def read_regions(root: Path) -> None:
    for regions, _ in UserRegions.read(root / "regions.jsonl").regions.values():
        for value in regions.values():
            read_region(value, (8, 8), root)


def read_score_file(root: Path) -> None:
    file = next(path for path in sorted(root.iterdir()) if path.stem == "kubric_location")
    detect_benchmark(file)
    name = "eqben" if file.suffix == ".npy" else "winoground"
    card = find_benchmark(name).card  # type: ignore[union-attr]
    read_scores(file, card, None, partial=True)


def read_native(root: Path) -> None:
    """Score files whose name is that of their benchmark."""
    file = next(iter(sorted(root.iterdir())))
    detect_benchmark(file)
    card = find_benchmark(file.stem).card  # type: ignore[union-attr]
    if read_outcomes(file, card, partial=True) is None:
        read_scores(file, card, None, partial=True)


def read_submission(root: Path) -> None:
    images = tuple(ImageRef(name, root / f"{name}.png") for name in "abc")
    query = ComposedQuery("1", 0, ("red",), (1,), subset=(1, 2))
    data = ComposedSet(images, ((0, 1, 2),), (query,))
    for listed in (True, False):
        read_rankings(root, replace(data, listed=listed), partial=True)


def read_build(root: Path) -> None:
    list(read_captions(next(path for path in sorted(root.iterdir()) if path.stem == "captions")))


def read_tune(root: Path) -> None:
    read_training_set(next(path for path in sorted(root.iterdir()) if path.stem == "pairs"))


CAPTIONS = [{"caption": "a cat", "image": "1.jpg"}, {"captions": ["a", "b"]}]
TRAINING = [{"image": "1.jpg", "caption": "a cat", "negatives": ["a dog"], "positives": ["a c"],
             "kinds": {"negatives": ["swap"]}}]  # fmt: skip


def read_lists(root: Path) -> None:
    detect_benchmark(root / "lists.json")
    card = find_benchmark("vilma/relations").card  # type: ignore[union-attr]
    read_scores(root / "lists.json", card, None, partial=True)


READERS: dict[str, tuple[dict[str, Any], Callable[[Path], object]]] = {
    "lists": ({"lists.json": {"0": {"scores": [0.5, 1], "proficiency": [0.1, 0.2]}}}, read_lists),
    "svo scores": ({"svo-probes.json": {"a b|1": 0.5, "a b|2": 1}}, read_native),
    "own jsonl": ({"own.jsonl": OWN}, read_own),
    "own videos": ({"own.jsonl": FILMS}, read_own),
    "own csv": ({"own.csv": FLAT}, read_own),
    "own parquet": ({"own.parquet": parquet([OWN[0]])}, read_own),
    "labels": ({"kubric_location.jsonl": SCORES}, read_score_file),
    "labels json": ({"kubric_location.json": SCORES}, read_score_file),
    "rows csv": ({"kubric_location.csv": GENERAL}, read_score_file),
    "rows parquet": ({"kubric_location.parquet": parquet(GENERAL)}, read_score_file),
    "array": ({"kubric_location.npy": npy(np.zeros((2, 2, 2)))}, read_score_file),
    "labels of pairs": ({"vsr.jsonl": [{"id": 0, "label": 1, "score": 0.5, "relation": "on"}]},
                        read_native),
    "predicate-noun": ({"predicate-noun.csv": [{"id": 0, "prob_target_match": 0.5,
                        "prob_distractor_match": 0.5, "pos": "x"}]}, read_native),
    "answers": ({"naturalbench.json": {"0": {f"q{q}_i{i}": 1 for q in (0, 1) for i in (0, 1)}}},
                read_native),
    "replies": ({"naturalbench.json": ["yes", "no", "A", "B"]}, read_native),
    "typed replies": ({"naturalbench.jsonl": [{"id": 0, "reply": "A", "type": "mcq"}]},
                      read_native),
    "options": ({"mmvp.jsonl": [{"question_id": 1, "prompt": "Is it? (a) open (b) closed",
                 "answer": "(a)", "response": "(b)"}]}, read_native),
    "results": ({"hallusionbench.json": [{"category": "VD", "subcategory": "x", "set_id": "0",
                 "figure_id": "0", "question_id": "0", "visual_input": "1", "gt_answer": "1",
                 "model_prediction": "Yes."}]}, read_native),
    "outcomes": ({"bivlc.csv": [{"text_score_i0": "True", "text_score_i1": "True", "type": "add",
                  "image_score_c0": "True", "image_score_c1": "False", "text_score": "True"}]},
                 read_native),
    "ratings": ({"tifa160.json": RATED}, read_native),
    "rated rows": ({"tifa160.csv": [{"id": "a", "rating": "3", "score": "0.5"}]}, read_native),
    "submission": ({"a.json": {"version": "rc2", "metric": "recall", "1": ["b", "c"]},
                    "b.json": {"metric": "recall_subset", "1": ["c"]}}, read_submission),
    "regions": ({"regions.jsonl": REGIONS}, read_regions),
    "words": ({"words.jsonl": [{"id": "7", "caption": 0, "spans": {"O": [[0, 3]]}}]},
              lambda root: UserWords.read(root / "words.jsonl")),
    "captions": ({"captions.jsonl": CAPTIONS}, read_build),
    "captions csv": ({"captions.csv": CAPTIONS[:1]}, read_build),
    "captions coco": ({"captions.json": COCO}, read_build),
    "captions karpathy": ({"captions.json": KARPATHY}, read_build),
    "training": ({"1.jpg": png(), "pairs.jsonl": TRAINING}, read_tune),
    "training csv": ({"1.jpg": png(), "pairs.csv": TRAINING}, read_tune),
    "training coco": ({"1.jpg": png(), "pairs.json": COCO}, read_tune),
    "joined": ({"joined.json": JOINED}, lambda root: read_joined_spec(root / "joined.json")),
    "json": ({"a.json": REGIONS}, lambda root: read_json(root / "a.json")),
    "png": ({"1.png": png()}, lambda root: open_image(ImageRef("1", root / "1.png"))),
    "npy image": ({"1.npy": npy(np.zeros((8, 8, 3), np.uint8))},
                  lambda root: open_image(ImageRef("1", root / "1.npy"))),
}  # fmt: skip


@pytest.mark.parametrize("name", READERS)
def test_files(name: str, tmp_path: Path, tally: Tally) -> None:
    files, read = READERS[name]
    tally.add("score files, training files, images", fuzz(tmp_path, files, read, name))


def bad_parquet(column: str, text: bytes) -> bytes:
    """Parquet file whose text column holds bytes that are no UTF-8."""
    fake = pa.array([text]).cast(pa.binary())
    other = {name: [value] for name, value in FLAT[0].items() if name != column}
    columns = {**other, column: pa.Array.from_buffers(pa.string(), 1, fake.buffers())}
    sink = io.BytesIO()
    pq.write_table(pa.table(columns), sink)
    return sink.getvalue()


def header_only(shape: str) -> bytes:
    """Array file whose header promises what is not there."""
    header = f"{{'descr': '<f8', 'fortran_order': False, 'shape': {shape}, }}".encode()
    header = header.ljust(117) + b"\n"
    return b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little") + header


def archive() -> bytes:
    sink = io.BytesIO()
    np.savez(sink, a=np.zeros(3))
    return sink.getvalue()


def lines(*rows: dict[str, Any]) -> bytes:
    return "".join(json.dumps(row) + "\n" for row in rows).encode()


KNOWN: list[tuple[str, str, bytes, str]] = [
    ("own jsonl", "own.jsonl", lines({**OWN[1], "tags": {"subset": "\ud800"}}), "surrogate"),
    ("own jsonl", "own.jsonl", lines({**OWN[1], "tags": {"\ud800": "x"}}), "surrogate"),
    ("own jsonl", "own.jsonl", lines({**OWN[1], "image": "\ud800.png"}), "surrogate"),
    ("own parquet", "own.parquet", bad_parquet("text_0", b"a \xff"), "UTF-8"),
    ("rows csv", "kubric_location.csv", b"example,image,text,score\n0,0," + b"9" * 5000
     + b",1\n", "caption"),
    ("array", "kubric_location.npy", header_only("(1000000000000, 2, 2)"), "bytes"),
    ("array", "kubric_location.npy", header_only("(-1, 2, 2)"), "bytes"),
    ("array", "kubric_location.npy", header_only("(" * 3000), "readable"),
    ("array", "kubric_location.npy", archive(), "archive"),
    ("npy image", "1.npy", header_only("(99999999, 99999999, 3)"), "bytes"),
    ("captions coco", "captions.json", json.dumps(
        {**COCO, "annotations": [{"image_id": [], "caption": "a"}]}).encode(), "image_id"),
    ("training coco", "pairs.json", json.dumps(
        {**COCO, "annotations": [{"image_id": {}, "caption": "a"}]}).encode(), "COCO"),
    ("training", "pairs.jsonl", lines({**TRAINING[0], "image": "x" * 300}), "is not in"),
]  # fmt: skip


@pytest.mark.parametrize(("name", "file", "content", "words"), KNOWN)
def test_known_faults(name: str, file: str, content: bytes, words: str, tmp_path: Path) -> None:
    files, read = READERS[name]
    for other, value in files.items():
        write(tmp_path / other, value, None)
    (tmp_path / file).write_bytes(content)
    with pytest.raises(ContraposeError, match=words):
        read(tmp_path)


KNOWN_BENCHMARKS: list[tuple[str, str, Any, str]] = [
    ("cola", "COLA_multiobjects_matching_benchmark.json", [["http://[1.jpg", "a", "2.jpg", "b"]],
     "web address"),
]  # fmt: skip


@pytest.mark.parametrize(("name", "file", "value", "words"), KNOWN_BENCHMARKS)
def test_known_faults_of_benchmarks(
    name: str, file: str, value: Any, words: str, tmp_path: Path
) -> None:
    benchmark, files = BENCHMARKS[name]
    for other, content in (files | {file: value}).items():
        write(tmp_path / other, content, None)
    with pytest.raises(ContraposeError, match=words):
        read_benchmark(benchmark, tmp_path)
