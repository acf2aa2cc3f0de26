"""Trial of the wheel: built, installed into a bare environment, and used outside the checkout.

    python -m tools.wheel

The wheel must hold every file of the package that git knows. Its dependencies come from pip, by
constraints.txt; torch is linked from the environment that runs this, because unpacking it takes
most of the time, and pip checks that its release fits. Then the demo and every command of the
tutorial run in an empty folder, on few examples. One clear line says what failed.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from importlib.metadata import distribution
from itertools import pairwise
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
EXTRAS = "text,torch"
"""Extras that the demo and the tutorial need."""
SMALLER = {
    "--limit": "3", "--scenes": "8", "--steps": "1", "--batch-size": "4", "--examples": "2",
}  # fmt: skip
"""Options whose values are cut, so that the trial is quick."""
PIP = (
    sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check", "--no-input",
)  # fmt: skip
RUNNER = """
import json, sys
from contrapose.cli import main
given = json.load(sys.stdin)
for words in given["commands"]:
    try:
        main(words)
    except SystemExit as end:
        if end.code:
            sys.exit("failed: contrapose " + " ".join(words))
for block in given["blocks"]:
    exec(block)
import contrapose
print(contrapose.__file__)
"""
"""Program that runs commands and blocks of Python in one process: torch is imported once."""


def main() -> int:
    """Build, install and try the wheel; the exit status."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        try:
            wheel = build_wheel(folder / "dist")
            missing = missing_files(wheel)
            if missing:
                print(f"the wheel lacks {', '.join(missing)}", file=sys.stderr)
                return 1
            python = install(wheel, folder / "bare")
            use(python, folder / "work")
        except subprocess.CalledProcessError as error:
            print(error.stdout or "", error.stderr or "", f"{error}", sep="\n", file=sys.stderr)
            return 1
        print(f"{wheel.name}: {wheel.stat().st_size / 1e6:.0f} MB; demo and tutorial run from it")
    return 0


def build_wheel(folder: Path) -> Path:
    """Wheel of the checkout."""
    _run([*PIP, "wheel", "--no-deps", "--wheel-dir", folder, ROOT], cwd=ROOT)
    (wheel,) = folder.glob("contrapose-*.whl")
    return wheel


def missing_files(wheel: Path) -> list[str]:
    """Files of the package that git knows and the wheel does not hold."""
    tracked = _run(["git", "ls-files", "src/contrapose"], cwd=ROOT).splitlines()
    with zipfile.ZipFile(wheel) as archive:
        packed = set(archive.namelist())
    return sorted({name.removeprefix("src/") for name in tracked} - packed)


def install(wheel: Path, folder: Path) -> Path:
    """Python of a new environment that holds the wheel and what it asks for."""
    _run([sys.executable, "-m", "venv", "--without-pip", folder])
    python = folder / "bin" / "python"
    (packages,) = folder.glob("lib/python*/site-packages")
    link_package("torch", packages)
    constraints = ("--constraint", str(ROOT / "constraints.txt"))
    target = f"contrapose[{EXTRAS}] @ {wheel.as_uri()}"
    _run([*PIP, "--python", python, "install", "--no-compile", *constraints, target])
    _run([*PIP, "--python", python, "check"])
    return python


def link_package(name: str, target: Path) -> None:
    """Give another environment an installed package, as hard links where the disk allows it."""
    package = distribution(name)
    for top in sorted({file.parts[0] for file in package.files or () if file.parts[0] != ".."}):
        source = Path(str(package.locate_file(top)))
        if source.is_dir():
            shutil.copytree(source, target / top, copy_function=_link_or_copy)


def _link_or_copy(source: str, target: str) -> None:
    try:
        os.link(source, target)
    except OSError:
        shutil.copy2(source, target)


def use(python: Path, folder: Path) -> None:
    """Run the demo and the tutorial with another Python, in a folder outside the checkout."""
    folder.mkdir()
    page = (ROOT / "docs" / "tutorial.md").read_text(encoding="utf-8")
    write_files(page, folder)
    shutil.copytree(ROOT / "examples" / "shapes", folder / "examples" / "shapes")
    home = {"HOME": str(folder), "XDG_CACHE_HOME": str(folder / "cache")}
    kept = {key: value for key, value in os.environ.items() if not key.startswith("PYTHON")}
    environment = {**kept, **home, "OMP_NUM_THREADS": "1"}
    given = {
        "commands": [shorten(words) for words in commands(page)],
        "blocks": re.findall(r"```python\n(.*?)```", page, re.DOTALL),
    }
    demo = [str(python.with_name("contrapose")), "demo", "--limit", "2"]
    with ThreadPoolExecutor() as pool:
        ended = pool.submit(_run, demo, cwd=folder, environment=environment)
        printed = _run(
            [python, "-I", "-c", RUNNER],
            cwd=folder,
            environment=environment,
            given=json.dumps(given),
        )
        ended.result()
    origin = Path(printed.splitlines()[-1])
    if not origin.is_relative_to(python.parents[1].resolve()):
        raise SystemExit(f"the package came from {origin}, not from the wheel")


def commands(page: str) -> list[list[str]]:
    """Words of the commands of a page in Markdown, in order, without the program's name."""
    return [shlex.split(line)[1:] for line in re.findall(r"^contrapose .*", page, re.MULTILINE)]


def write_files(page: str, folder: Path) -> None:
    """Write the files that a page in Markdown shows in blocks with a title."""
    for name, content in re.findall(r'```\w+ title="([\w.]+)"\n(.*?)```', page, re.DOTALL):
        (folder / name).write_text(content, encoding="utf-8")


def shorten(words: Sequence[str]) -> list[str]:
    """Command that does the same on less."""
    smaller = ("--superpixels", "2") if words[0] == "explain" else ()
    shorter = [SMALLER.get(before, word) for before, word in pairwise(["", *words])]
    return [*shorter, *smaller]


def _run(
    command: Sequence[str | Path],
    *,
    cwd: Path | None = None,
    environment: Mapping[str, str] | None = None,
    given: str | None = None,
) -> str:
    words = [str(word) for word in command]
    done = subprocess.run(  # noqa: S603
        words, cwd=cwd, env=environment, input=given, check=True, capture_output=True, text=True
    )
    return done.stdout


if __name__ == "__main__":
    raise SystemExit(main())
