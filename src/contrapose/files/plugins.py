"""Plug-in files: a user's Python file, imported so that it can register what it defines."""

from __future__ import annotations

import hashlib
import sys
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType

from contrapose.errors import ContraposeError, InputError


def include(path: Path | str) -> ModuleType:
    """Import a Python file once, under a unique module name, and return the module.

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
            line=_error_line(error, file),
        ) from error
    return module


def _error_line(error: Exception, file: Path) -> int | None:
    """Return the last line of the file itself that the error went through."""
    if isinstance(error, SyntaxError) and error.filename == str(file):
        return error.lineno
    line, trace = None, error.__traceback__
    while trace is not None:
        if trace.tb_frame.f_code.co_filename == str(file):
            line = trace.tb_lineno
        trace = trace.tb_next
    return line
