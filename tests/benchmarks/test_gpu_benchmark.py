"""``benchmarks/gpu.py`` on what there is, with its small model, so that it runs where there is a GPU."""

from __future__ import annotations

import importlib.metadata
import json
import sys
from pathlib import Path
from types import ModuleType

import pytest
import torch
from torch.utils.flop_counter import FlopCounterMode

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"


@pytest.fixture
def gpu(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(BENCHMARKS)
    import gpu

    return gpu


def test_every_measurement_of_ours_runs(
    gpu: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The very commands, in this process: a dozen others would each load torch."""
    import _gpu_case
    from _gpu_head import TIMES

    found = {}
    for case in gpu.cases("tiny", tmp_path / "model", None, False):
        if case.command is None or "vllm" in case.name:
            continue
        interpreter, script, *words = case.command
        assert (interpreter, Path(script).name) == (sys.executable, "_gpu_case.py")
        monkeypatch.setattr(sys, "argv", [script, *words])
        _gpu_case.main()
        found[case.name] = json.loads(capsys.readouterr().out.splitlines()[-1])
    size = gpu.SIZES["tiny"]
    for name, result in found.items():
        tokens = (size.micro_batch * TIMES if "/head/" in name else size.rows) * size.response
        if not name.endswith("/model"):
            assert result["tokens_per_second"] > 0
            assert 0.9 * tokens / 1.001 < result["tokens_per_second"] * result["seconds"] < 4 * tokens, name
        assert torch.cuda.is_available() or result.get("peak_gib") is None, name
        assert result["versions"]["torch"] == importlib.metadata.version("torch")
    assert sum("/learning/" in name and result["share_of_peak"] > 0 for name, result in found.items()) == 6
    assert max(found["tiny/head/compiled"]["difference"]) < (1e-2 if torch.cuda.is_available() else 1e-6)
    for name in ("tiny/operations/local", "tiny/operations/local, deterministic"):
        shares = found[name]["operations"].values()
        assert len(shares) == 15
        assert sorted(shares, reverse=True) == [*shares]
        assert 0.3 < sum(shares) / found[name]["seconds"] < 1.05
    grpo, dars = found["tiny/step/grpo, local"], found["tiny/step/dars-hw, local"]
    assert (grpo["updates"], grpo["rollouts"]) == (1, {"0-uniform": size.rows})
    assert dars["rollouts"]["1-rebalance"] > 0
    assert 0.2 < grpo["success"] < 0.8
    assert {"sample", "verify", "learn", "sync"} <= grpo["phases"].keys()
    assert sum(grpo["phases"].values()) == pytest.approx(grpo["seconds"], rel=0.1)


def test_useful_operations_are_those_that_pytorch_counts(gpu: ModuleType) -> None:
    """PyTorch's own attention has products with the future too: twice what is useful."""
    import _gpu_model
    import _gpu_parts

    size = _gpu_model.SIZES["tiny"]
    model = _gpu_model.new_model(size)
    model.set_attn_implementation("eager")
    length = size.prompt + size.response
    ids = torch.randint(3, size.vocabulary, (size.rows, length)).to(model.device)
    with FlopCounterMode(display=False) as counter:
        model(ids, use_cache=False, logits_to_keep=size.response).logits.sum().backward()
    attention = 6 * size.rows * size.layers * size.width * length**2
    useful = _gpu_parts.useful_operations(size, model.config.to_dict())
    # transformers 5.5 makes the angles of the rotary embedding by a matrix product
    angles = 2 * (size.width // size.heads // 2) * length
    assert counter.get_total_flops() - useful - attention in (0, angles)


def test_what_fails_or_is_missing_says_why(gpu: ModuleType, tmp_path: Path) -> None:
    def told(*code: str, seconds: int = 60) -> object:
        return gpu.measured(gpu.Case("0.5b/a, b", [sys.executable, "-c", "\n".join(code)]), {}, tmp_path, seconds)

    assert told("print(1)", "raise MemoryError('CUDA out of memory')") == {"error": "MemoryError: CUDA out of memory"}
    assert "Traceback" in (tmp_path / "0.5b-a-b.log").read_text()
    assert told("import os; os.kill(os.getpid(), 9)") == {"error": "ended with -9"}
    assert told("print('no result')") == {"error": "its last line is no result: no result"}
    assert told("import time; print('loading'); time.sleep(60)", seconds=3) == {"error": "not done after 3 seconds"}
    assert (tmp_path / "0.5b-a-b.out").read_text() == "loading\n"
    assert "/no/python" in gpu.measured(gpu.Case("a", ["/no/python"]), {}, tmp_path)["error"]
    last = list(gpu.cases("tiny", Path("m"), None, False))[-1]
    assert gpu.measured(last, {}, tmp_path) == {"result": None, "why": "--trl names no interpreter"}


def test_the_first_step_that_differs(gpu: ModuleType, tmp_path: Path) -> None:
    import gpu_learning

    def run(name: str, *lines: str) -> Path:
        (tmp_path / name).mkdir()
        (tmp_path / name / "metrics.jsonl").write_text("\n".join(lines) + "\n")
        return tmp_path / name

    whole = run("whole", '{"step": 1}', '{"step": 2}')
    assert gpu_learning.first_difference(whole, run("same", '{"step": 1}', '{"step": 2}')) is None
    assert gpu_learning.first_difference(whole, run("other", '{"step": 1}', '{"step": 2, "loss": 0}')) == 2
    assert gpu_learning.first_difference(whole, run("short", '{"step": 1}')) == 2


def test_suites_are_counted(gpu: ModuleType, tmp_path: Path) -> None:
    import _gpu_contracts

    file, log = tmp_path / "test_a.py", tmp_path / "a.log"
    file.write_text(
        "import pytest\n"
        "def test_good(): pass\n"
        "def test_bad(): assert 1 == 2, 'two lines\\nof it'\n"
        "@pytest.mark.skip(reason='no GPU')\ndef test_left(): pass\n"
        "@pytest.fixture\ndef broken(): raise OSError('gone')\n"
        "def test_error(broken): pass\n"
    )
    told = _gpu_contracts.suite(sys.executable, [str(file)], {}, log)
    assert (told["passed"], told["failed"], told["skipped"]) == (1, 2, 1)
    assert told["failures"].keys() == {"test_bad", "test_error"}
    assert "two lines" in told["failures"]["test_bad"]
    assert told["reasons"] == {"no GPU": 1}
    assert "raise OSError('gone')" in log.read_text()
    file.write_text("import no_such_module\n")
    assert "error" in _gpu_contracts.suite(sys.executable, [str(file)], {}, log)
    assert "test_b.py" in _gpu_contracts.suite(sys.executable, [str(tmp_path / "test_b.py")], {}, log)["error"]


def test_a_small_model_leaves_no_numbers(
    gpu: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    logs = ["--logs", str(tmp_path / "logs")]
    there = sorted((path, path.stat().st_mtime_ns) for path in gpu.RESULTS.iterdir())
    told = gpu.Case("tiny/model", [sys.executable, "-c", "print('{\"vocabulary\": 1000}')"])
    monkeypatch.setattr(gpu, "cases", lambda *_: [told, told._replace(name="tiny/sampling/local")])
    monkeypatch.setattr(sys, "argv", ["gpu.py", "--tiny", "--only", "tiny/model", *logs])
    assert gpu.main() == 0
    assert sorted((path, path.stat().st_mtime_ns) for path in gpu.RESULTS.iterdir()) == there
    where, first, last = capsys.readouterr().out.splitlines()
    assert where.endswith(logs[1])
    assert sorted(path.name for path in (tmp_path / "logs").iterdir()) == ["tiny-model.log", "tiny-model.out"]
    assert (first.partition(":")[0], last) == ("tiny/model", "nothing failed")
    assert json.loads(first.partition(":")[2]) == {"vocabulary": 1000}
    monkeypatch.setattr(sys, "argv", ["gpu.py", "--tiny", "--only", "samplin/local", *logs])
    with pytest.raises(SystemExit):
        gpu.main()
    monkeypatch.setattr(sys, "argv", ["gpu.py", "--tiny", "--trl", "/no/python"])
    with pytest.raises(SystemExit):
        gpu.main()
    assert "--trl: /no/python is no interpreter" in (errors := capsys.readouterr().err)
    assert "no result has a name that contains it" in errors
