"""Names for content: copies are equal, anything else is not."""

from __future__ import annotations

import hashlib
from pathlib import Path

from contrapose.models.fingerprint import file_digest, fingerprint


def test_place_and_order_do_not_count(tmp_path: Path) -> None:
    for folder in ("a", "b"):
        (tmp_path / folder).mkdir()
        for name in ("one", "two"):
            (tmp_path / folder / name).write_text(name)
    first = fingerprint([tmp_path / "a" / "one", tmp_path / "a" / "two"], dtype="fp32", cut=False)
    again = fingerprint([tmp_path / "b" / "two", tmp_path / "b" / "one"], cut=False, dtype="fp32")
    assert first == again


def test_names_content_and_facts_count(tmp_path: Path) -> None:
    file = tmp_path / "one"
    file.write_text("x")
    seen = {fingerprint([file], dtype="fp32"), fingerprint([file], dtype="bf16"), fingerprint([])}
    file.write_text("y")
    seen.add(fingerprint([file], dtype="fp32"))
    file.rename(tmp_path / "two")
    seen.add(fingerprint([tmp_path / "two"], dtype="fp32"))
    assert len(seen) == 5


def test_the_hub_s_cache_knows_its_hashes(tmp_path: Path) -> None:
    content = b"weights"
    digest = hashlib.sha256(content).hexdigest()
    blob = tmp_path / "blobs" / digest
    blob.parent.mkdir()
    blob.write_bytes(content)
    link, copy = tmp_path / "model.safetensors", tmp_path / "copy"
    link.symlink_to(blob)
    copy.write_bytes(content)
    assert file_digest(link) == file_digest(copy) == digest
    blob.write_bytes(b"not read again")
    assert file_digest(link) == digest
    small = tmp_path / "blobs" / ("a" * 40)  # a git hash is not one of the content alone
    small.write_bytes(content)
    other = tmp_path / "config.json"
    other.symlink_to(small)
    assert file_digest(other) == digest
