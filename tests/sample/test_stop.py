"""What ends a response: end tokens as transformers has them, and stop texts, which cut a draw and change no token."""

from __future__ import annotations

import copy
from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from tokenizers import Tokenizer, decoders, models
from transformers import PreTrainedTokenizerFast

from outrider.model.attention import use_plans
from outrider.model.load import Policy, load_policy
from outrider.record import Prefix, StopReason
from outrider.sample.local import LocalSampler, stops_of
from outrider.sample.options import SampleOptions
from outrider.sample.ready import ready
from outrider.sample.stop import StopTable, token_bytes
from real_models import FAMILIES, make_model, make_tokenizer
from small import request

PROMPTS = [[70, 71, 72], [5], [300, 12, 13, 14, 15]]


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    return {family: make_model(family, tmp_path_factory.mktemp("real") / family) for family in FAMILIES}


def draw(policy: Policy, stop: list[str], path: str = "auto", **values: object) -> list:
    sampler = LocalSampler(ready(policy, path)[0], SampleOptions(max_tokens=40, stop=stop, **values))
    return sampler.sample([request(f"p{i}", prompt, n=8) for i, prompt in enumerate(PROMPTS)])


@pytest.mark.parametrize("family", FAMILIES)
def test_end_tokens_are_those_of_transformers(folders: dict[str, str], family: str) -> None:
    """A list of them in the generation settings: that of the folder, then tokens that the model draws anyway."""
    policy = load_policy(folders[family])
    ends = policy.model.generation_config.eos_token_id
    assert len(ends) == 2
    assert policy.tokenizer.eos_token_id == ends[0]
    plain = copy.deepcopy(policy.model)
    use_plans(policy.model)
    seen = set()
    for seed in range(3):
        prompt = np.random.default_rng(seed).integers(0, 300, 6).tolist()
        free = plain.generate(torch.tensor([prompt]), do_sample=False, max_new_tokens=12, eos_token_id=[0])[0, 6:]
        ends = [1, int(free[4])]
        policy.model.generation_config.eos_token_id = plain.generation_config.eos_token_id = ends
        want = plain.generate(torch.tensor([prompt]), do_sample=False, max_new_tokens=12)[0, 6:].tolist()
        got = LocalSampler(policy, SampleOptions(max_tokens=12, temperature=0)).sample([request("p", prompt)])[0]
        assert got.token_ids.tolist() == want
        assert (got.stop is StopReason.STOP) == (want[-1] in ends)
        seen.add(len(want))
    assert 12 not in seen
    assert max(seen) <= 5


@pytest.mark.parametrize("path", ["fused", "packed", "plain"])
def test_a_stop_text_cuts_the_same_draw_at_the_first_token_that_completes_it(
    folders: dict[str, str], path: str
) -> None:
    """Every draw has its own random number, so the cut response is the beginning of the one that was not stopped."""
    policy = load_policy(folders["qwen2"])
    whole = draw(policy, [], path=path)
    decode = policy.tokenizer.decode
    plain = [t[i : i + 2] for t in (r.text for r in whole) for i in range(3, 20) if t[i : i + 2].strip().isalnum()]
    stops = [*[p for p in plain if p.isascii()][:4], "\\boxed{"]
    found = 0
    for free, cut in zip(whole, draw(policy, stops, path=path), strict=True):
        ends = (
            n
            for n in range(1, len(free.token_ids) + 1)
            if any(stop in decode(free.token_ids[:n], skip_special_tokens=True) for stop in stops)
        )
        first = next(ends, None)
        assert cut.token_ids.tolist() == free.token_ids[:first].tolist()
        assert cut.stop is (free.stop if first is None else StopReason.TEXT)
        if first is not None:
            found += 1
            assert not cut.truncated
            assert any(stop in cut.text for stop in stops)
            assert np.array_equal(cut.logprobs_T, free.logprobs_T[:first])
    assert 3 <= found < len(whole)


def test_a_branch_goes_on_in_the_middle_of_a_stop_text(folders: dict[str, str]) -> None:
    policy = load_policy(folders["qwen2"])
    prefix = np.array(policy.tokenizer("so x = 5 </sea")["input_ids"], np.int32)
    begun = Prefix("g:p/0", prefix)
    asked = replace(request("p", PROMPTS[0], n=64), prefix=begun)
    use_plans(policy.model)
    whole = LocalSampler(policy, SampleOptions(max_tokens=40)).sample([asked])
    first = next(
        t for t in (policy.token_texts(r.token_ids[:1])[0] for r in whole) if t.isascii() and t.isprintable() and t
    )
    stop = "</sea" + first[:1]  # begins in the prefix and ends in the branch's first token
    hit = 0
    stopped = LocalSampler(policy, SampleOptions(max_tokens=40, stop=[stop])).sample([asked])
    for free, cut in zip(whole, stopped, strict=True):
        if free.text.startswith(first[:1]):
            hit += 1
            assert cut.token_ids.tolist() == free.token_ids[:1].tolist()
            assert cut.stop is StopReason.TEXT
        else:
            assert cut.stop is free.stop
    assert 0 < hit < 64


def test_a_special_token_is_a_stop_by_its_id(folders: dict[str, str]) -> None:
    policy = load_policy(folders["llama"])
    start = policy.tokenizer.convert_tokens_to_ids("<|start_header_id|>")
    stops = stops_of(policy, ["<|start_header_id|>", "eggs"])
    assert start in stops.ids.tolist()
    assert stops.table is not None
    assert stops.ends(np.array([5, start], np.int32))
    assert not stops.ends(np.array([start, 5], np.int32))
    eggs = policy.tokenizer("eggs", add_special_tokens=False)["input_ids"]
    assert stops.ends(np.array(eggs, np.int32))
    assert not stops.ends(np.array(eggs[:-1], np.int32))


def test_the_bytes_of_tokens_make_up_the_text() -> None:
    """Byte-level vocabularies cut characters anywhere; special tokens and unknown ids add nothing."""
    for family in ("qwen2", "llama"):
        tokenizer = make_tokenizer(family)
        parts = token_bytes(tokenizer, len(tokenizer) + 7)
        text = "Σχέση: 3 + 4 = 7 → \\boxed{7}\n\n Łódź 🙂"
        ids = tokenizer(text, add_special_tokens=False)["input_ids"]
        assert b"".join(parts[i] for i in ids).decode() == text
        assert {parts[i] for i in tokenizer.all_special_ids} == {b""}
        assert parts[-1] == b""


def test_the_bytes_of_a_sentencepiece_vocabulary() -> None:
    vocabulary = {"<unk>": 0, "▁an": 1, "swer": 2, "<0x0A>": 3, "<0xE2>": 4, "é": 5}
    backend = Tokenizer(models.WordLevel(vocabulary, unk_token="<unk>"))
    backend.decoder = decoders.Sequence([decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse()])
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=backend, unk_token="<unk>")
    assert token_bytes(tokenizer, 6) == [b"", b" an", b"swer", b"\n", b"\xe2", "é".encode()]


@given(
    st.lists(st.text("ab", min_size=1, max_size=4), min_size=1, max_size=3), st.lists(st.integers(0, 5), max_size=12)
)
def test_the_automaton_finds_what_a_search_finds(stops: list[str], ids: list[int]) -> None:
    parts = [b"a", b"b", b"ab", b"bba", b"", b"abab"]
    table = StopTable(stops, parts)
    state, text = 0, ""
    for token in ids:
        state = int(table.next_SV[state, token])
        text += parts[token].decode()
        assert (state == table.matched) == any(stop in text for stop in stops)
