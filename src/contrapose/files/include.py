"""A user's own Python file, imported so that it can register what it defines."""

from __future__ import annotations

import hashlib
import sys
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType

from contrapose.errors import ContraposeError, InputError


def include(path: Path | str) -> ModuleType:
    """Run a Python file once, under a name that no other module has, and give its module.

    Raises:
        InputError: there is no such file, or it fails; says where.
    """
    file = Path(path).expanduser().resolve()
    if file.suffix != ".py":
        raise InputError("a Python file is included, whose name ends in .py.", file=path)
    if not file.is_file():
        raise InputError("there is no such file to include.", file=path)
    name = f"contrapose_included_{hashlib.blake2b(str(file).encode(), digest_size=8).hexdigest()}"
    if name in sys.modules:
        return sys.modules[name]
    spec = spec_from_file_location(name, file)
    if spec is None or spec.loader is None:
        raise InputError("cannot be imported.", file=path)
    module = module_from_spec(spec)
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    except BaseException as error:
        del sys.modules[name]
        if isinstance(error, ContraposeError) or not isinstance(error, Exception):
            raise
        raise InputError(
            f"fails when it is included ({type(error).__name__}: {error}).",
            file=path,
            line=_line(error, file),
        ) from error
    return module


def _line(error: Exception, file: Path) -> int | None:
    """The last line of the file itself that the error went through."""
    if isinstance(error, SyntaxError) and error.filename == str(file):
        return error.lineno
    line, trace = None, error.__traceback__
    while trace is not None:
        if trace.tb_frame.f_code.co_filename == str(file):
            line = trace.tb_lineno
        trace = trace.tb_next
    return line
