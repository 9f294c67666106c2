"""A server that speaks as much of vLLM's HTTP as the sampler asks, without a model; it can be made to fail."""

from __future__ import annotations

import contextlib
import hashlib
import json
import queue
import threading
import time
from concurrent.futures import Future
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import numpy as np
from safetensors.torch import load_file

from outrider.model.load import Policy, load_policy
from outrider.record import Problem, Rollout, SampleRequest, SamplingParams, StopReason
from outrider.sample.local import LocalSampler
from outrider.sample.options import SampleOptions
from outrider.sample.ready import ready

END = 2


def tokens_of(body: dict[str, Any]) -> list[int]:
    """What it answers to a completion: a function of the seed and the prompt, ended by the end token."""
    start = (int(body["seed"]) + sum(body["prompt"])) % 20
    return [*((start + i) % 20 + 5 for i in range(min(4, body["max_tokens"] - 1))), END]


class _Server(ThreadingHTTPServer):
    request_queue_size = 256  # connections that may wait to be accepted; the sampler opens many at once


class ScriptedVllm:
    """Answers on a free port of this machine.

    Attributes:
        served: how many completions it has answered.
        folders: from which weights were reloaded.
        dies_after: completions, after which it closes connections without an answer; None: never.
        refuses: the message of a refusal of completions.
        hangs: completions are not answered while it is set; ``asked`` says that one was wanted.
        closes: every connection, without a word, when it has answered.
    """

    def __init__(self, context: int = 256) -> None:
        self.context = context
        self.began: float | None = 1000.0  # None: it does not say
        self.served = 0
        self.folders: list[str] = []
        self.resets = 0
        self.dies_after: int | None = None
        self.restarts_after: int | None = None
        self.refuses = ""
        self.adapters: list[str] | None = None  # that are loaded; None: it takes none
        self.claim: str | None = "default"  # whose weights it has; None: it keeps no such name
        self.forbids: set[str] = set()  # paths that it refuses
        self.breaks: set[str] = set()  # paths at which it fails
        self.busy = 0  # attempts to empty its cache of prefixes that fail
        self.asked_for: list[str] = []  # the model of each completion
        self.closes = False
        self.hangs, self.asked = threading.Event(), threading.Event()
        self._lock = threading.Lock()
        outer = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"
            wbufsize = 1 << 16  # one packet for an answer: the second of two would wait for the first's receipt

            def do_GET(self) -> None:
                if outer.dead:
                    return self.hang_up()
                if self.path == "/metrics":
                    began = "" if outer.began is None else f"process_start_time_seconds {outer.began}\n"
                    return self.answer(f"# HELP x\n{began}".encode())
                if self.path == "/weight_info":
                    if outer.claim is None:
                        return self.answer(b'{"detail": "Not Found"}', 404)
                    return self.answer(json.dumps({"weight_version": outer.claim}).encode())
                data = {"data": [{"id": "scripted", "max_model_len": outer.context}]}
                return self.answer(json.dumps(data).encode())

            def do_POST(self) -> None:
                body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                if outer.dead:
                    return self.hang_up()
                if self.path in outer.breaks:
                    return self.answer(b"broken", 500)
                if self.path in outer.forbids:
                    return self.answer(b'{"detail": "forbidden"}', 403)
                if self.path == "/v1/completions":
                    outer.asked.set()
                    while outer.hangs.is_set():
                        time.sleep(0.01)
                    if outer.adapters is not None and body["model"] not in ("scripted", *outer.adapters):
                        refusal = {"error": {"message": f"The model `{body['model']}` does not exist."}}
                        return self.answer(json.dumps(refusal).encode(), 404)
                    if outer.refuses:
                        return self.answer(json.dumps({"error": {"message": outer.refuses}}).encode(), 400)
                    return self.answer(json.dumps(outer.complete(body)).encode())
                if self.path.endswith("_lora_adapter") and outer.adapters is None:
                    return self.answer(b'{"detail": "Not Found"}', 404)
                if self.path == "/v1/load_lora_adapter":
                    outer.adapters.append(body["lora_name"])
                if self.path == "/v1/unload_lora_adapter":
                    if body["lora_name"] not in outer.adapters:
                        return self.answer(b'{"error": {"message": "no such adapter"}}', 404)
                    outer.adapters.remove(body["lora_name"])
                if self.path == "/update_weight_version":
                    if outer.claim is None:
                        return self.answer(b'{"detail": "Not Found"}', 404)
                    outer.claim = body["new_version"]
                if self.path == "/collective_rpc":
                    outer.reload(Path(body["kwargs"]["weights_path"]))
                if self.path == "/reset_prefix_cache":
                    outer.resets += 1
                    done, outer.busy = outer.busy == 0, max(outer.busy - 1, 0)
                    return self.answer(json.dumps({"success": done}).encode())
                return self.answer(b"{}")

            def answer(self, data: bytes, status: int = 200) -> None:
                self.close_connection = outer.closes
                with contextlib.suppress(ConnectionError):  # nobody waits for it any more
                    self.send_response(status)
                    self.send_header("Content-Length", str(len(data)))
                    self.end_headers()
                    self.wfile.write(data)

            def hang_up(self) -> None:
                self.close_connection = True

            def log_message(self, *_: object) -> None:
                pass

        self._server = _Server(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self.address = f"http://127.0.0.1:{self._server.server_address[1]}"
        threading.Thread(target=self._server.serve_forever, args=(0.01,), daemon=True).start()

    @property
    def dead(self) -> bool:
        return self.dies_after is not None and self.served >= self.dies_after

    def restart(self) -> None:
        """What a new process knows: nothing of adapters, nor whose weights it has."""
        self.began = (self.began or 0.0) + 1.0
        self.claim = None if self.claim is None else "default"
        if self.adapters is not None:
            self.adapters.clear()

    def reload(self, folder: Path) -> None:
        self.folders.append(str(folder))

    def complete(self, body: dict[str, Any]) -> dict[str, Any]:
        with self._lock:
            self.served += 1
            self.asked_for.append(body["model"])
            if self.served == self.restarts_after:
                self.restart()
        ids = tokens_of(body)
        choice = {
            "token_ids": ids,
            "logprobs": {"token_logprobs": [-0.5] * len(ids)},
            "finish_reason": "stop",
            "stop_reason": None,
        }
        usage = {"prompt_tokens": len(body["prompt"]), "prompt_tokens_details": {"cached_tokens": 1}}
        return {"choices": [choice], "usage": usage}

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()


class SamplingVllm(ScriptedVllm):
    """One that draws from the shipped base with the weights that it was given last, whatever waits all at once.

    What it is retried with the same weights it answers as before: which rows are drawn together depends on when
    they arrive, and on that the last bits of their log-probabilities.
    """

    def __init__(self) -> None:
        self._policy: Policy = ready(load_policy("base:countdown"))[0]
        self._sampler = LocalSampler(self._policy, SampleOptions())
        self._waiting: queue.Queue[tuple[SampleRequest, Future[Rollout]]] = queue.Queue()
        self._busy = threading.Lock()
        self._weights, self._drawn = "", dict[tuple[str, str], Rollout]()
        threading.Thread(target=self._draw, daemon=True).start()
        super().__init__(context=1 << 20)

    def reload(self, folder: Path) -> None:
        super().reload(folder)
        with self._busy:
            self._weights = hashlib.sha256((folder / "model.safetensors").read_bytes()).hexdigest()
            self._policy.model.load_state_dict(load_file(folder / "model.safetensors"))
            self._sampler.take(len(self.folders), lambda folder: None)

    def complete(self, body: dict[str, Any]) -> dict[str, Any]:
        params = SamplingParams(body["temperature"], body["top_p"], body["top_k"], body["max_tokens"])
        prompt, drawn = np.array(body["prompt"], np.int32), Future[Rollout]()
        request = SampleRequest(Problem("p", ""), prompt_ids=prompt, params=params, seed=body["seed"], group_id="p")
        key = self._weights, json.dumps(body, sort_keys=True)
        if key not in self._drawn:
            self._waiting.put((request, drawn))
            self._drawn[key] = drawn.result()
        rollout, answer = self._drawn[key], super().complete(body)
        choice = {
            "token_ids": rollout.token_ids.tolist(),
            "logprobs": {"token_logprobs": rollout.logprobs_T.tolist()},
            "finish_reason": "stop" if rollout.stop is StopReason.STOP else "length",
            "stop_reason": None,
        }
        return answer | {"choices": [choice]}

    def _draw(self) -> None:
        while True:
            asked = [self._waiting.get()]
            time.sleep(0.02)  # until the others have arrived
            while not self._waiting.empty():
                asked.append(self._waiting.get())
            with self._busy:
                rollouts = self._sampler.sample([request for request, _ in asked])
            for (_, drawn), rollout in zip(asked, rollouts, strict=True):
                drawn.set_result(rollout)
