"""A Tinker service on this machine, with a small model of its own; it can be made to compute and to fail otherwise."""

from __future__ import annotations

import io
import json
import tarfile
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import torch
from peft import LoraConfig, get_peft_model
from safetensors.torch import save_file
from torch import Tensor
from transformers import AutoModelForCausalLM, PreTrainedModel

ALPHA = 32.0
Json = dict[str, Any]


class _Adapter:
    """A model with an adapter, and its optimizer's moments."""

    def __init__(self, folder: str, rank: int, seed: int) -> None:
        torch.manual_seed(seed)
        base: PreTrainedModel = AutoModelForCausalLM.from_pretrained(folder).eval()
        config = LoraConfig(r=rank, lora_alpha=int(ALPHA), target_modules="all-linear", task_type="CAUSAL_LM")
        self.model = get_peft_model(base, config).eval()
        self.rank, self.rows, self.steps = rank, 0, 0
        self.weights = {n: p for n, p in self.model.named_parameters() if p.requires_grad}
        self.gradients = {n: torch.zeros_like(p) for n, p in self.weights.items()}
        self.moments = {n: (torch.zeros_like(p), torch.zeros_like(p)) for n, p in self.weights.items()}

    def logprobs(self, ids: list[int], targets: list[int]) -> Tensor:
        logits = self.model(input_ids=torch.tensor([ids])).logits[0]
        return logits.log_softmax(-1).gather(1, torch.tensor(targets)[:, None])[:, 0]

    def state(self) -> Any:
        copies = {n: (p.detach().clone(), *(a.clone() for a in self.moments[n])) for n, p in self.weights.items()}
        return self.rank, self.steps, copies

    @torch.no_grad()
    def restore(self, state: Any) -> None:
        _, self.steps, copies = state
        for name, (weight, first, second) in copies.items():
            self.weights[name].copy_(weight)
            self.moments[name] = (first.clone(), second.clone())


class ScriptedTinker:
    """Answers on a free port of this machine, in the words of the protocol and of SkyRL's JSON.

    Attributes:
        mean: losses are means over the tokens of a row and over rows; False: sums.
        ignores: names of the parameters of a step that it does not look at.
        fails_at: kind of request that fails from now on, or "" for none.
        losses: of every step of an optimizer, the losses of its gradient.
        slow: the prompt whose rollouts are told only when ``holds`` is set.
        asked: kinds of all requests.
        jitter: size of what is added to every log-probability, as by kernels that depend on what else is computed.
        per_request: whether a loss is a mean over the rows of a request.
    """

    def __init__(self, folder: str, mean: bool = False, ignores: tuple[str, ...] = ()) -> None:
        self.folder, self.mean, self.ignores = folder, mean, ignores
        self.fails_at, self.asked, self.closed = "", list[str](), False
        self.jitter, self.per_request = 0.0, False
        self._fails_after = ("", 0)
        self.holds, self.slow = threading.Event(), list[int]()
        self._held: set[str] = set()
        self.losses: list[list[str]] = []
        self._kinds: dict[str, list[str]] = {}
        self.adapters: dict[str, _Adapter] = {}
        self.kept: dict[str, Any] = {}  # states by place
        self.samplers: dict[str, Any] = {}  # weights by session
        self.results: dict[str, Any] = {}
        self.sampled: list[Json] = []  # every request for rollouts
        self._work, self._lock = ThreadPoolExecutor(1), threading.Lock()
        outer = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"
            wbufsize = 1 << 16  # one packet for an answer: the second of two would wait for the first's receipt

            def do_GET(self) -> None:
                self.answer(*outer.get(self.path.partition("?")[0]))

            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"] or 0))
                if outer.closed:  # connections outlive the server that accepted them
                    self.connection.shutdown(2)
                    self.close_connection = True
                    return
                self.answer(*outer.post(self.path.rpartition("/")[2], json.loads(body or b"{}")))

            def answer(self, status: int, given: Any, **headers: str) -> None:
                data = given if isinstance(given, bytes) else json.dumps(given).encode()
                self.send_response(status)
                for name, value in {"Content-Length": str(len(data)), "Content-Type": "application/json"}.items():
                    self.send_header(name, value)
                if status == 302:
                    self.send_header("Location", given["location"])
                    self.send_header("Expires", "Sun, 22 Nov 2099 16:20:11 GMT")
                self.end_headers()
                self.wfile.write(data)

            def log_message(self, *_: object) -> None: ...

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.address = f"http://127.0.0.1:{self._server.server_port}"
        threading.Thread(target=self._server.serve_forever, args=(0.01,), daemon=True).start()

    def fails_after(self, kind: str, count: int) -> None:
        """Requests of a kind fail when so many more were answered."""
        self._fails_after = (kind, self.asked.count(kind) + count)

    def close(self) -> None:
        self.closed = True
        self._server.shutdown()
        self._server.server_close()

    def get(self, path: str) -> tuple[int, Any]:
        kind = path.rpartition("/")[2]
        if kind == "get_server_capabilities":
            return 200, {"supported_models": [{"model_name": self.folder}]}
        if kind == "archive":
            return 302, {"location": self.address + path.replace("/archive", "/download")}
        if kind == "download":
            return 200, _packed(self.adapters[path.split("/")[-4]])
        return 200, {"status": "ok"}

    def post(self, kind: str, body: Json) -> tuple[int, Any]:
        self.asked.append(kind)
        if kind == self._fails_after[0] and self.asked.count(kind) > self._fails_after[1]:
            self.fails_at, self._fails_after = kind, ("", 0)
        if kind == self.fails_at:
            return 400, {"detail": f"no {kind} today"}
        quick = getattr(self, f"_{kind}", None)
        if quick is not None:
            return 200, quick(body)
        if kind == "retrieve_future":
            return self._result(body["request_id"])
        work = getattr(self, f"do_{kind}")
        with self._lock:
            number = str(len(self.results))
            if kind == "asample" and body["prompt"]["chunks"][0]["tokens"] == self.slow:
                self._held.add(number)
            self.results[number] = self._work.submit(work, body)  # one at a time, in the order of arrival
        model = {"model_id": f"model_{number}", "base_model": self.folder} if kind == "create_model" else {}
        if kind == "create_model":
            body["model_id"] = model["model_id"]
        return 200, {"request_id": number, "future_id": number, "status": "pending", **model}

    def _result(self, number: str) -> tuple[int, Any]:
        if number in self._held:
            self.holds.wait(60)
        try:
            return 200, self.results[number].result()
        except Exception as error:  # noqa: BLE001 - the service says what it finds
            return 400, {"detail": str(error)}

    def _config(self, body: Json) -> Json:
        return {"pjwt_auth_enabled": False}

    def _create_session(self, body: Json) -> Json:
        return {"type": "create_session", "session_id": "session_0"}

    def _session_heartbeat(self, body: Json) -> Json:
        return {"type": "session_heartbeat"}

    def _telemetry(self, body: Json) -> Json:
        return {"status": "accepted"}

    def _weights_info(self, body: Json) -> Json:
        rank = self.kept[body["tinker_path"]][0]
        return {"base_model": self.folder, "is_lora": True, "lora_rank": rank}

    def do_create_model(self, body: Json) -> Json:
        while "model_id" not in body:
            time.sleep(0.001)
        lora = body["lora_config"]
        if lora["train_unembed"]:
            raise ValueError("no layer of the vocabulary here: an adapter on it could not be synced everywhere")
        self.adapters[body["model_id"]] = _Adapter(self.folder, lora["rank"], lora.get("seed") or 0)
        return {"model_id": body["model_id"], "base_model": self.folder, "lora_config": lora}

    def do_forward(self, body: Json) -> Json:
        return self._pass(body, body["forward_input"], backward=False)

    def do_forward_backward(self, body: Json) -> Json:
        return self._pass(body, body["forward_backward_input"], backward=True)

    def _pass(self, body: Json, given: Json, backward: bool) -> Json:
        adapter, outputs = self.adapters[body["model_id"]], []
        for datum in given["data"]:
            inputs = {name: value["data"] for name, value in datum["loss_fn_inputs"].items()}
            ids = [token for chunk in datum["model_input"]["chunks"] for token in chunk["tokens"]]
            logprobs = adapter.logprobs(ids, inputs["target_tokens"]) + self.jitter * torch.randn(len(ids))
            if backward:
                self._kinds.setdefault(body["model_id"], []).append(given["loss_fn"])
                losses = _loss(given["loss_fn"], given.get("loss_fn_config") or {}, logprobs, inputs)
                losses = losses / len(given["data"]) if self.per_request else losses
                found = torch.autograd.grad(
                    losses.mean() if self.mean else losses.sum(), list(adapter.weights.values())
                )
                for name, gradient in zip(adapter.weights, found, strict=True):
                    adapter.gradients[name] += gradient
                adapter.rows += 1
            outputs.append({"logprobs": {"data": logprobs.tolist(), "dtype": "float32", "shape": [len(ids)]}})
        return {"loss_fn_output_type": "scalar", "loss_fn_outputs": outputs, "metrics": {}}

    @torch.no_grad()
    def do_optim_step(self, body: Json) -> Json:
        adapter = self.adapters[body["model_id"]]
        told = {"beta1": 0.9, "beta2": 0.95, "eps": 1e-12, "weight_decay": 0.0, "grad_clip_norm": 0.0}
        adam = told | {k: v for k, v in body["adam_params"].items() if k not in self.ignores}
        share = 1 / max(adapter.rows, 1) if self.mean else 1.0
        norm = float(torch.cat([g.reshape(-1) for g in adapter.gradients.values()]).norm()) * share
        if 0 < adam["grad_clip_norm"] < norm:
            share *= adam["grad_clip_norm"] / norm
        adapter.steps += 1
        for name, weight in adapter.weights.items():
            gradient = adapter.gradients[name] * share
            first, second = adapter.moments[name]
            first.lerp_(gradient, 1 - adam["beta1"])
            second.lerp_(gradient.square(), 1 - adam["beta2"])
            a, b = (1 - adam[beta] ** adapter.steps for beta in ("beta1", "beta2"))
            weight.mul_(1 - adam["learning_rate"] * adam["weight_decay"])
            weight.sub_(adam["learning_rate"] * (first / a) / ((second / b).sqrt() + adam["eps"]))
            adapter.gradients[name].zero_()
        adapter.rows = 0
        self.losses.append(self._kinds.pop(body["model_id"], []))
        return {"metrics": {"scripted/grad_norm": norm}}

    def do_save_weights(self, body: Json) -> Json:
        place = f"tinker://{body['model_id']}/weights/{body['path']}"
        self.kept[place] = self.adapters[body["model_id"]].state()
        return {"path": place, "type": "save_weights"}

    def do_load_weights(self, body: Json) -> Json:
        adapter = self.adapters[body["model_id"]]
        new = adapter.state()
        adapter.restore(self.kept[body["path"]])
        if not body.get("optimizer"):
            _, adapter.steps, begun = new
            adapter.moments = {name: (first, second) for name, (_, first, second) in begun.items()}
        return {"type": "load_weights"}

    def do_save_weights_for_sampler(self, body: Json) -> Json:
        model = body["model_id"]
        if body.get("path"):
            return {"path": f"tinker://{model}/{body['path']}", "type": "save_weights_for_sampler"}
        session = f"sampling_{len(self.samplers)}"
        self.samplers[session] = (model, self.adapters[model].state())
        return {"path": None, "type": "save_weights_for_sampler", "sampling_session_id": session}

    def do_asample(self, body: Json) -> Json:
        self.sampled.append(body)
        model, state = self.samplers[body["sampling_session_id"]]
        adapter = self.adapters[model]
        now = adapter.state()
        adapter.restore(state)
        prompt = [token for chunk in body["prompt"]["chunks"] for token in chunk["tokens"]]
        params = body["sampling_params"]
        drawn = [_draw(adapter, prompt, {**params, "seed": params["seed"] + i}) for i in range(body["num_samples"])]
        adapter.restore(now)
        return {"sequences": drawn, "type": "sample"}


def _loss(name: str, config: Json, logprobs: Tensor, inputs: Json) -> Tensor:
    advantages, old = torch.tensor(inputs["advantages"]), torch.tensor(inputs["logprobs"])
    ratio = (logprobs - old).exp()
    if name == "importance_sampling":
        return -ratio * advantages
    clipped = ratio.clamp(config["clip_low_threshold"], config["clip_high_threshold"])
    if name == "ppo":
        return -torch.minimum(ratio * advantages, clipped * advantages)
    assert name == "cispo"
    return -clipped.detach() * advantages * logprobs


@torch.no_grad()
def _draw(adapter: _Adapter, prompt: list[int], params: Json) -> Json:
    generator = torch.Generator().manual_seed(params["seed"])
    ids, logprobs = list(prompt), []
    for _ in range(params["max_tokens"]):
        logits = adapter.model(input_ids=torch.tensor([ids])).logits[0, -1]
        shares = (logits / (params["temperature"] or 1.0)).softmax(-1)
        greedy = params["temperature"] == 0
        ids.append(int(logits.argmax() if greedy else torch.multinomial(shares, 1, generator=generator)))
        logprobs.append(float(logits.log_softmax(-1)[ids[-1]]))
        if ids[-1] in (params["stop"] or []):
            break
    ended = ids[-1] in (params["stop"] or [])
    return {"stop_reason": "stop" if ended else "length", "tokens": ids[len(prompt) :], "logprobs": logprobs}


def _packed(adapter: _Adapter) -> bytes:
    """As SkyRL packs it: a configuration that names no layers."""
    import tempfile

    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        weights = {n.replace(".default", ""): p.detach().contiguous() for n, p in adapter.weights.items()}
        save_file(weights, place / "adapter_model.safetensors")
        config = {"peft_type": "LORA", "r": adapter.rank, "lora_alpha": ALPHA, "base_model_name_or_path": None}
        (place / "adapter_config.json").write_text(json.dumps({**config, "target_modules": None}))
        packed = io.BytesIO()
        with tarfile.open(fileobj=packed, mode="w:gz") as files:
            for file in place.iterdir():
                files.add(file, file.name)
    return packed.getvalue()
