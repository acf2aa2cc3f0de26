"""Catalog of models, benchmarks and scores, and loading them by name."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from contrapose.api.inputs import BenchmarkInput, PathLike
    from contrapose.data import Benchmark, Suite
    from contrapose.models import FamilyCard, Model


def models() -> tuple[FamilyCard, ...]:
    """Families of models: how their models are named, which scores they give, what they need.

    Registered models and those of plug-ins are listed last.

    Example:
        >>> import contrapose as cp
        >>> [family.name for family in cp.models()][:2]
        ['tiny', 'tiny-clip']
    """
    from contrapose.models.registry import FamilyCard, families, model_names

    known = families()
    names = {family.name for family in known}
    plugins = [name for name in model_names() if name not in names]
    return (*known, *(FamilyCard(name, name, (), "", name) for name in plugins))


def benchmarks() -> tuple[str, ...]:
    """Names of the benchmarks, sorted; `load_benchmark(name).card` says what each is.

    Example:
        >>> import contrapose as cp
        >>> "winoground" in cp.benchmarks()
        True
    """
    from contrapose.data import benchmark_names

    return benchmark_names()


def scores() -> dict[str, str]:
    """Scores, and what each of them means.

    Example:
        >>> import contrapose as cp
        >>> list(cp.scores())[:3]
        ['itc', 'itm', 'lm']
    """
    from contrapose.engine import SCORES

    return dict(SCORES)


def load_model(
    model: str,
    *,
    device: str = "auto",
    dtype: str | None = None,
    long: str = "skip",
    trust_remote_code: bool = False,
) -> Model:
    """Load a model by its name.

    Args:
        model: a model string: `tiny`, `hf:ORG/NAME`, `openclip:MODEL/TAG`, a folder, …
        device: `cpu`, `cuda`, `cuda:1`, …; `auto` takes CUDA where there is some.
        dtype: `fp32`, `bf16` or `fp16`; None is as the name says, or float32.
        long: `skip` refuses captions that are longer than the model reads, `cut` cuts them.
        trust_remote_code: run code that comes with the weights.

    Raises:
        InputError: there is no such model, or it cannot be loaded; says what to do.
        MissingExtraError: a library that it needs is not installed.

    Example:
        >>> import contrapose as cp
        >>> cp.load_model("tiny-clip", device="cpu").name
        'tiny-clip'
    """
    from contrapose.api.inputs import require_choice
    from contrapose.models import registry

    require_choice("long", long, ("skip", "cut"))
    return registry.load_model(
        str(model),
        device=device,
        dtype=dtype,
        cut=long == "cut",
        trust_remote_code=trust_remote_code,
    )


def load_benchmark(
    benchmark: BenchmarkInput, *, root: PathLike | None = None, name: str | None = None
) -> Benchmark | Suite:
    """Benchmark by its name, of a file of yours, or of examples in memory.

    Args:
        benchmark: a name, a `.jsonl`, `.csv` or `.parquet` file, or a list of `Example`s.
        root: its folder; kept, so that it need not be given again.
        name: what results call it, where it is yours.

    Raises:
        InputError: there is no such benchmark, or there are no examples.

    Example:
        >>> import contrapose as cp
        >>> cp.load_benchmark("winoground").card.shape
        '2 × 2'
    """
    from contrapose.data import Suite, is_user_file
    from contrapose.evaluation.selection import resolve_benchmark

    source = str(benchmark) if isinstance(benchmark, Path) else benchmark
    if root is None and isinstance(source, str) and is_user_file(source):
        root = Path(source).parent
    _, loaded = resolve_benchmark(source)
    if isinstance(loaded, Suite):
        parts = {part: _rooted(one, root, None) for part, one in loaded.parts.items()}
        return replace(loaded, name=name or loaded.name, parts=parts)
    return _rooted(loaded, root, name)


def _rooted(benchmark: Benchmark, root: PathLike | None, name: str | None) -> Benchmark:
    """Benchmark whose files are read from `root`, whatever folder is asked for later."""
    card = benchmark.card if name is None else replace(benchmark.card, name=name)
    if root is None:
        return replace(benchmark, card=card)
    folder = Path(root) / benchmark.card.name
    folder = folder if folder.is_dir() else Path(root)
    read, submission = benchmark.read, benchmark.submission

    def read_here(_: Path, problems: Any) -> Any:
        return read(folder, problems)

    def submission_here(_: Path, problems: Any) -> Any:
        return None if submission is None else submission(folder, problems)

    return replace(
        benchmark,
        card=card,
        read=read_here,
        submission=None if submission is None else submission_here,
        generated=True,
    )
