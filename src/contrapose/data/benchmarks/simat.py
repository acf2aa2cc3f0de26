"""SIMAT: an image, a word to change in what it shows, and the image that should be found."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from contrapose.data.benchmarks.common import find_file, find_image, require_folder
from contrapose.data.cards import Benchmark, Card, Micro
from contrapose.data.downloads import Download, genome_images, github_files
from contrapose.data.examples import EditQuery, EditSet
from contrapose.data.images import Box, ImageRef
from contrapose.errors import InputError
from contrapose.files import (
    MalformedError,
    Problem,
    Problems,
    Record,
    parse_records,
    read_csv_records,
    read_lines,
    read_npy,
)

Triplet = tuple[str, str, str]

TRIPLET_FIELDS = ("subj", "rel", "obj")
CROPPED = ("images/images", "simat_db/images/images")
PHOTOGRAPHS = ("VG_100K", "VG_100K_2", "images", "simat_db/images", ".")
ORACLE = "oscar_similarity_matrix.npy"

REPO = "facebookresearch/SIMAT"

DOWNLOAD = Download(
    "cc906791b9b1c51504e87ba3f2a49214d2ee38f3",
    (
        *github_files(
            REPO,
            "fcde386ee27023d6fb0a296a858877abeab4103f",
            {
                "captions.txt": (
                    "simat_db/captions.txt",
                    17335,
                    "001b5d8ed33f64e595a4099c4d5d2fefa9ffd953bbc1299bb94b681b9f08848c",
                ),
            },
        ),
        *github_files(
            REPO,
            "cc906791b9b1c51504e87ba3f2a49214d2ee38f3",
            {
                "retrieval_db.tsv": (
                    "simat_db/retrieval_db.tsv",
                    1203578,
                    "81379260cd98c2640484bf4446e838be6d7d8b41e408dc2906d9d44a3b822388",
                ),
                "transfos.csv": (
                    "simat_db/transfos.csv",
                    1056368,
                    "c6ddeecc08fa1eb3e7445a2e5540c5d94a1a414788416694fce671cc200445f6",
                ),
            },
        ),
        *github_files(
            REPO,
            "ead7c0a9021b2afbaf6a5bef123e534dcb732235",
            {
                "triplets.csv": (
                    "simat_db/triplets.csv",
                    200152,
                    "c6a89af2ee9ac07bbab9e573347d587061392fe889e747456fbd9b3f2828310b",
                ),
            },
        ),
    ),
    (genome_images("VG_100K", 4958),),
)

CARD = Card(
    name="simat",
    title="SIMAT: change one word of what an image shows, find the image that fits",
    paper="Couairon et al., Embedding Arithmetic of Multimodal Queries for Image Retrieval, "
    "CVPR workshop O-DRUM 2022 (arXiv:2112.03162)",
    license="annotations MIT; images Visual Genome (CC BY 4.0)",
    source="github.com/facebookresearch/SIMAT (simat_db/) and Visual Genome's two image parts",
    layout="transfos.csv, triplets.csv, captions.txt, retrieval_db.tsv, or in simat_db/\n"
    "VG_100K/<id>.jpg and VG_100K_2/<id>.jpg, cropped to the boxes here; or what the official "
    "script cut: images/images/<region>.png\n"
    f"{ORACLE} (optional): images × captions, P(caption fits image); the official .pt file saved "
    "with numpy. Without it an image fits the caption of its own triplet",
    download=DOWNLOAD,
    shape="5,859 images, 645 captions",
    family="edits",
    counts={"dev": 8933, "test": 9063},
    aggregation=Micro(),
    chance={},
    tags={"field": "what changes: subj, rel or obj", "split": "dev or test, by image"},
    by=("field",),
)


@dataclass(frozen=True, slots=True)
class _Region:
    """Image region of the database: its triplet, and where it is cropped from."""

    id: str
    position: int
    triplet: Triplet


def read(root: Path, problems: Problems) -> EditSet:
    """Read the database, the captions and every query of both splits.

    Which caption an image has is nowhere written down, but the database is sorted by it: in the
    order of `dataset_id` images of the same (subject, relation, object) stand together, and
    the k-th group has the k-th line of `captions.txt`. Every query is checked against that: its
    `query_ids` must be the caption of its image, its `target_ids` that of the triplet with one
    slot changed. In the released files all 17,996 agree, which covers 633 of the 645 triplets;
    no query speaks of the other 12.

    `dataset_id` is taken from `triplets.csv`; the column of that name in `transfos.csv` counts
    something else.
    """
    require_folder(root)
    lines = read_lines(_find_simat_file(root, "captions.txt"), problems)
    regions = _read_regions(_find_simat_file(root, "triplets.csv"), problems)
    groups = list(dict.fromkeys(region.triplet for region in regions))
    if len(groups) != len(lines):
        raise InputError(
            f"captions.txt holds {len(lines)} captions, triplets.csv {len(groups)} different "
            "triplets; they do not belong together.",
            file=root,
        )
    caption_of = {triplet: caption for caption, triplet in enumerate(groups)}
    boxes = dict(
        parse_records(
            read_csv_records(_find_simat_file(root, "retrieval_db.tsv"), problems, "\t"),
            _read_region_box,
            problems,
        )
    )
    queries = parse_records(
        read_csv_records(_find_simat_file(root, "transfos.csv"), problems),
        _QueryBuilder(
            {region.id: at for at, region in enumerate(regions)}, regions, caption_of
        ).query,
        problems,
    )
    data = EditSet(
        images=tuple(_find_images(root, regions, boxes, problems)),
        captions=tuple(line for _, line in lines),
        caption_of=tuple(caption_of[region.triplet] for region in regions),
        queries=tuple(queries),
    )
    files = (root / ORACLE, root / "simat_db" / ORACLE)
    path = next((file for file in files if file.is_file()), None)
    return data if path is None else add_oracle_file(data, path)


def add_oracle_file(data: EditSet, path: Path) -> EditSet:
    """Edit set judged by a file of P(caption fits image), images × captions.

    Without one an image fits the caption of its own triplet alone, which is stricter: two triplets
    can both be true of an image.

    Raises:
        InputError: the file is not an array of probabilities of this shape.
    """
    import numpy as np

    shape = (len(data.images), len(data.captions))
    fit = read_npy(path)
    if fit.dtype.kind not in "fiub":
        raise InputError(f"holds {fit.dtype} values; expected probabilities.", file=path)
    fit = fit.astype(np.float64)
    if fit.shape != shape:
        raise InputError(f"has the shape {fit.shape}; expected {shape}.", file=path)
    if not ((fit >= 0) & (fit <= 1)).all():
        raise InputError("must hold probabilities from 0 to 1.", file=path)
    return replace(data, oracle=fit, judge=f"the probabilities of {path.name}")


@dataclass(frozen=True, slots=True)
class _QueryBuilder:
    """Builder of edit queries from rows of `transfos.csv`."""

    position: Mapping[str, int]
    regions: list[_Region]
    caption_of: Mapping[Triplet, int]

    def query(self, record: Record) -> EditQuery:
        """Build the query of one row, checked against the image it starts from."""
        name, field = record.name("transfo_id"), record.text("field")
        source, target = record.text("value"), record.text("target")
        norm = record.number("norm2")
        if norm <= 0:
            raise MalformedError(f"query {name}: norm2 must be positive, found {norm}.")
        image = self.position.get(str(record.integer("region_id")))
        if image is None:
            raise MalformedError(f"query {name}: its region is not in triplets.csv.")
        now = self.regions[image].triplet
        if field not in TRIPLET_FIELDS or now[TRIPLET_FIELDS.index(field)] != source:
            raise MalformedError(
                f"query {name}: {source!r} is not the {field} of {' '.join(now)!r}."
            )
        changed = dict(zip(TRIPLET_FIELDS, now, strict=True)) | {field: target}
        then = (changed["subj"], changed["rel"], changed["obj"])
        captions = record.integer("query_ids"), record.integer("target_ids")
        if captions != (self.caption_of[now], self.caption_of.get(then)):
            raise MalformedError(
                f"query {name}: its captions {captions} are not those of {' '.join(now)!r} "
                f"and {' '.join(then)!r}."
            )
        split = {"True": "test", "False": "dev"}.get(record.text("is_test"))
        if split is None:
            raise MalformedError(f"query {name}: is_test must be True or False.")
        tags = {"field": field, "split": split}
        return EditQuery(name, image, source, target, *captions, norm**-0.5, tags)


def _read_regions(path: Path, problems: Problems) -> list[_Region]:
    """Read the rows of `triplets.csv` in the order of the database."""

    def build(record: Record) -> _Region:
        subj, rel, obj = map(record.text, TRIPLET_FIELDS)
        return _Region(
            str(record.integer("region_id")), record.integer("dataset_id"), (subj, rel, obj)
        )

    regions = sorted(
        parse_records(read_csv_records(path, problems), build, problems), key=lambda r: r.position
    )
    for expected, region in enumerate(regions):
        if region.position != expected:
            message = f"dataset_id must count from 0 without gaps: {expected} is not there."
            problems.report(Problem("malformed record", message, path))
            break
    return regions


def _find_images(
    root: Path, regions: Iterable[_Region], boxes: Mapping[str, tuple[str, Box]], problems: Problems
) -> Iterable[ImageRef]:
    """Find the official script's crops; else the photographs, with the box to crop."""
    folder = next((root / name for name in CROPPED if (root / name).is_dir()), None)
    for region in regions:
        photograph, crop = boxes.get(region.id, ("", None))
        if not photograph:
            message = f"region {region.id} of triplets.csv is not in retrieval_db.tsv."
            problems.report(Problem("malformed record", message, root))
        if folder is not None:
            yield ImageRef(photograph or region.id, folder / f"{region.id}.png")
        else:
            name = f"{photograph or region.id}.jpg"
            yield ImageRef(photograph or region.id, find_image(root, name, *PHOTOGRAPHS), crop)


def _read_region_box(record: Record) -> tuple[str, tuple[str, Box]]:
    """Read a region's photograph, and the box that holds subject and object."""
    region, photograph = str(record.integer("region_id")), str(record.integer("image_id"))
    corners = record.text("bbox")
    try:
        left, top, right, bottom = (int(corner) for corner in corners.split(","))
    except ValueError:
        raise MalformedError(f"region {region}: bbox must be four whole numbers.") from None
    if right <= left or bottom <= top:
        raise MalformedError(f"region {region}: the box {corners} is empty.")
    return region, (photograph, (left, top, right - left, bottom - top))


def _find_simat_file(root: Path, name: str) -> Path:
    return find_file(root, name, f"simat_db/{name}")


BENCHMARK = Benchmark(CARD, read)
