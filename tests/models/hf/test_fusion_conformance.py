"""Every matcher passes the public suite."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from contrapose.models.conformance import check_model
from contrapose.models.hf.bridgetower import BridgeTowerForBoth
from tests.models.hf import test_blip, test_blip2, test_bridgetower, test_flava, test_vilt
from tests.models.hf.small_fusion import bert_tokenizer, hf, opened, roberta_tokenizer, saved

FAMILIES: dict[str, tuple[Any, Any, Any]] = {
    "blip": (test_blip, hf.BlipForImageTextRetrieval, bert_tokenizer),
    "blip-2": (test_blip2, hf.Blip2ForImageTextRetrieval, bert_tokenizer),
    "flava": (test_flava, hf.FlavaForPreTraining, bert_tokenizer),
    "vilt": (test_vilt, hf.ViltForImageAndTextRetrieval, bert_tokenizer),
    "bridgetower": (test_bridgetower, BridgeTowerForBoth, roberta_tokenizer),
}


@pytest.mark.parametrize("cut", [False, True])
@pytest.mark.parametrize("family", FAMILIES)
def test_it_conforms(family: str, cut: bool, tmp_path: Path) -> None:
    module, network, tokenizer = FAMILIES[family]
    saved(tmp_path, network(module.config()), tokenizer(), module.processor())

    def load() -> Any:
        return opened(tmp_path, cut=cut)

    report = check_model(load(), load=load)
    assert not report.failed
