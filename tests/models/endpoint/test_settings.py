"""An endpoint's model string: what it means, what of it is shown, what is refused."""

from __future__ import annotations

import pytest

from contrapose.errors import InputError
from contrapose.models import load_model, parse_name
from contrapose.models.endpoint.settings import parse_settings

URL = "http://localhost:8000/v1"


@pytest.fixture(autouse=True)
def _no_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OPENAI_BASE_URL", raising=False)
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)


@pytest.mark.parametrize(
    ("typed", "means"),
    [
        ("openai:gpt-4o-mini", "openai:gpt-4o-mini"),
        ("openai:gpt-4o?url=https://api.openai.com/v1/", "openai:gpt-4o"),
        (f"openai:org/vl?url={URL}", f"openai:org/vl,url={URL}"),
        (f"openai:llava:13b?url={URL}/chat/completions", f"openai:llava:13b,url={URL}"),
        (f"openai:m?parallel=2&url={URL}&rpm=30&in=1&out=2", f"openai:m,url={URL}"),
        ("openai:m?tokens=64&temperature=0&seed=0", "openai:m"),
        ("openai:m?tokens=8&temperature=default", "openai:m,temperature=default,tokens=8"),
        ("openai:m?url=http://me:secret@host/v1?api-version=2", "openai:m,url=http://host/v1"),
        ("openai:m?url=http%3A%2F%2Fhost%2Fv1", "openai:m,url=http://host/v1"),
        (
            "openai:m,tokens=8,url=http://me:secret@host/v1?v=2,seed=0",
            "openai:m,tokens=8,url=http://host/v1",
        ),
        ("openai:m,url=http://me:a,s3cret=x@host/v1,seed=0", "openai:m,url=http://host/v1"),
    ],
)
def test_the_canonical_name(typed: str, means: str) -> None:
    assert str(parse_name(typed)) == means
    assert parse_settings(typed).name == means
    assert parse_settings(means).name == means
    assert load_model(typed).name == means


def test_the_address_of_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_BASE_URL", URL)
    assert load_model("openai:m").name == f"openai:m,url={URL}"
    assert load_model("openai:m?url=http://other/v1").name == "openai:m,url=http://other/v1"


def test_the_fingerprint_is_of_what_can_change_an_answer() -> None:
    def of(text: str) -> str:
        return load_model(text).fingerprint

    one = of(f"openai:m?url={URL}")
    assert one == of("openai:m?url=http://me:secret@localhost:8000/v1&parallel=9&in=1&out=1&rpm=5")
    others = [
        of(f"openai:n?url={URL}"),
        of("openai:m?url=http://other:8000/v1"),
        of(f"openai:m?url={URL}&tokens=8"),
        of(f"openai:m?url={URL}&temperature=default"),
        of(f"openai:m?url={URL}&seed=1"),
    ]
    assert len({one, *others}) == 6


def test_credentials_are_never_shown() -> None:
    settings = parse_settings("openai:m?url=https://me:s3cret@host/v1?key=s3cret&tokens=3")
    assert "s3cret" not in repr(settings)
    assert "s3cret" not in settings.name
    for text in (
        "openai:m?url=https://me:s3cret@host/v1&nonsense=1",
        "openai:m,url=https://me:a,s3cret=x@host/v1,nonsense=1",
        "openai:m?url=ftp://me:s3cret@host/v1",
        "openai:m?url=https://me:s3cret@host/v1&url=x",
        "openai:m?url=https://me:s3cret@host/v1&tokens=none",
    ):
        with pytest.raises(InputError) as refused:
            load_model(text)
        assert "s3cret" not in str(refused.value)


@pytest.mark.parametrize(
    ("typed", "sentence"),
    [
        ("openai:", "lacks the model"),
        ("openai:?url=http://host/v1", "lacks the model"),
        ("openai:m?urll=http://host/v1", "unknown setting 'urll': did you mean url"),
        ("openai:m?tokens=1&tokens=2", "says tokens twice"),
        ("openai:m?url=host", "url must be the endpoint's address"),
        ("openai:m?url=http://host:port/v1", "url must be the endpoint's address"),
        ("openai:m?url=file:///etc/passwd", "url must be the endpoint's address"),
        ("openai:m?tokens=0", "tokens must be a whole number of at least 1"),
        ("openai:m?parallel=1.5", "parallel must be a whole number"),
        ("openai:m?rpm=nan", "rpm must be a number"),
        ("openai:m?timeout=inf", "timeout must be a number"),
        ("openai:m?timeout=1e10", "timeout must be a number of at least 0.001 and at most 1,000,"),
        ("openai:m?rpm=1e-9", r"rpm must be 0, for no limit, or at least 0\.001"),
        ("openai:m?url=http://a..b/v1", "url must be the endpoint's address"),
        (f"openai:m?url=http://{'a' * 70}.com/v1", "url must be the endpoint's address"),
        ("openai:m?url=http://host/ü/v1", "url must be written in ASCII without spaces"),
        ("vllm:m,url=http://host/a b/v1", "url must be written in ASCII without spaces"),
        ("openai:m?url=http://hüst/v1", "url must be written in ASCII without spaces"),
        ("openai:m?temperature=0.7", "temperature must be 0, or default"),
        ("openai:m,url=http://host/v1,paralel=3", "unknown setting 'paralel': did you mean paral"),
        ("openai:m?url=http://host/v1,paralel=3", "unknown setting 'paralel': did you mean paral"),
        ("openai:m,parallel=3,token=5,seed=1", "unknown setting 'token': did you mean token"),
        ("openai:m,url=,parallel=3", "url is empty: .* OPENAI_BASE_URL or https://api"),
        ("openai:m?url=", "url is empty"),
        ("vllm:m,url=", "url is empty: .* http://localhost:8000/v1"),
        ("sglang:m,url= ,parallel=3", "url is empty: .* http://localhost:30000/v1"),
        ("openai:m?in=2", "in and out, the prices of a million tokens, go together"),
        ("openai:m?in=-1&out=2", "in must be a number of at least 0"),
    ],
)
def test_what_makes_no_sense(typed: str, sentence: str) -> None:
    with pytest.raises(InputError, match=sentence):
        load_model(typed)


def test_no_choice_of_dtype() -> None:
    with pytest.raises(InputError, match="computes as its server does: leave out bf16"):
        load_model("openai:m", dtype="bf16")


@pytest.mark.parametrize(
    ("typed", "means"),
    [
        ("vllm:org/vl", "vllm:org/vl"),
        ("vllm:org/vl,url=http://localhost:8000/v1/", "vllm:org/vl"),
        ("sglang:m,url=http://localhost:30000/v1", "sglang:m"),
        ("sglang:m,url=http://localhost:8000/v1", "sglang:m,url=http://localhost:8000/v1"),
        ("vllm:m,parallel=64,timeout=9,rpm=5,retries=1", "vllm:m"),
        (
            "vllm:m,long=cut,tokenizer=org/vl@v2,revision=abc",
            "vllm:m,long=cut,revision=abc,tokenizer=org/vl@v2",
        ),
    ],
)
def test_names_of_served_models(typed: str, means: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_BASE_URL", "http://elsewhere/v1")
    assert str(parse_name(typed)) == means
    assert parse_settings(typed).name == means
    assert parse_settings(means).name == means


def test_defaults_of_served_models() -> None:
    settings = parse_settings("vllm:m")
    assert (settings.parallel, settings.timeout, settings.key_env) == (16, 300, "VLLM_API_KEY")
    assert parse_settings("sglang:m").key_env == "SGLANG_API_KEY"
    for typed, sentence in (
        ("openai:m,tokenizer=x", "unknown setting 'tokenizer'"),
        ("vllm:m,long=short", "long must be refuse or cut"),
        ("vllm:", "write vllm:MODEL"),
        ("sglang:m,key_env=s3cret!", "SGLANG_API_KEY, and not the key"),
    ):
        with pytest.raises(InputError, match=sentence):
            load_model(typed)
