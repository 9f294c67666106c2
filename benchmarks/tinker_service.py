"""What SkyRL's server does with what the Tinker protocol leaves open: tried out, for the table in docs/tinker.md.

Starts a server with a random Qwen3 on the JAX backend, on a CPU. Needs ``OUTRIDER_SKYRL_PYTHON``, an interpreter with
SkyRL (``make engines`` makes one). A minute or two. ``tools/clusters_page.py`` writes the page from the results.
"""

from __future__ import annotations

import sys
import tempfile
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
from _learning import versions
from _machine import keep

from outrider.learn.options import Tinker
from outrider.learn.tinker_abilities import abilities_of
from outrider.model.options import LoraOptions
from outrider.model.tinker_service import Adam, ServiceRollout, ServiceRow, TinkerService
from outrider.model.tiny import character_tokenizer

sys.path += [str(Path(__file__).parents[1] / "tests"), str(Path(__file__).parents[1] / "tests" / "learn")]
from tinker_services import PYTHON, SkyrlServer

from small import random_model

PROMPT = np.array([1, 5, 9, 12, 7], np.int32)
OTHER = np.array([1, 8, 8], np.int32)


def draw(service: TinkerService, seed: int, n: int, *beside: np.ndarray) -> list[ServiceRollout]:
    """Rollouts of a prompt, with others in the same batch."""
    params = {"max_tokens": 12, "temperature": 1.0, "top_p": 1.0, "top_k": -1, "seed": seed, "stop": [2]}
    first, *_ = service.sample([(PROMPT, n, params), *((ids, 2, {**params, "seed": seed + 99}) for ids in beside)])
    return first


def whole(one: ServiceRollout) -> ServiceRow:
    ids = np.concatenate([PROMPT, np.array(one.ids, np.int32)])
    return ServiceRow(ids, np.zeros(len(ids) - 1), np.zeros(len(ids) - 1))


def tried(service: TinkerService) -> dict[str, Any]:
    service.sync_weights()
    first, second = draw(service, 7, 2)
    [alone], [next_one] = draw(service, 7, 1), draw(service, 8, 1)
    [crowded] = draw(service, 7, 1, OTHER, OTHER)
    [logprobs] = service.logprobs([whole(first)])
    own = logprobs[len(PROMPT) - 1 :]
    found: dict[str, Any] = asdict(abilities_of(service)) | {
        "seeds_count_up": first.ids == alone.ids and second.ids == next_one.ids,
        "same_in_any_batch": crowded.ids == alone.ids,
        "sampler_and_trainer_apart": float(np.abs(own - first.logprobs).max()),
    }
    row = whole(first)
    row.advantages[-1] = 1.0
    service.backward([row], "importance_sampling")
    service.step(Adam(0.05))
    [moved] = service.logprobs([row])
    same = [one for one in draw(service, 7, 1) if one.ids == first.ids]
    stale = bool(same) and abs(same[0].logprobs[-1] - own[-1]) < abs(same[0].logprobs[-1] - moved[-1])
    return found | {"weights_wait_for_a_hand_over": stale}


def main() -> None:
    if not PYTHON:
        print("OUTRIDER_SKYRL_PYTHON names no interpreter with SkyRL: skipped")
        return
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        random_model("qwen3").save_pretrained(folder / "model")
        character_tokenizer().save_pretrained(folder / "model")
        server = SkyrlServer(str(folder / "model"), folder / "server", adapters=4).wait()
        try:
            service = TinkerService(server.model, LoraOptions(rank=4), 3, Tinker(url=server.address))
            found = tried(service)
        finally:
            server.kill()
    print(found)
    keep("tinker_service", {"SkyRL, JAX": found, "server": versions(PYTHON, ("skyrl", "tinker", "jax"))})


if __name__ == "__main__":
    main()
