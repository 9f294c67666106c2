"""Connects to a policy on a Tinker service: sends requests, and raises errors if the service does not answer.

In the service's protocol, requests are numbered and answered asynchronously. The service trains the weights. The
service's sampler uses the weights of the last weight sync. The client selects a loss by name and sends sequences of any
length. The service computes the gradient of the loss.
"""

from __future__ import annotations

import os
import tarfile
import threading
import urllib.error
import urllib.request
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future
from io import BytesIO
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from outrider.errors import EngineLostError, UserError, nearest
from outrider.model.options import LoraOptions, ServiceOptions
from outrider.record import Ids

T = TypeVar("T")
_KEY = "TINKER_API_KEY"
_HEALTH_SECONDS = 20.0
_SKYRL = "0.24.1"
_INTRODUCTIONS = 4  # number of answers that the service sends before the first log-probabilities


class ServiceRow(NamedTuple):
    """A token sequence, and the inputs of a loss for each token except the first.

    Attributes:
        ids: token ids of the whole sequence.
        old_logprobs, advantages: one number for each token after the first; 0 for tokens that are not trained on.
    """

    ids: Ids
    old_logprobs: NDArray[np.floating]
    advantages: NDArray[np.floating]


class Adam(NamedTuple):
    """The options of one Adam step, with the names of the Tinker API. ``grad_clip_norm`` 0 turns gradient clipping
    off."""

    learning_rate: float
    beta1: float = 0.9
    beta2: float = 0.999
    eps: float = 1e-8
    grad_clip_norm: float = 0.0


class ServiceRollout(NamedTuple):
    """The sampled tokens of a rollout; ``ended`` is False if max_tokens truncated the rollout."""

    ids: list[int]
    logprobs: list[float]
    ended: bool


class TinkerService:
    """A connection to a service, for one adapter on one model of the service.

    Args:
        model: the service's name for the model.
        seed: seed of the adapter's random matrices, if the service accepts a seed.

    Raises:
        UserError: the service cannot be reached, has no such model, or needs a key; or the package tinker is missing.
    """

    def __init__(self, model: str, lora: LoraOptions, seed: int, options: ServiceOptions) -> None:
        self._sdk, self._answers, self._silent = _package(), 0, ""
        self.address, self.options, self.model = options.address(), options, model
        url = options.url or os.environ.get("TINKER_BASE_URL") or None
        _refuse_silence(url)
        # a self-hosted service does not check the key, but the package needs one
        self._key = os.environ.get(_KEY, "").strip() or ("tml-none" if url else "")
        if not self._key:
            raise UserError(f"the hosted Tinker service needs a key in the environment variable {_KEY}")
        self._client = self.ask("for a session", lambda: self._sdk.ServiceClient(base_url=url, api_key=self._key))
        self._refuse_other_model()
        self._rank, self._seed = lora.rank, seed
        self._trainer = self.new_adapter()
        self._sampler: Any = None

    def close(self) -> None:
        """End the session; the service then drops the session's adapters."""
        self._client.holder.close()

    def _refuse_other_model(self) -> None:
        served = self.ask("for its models", lambda: self._client.get_server_capabilities()).supported_models
        names = [one.model_name for one in served if one.model_name]
        if self.model not in names:
            raise UserError(
                f"the Tinker service {self.address} does not serve {self.model!r} ({nearest(self.model, names)})"
            )

    def new_adapter(self) -> Any:
        """Return a training client for a new adapter, which does not change the model's outputs yet."""
        return self.ask(
            "for an adapter",
            lambda: _settled(
                self._client.create_lora_training_client(
                    base_model=self.model, rank=self._rank, seed=self._seed % 2**31, train_unembed=False
                )
            ),
        )

    def ask(self, what: str, call: Callable[[], T]) -> T:
        """Call a function of the package ``tinker`` and return its result. The call, including the package's retries,
        may take at most ``options.seconds``.

        Raises:
            EngineLostError: the call failed, or did not return in time.
        """
        if self._silent:  # otherwise a run that ends with an error would wait again to save
            raise EngineLostError(self._silent)
        answer: Future[T] = Future()

        def run() -> None:
            try:
                answer.set_result(call())
            except BaseException as error:  # noqa: BLE001 - raised again in the waiting thread
                answer.set_exception(error)

        # a daemon thread, so that a missing answer does not keep this process alive
        threading.Thread(target=run, daemon=True, name="tinker").start()
        return self._waited(what, answer)

    def _waited(self, what: str, answer: Future[T]) -> T:
        seconds = self.options.seconds
        try:
            given = answer.result(timeout=seconds)
        except TimeoutError as error:
            self._silent = (
                f"the Tinker service {self.address} was asked {what} and did not answer in {seconds:g} s "
                f"(engine.learner.tinker.seconds){self._hint()}"
            )
            raise EngineLostError(self._silent) from error
        except Exception as error:  # any error from the package
            # some services repeat a rejected key in the error
            reason = " ".join(str(error).replace(self._key, "***").split())[:300] or type(error).__name__
            raise EngineLostError(
                f"the Tinker service {self.address} was asked {what} and failed ({reason}){self._hint()}"
            ) from error
        self._answers += 1
        return given

    def _hint(self) -> str:
        """Return a hint, for error messages, that the versions of the package and the service may not match. If they do
        not match, the service may never answer the first requests. The hint is empty if a mismatch is ruled out."""
        if self._answers > _INTRODUCTIONS or self._sdk.__version__ == _SKYRL:
            return ""
        return f"; the package tinker here is {self._sdk.__version__}, and SkyRL 0.3 needs {_SKYRL} (outrider[skyrl])"

    # ------------------------------------------------------------------------------------------------- training

    def logprobs(self, rows: Sequence[ServiceRow], trainer: Any = None) -> list[NDArray[np.float64]]:
        """Return the log-probability of every token except the first, for each row."""
        data = [self._datum(row) for row in rows]
        given = self.ask(
            "for likelihoods", lambda: (trainer or self._trainer).forward(data, "importance_sampling").result()
        )
        return _logprobs_of(given, rows)

    def backward(
        self, rows: Sequence[ServiceRow], loss: str, config: dict[str, float] | None = None, trainer: Any = None
    ) -> list[NDArray[np.float64]]:
        """Add the gradient of a loss to the gradient for the next :meth:`step`. ``loss`` is a loss's name in the Tinker
        API, such as ``importance_sampling``.

        Returns the log-probabilities of the rows' tokens under the current weights, in the format of :meth:`logprobs`.
        """
        data = [self._datum(row) for row in rows]
        given = self.ask(
            "for a gradient", lambda: (trainer or self._trainer).forward_backward(data, loss, config).result()
        )
        return _logprobs_of(given, rows)

    def step(self, adam: Adam, trainer: Any = None) -> dict[str, float]:
        """Update the weights with the accumulated gradient, and reset the gradient; return the service's metrics for
        the step."""
        params = self._sdk.AdamParams(**adam._asdict())
        given = self.ask("to change the weights", lambda: (trainer or self._trainer).optim_step(params).result())
        return dict(given.metrics or {})

    def _datum(self, row: ServiceRow) -> Any:
        return self._sdk.Datum(
            model_input=self._sdk.ModelInput.from_ints(row.ids[:-1].tolist()),
            loss_fn_inputs={
                "target_tokens": row.ids[1:].astype(np.int64),
                "logprobs": row.old_logprobs.astype(np.float32),
                "advantages": row.advantages.astype(np.float32),
            },
        )

    # ------------------------------------------------------------------------------------------------- sampling

    def sync_weights(self) -> None:
        """Sync the current weights to the sampler."""
        config = self._sdk.lib.retry_handler.RetryConfig(progress_timeout=self.options.seconds)
        self._sampler = self.ask(
            "to sample with new weights",
            lambda: _settled(self._trainer.save_weights_and_get_sampling_client(retry_config=config)),
        )

    def sample(self, asked: Iterable[tuple[Ids, int, dict[str, Any]]]) -> Iterator[list[ServiceRollout]]:
        """Sample rollouts; each entry of ``asked`` has a prompt, the number of rollouts, and sampling parameters.

        At most ``options.in_flight`` requests are sent at the same time.
        """
        waiting: deque[Future[Any]] = deque()
        for prompt, n, params in asked:
            if len(waiting) == self.options.in_flight:
                yield self._drawn(waiting.popleft())
            prompt_ids = self._sdk.ModelInput.from_ints(prompt.tolist())
            waiting.append(self._sampler.sample(prompt_ids, n, self._sdk.SamplingParams(**params)))
        while waiting:
            yield self._drawn(waiting.popleft())

    def _drawn(self, answer: Future[Any]) -> list[ServiceRollout]:
        sequences = self._waited("for rollouts", answer).sequences
        return [ServiceRollout(list(s.tokens), list(s.logprobs or ()), s.stop_reason == "stop") for s in sequences]

    # ------------------------------------------------------------------------------------------------- keeping

    def save(self, name: str) -> str:
        """Save weights and optimizer state on the service, and return their path."""
        return str(self.ask("to save", lambda: self._trainer.save_state(name).result()).path)

    def load(self, place: str) -> None:
        """Load weights and optimizer state saved by :meth:`save`."""
        # not with the package's client "from state": if a service does not state which layers were trained, this
        # client assumes all layers, including embedding and head
        self.ask(f"to resume from {place}", lambda: self._trainer.load_state_with_optimizer(place).result())

    def download(self, name: str, folder: Path) -> None:
        """Download the adapter into a folder, in the service's format."""
        place = self.ask("for the adapter", lambda: self._trainer.save_weights_for_sampler(name).result()).path
        run, *kind, _ = place.removeprefix("tinker://").split("/")
        rest = self._client.create_rest_client()
        found = self.ask(
            # SkyRL omits the type, and does not accept it in a request
            "where the adapter is",
            lambda: rest.get_checkpoint_archive_url(run, "/".join([*kind, name])).result(),
        )
        packed = self.ask("for the adapter's files", lambda: _read(found.url))
        try:
            with tarfile.open(fileobj=BytesIO(packed)) as files:
                files.extractall(folder, filter="data")
        except tarfile.TarError as error:
            raise EngineLostError(
                f"the adapter that the Tinker service {self.address} sent is not an archive ({error})"
            ) from error


def _logprobs_of(given: Any, rows: Sequence[ServiceRow]) -> list[NDArray[np.float64]]:
    found = [np.array(one["logprobs"].data, np.float64) for one in given.loss_fn_outputs]
    if [len(one) for one in found] != [len(row.ids) - 1 for row in rows]:
        raise EngineLostError("the Tinker service returned likelihoods of other tokens than requested")
    return found


def _settled(given: Any) -> Any:
    """Return a client. Some versions of the package ``tinker`` return a future instead of a client; this function waits
    for its result."""
    return given.result() if hasattr(given, "result") else given


def _read(url: str) -> bytes:
    with urllib.request.urlopen(url, timeout=_HEALTH_SECONDS) as answer:
        return bytes(answer.read())


def _refuse_silence(url: str | None) -> None:
    """Raise UserError if the service is unreachable, since the package ``tinker`` would retry for five minutes."""
    if url is None:
        return
    try:
        _read(f"{url.rstrip('/')}/api/v1/healthz")
    except urllib.error.HTTPError:
        return  # the service is reachable
    except (OSError, ValueError) as error:
        raise UserError(f"there is no Tinker service at {url} ({error})") from error


def _package() -> ModuleType:
    os.environ.setdefault("TINKER_TELEMETRY", "0")  # otherwise exceptions are sent to the service
    try:
        import tinker
    except ImportError as error:
        raise UserError(
            "engine=tinker needs the package tinker in the version that the service needs: pip install "
            "'outrider[tinker]' for the hosted one, 'outrider[skyrl]' for SkyRL"
        ) from error
    return tinker
