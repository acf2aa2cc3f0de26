from __future__ import annotations

import subprocess
import sys

CODE = """
import sys
for name in ("pydantic", "pyarrow", "PIL", "rich", "typer", "transformers", "safetensors"):
    sys.modules[name] = None
import contrapose.losses
"""


def test_losses_need_torch_alone() -> None:
    """They are timed and trained with on machines that have little else."""
    done = subprocess.run(  # noqa: S603 - the code stands above
        [sys.executable, "-c", CODE], check=False, capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 0, done.stderr
