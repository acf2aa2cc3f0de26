"""Errors that a user can cause, each one clear sentence, in the language of who asked."""

from __future__ import annotations

import errno
import re
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path

_command_line = False
_command_words: tuple[str, ...] = ()
_names_only: ContextVar[bool] = ContextVar("names_only", default=False)

FLAGS = {
    "filter_by": "filter", "part": "subset", "losses": "with", "scale": "lambda",
    "scales": "lambda",
}  # fmt: skip
"""Options whose flag has another name, because Python reserves it."""


LONG_WORD = re.compile(r"(\S{160})\S{100,}")
"""Word in a sentence that is too long to be read, such as an id of a thousand characters."""


class ContraposeError(Exception):
    """Something the user can put right; the command line prints it without a traceback."""


class InputError(ContraposeError):
    """A file or an argument is not what it should be; names file and line where they are known.

    The sentence is one line: ends of lines and codes for terminals that it quotes are spelled out,
    and of an id or a word of thousands of characters it shows the beginning.
    """

    def __init__(self, message: str, *, file: Path | str | None = None, line: int | None = None):
        message = LONG_WORD.sub(r"\1…", message)
        self.message = one_line(message)
        self.file = file
        self.line = line
        where = "" if file is None else f"{file}: " if line is None else f"{file}, line {line}: "
        super().__init__(one_line(f"{where}{message}"))


SHORTAGES = {
    errno.ENOMEM: "memory", errno.EAGAIN: "threads", errno.EMFILE: "open files",
    errno.ENFILE: "open files",
}  # fmt: skip
"""What a system is short of that gives an error."""

NO_THREAD = re.compile("can't start new thread|Failed to launch worker thread")
"""Words of Python and of Arrow on a thread that could not be started."""


def shortage_error(error: BaseException, file: Path | None = None) -> InputError | None:
    """Error of a machine that is short of something, which says nothing about a file.

    Returns:
        None for any other error, as of a damaged file.
    """
    what = SHORTAGES.get(error.errno or 0) if isinstance(error, OSError) else None
    if isinstance(error, MemoryError):
        what = "memory"
    elif NO_THREAD.search(str(error)):
        what = "threads"
    if what is None:
        return None
    return InputError(
        f"{what} ran out ({first_line(error)}); ask for less at once, or raise the limit.",
        file=file,
    )


class SubsetError(InputError):
    """A subset that a benchmark does not have."""


class NoPriorError(InputError):
    """A benchmark has no prior of the kind that was asked, or none to take out of its scores."""


class MissingExtraError(ContraposeError):
    """An optional dependency is needed and not installed, or cannot be loaded.

    Raised while an ImportError is handled, it tells which of the two it is.
    """

    def __init__(self, package: str, extra: str, purpose: str):
        why = f"is not installed: {install_command(extra)}"
        error = sys.exception()
        if isinstance(error, ImportError) and not isinstance(error, ModuleNotFoundError):
            why = f"is installed, and cannot be loaded ({first_line(error)})"
        super().__init__(f"{purpose} needs {package}, which {why}.")


def install_command(*extras: str) -> str:
    """Shell command that adds extras to this installation, whatever folder it is run in.

    pip notes what it installed the package from: a checkout, a wheel, a URL or a package index.
    """
    import json
    import shlex
    from importlib.metadata import PackageNotFoundError, distribution
    from urllib.parse import unquote, urlsplit

    names = f"[{','.join(extras)}]"
    checkout = Path(__file__).resolve().parents[2]
    if (checkout / "pyproject.toml").is_file():
        near = "." if checkout == Path.cwd().resolve() else checkout
        return f"pip install -e {shlex.quote(f'{near}{names}')}"
    try:
        origin = json.loads(distribution("contrapose").read_text("direct_url.json") or "{}")
        url, vcs = hide_credentials(origin["url"]), origin.get("vcs_info", {})
        parsed = urlsplit(url)
        version = f"{vcs['vcs']}+{url}@{vcs['commit_id']}" if vcs else url
    except (PackageNotFoundError, OSError, ValueError, KeyError, TypeError, AttributeError):
        return f"pip install {shlex.quote(f'contrapose{names}')}"
    if parsed.scheme == "file" and not vcs:
        return f"pip install {shlex.quote(f'{unquote(parsed.path)}{names}')}"
    return f"pip install {shlex.quote(f'contrapose{names} @ {version}')}"


class DamageWarning(UserWarning):
    """A damaged file was set aside, and the work goes on without it."""


def option(name: str, value: object = None) -> str:
    """Name of an option as the caller wrote it.

    `option("batch_size")` is `batch_size` in Python and `--batch-size` on the command line;
    `option("cache_use", "only")` is `cache_use='only'` and `--cache-use only`; `option("cache",
    False)` is `cache=False` and `--no-cache`.
    """
    if _command_line and not _names_only.get():
        flag = f"--{'no-' * (value is False)}{FLAGS.get(name, name).replace('_', '-')}"
        return flag if value is None or isinstance(value, bool) else f"{flag} {value}"
    return name if value is None else f"{name}={value!r}"


def command_words() -> tuple[str, ...] | None:
    """Words of the command line that asked; None where Python did."""
    return _command_words if _command_line else None


@contextmanager
def command_line_names(words: Sequence[str] = ()) -> Iterator[None]:
    """Let `option` name flags for a while, because a command line of these words asked."""
    global _command_line, _command_words
    before = _command_line, _command_words
    _command_line, _command_words = True, tuple(words)
    try:
        yield
    finally:
        _command_line, _command_words = before


@contextmanager
def plain_names() -> Iterator[None]:
    """Let `option` name options without dashes in this thread, such as for a web page."""
    token = _names_only.set(True)
    try:
        yield
    finally:
        _names_only.reset(token)


UNPRINTABLE = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\ud800-\udfff]")
"""Control characters but for tabs and line ends, marks of writing direction, lone surrogates."""


def printable(text: str) -> str:
    """Text for a terminal: characters that could control it are spelled out, such as ESC."""
    return UNPRINTABLE.sub(lambda match: ascii(match[0])[1:-1], text)


def one_line(text: str) -> str:
    """Text for a line of a terminal: ends of lines and tabs are spelled out too."""
    return re.sub("[\t\n\u2028\u2029]", lambda match: ascii(match[0])[1:-1], printable(text))


CREDENTIALS = re.compile(
    r"(?P<scheme>[A-Za-z][A-Za-z0-9+.-]*:/{1,2})[^\s/@]+@"
    r"|(?P<name>[?&;][^\s=&;#/]*(?:key|token|secret|pass|pwd|sig|credential|auth)[^\s=&;#/]*=)"
    r"[^\s&;#]+",
    re.IGNORECASE,
)
"""User and password of a URL, and parameters of its query that are named like credentials."""


def hide_credentials(text: str) -> str:
    """Text in which the credentials of URLs are replaced by `***`."""
    return CREDENTIALS.sub(
        lambda match: f"{match['scheme']}***@" if match["scheme"] else f"{match['name']}***", text
    )


def first_line(error: BaseException) -> str:
    """First line of an error's message, without its full stop; its class where it has no message.

    It is made to stand in brackets within a sentence.
    """
    text = str(error).strip().split("\n", maxsplit=1)[0].rstrip(":. ")
    return text or type(error).__name__
