"""Checker of the source tree: the rules of docs/architecture.md that can be counted.

`python tools/check_tree.py` prints one line for each broken rule and exits with 1; with `--counts`
it prints the size of the tree and how many modules each command imports.
"""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from collections import Counter, defaultdict
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PACKAGE = ROOT / "src" / "contrapose"
SMALL = 60
LARGE = 400
HEADERS = 0.111
"""Largest share of module docstrings and imports in all lines."""
MOST_FILES = {"diagnose": 13, "tune": 26}
"""Largest number of files of a package, with those of its subpackages."""
# One file for each of these is the rule: a benchmark, a loss, a shape, a verb, a model family.
ONE_EACH = ("data/benchmarks", "losses", "results/shapes", "api", "cli", "models/hf")
NO_NAMES = {"found", "each", "place", "told", "own", "whole"}
FLAG = re.compile(r"(?<![\w-])--(?!no-deps)[a-z][a-z-]+")
"""A flag of the command line; `--no-deps` is pip's."""
COMMANDS = {
    "import": "import contrapose",
    "eval": "run('eval', 'tiny', '--on', 'scenes', '--limit', '2', '--no-cache', '--quiet')",
    "metrics": "run('metrics', 'examples/shapes/examples.jsonl', '--scores', "
    "'examples/shapes/bag-of-words.csv')",
    "tune": "run('tune', 'tiny-clip', '--data', 'scenes', '--scenes', '40', '--steps', '2', "
    "'--batch-size', '8', '--limit', '4', '--quiet', '--out', tempfile.mkdtemp() + '/tuned')",
}
COUNTER = """
import contextlib, io, sys, tempfile
def run(*arguments):
    from contrapose.cli import main
    sys.argv = ['contrapose', *arguments]
    with contextlib.redirect_stdout(io.StringIO()), contextlib.suppress(SystemExit):
        main()
{command}
print(sum(name.split('.')[0] == 'contrapose' for name in sys.modules))
"""


def modules() -> dict[str, Path]:
    """Every module of the package, by its dotted name."""
    names = {}
    for path in sorted(PACKAGE.rglob("*.py")):
        parts = path.relative_to(PACKAGE.parent).with_suffix("").parts
        names[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return names


def header_lines(tree: ast.Module) -> int:
    """Lines of the module docstring and the first block of imports."""
    last = 0
    for node in tree.body:
        is_docstring = isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
        if isinstance(node, ast.Import | ast.ImportFrom) or (is_docstring and last == 0):
            last = node.end_lineno or last
        elif last:
            break
    return last


def importers(trees: dict[str, ast.Module]) -> dict[str, set[str]]:
    """For each module the modules that import it."""
    users: dict[str, set[str]] = defaultdict(set)
    for name, tree in trees.items():
        for node in ast.walk(tree):
            if isinstance(node, ast.Import):
                for alias in node.names:
                    users[alias.name].add(name)
            elif isinstance(node, ast.ImportFrom) and node.module:
                users[node.module].add(name)
                for alias in node.names:
                    users[f"{node.module}.{alias.name}"].add(name)
    return users


def docstrings(tree: ast.Module) -> Iterator[tuple[str, int, str]]:
    """Name, line and docstring of the module and of every definition in it."""
    kinds = ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef
    for node in ast.walk(tree):
        if isinstance(node, kinds):
            text = ast.get_docstring(node)
            if text:
                yield getattr(node, "name", "module"), node.body[0].lineno, text


def flags(tree: ast.Module) -> Iterator[tuple[int, str]]:
    """Command-line flags that string constants name."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            for flag in FLAG.findall(node.value):
                yield node.lineno, flag


def bad_names(tree: ast.Module) -> Iterator[tuple[int, str]]:
    """Variables, arguments and functions whose names say nothing."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store) and node.id in NO_NAMES:
            yield node.lineno, node.id
        elif isinstance(node, ast.arg) and node.arg in NO_NAMES:
            yield node.lineno, node.arg
        elif (
            isinstance(node, ast.FunctionDef | ast.ClassDef)
            and node.name.strip("_").lower() in NO_NAMES
        ):
            yield node.lineno, node.name


def problems_of(path: str, tree: ast.Module, lines: int, users: int) -> Iterator[str]:
    """One line for each rule that a module breaks by itself."""
    single = path.startswith(ONE_EACH) or path.endswith(("__init__.py", "__main__.py"))
    if lines > LARGE:
        yield f"{path}: {lines} lines, more than {LARGE}"
    if lines < SMALL and not single and users < 2:
        yield f"{path}: {lines} lines and {users} importers; merge it"
    for name, line, text in docstrings(tree):
        if text.startswith("What "):
            yield f"{path}:{line}: the docstring of {name} begins with 'What'"
    if not path.startswith(("cli/", "errors.py")):
        for line, flag in flags(tree):
            yield f"{path}:{line}: names the flag {flag}; use errors.option()"
    for line, name in bad_names(tree):
        yield f"{path}:{line}: {name!r} is no name"


def broken_rules() -> Iterator[str]:
    """One line for each place where a rule is broken."""
    paths = modules()
    texts = {name: path.read_text(encoding="utf-8") for name, path in paths.items()}
    trees = {name: ast.parse(text) for name, text in texts.items()}
    users = importers(trees)
    classes: dict[str, list[str]] = defaultdict(list)
    sizes = {name: len(text.splitlines()) for name, text in texts.items()}
    for name, tree in trees.items():
        path = paths[name].relative_to(PACKAGE).as_posix()
        yield from problems_of(path, tree, sizes[name], len(users[name]))
        for node in ast.walk(tree):
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                classes[node.name].append(path)
    for name, where in classes.items():
        if len(where) > 1:
            yield f"class {name} is defined in {', '.join(where)}"
    for package, most in MOST_FILES.items():
        files = sum(path.is_relative_to(PACKAGE / package) for path in paths.values())
        if files > most:
            yield f"{package}/ has {files} files, more than {most}"
    headers, lines = sum(map(header_lines, trees.values())), sum(sizes.values())
    if headers > HEADERS * lines:
        yield f"headers are {headers / lines:.1%} of all lines, more than {HEADERS:.1%}"


def counts() -> str:
    """Size of the tree, and how many modules each command imports."""
    texts = [path.read_text(encoding="utf-8") for path in modules().values()]
    sizes = sorted(len(text.splitlines()) for text in texts)
    headers = sum(header_lines(ast.parse(text)) for text in texts)
    rows = [
        ("files", f"{len(sizes)}"),
        ("lines", f"{sum(sizes):,}"),
        ("median lines of a file", f"{sizes[len(sizes) // 2]}"),
        ("files over 400 lines", f"{sum(size > LARGE for size in sizes)}"),
        ("header share", f"{headers / sum(sizes):.1%}"),
    ]
    for name, command in COMMANDS.items():
        program = COUNTER.format(command=command)
        result = subprocess.run(
            [sys.executable, "-c", program], capture_output=True, text=True, cwd=ROOT, check=True
        )
        rows.append((f"modules that `{name}` imports", result.stdout.split()[-1]))
    return "\n".join(f"| {label} | {value} |" for label, value in rows)


def main() -> None:
    """Print the counts, or the broken rules."""
    if "--counts" in sys.argv[1:]:
        print(counts())
        return
    problems = list(broken_rules())
    for problem in problems:
        print(problem)
    if problems:
        kinds = Counter(re.sub(r"^[^ ]*:? |'.*?'|\d+", "", problem)[:40] for problem in problems)
        sys.exit(f"{len(problems)} broken rules; most often: {kinds.most_common(1)[0][0]}")


if __name__ == "__main__":
    main()
