"""Without torch the package imports, and what needs torch says so in one sentence."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from contrapose.errors import install_command

BLOCK = """
import sys
class Blocked:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in ("torch", "safetensors"):
            raise ModuleNotFoundError(name)
sys.meta_path.insert(0, Blocked())
"""


def run(code: str, folder: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(  # noqa: S603 - our own interpreter and code
        [sys.executable, "-c", BLOCK + code],
        capture_output=True,
        text=True,
        check=False,
        cwd=folder,
    )


def test_other_modules_need_no_torch(tmp_path: Path) -> None:
    code = "import contrapose.cli, contrapose.world.sample, contrapose.world.captions"
    done = run(code, tmp_path)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize(
    "arguments",
    ['["eval", "tiny", "--on", "scenes/add", "--no-cache"]', '["demo", "--out", "nowhere/at/all"]'],
)
def test_missing_torch_is_one_sentence(
    arguments: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)  # the command names the checkout from where one is
    done = run(f"from contrapose.cli import main; main({arguments})", tmp_path)
    assert done.returncode == 2
    assert done.stderr.strip().endswith(f"{install_command('torch')}.")
    assert "Traceback" not in done.stderr
