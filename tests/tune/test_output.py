"""The output folder of a tuning run: what may be written there, and through nothing else."""

from __future__ import annotations

from pathlib import Path

import pytest

from contrapose.errors import InputError
from contrapose.tune.output import prepare_output, require_output, working_folder
from contrapose.tune.settings import TuneRequest


def begin(request: TuneRequest) -> None:
    require_output(request)
    prepare_output(request)


@pytest.mark.parametrize(
    "content", ["5", "null", "[]", '{"objective": 5}', "[" * 100_000, "\ufeff{}", "\ud800", ""]
)
def test_a_damaged_request_stops_no_resumption(content: str, tmp_path: Path) -> None:
    folder = tmp_path / "training"
    folder.mkdir()
    (folder / "request.json").write_bytes(content.encode(errors="surrogatepass"))
    request = TuneRequest("tiny-clip", "scenes", tmp_path, resume=True)
    begin(request)


@pytest.mark.parametrize("name", [".out-next", "out/training"])
def test_nothing_is_written_through_a_symbolic_link(name: str, tmp_path: Path) -> None:
    target = tmp_path / "target"
    (target / "training").mkdir(parents=True)
    if name != "out/training":
        (tmp_path / "out" / "training").mkdir(parents=True)
    (tmp_path / name).parent.mkdir(exist_ok=True)
    (tmp_path / name).symlink_to(target)
    request = TuneRequest("tiny-clip", "scenes", tmp_path / "out", overwrite=True, resume=True)
    with pytest.raises(InputError, match="symbolic link"):
        begin(request)
    assert [path.name for path in target.iterdir()] == ["training"]
    assert not list((target / "training").iterdir())
    assert working_folder(request).name in ("out", ".out-next")
