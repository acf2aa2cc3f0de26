"""FashionIQ: a garment and two sentences that say how the wanted one differs."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from contrapose.data.benchmarks.common import (
    ImagePositions,
    find_file,
    find_folder,
    require_folder,
)
from contrapose.data.cards import Benchmark, Card, Macro
from contrapose.data.downloads import Download, github_files
from contrapose.data.examples import ComposedQuery, ComposedSet
from contrapose.files import (
    MalformedError,
    Problems,
    Record,
    parse_records,
    read_json_records,
    safe_join,
)

CATEGORIES = ("dress", "shirt", "toptee")
FOLDERS = ("images", "resized_images", "resized_image")
SIZES = {"dress": 3817, "shirt": 6346, "toptee": 5373}
TRIM = ".?, "
"""Characters that are removed from both ends of a caption before two are joined, as SEARLE does."""

DOWNLOAD = Download(
    None,
    github_files(
        "XiaoxiaoGuo/fashion-iq",
        "HEAD",
        {
            "captions/cap.dress.val.json": (
                "captions/cap.dress.val.json",
                397427,
                "5e5117d45695df9c3ca91fac3e0bc49e6422ae9c8b3793f0ac9b3ab83adb7de9",
            ),
            "image_splits/split.dress.val.json": (
                "image_splits/split.dress.val.json",
                68708,
                "21ff91d53c23859da91bfd49f3acc139b7f3a3dc944fc4e4a80194468cf14bab",
            ),
            "captions/cap.shirt.val.json": (
                "captions/cap.shirt.val.json",
                398072,
                "7b7ca3797b85dddfd83e74cdb4454cb63e3e7c09acef2590155efbacea6d7feb",
            ),
            "image_splits/split.shirt.val.json": (
                "image_splits/split.shirt.val.json",
                114230,
                "b82effbf7352a6f828b38c45eb32e53d726bd4d6fd81d6290c81eeb2c68e3234",
            ),
            "captions/cap.toptee.val.json": (
                "captions/cap.toptee.val.json",
                391897,
                "b4e09f428e6c255cc4b4ec46e77908305ab83075d82840c960be81af15cdc5eb",
            ),
            "image_splits/split.toptee.val.json": (
                "image_splits/split.toptee.val.json",
                96716,
                "ee42b2505275dd7a19b11ddb88c9264aab2d77f4e59b075fb1c7c3095d02f412",
            ),
        },
    ),
    by_hand="images/<name>.png or .jpg of 15,415 products, by the links that "
    "https://github.com/XiaoxiaoGuo/fashion-iq names",
)

CARD = Card(
    name="fashioniq",
    title="FashionIQ: a garment and how the wanted one differs, both caption orders averaged",
    paper="Wu et al., Fashion IQ: A New Dataset Towards Retrieving Images by Natural Language "
    "Feedback, CVPR 2021 (arXiv:1905.12794); caption orders: Baldrati et al., Zero-Shot Composed "
    "Image Retrieval with Textual Inversion, ICCV 2023 (arXiv:2303.15247)",
    license="none stated; images are of Amazon products",
    source="github.com/XiaoxiaoGuo/fashion-iq (captions/ and image_splits/, validation split)",
    layout="captions/cap.<dress|shirt|toptee>.val.json and "
    "image_splits/split.<dress|shirt|toptee>.val.json\n"
    "images/<name>.png or .jpg",
    download=DOWNLOAD,
    shape="1 image + 2 texts → 3,817 to 6,346 images",
    family="composed",
    counts={"dress": 2017, "shirt": 2038, "toptee": 1961},
    aggregation=Macro("subset"),
    chance={f"r{k}": sum(k / size for size in SIZES.values()) / 3 for k in (10, 50)},
    tags={"subset": "dress, shirt or toptee"},
)

ONE_ORDER_CARD = replace(
    CARD,
    name="fashioniq-one-order",
    title="FashionIQ: a garment and how the wanted one differs, captions in their own order",
)


def read(root: Path, problems: Problems, *, both_orders: bool = True) -> ComposedSet:
    """Read the queries of the three categories; each is ranked in its category's split.

    The two captions become one text, joined by "and". With both orders there are two texts, whose
    vectors are averaged. A query with an empty caption has the other one as its text. The
    reference image stays in the gallery, as in the published evaluations.
    """
    require_folder(root)
    folder = find_folder(root, *FOLDERS)
    images = ImagePositions()
    galleries: list[tuple[int, ...]] = []
    queries: list[ComposedQuery] = []
    for category in CATEGORIES:
        listed, captions = f"split.{category}.val.json", f"cap.{category}.val.json"
        gallery = parse_records(
            read_json_records(find_file(root, f"image_splits/{listed}", listed), problems),
            partial(_read_image, folder, images),
            problems,
        )
        galleries.append(tuple(dict.fromkeys(gallery)))
        members = frozenset(galleries[-1])
        builder = _GarmentQueries(images, category, len(galleries) - 1, members, both_orders)
        queries += parse_records(
            read_json_records(find_file(root, f"captions/{captions}", captions), problems),
            builder.build,
            problems,
        )
    return ComposedSet(
        images=tuple(images.refs),
        galleries=tuple(galleries),
        queries=tuple(queries),
        recall_at=(10, 50),
        keep_reference=True,
        rule="each query is ranked in its category's validation split",
    )


@dataclass(frozen=True, slots=True)
class _GarmentQueries:
    """Builder of the queries of one category."""

    images: ImagePositions
    category: str
    number: int
    gallery: frozenset[int]
    both_orders: bool

    def build(self, record: Record) -> ComposedQuery:
        """Build the query of one record."""
        listed = f"split.{self.category}.val.json"
        names = record.name("candidate"), record.name("target")
        reference, target = self.images.find(record, names, listed)
        if not {reference, target} <= self.gallery:
            raise MalformedError(f"record {record.key}: its images are not in {listed}.")
        return ComposedQuery(
            f"{self.category}/{record.key}",
            reference,
            _join_captions(record, both_orders=self.both_orders),
            (target,),
            gallery=self.number,
            tags={"subset": self.category},
        )


def _read_image(folder: Path, images: ImagePositions, record: Record) -> int:
    if not isinstance(record.value, str):
        raise MalformedError(f"record {record.key}: an image needs a name.")
    return images.add(record.value, safe_join(folder, f"{record.value}.png"))


def _join_captions(record: Record, *, both_orders: bool) -> tuple[str, ...]:
    captions = record.field("captions")
    if not isinstance(captions, list) or len(captions) != 2:
        raise MalformedError(f"record {record.key}: 'captions' must be a list of two texts.")
    if captions[0] == "" or captions[1] == "":
        captions = [next((caption for caption in captions if caption != ""), "")]
    texts = [record.inner({"captions": caption}).text("captions") for caption in captions]
    texts = [text.strip(TRIM) or text for text in texts]
    if len(texts) == 1:
        return tuple(texts)
    orders = (" and ".join(texts), " and ".join(reversed(texts)))
    return orders if both_orders else orders[:1]


BENCHMARKS = {
    "fashioniq": Benchmark(CARD, read),
    "fashioniq-one-order": Benchmark(ONE_ORDER_CARD, partial(read, both_orders=False)),
}
