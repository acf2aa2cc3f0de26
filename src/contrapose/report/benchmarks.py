"""Listing of benchmarks: one row each, columns that fit the terminal, and one card in full."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from textwrap import shorten
from typing import Any

from contrapose.data import Benchmark, Card, Suite
from contrapose.data.cached_data import DataStatus
from contrapose.data.downloads import (
    Download,
    Manual,
    RemoteFile,
    describe_download,
    download_kind,
    download_size,
    format_size,
)
from contrapose.errors import option
from contrapose.report.tables import Table
from contrapose.results import describe_aggregation, shapes

COLUMNS: Mapping[str, str] = {
    "benchmark": "<benchmark",
    "shape": "<shape",
    "n": "n",
    "chance": "chance %",
    "license": "<licence",
    "size": "size",
    "files": "<files",
    "errata": "<!",
    "title": "<what it asks",
}
"""Header of each column."""

DROP = ("what it asks", "licence", "size", "!", "files")
"""Columns that a narrow terminal leaves out, the first one first."""

LONGEST_LICENSE = 24
FILES = {"fetchable": "fetchable", "gated": "gated", "manual": "manual", "none": "manual"}


@dataclass(frozen=True, slots=True)
class BenchmarkRow:
    """Facts of a benchmark or suite, as `list benchmarks` shows them.

    Attributes:
        benchmark: its name.
        shape: images × captions, or what takes their place.
        n: number of examples of the released files; 0 where it is as many as the files hold.
        chance: chance level of the main metric; None where there is none.
        license: of the annotations, in a few words.
        size: bytes of the download; None where they are not known.
        download: the same in words, with the number of images that are fetched one by one.
        files: fetchable, gated (terms must be accepted first), manual, or generated.
        errata: whether something is known to be wrong in the released files or tables.
        title: what it asks.
    """

    benchmark: str
    shape: str
    n: int
    chance: float | None
    license: str
    size: int | None
    download: str
    files: str
    errata: bool
    title: str


def benchmark_row(entry: Benchmark | Suite) -> BenchmarkRow:
    """Facts of a benchmark; those of a suite are of all its parts."""
    parts = list(entry.parts.values()) if isinstance(entry, Suite) else [entry]
    cards = [part.card for part in parts]
    name, title = (
        (entry.name, entry.title) if isinstance(entry, Suite) else (cards[0].name, cards[0].title)
    )
    downloads = list({id(card.download): card.download for card in cards}.values())
    sizes = [download_size(one) for one in downloads]
    licenses = dict.fromkeys(short_license(card.license) for card in cards)
    kinds = dict.fromkeys(
        "generated" if part.generated else FILES[download_kind(part.card.download)]
        for part in parts
    )
    return BenchmarkRow(
        name,
        f"{len(parts)} parts" if isinstance(entry, Suite) else _short_shape(cards[0].shape),
        sum(sum(card.counts.values()) for card in cards),
        None if isinstance(entry, Suite) else _main_chance(cards[0]),
        ", ".join(licenses),
        None if None in sizes else sum(size or 0 for size in sizes),
        "0" if all(part.generated for part in parts) else _describe_size(downloads),
        ", ".join(kinds),
        any(card.errata for card in cards),
        title.partition(": ")[2] or title,
    )


def _describe_size(downloads: Sequence[Download | Manual | None]) -> str:
    """Size of downloads: bytes that are known, and the number of images beside them.

    A plus at the end stands for files or images of which neither is known.
    """
    known = images = 0
    more = False
    for one in downloads:
        if not isinstance(one, Download):
            known += (one.size if one else None) or 0
            more |= one is None or one.size is None
            continue
        known += sum(part.size or 0 for part in (*one.files, *one.images))
        images += sum(part.count or 0 for part in one.images if part.size is None)
        more |= any(part.size is None for part in one.files)
        more |= any(part.size is None and not part.count for part in one.images)
    words = [format_size(known)] if known else []
    words += [f"{images:,} images"] if images else []
    return (" + ".join(words) + " +" * more) if words else "–"


def _main_chance(card: Card) -> float | None:
    """Chance level of the main metric, or of the first that has one."""
    main = shapes.find_shape(card).main
    return card.chance.get(main, next(iter(card.chance.values()), None))


def _short_shape(shape: str) -> str:
    """Shape without words: `1 image + 1 text → 2,297 images` is `1 + 1 → 2,297`."""
    if "→" not in shape:
        return shape
    short = re.sub(r"(?<=\d) (images?|texts?|words?|captions?|queries)\b", "", shape)
    return short.replace(" to ", "–")


def short_license(text: str) -> str:
    """License of the annotations; that of the images stands on the card."""
    text = text.removeprefix("gated; ")
    if re.match(r"annotations (and|under)\b", text):
        return "its owners' terms"
    words = re.split(r";| \(|, | under ", text, maxsplit=1)[0].strip()
    words = re.sub(r"^(annotations|captions)\b:? ?", "", words)
    unknown = re.fullmatch(r"(none stated|no licen[sc]e given|without a licen[sc]e|)", words)
    if unknown:
        return "none stated"
    inside = re.match(r"COCO \((CC [^)]+)\)", re.sub(r"^captions ", "", text))
    return inside.group(1) if inside else shorten(words, LONGEST_LICENSE, placeholder="…")


def benchmarks_table(benchmarks: Sequence[Benchmark | Suite]) -> list[Table | str]:
    """Table with one line per benchmark; a narrow terminal shows its most important columns."""
    rows = [_cells(benchmark_row(entry)) for entry in benchmarks]
    cells = tuple(tuple(row[name] for name in COLUMNS) for row in rows)
    parts: list[Table | str] = [Table("", tuple(COLUMNS.values()), cells, drop=DROP)]
    if any(row["errata"] for row in rows):
        parts.append(f"!: errata are known, which the card tells. {option('json')} has all fields.")
    return parts


def _cells(row: BenchmarkRow) -> dict[str, str]:
    return {
        "benchmark": row.benchmark,
        "shape": row.shape,
        "n": f"{row.n:,}" if row.n else "–",
        "chance": format_level(row.chance),
        "files": row.files,
        "errata": "!" if row.errata else "",
        "size": row.download,
        "license": row.license,
        "title": row.title,
    }


def format_level(chance: float | None) -> str:
    """Format a chance level in per cent; small ones with more digits, a dash for None."""
    if chance is None:
        return "–"
    return f"{100 * chance:.{1 if chance >= 0.01 else 2}f}"


def benchmark_json(entry: Benchmark | Suite) -> dict[str, Any]:
    """Card as JSON, with the columns of the listing; of a suite the cards of its parts."""
    listed = asdict(benchmark_row(entry))
    facts = {"examples": listed["n"], "files": listed["files"], "download_size": listed["size"]}
    if isinstance(entry, Suite):
        parts = {name: benchmark_json(part) for name, part in entry.parts.items()}
        return {"name": entry.name, "title": entry.title, **facts, "parts": parts}
    return {**asdict(entry.card), **facts}


def suite_lines(suite: Suite) -> list[str]:
    """Description of a suite, one line per part."""
    width = max(map(len, suite.parts))
    cards = [part.card for part in suite.parts.values()]
    errata = dict.fromkeys(card.errata for card in cards if card.errata)
    official = dict.fromkeys(card.official for card in cards if card.official)
    downloads = dict.fromkeys(
        "generated, nothing to fetch" if part.generated else describe_download(part.card.download)
        for part in suite.parts.values()
    )
    return [
        suite.title,
        f"  paper        {'; '.join(dict.fromkeys(card.paper for card in cards))}",
        f"  licence      {'; '.join(dict.fromkeys(card.license for card in cards))}",
        f"  download     {'; '.join(downloads)}",
        *(f"  official     {words}" for words in official),
        *(f"  errata       {words}" for words in errata),
        f"  parts ({option('subset')}, or {option('on', f'{suite.name}/PART')})",
        *(
            f"    {name:<{width}}  {part.card.shape}, chance % {format_chance(part.card)}: "
            f"{part.card.title}"
            for name, part in suite.parts.items()
        ),
    ]


def card_lines(benchmark: Benchmark) -> list[str]:
    """All fields of a card, one paragraph per field."""
    card = benchmark.card
    counts = ", ".join(f"{name} {count:,}" for name, count in card.counts.items())
    fetched = (
        "generated, nothing to fetch"
        if benchmark.generated
        else describe_download(card.download).replace("none", "by hand", 1)
    )
    lines = [
        card.title,
        f"  paper        {card.paper}",
        f"  licence      {card.license}",
        f"  files from   {card.source}",
        f"  download     {fetched}",
        *_download_lines(card),
        f"  shape        {card.shape}" + " (images × captions)" * (card.family != "composed"),
        f"  examples     {counts or 'as many as the files hold'}",
        f"  chance %     {format_chance(card)}",
        f"  headline     {describe_aggregation(card.aggregation)}",
    ]
    if card.official:
        lines.append(f"  official     {card.official}")
    if card.errata:
        lines.append(f"  errata       {card.errata}")
    if card.tags:
        lines.append(f"  tags ({option('by')})")
        lines += [f"    {name:<16} {meaning}" for name, meaning in card.tags.items()]
    lines.append(f"  folder ({option('root')})")
    lines += [f"    {line}" for line in card.layout.split("\n")]
    return lines


def _download_lines(card: Card) -> list[str]:
    """Lines on where the files come from: page and steps, or revision, terms and digests."""
    download = card.download
    if download is None:
        return []
    if isinstance(download, Manual):
        return [f"               from {download.page}: {download.steps}"]
    pins = [
        "revision " + (download.revision or "not pinned: the newest at the first fetch"),
        *([f"terms to accept on {download.gated}"] if download.gated else []),
        *([f"by hand: {download.by_hand}"] if download.by_hand else []),
    ]
    digests = [file.sha256 if isinstance(file, RemoteFile) else "hub" for file in download.files]
    unknown = digests.count(None)
    if unknown:
        pins.append(
            f"{unknown} of {len(digests)} files have no known SHA-256: that of the first fetch "
            "counts"
        )
    if download.images:
        pins.append("images have no known SHA-256: those of the first fetch count")
    return [f"               {pin}" for pin in pins]


def data_table(states: Sequence[DataStatus]) -> Table:
    """Table of the states of fetched and fetchable benchmarks, one line each."""
    rows = tuple(
        (
            one.name,
            one.state + f", {one.missing:,} images missing" * bool(one.missing),
            format_size(one.size) if one.size else "–",
            short_license(one.license),
            str(one.folder or "–"),
        )
        for one in states
    )
    return Table(
        "", ("<benchmark", "<state", "size", "<licence", "<folder"), rows, drop=("licence",)
    )


def format_chance(card: Card) -> str:
    """Format the chance levels of a card."""
    return ", ".join(f"{name} {100 * value:.1f}" for name, value in card.chance.items()) or "–"
