"""A vLLM engine in this process."""

from __future__ import annotations

import copy
import importlib.util
import os
import random
import sys
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import torch
from transformers import PreTrainedModel

from outrider.errors import EngineLostError, UserError
from outrider.model.device import placement
from outrider.model.load import Policy, context_length
from outrider.model.lora import adapter_outputs, without_adapter, write_adapter
from outrider.model.options import PolicyOptions, TrainedPolicyOptions
from outrider.model.weights_file import write_weights
from outrider.sample.options import EXACT, MOST_RANK, vllm_rank
from outrider.sample.sampler import Export, NamedWeights
from outrider.sample.synced_weights import MERGED, SyncedWeights
from outrider.sample.vllm_requests import Job

_MODULE = "vllm"


# Settings for vLLM on a CPU. Compilation would take minutes. With blocks of 128 tokens, the default, short prompts are
# not cached. For chunked prompts, vLLM rewinds its seeded generator; this crashes, since CPU generators do not support
# rewinding.
_ON_A_CPU = {"enforce_eager": True, "block_size": 32, "enable_chunked_prefill": False}


class VllmEngine:
    """vLLM's ``LLM`` on this rank's device. The engine runs in this process and does not start other processes.

    vLLM loads the policy from a folder that Outrider writes, instead of by name, so that vLLM has exactly the weights
    that Outrider loaded.

    Args:
        weights: folders for weight syncs.
        memory: share of the GPU's memory that the engine may use. If there is no GPU, all engines of the run together
            may use this share of the machine's memory.
        sleeps: whether :meth:`sleep` frees the GPU memory.
        rank: rank of this process within the run.
        size: number of processes in the run. Every process has its own engine.

    Attributes:
        takes_adapter: whether weight syncs send only the adapter, because the engine already has the base weights.
        notices: messages for the user, such as the reason why vLLM cannot load the adapter.

    Raises:
        UserError: vLLM is not installed, or does not start with this model.
    """

    def __init__(
        self,
        policy: Policy,
        weights: SyncedWeights,
        memory: float = 0.5,
        rank: int = 0,
        size: int = 1,
        sleeps: bool = False,
    ) -> None:
        _refuse_absent()
        self._sleeps, self._asleep = sleeps, False
        self._weights = weights
        self.notices = list(weights.notices)
        self._adapter: Any = None
        self._adapters = 0  # number of adapters loaded so far: vLLM needs a new integer id for each
        held = _held_rank(policy.options)
        self.takes_adapter = held is not None
        try:
            self._llm = self._started(policy, memory, held, rank, size)
            if adapter_outputs(policy.model):
                self._offer(policy.model, rank)
        except BaseException:
            weights.remove()
            raise

    def _started(self, policy: Policy, memory: float, held: int | None, rank: int, size: int) -> Any:
        folder = self._weights.write(lambda folder: _write(policy, folder) if rank == 0 else None)
        device = placement(policy.options.dtype).device
        options = _options(policy, memory, size, device)
        if held is not None:
            options |= {"enable_lora": True, "max_loras": 1, "max_lora_rank": held}
        if self._sleeps and device.type == "cuda":  # vLLM refuses the argument on a CPU, where sleep() has no effect
            options |= {"enable_sleep_mode": True}
        with _as_before(), _environment(rank, size, device):
            try:
                from vllm import LLM

                return LLM(str(folder), **options)
            except Exception as error:  # vLLM may raise anything
                raise UserError(
                    f"engine.sampler: vLLM does not start on this machine ({_first_line(error)})"
                ) from error

    def _offer(self, model: PreTrainedModel, rank: int) -> None:
        """Load the policy's current adapter into vLLM. If this fails, add a notice with the reason."""
        refused = f"it holds ranks up to {MOST_RANK}"
        if self.takes_adapter:
            try:
                return self.load_adapter(lambda folder: write_adapter(model, folder) if rank == 0 else None)
            except Exception as error:  # noqa: BLE001 - vLLM may raise anything
                self.takes_adapter, refused = False, _first_line(error)
        self.notices.append(f"vLLM takes no adapters of this policy ({refused}); {MERGED}")
        return None

    def complete(self, jobs: Sequence[Job]) -> list[Any]:
        """Return vLLM's ``RequestOutput`` for each job, in order.

        Raises:
            EngineLostError: vLLM fails, for example because memory runs out, or a weight sync failed and left vLLM
                asleep.
        """
        if self._asleep:  # vLLM would wait for ever
            raise EngineLostError("vLLM sleeps in this process, since no weight sync has woken it")
        from vllm import SamplingParams
        from vllm.sampling_params import RequestOutputKind

        # detokenising is only needed to find stop texts
        asked = [
            SamplingParams(**job.asked, detokenize=bool(job.asked["stop"]), output_kind=RequestOutputKind.FINAL_ONLY)
            for job in jobs
        ]
        prompts = [{"prompt_token_ids": job.prompt} for job in jobs]
        with _lost_if_it_fails():
            return list(self._llm.generate(prompts, asked, use_tqdm=False, lora_request=self._adapter))

    def reload(self, export: Export) -> None:
        """Load the weights that ``export`` writes to a folder, and drop the old KV cache."""
        folder = self._weights.write(export)
        with _lost_if_it_fails():  # above, all ranks act together; from here on, each rank acts alone
            self._replace({"weights_path": str(folder)})

    def copy(self, weights: NamedWeights) -> None:
        """Copy the weights from this process's memory, and drop the old KV cache."""
        self._weights.remove()  # the weights with which the engine started
        with _lost_if_it_fails():
            self._replace({"weights_iterator": weights})

    def _replace(self, weights: dict[str, Any]) -> None:
        self._unload()
        self._wake("weights")
        self._llm.collective_rpc("reload_weights", kwargs=weights)
        self._wake("kv_cache")
        self._forget()

    def load_adapter(self, export: Export) -> None:
        """Replace the current adapter with the adapter that ``export`` writes."""
        from vllm.lora.request import LoRARequest

        folder = self._weights.write(export)
        self._adapters += 1
        adapter = LoRARequest(folder.name, self._adapters, str(folder))
        with _lost_if_it_fails():
            self._wake("weights", "kv_cache")
            self._unload()
            self._llm.llm_engine.add_lora(adapter)
            self._forget()
        self._adapter = adapter

    def sleep(self) -> None:
        """Free the memory of the weights and the KV cache until the next sync. If syncs send only an adapter, the base
        weights are moved to host memory instead. The method does nothing if ``sleeps`` is False."""
        if self._sleeps:
            with _lost_if_it_fails():
                self._llm.sleep(level=1 if self.takes_adapter else 2)
            self._asleep = True

    def _wake(self, *parts: str) -> None:
        """Allocate memory again. The KV cache is allocated after the weights have been loaded, since loading weights
        also needs memory."""
        if not self._asleep:
            return
        if torch.cuda.is_available():
            torch.cuda.empty_cache()  # else vLLM could not use the memory that the update has freed
        self._llm.wake_up(tags=list(parts))
        self._asleep = "kv_cache" not in parts

    def _unload(self) -> None:
        if self._adapter is not None:
            self._llm.llm_engine.remove_lora(self._adapter.lora_int_id)
            self._adapter = None

    def _forget(self) -> None:
        if not self._llm.reset_prefix_cache():
            raise RuntimeError("vLLM could not forget its cache of prefixes")

    def close(self) -> None:
        """Shut the engine down, and delete the weight files of the last sync."""
        self._llm.llm_engine.engine_core.shutdown()
        self._weights.remove()


def _write(policy: Policy, folder: Path) -> None:
    """Write the config, the tokenizer and the base weights with which vLLM starts."""
    config = copy.deepcopy(policy.model.config)
    config.architectures = [type(policy.model).__name__]
    config.save_pretrained(folder)
    policy.tokenizer.save_pretrained(folder)
    write_weights(without_adapter(policy.model), folder)


def _options(policy: Policy, memory: float, size: int, device: torch.device) -> dict[str, Any]:
    """Return keyword arguments for vLLM's ``LLM``."""
    on_cpu, context = device.type == "cpu", context_length(policy.model)
    options = {
        "dtype": policy.options.dtype,
        "max_model_len": context,
        # log-probabilities of the sampling distribution (with temperature), which the learner's ratio divides by
        "logprobs_mode": "processed_logprobs",
        "enable_prefix_caching": True,
        "gpu_memory_utilization": memory / size if on_cpu else memory,
        "use_tqdm_on_load": False,
    }
    if on_cpu:
        options |= _ON_A_CPU | {"max_num_batched_tokens": max(4096, context)}
    if size > 1:  # each rank becomes a separate process group within the existing group
        options["distributed_executor_backend"] = "external_launcher"
    return options


def _held_rank(options: PolicyOptions) -> int | None:
    """Return the adapter rank for which vLLM reserves memory. Return None if the policy has no adapter, or if vLLM does
    not support its rank."""
    lora = options.lora if isinstance(options, TrainedPolicyOptions) else None
    return None if lora is None else vllm_rank(lora.rank)


def _refuse_absent() -> None:
    if importlib.util.find_spec(_MODULE) is None:
        raise UserError(
            f"engine.sampler: vllm without servers runs in this process, and {sys.executable} has no vLLM: install it "
            "there (docs/engines.md), name servers that `outrider serve` has started in engine.sampler.vllm.servers, "
            "or sample without it: engine.sampler=local"
        )


@contextmanager
def _lost_if_it_fails() -> Iterator[None]:
    try:
        yield
    except Exception as error:  # vLLM may raise anything
        raise EngineLostError(f"vLLM fails in this process ({type(error).__name__}: {_first_line(error)})") from error


@contextmanager
def _environment(rank: int, size: int, device: torch.device) -> Iterator[None]:
    """Context manager that sets the environment variables with which vLLM starts.

    Launcher variables such as ``RANK`` are restored on exit.
    """
    os.environ["VLLM_ENABLE_V1_MULTIPROCESSING"] = "0"  # a separate process would outlive a killed run
    for name, value in _DEFAULTS.items():
        os.environ.setdefault(name, value)
    before = dict(os.environ)
    if size > 1:
        os.environ.update(RANK=str(rank), WORLD_SIZE=str(size), LOCAL_RANK=str(device.index or 0))
    try:
        yield
    finally:
        for name in ("RANK", "WORLD_SIZE", "LOCAL_RANK"):
            os.environ.pop(name, None)
            if name in before:
                os.environ[name] = before[name]


_DEFAULTS = {
    "VLLM_NO_USAGE_STATS": "1",
    "VLLM_LOGGING_LEVEL": "ERROR",  # otherwise a hundred lines at the start would break up the run's progress output
    "VLLM_CPU_OMP_THREADS_BIND": "nobind",  # otherwise vLLM would bind the learner's threads as well
    **EXACT,
}


@contextmanager
def _as_before() -> Iterator[None]:
    """Context manager that restores the process-wide state that vLLM changes: random generators and thread settings."""
    states = random.getstate(), np.random.get_state()  # noqa: NPY002 - the state that vLLM seeds
    set_num_threads = torch.set_num_threads
    # only the current GPU: by default, fork_rng saves the generators of all GPUs and warns about it
    here = [torch.cuda.current_device()] if torch.cuda.is_available() else []
    with torch.random.fork_rng(devices=here), warnings.catch_warnings(action="ignore"):  # warnings of vLLM's imports
        try:
            yield
        finally:
            random.setstate(states[0])
            np.random.set_state(states[1])  # noqa: NPY002
            torch.set_num_threads = set_num_threads


def _first_line(error: Exception) -> str:
    return str(error).strip().split("\n")[0].rstrip(".") or type(error).__name__
