"""Build of the benchmark `scenes`: images of a rendering engine, annotations, audit, manifest.

Each part is a folder that a reader takes as its root (`contrapose.world.benchmark.export`). Images
are rendered in batches, and a build that is stopped goes on from the batches that are complete. The
last step is the blind audit, whose verdict is in the manifest.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from contrapose import __version__
from contrapose.build.captions.balance import AUDIT_SAMPLE, audit_for_manifest
from contrapose.data import Benchmark, BenchmarkData, Example, ImageRef, Suite
from contrapose.engine import Progress
from contrapose.errors import InputError
from contrapose.evaluation.audit import AuditRequest
from contrapose.files import WorkFolder, did_you_mean, open_work_folder, require_free, safe_join
from contrapose.world.benchmark import PARTS, scene_of
from contrapose.world.benchmark.annotations import SIZE
from contrapose.world.benchmark.candidates import (
    MIN_PIXELS,
    MIN_VISIBLE,
    VISIBILITY_SIZE,
    FilterCounts,
    Form,
)
from contrapose.world.benchmark.export import (
    MANIFEST,
    SCENES,
    PartLayout,
    encode_png,
    lay_out,
    mask_name,
    scene_lines,
    write_file,
)
from contrapose.world.benchmark.suite import (
    EXAMPLES,
    NAMES,
    part_card,
    part_data,
    require_positive,
)
from contrapose.world.engines import Engine, SceneEngine, open_engine, require_engine

PLAN_SAMPLE = 20
"""Examples of a part from which the counts of a dry run are estimated."""


@dataclass(frozen=True, slots=True)
class SceneBuild:
    """Settings of a build of `scenes`.

    Attributes:
        parts: names of the parts.
        form: balanced or skewed.
        examples: number of examples per part.
        seed: seed of everything random.
        size: width and height of the images.
        masks: also write an index map for each image: 0 is ground and sky, k the k-th thing.
        engine: renders the images.
    """

    parts: tuple[str, ...] = tuple(PARTS)
    form: Form = "balanced"
    examples: int = EXAMPLES
    seed: int = 0
    size: int = SIZE
    masks: bool = False
    engine: Engine = "raytracer"

    def check(self) -> None:
        """Validate the settings.

        Raises:
            InputError: an unknown part, no examples, or images of no size or too large.
            MissingExtraError: the engine is not installed.
        """
        for part in self.parts:
            if part not in PARTS:
                raise InputError(f"scenes has no part {part!r}: {did_you_mean(part, PARTS)}")
        require_positive(self.examples, self.size)
        require_engine(self.engine)

    @property
    def parameters(self) -> dict[str, Any]:
        """Settings as the manifest has them."""
        return {
            "world": self.form,
            "examples": self.examples,
            "seed": self.seed,
            "size": self.size,
            "masks": self.masks,
            "least_seen": MIN_VISIBLE,
            "least_pixels": MIN_PIXELS,
            "looked_at": VISIBILITY_SIZE,
        }


def write_scenes(
    build: SceneBuild, out: Path, *, overwrite: bool = False, progress: Progress | None = None
) -> dict[str, Any]:
    """Write parts of the benchmark; the folder appears complete or not at all.

    The result is the same after any number of interruptions.

    Args:
        build: settings.
        out: the folder to write.
        overwrite: replace a folder that exists.
        progress: called with a description, the number of images done and the total.

    Returns:
        The manifest.

    Raises:
        InputError: the settings are wrong, `out` is taken or being built by another process, or
            writing fails.
    """
    build.check()
    require_free(out, overwrite=overwrite)  # before an engine is started
    recipe = {"contrapose": __version__, **asdict(build)}
    with open_engine(build.engine) as engine:
        recipe["engine_version"] = engine.version
        with open_work_folder(out, recipe, overwrite=overwrite) as work:
            manifest: dict[str, Any] = {
                "source": f"contrapose {__version__}, scenes",
                "engine": {"name": engine.name, "version": engine.version},
                "parameters": build.parameters,
                "parts": {},
            }
            files: dict[str, str] = {}
            audited: dict[str, list[Example]] = {}
            for part in dict.fromkeys(build.parts):
                data, tally = _draw_part(build, part, build.examples)
                if isinstance(data, list):
                    audited[part] = data
                layout = lay_out(part, iter(data) if isinstance(data, list) else data)
                files |= _write_part(work, part, layout, build, engine, progress)
                manifest["parts"][part] = {
                    "read_with": layout.reader,
                    "examples": build.examples,
                    "images": len(layout.images),
                    "filters": dict(tally),
                }
            manifest["audit"] = _audit_parts(audited, build, progress)
            manifest["sha256"] = dict(sorted(files.items()))
            write_file(work.set / MANIFEST, (json.dumps(manifest, indent=1) + "\n").encode())
            work.publish()
    return manifest


def plan_scenes(build: SceneBuild) -> dict[str, Any]:
    """Counts to expect of a build, from a few examples of each part; nothing is written.

    Raises:
        InputError: the settings are wrong.
    """
    build.check()
    parts: dict[str, Any] = {}
    for part in dict.fromkeys(build.parts):
        count = min(PLAN_SAMPLE, build.examples)
        data, tally = _draw_part(build, part, count)
        layout = lay_out(part, iter(data) if isinstance(data, list) else data)
        scale = build.examples / count
        parts[part] = {
            "read_with": layout.reader,
            "examples": build.examples,
            "images": round(scale * len(layout.images)),
            "sampled": count,
            "filters": {name: round(scale * number) for name, number in tally.items()},
        }
    return {"engine": {"name": build.engine}, "parameters": build.parameters, "parts": parts}


def _draw_part(
    build: SceneBuild, part: str, examples: int
) -> tuple[list[Example] | BenchmarkData, FilterCounts]:
    """Data of a part, examples as a list, and how many scenes each filter left."""
    tally = FilterCounts()
    data = part_data(part, build.form, examples, build.seed, build.size, tally)
    return (list(data) if PARTS[part].propose is not None else data), tally  # type: ignore[arg-type]


def _write_part(
    work: WorkFolder,
    part: str,
    layout: PartLayout,
    build: SceneBuild,
    engine: SceneEngine,
    progress: Progress | None,
) -> dict[str, str]:
    """Write a part; the digests of its files by name."""
    files: dict[str, str] = {}
    for name, text in (*layout.texts.items(), (SCENES, scene_lines(layout))):
        content = text.encode()
        write_file(work.set / part / name, content)
        files[f"{part}/{name}"] = hashlib.sha256(content).hexdigest()
    total = len(layout.images)
    for start in range(0, total, engine.batch):
        some = layout.images[start : start + engine.batch]
        files |= _write_batch(work, part, some, build, engine)
        if progress is not None:
            progress(part, start + len(some), total)
    return files


def _write_batch(
    work: WorkFolder,
    part: str,
    some: Sequence[tuple[str, ImageRef]],
    build: SceneBuild,
    engine: SceneEngine,
) -> dict[str, str]:
    """Render and write a batch of images, unless that was done before; their digests."""
    key = f"{part}/{some[0][0]}"
    done = work.read_done(key)
    if done is not None and _is_complete(work, done):
        return {name: str(value) for name, value in done.items()}
    drawn = engine.draw_scenes([scene_of(ref) for _, ref in some], build.size, masks=build.masks)
    files: dict[str, str] = {}
    for (name, _), (image, index) in zip(some, drawn, strict=True):
        for file, content in _encode_drawing(name, image, index):
            write_file(work.set / part / file, content)
            files[f"{part}/{file}"] = hashlib.sha256(content).hexdigest()
    work.write_done(key, files)
    return files


def _encode_drawing(name: str, image: Any, index: Any) -> Iterator[tuple[str, bytes]]:
    from PIL import Image

    yield name, encode_png(image)
    if index is not None:
        yield mask_name(name), encode_png(Image.fromarray((index + 1).astype("uint8")))


def _is_complete(work: WorkFolder, done: Mapping[str, Any]) -> bool:
    """Whether the files of a batch are as they were written."""
    try:
        return all(
            hashlib.sha256(safe_join(work.set, name).read_bytes()).hexdigest() == value
            for name, value in done.items()
        )
    except (OSError, InputError):
        return False


def _audit_parts(
    parts: Mapping[str, list[Example]], build: SceneBuild, progress: Progress | None
) -> dict[str, Any] | None:
    """Blind audit of the parts that have captions to choose from, as the manifest has it.

    Returns:
        None where there is no such part.
    """
    if not parts:
        return None
    name = NAMES[build.form]
    suite = Suite(
        name,
        "Scenes as they were built",
        {part: _as_benchmark(name, part, build, examples) for part, examples in parts.items()},
    )
    request = AuditRequest(benchmark=suite, cache=None, seed=build.seed, sample=AUDIT_SAMPLE)
    return audit_for_manifest(request, progress)


def _as_benchmark(
    suite: str, part: str, build: SceneBuild, examples: Sequence[Example]
) -> Benchmark:
    card = part_card(suite, part, build.form, build.examples)
    return Benchmark(card, lambda root, problems: iter(examples), generated=True)
