"""Indexing: list the images, embed the new and changed ones once, and write the index.

A file whose size and time of change are those of the index is not read again. Contents that the
index knows, also under another name, are not embedded again. Vectors of a run that was killed lie
in the folder `pending` of the index, in the engine's store, and are taken up by the next run. Every
run compares the checksums of the vectors that are there; damaged ones are made again.
"""

from __future__ import annotations

import shutil
import warnings
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from contrapose.data import ImageRef
from contrapose.engine import (
    AnswerStore,
    LocalExecutor,
    Progress,
    ScoringContext,
    distinct_images,
    embed_distinct,
    has_pooling,
)
from contrapose.engine.pace import ESTIMATE
from contrapose.engine.storage import UnwritableStoreError
from contrapose.errors import DamageWarning, InputError, option
from contrapose.files import remove_leftovers, require_no_link, temporary_folder
from contrapose.files.syncing import sync_file
from contrapose.metrics import FloatArray
from contrapose.models import Encoder, Model
from contrapose.models.capabilities import UNSTORED
from contrapose.models.sides import require_side
from contrapose.scores import UNKNOWN_SKIP, Skip
from contrapose.search.image_files import ImageFile, list_images
from contrapose.search.index import (
    BLOCK_ROWS,
    COLUMNS,
    FILE_NAME,
    INDEX_FOLDER,
    LOCK,
    MANIFEST,
    Index,
    block_checksum,
    default_index_folder,
    lock_index,
    open_index,
    write_index,
)
from contrapose.search.spaces import declare_space

PENDING = "pending"
VECTORS = "vectors.npy"
SHARD = 1 << 15
"""Images that are embedded before their vectors leave memory."""


@dataclass(frozen=True, slots=True)
class IndexReport:
    """Report of an indexing run.

    Attributes:
        index: the index.
        added: images that the index did not hold.
        changed: images whose content changed.
        deleted: images that are no longer there.
        unchanged: images that were not read again.
        embedded: contents that the model embedded.
        recall: share of the exact neighbors that a copy in LanceDB finds; None without one.
    """

    index: Index
    added: int = 0
    changed: int = 0
    deleted: int = 0
    unchanged: int = 0
    embedded: int = 0
    recall: float | None = None


@dataclass(frozen=True, slots=True)
class IndexRequest:
    """Request to index images.

    Attributes:
        images: a folder, a `.txt` file with a path a line, or the files themselves.
        out: folder of the index; None is inside the images' folder.
        batch_size: images of a model call.
        workers: threads that decode.
        progress: called after each batch.
    """

    images: Path | Sequence[Path]
    out: Path | None = None
    batch_size: int | None = None
    workers: int | None = None
    progress: Progress | None = field(default=None, compare=False)


def build_index(request: IndexRequest, model: Model) -> IndexReport:
    """Bring the index of some images up to date; only what is new or changed is embedded.

    Raises:
        InputError: there is no image, not one can be read, the index is of another model or of
            other images, another process writes it, or the model gives no single vector.
    """
    encoder = require_encoder(model)
    root, files, skipped = list_images(request.images)
    if request.out is None and not (isinstance(request.images, Path) and request.images.is_dir()):
        raise InputError(f"an index of a list needs a folder: pass {option('out')}.")
    folder = request.out or default_index_folder(root, model.name)
    if request.out is None:
        for path in (folder.parent, folder):
            require_no_link(path)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with lock_index(folder):
            return _update(request, encoder, folder, root, files, skipped)
    except UnwritableStoreError as error:
        raise _unwritable_error(folder, error.reason) from None
    except InputError:
        _remove_empty(folder)
        raise
    except OSError as error:
        raise _unwritable_error(folder, error.strerror or str(error)) from None


def _unwritable_error(folder: Path, reason: str) -> InputError:
    return InputError(
        f"the index cannot be written ({reason}); make room, or choose another {option('out')}.",
        file=folder,
    )


def require_encoder(model: Model, side: str = "image") -> Encoder:
    """Return a model that gives one vector an image, or a text, and can be told from others.

    Raises:
        InputError: it gives none or several, or has no fingerprint.
    """
    if not isinstance(model, Encoder) or has_pooling(model):
        raise InputError(
            f"{model.name} does not give one vector an image; search needs a dual encoder such as "
            "CLIP or tiny-clip."
        )
    if model.fingerprint.startswith(UNSTORED):
        raise InputError(f"{model.name} has no fingerprint, so its index could not be checked.")
    require_side(model, side)
    return model


@dataclass(frozen=True, slots=True, eq=False)
class _Known:
    """Files and contents that the index holds before an update.

    Attributes:
        index: the index; None for the first run.
        files: size, time of change and content id by name.
        rows: a row of each content whose vector is sound.
    """

    index: Index | None
    files: dict[str, tuple[int, int, str]]
    rows: dict[str, int]

    @property
    def damaged(self) -> bool:
        """Whether a vector has to be made again, though its file did not change."""
        return any(content not in self.rows for *_, content in self.files.values())

    def content(self, file: ImageFile) -> str | None:
        """Content id of a file that did not change; None for others and without a vector."""
        entry = self.files.get(file.name)
        if entry is None or entry[:2] != (file.size, file.mtime) or entry[2] not in self.rows:
            return None
        return entry[2]


def _read_known(folder: Path, root: Path, model: Encoder) -> _Known:
    """Read what the index holds; refuse an index of another model or of other images."""
    if not (folder / MANIFEST).exists():
        return _Known(None, {}, {})
    index = open_index(folder)
    index.require_model(model.fingerprint, model.name)
    if index.root != root:
        raise InputError(
            f"is an index of {index.root}; choose another {option('out')}.", file=folder
        )
    columns = [index.table[name].to_pylist() for name in COLUMNS]
    files = {path: (size, mtime, name) for path, size, mtime, name in zip(*columns, strict=True)}
    damaged = frozenset(index.find_damage().tolist())
    if damaged:
        warnings.warn(
            f"{folder}: the vectors of {len(damaged):,} of {len(index):,} images are damaged; they "
            "are made again.",
            DamageWarning,
            stacklevel=2,
        )
    rows = {name: row for row, name in enumerate(columns[-1]) if row not in damaged}
    return _Known(index, files, rows)


def _update(
    request: IndexRequest,
    model: Encoder,
    folder: Path,
    root: Path,
    files: list[ImageFile],
    skipped: dict[str, str],
) -> IndexReport:
    known = _read_known(folder, root, model)
    number = 1 if known.index is None else known.index.number + 1
    require_no_link(folder / PENDING)
    remove_leftovers(folder, 0.0)  # nobody else writes here
    _remove_files(folder, number)
    contents = {file.name: known.content(file) for file in files}
    changed = [ImageRef(name, root / name) for name, content in contents.items() if content is None]
    distinct = distinct_images(changed)
    for ref, i in zip(changed, distinct.index.tolist(), strict=True):
        contents[ref.key] = distinct.ids[i]
    new = {
        name: ref
        for name, ref in zip(distinct.ids, distinct.refs, strict=True)
        if name not in known.rows and name not in distinct.unreadable
    }
    fresh, missing = _embed_shards(request, model, new, folder)
    missing |= distinct.unreadable
    rows: list[tuple[ImageFile, str]] = []
    for file in files:
        content = contents[file.name] or ""
        if content in missing:
            skipped[file.name] = missing[content].reason
        else:
            rows.append((file, content))
    if not rows:
        shutil.rmtree(folder / PENDING, ignore_errors=True)
        reason = next(iter(skipped.values()))
        raise InputError(f"not one of {len(skipped):,} images can be indexed; the first: {reason}.")
    entries = {file.name: (file.size, file.mtime, content) for file, content in rows}
    before = known.files
    skipped = dict(sorted(skipped.items()))
    if known.index is None or known.damaged or entries != before or skipped != known.index.skipped:
        table = dict(
            zip(COLUMNS, zip(*((n, *e) for n, e in entries.items()), strict=True), strict=True)
        )
        facts = model.name, model.fingerprint, declare_space(model)
        with temporary_folder(folder, "new") as temporary:
            path = temporary / VECTORS
            checksums = _write_vectors(path, known, fresh, [content for _, content in rows])
            try:
                write_index(folder, root, facts, table, (path, checksums), skipped, number)
            except OSError:
                _remove_files(folder, number)
                raise
    shutil.rmtree(folder / PENDING, ignore_errors=True)
    return IndexReport(
        open_index(folder),
        added=len(entries.keys() - before.keys()),
        changed=sum(name in before and before[name][2] != e[2] for name, e in entries.items()),
        deleted=len(before.keys() - entries.keys()),
        unchanged=sum(name in before and before[name][2] == e[2] for name, e in entries.items()),
        embedded=len(fresh),
    )


def _embed_shards(
    request: IndexRequest, model: Encoder, new: dict[str, ImageRef], folder: Path
) -> tuple[dict[str, FloatArray], dict[str, Skip]]:
    """Embed new contents in shards; return vectors by content id, and skips.

    A content's shard follows from its id, so that a resumed run finds each shard's store again. The
    vectors of finished shards are memory-mapped.
    """
    bits = max(0, (len(new) - 1) // SHARD).bit_length()
    shards: dict[int, list[str]] = {}
    for name in new:
        shards.setdefault(int(name[:8], 16) >> (32 - bits), []).append(name)
    vectors: dict[str, FloatArray] = {}
    missing: dict[str, Skip] = {}
    done = 0

    def report(what: str, finished: int, total: int) -> None:
        if what.startswith(ESTIMATE):
            if request.progress is not None and len(shards) == 1:
                request.progress(what, finished, total)
        elif request.progress is not None:
            request.progress(what, done + finished, len(new))

    with LocalExecutor(request.workers) as executor:
        for number, names in sorted(shards.items()):
            pending = folder / PENDING / f"{bits}-{number}"
            context = ScoringContext(
                model,
                AnswerStore(pending),
                batch_size=request.batch_size,
                progress=report,
                executor=executor,
            )
            rows, _ = embed_distinct(context, [new[name] for name in names], names, [])
            done += len(names)
            file = pending / VECTORS
            if len(shards) > 1:  # the others must fit in memory too
                file.unlink(missing_ok=True)
                with file.open("xb") as stream:
                    np.save(stream, rows, allow_pickle=False)
                rows = np.load(file, mmap_mode="r", allow_pickle=False)
            for name, row in zip(names, rows, strict=True):
                if rows.shape[1] and np.isfinite(row[0]):
                    vectors[name] = row
                else:
                    missing[name] = context.skips.images.get(name, UNKNOWN_SKIP)
    return vectors, missing


def _write_vectors(
    path: Path, known: _Known, fresh: dict[str, FloatArray], contents: list[str]
) -> list[int]:
    """Write the vectors of contents, old and new, to a new file; return their checksums.

    The file is written, not memory-mapped: a full disk is an error then, and no signal.
    """
    held = next(iter(fresh.values())) if known.index is None else known.index.vectors[0]
    checksums: list[int] = []
    header = {"descr": "<f4", "fortran_order": False, "shape": (len(contents), len(held))}
    with path.open("xb") as stream:
        np.lib.format.write_array_header_1_0(stream, header)
        for start in range(0, len(contents), BLOCK_ROWS):
            names = contents[start : start + BLOCK_ROWS]
            block = np.stack([_find_vector(name, known, fresh) for name in names])
            block = np.ascontiguousarray(block, dtype="<f4")
            checksums.append(block_checksum(block))
            stream.write(block.data)
        sync_file(stream)
    return checksums


def _find_vector(content: str, known: _Known, fresh: dict[str, FloatArray]) -> FloatArray:
    vector = fresh.get(content)
    if vector is None and known.index is not None:
        vector = known.index.vectors[known.rows[content]]
    if vector is None:
        raise KeyError(content)
    return vector


def _remove_files(folder: Path, number: int) -> None:
    """Remove the files of a number that no manifest names: a run that failed may leave them.

    They would keep a full disk full.
    """
    for path in list(folder.iterdir()):
        if FILE_NAME.fullmatch(path.name) and path.stem.endswith(f"-{number}"):
            path.unlink(missing_ok=True)


def _remove_empty(folder: Path) -> None:
    """Remove an index's folder that holds nothing but its lock."""
    if {path.name for path in folder.iterdir()} <= {LOCK}:
        with suppress(OSError):
            (folder / LOCK).unlink(missing_ok=True)
            folder.rmdir()
            if folder.parent.name == INDEX_FOLDER:
                folder.parent.rmdir()
