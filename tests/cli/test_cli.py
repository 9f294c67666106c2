import os
import re
import subprocess
import sys
import types
from pathlib import Path

import pytest

import outrider
from outrider.cli import main
from outrider.config import Recipe, dump_yaml, list_recipes, load_recipe, read_yaml
from outrider.config.load import SettingInfo


@pytest.fixture(autouse=True)
def elsewhere(tmp_path, monkeypatch):
    """Whatever a command writes by mistake does not land in the checkout."""
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def called(monkeypatch):
    """Stands in for the heavy modules behind the commands, and keeps what they were called with."""
    calls = []

    def stand_in(module, function):
        def record(*arguments, **options):
            calls.append((function, arguments, options))
            return 7

        fake = types.ModuleType(module)
        setattr(fake, function, record)
        monkeypatch.setitem(sys.modules, module, fake)

    stand_in("outrider.commands.train_command", "train_command")
    stand_in("outrider.commands.evaluate_command", "evaluate_command")
    stand_in("outrider.commands.sft_command", "sft_command")
    return calls


def test_a_setting_is_shown_as_it_is_written(capsys):
    assert main(["settings", "show", "gsm8k-0.5b"]) == 0
    assert capsys.readouterr().out.startswith("summary: Qwen2.5-Instruct 0.5B on GSM8K")
    assert main(["settings", "show", "gsm8k"]) == 2
    assert "there is no setting 'gsm8k' (did you mean 'gsm8k-7b'?)" in capsys.readouterr().err


def test_recipes_are_listed_one_a_line(capsys):
    assert main(["recipes"]) == 0
    lines = capsys.readouterr().out.partition("\n\n")[0].splitlines()
    names = [line.split()[0] for line in lines]
    assert names == sorted(names)
    grpo = lines[names.index("grpo")]
    assert grpo.split("  ")[-1].strip().startswith("Group-relative policy optimisation: advantages by ")
    assert "arXiv 2402.03300" in grpo


def test_recipes_are_searched_in_names_papers_and_summaries(capsys):
    for words, found in (
        (["2508.13755", "BREADTH"], {"breadth-naive", "dars-et-breadth", "dars-hw-breadth"}),
        (["gspo"], {"gspo"}),
    ):
        assert main(["recipes", *words]) == 0
        listed = capsys.readouterr().out
        names = {line.split()[0] for line in listed.splitlines()}
        assert found <= names
        known = {info.name: " ".join(info).casefold() for info in list_recipes()}
        assert names == {name for name, text in known.items() if all(word.casefold() in text for word in words)}
        assert "Recommended" not in listed
    for word, told in (("dasr-hw", "did you mean 'dars-hw'?"), ("quantum", "`outrider recipes` lists all")):
        assert main(["recipes", word]) == 2
        sentence = f"outrider: no shipped recipe has {word!r} in its name, paper or summary ({told})\n"
        assert capsys.readouterr().err == sentence


def test_no_word_of_the_list_of_recipes_is_broken_on_a_terminal(capsys, monkeypatch):
    assert main(["recipes"]) == 0
    words = capsys.readouterr().out.split()
    monkeypatch.setattr("sys.stdout.isatty", lambda: True, raising=False)
    monkeypatch.setenv("COLUMNS", "80")
    assert main(["recipes"]) == 0
    wrapped = capsys.readouterr().out
    assert max(map(len, wrapped.partition("\n\n")[0].splitlines())) <= 80
    assert wrapped.split() == words


def test_show_takes_one_recipe_and_a_setting_goes_with_it(capsys):
    assert main(["recipes", "show"]) == 2
    assert "takes the name of one recipe" in capsys.readouterr().err
    assert main(["recipes", "grpo", "--setting", "prose"]) == 2
    assert "--setting goes with" in capsys.readouterr().err


def test_what_is_recommended_in_a_setting_is_said(capsys, monkeypatch):
    settings = [SettingInfo("hard", "Hard ones.", "dapo", ("task.pool=9",)), SettingInfo("easy", "Easy ones.", "")]
    monkeypatch.setattr("outrider.config.list_settings", lambda: settings)
    assert main(["settings"]) == 0
    assert capsys.readouterr().out == "hard  Hard ones. Recommended there: dapo.\neasy  Easy ones.\n"
    assert main(["recipes"]) == 0
    assert capsys.readouterr().out.endswith(
        "\n\nRecommended by setting, with the values that were compared:\n"
        "  outrider train dapo --setting hard task.pool=9\n"
    )
    monkeypatch.setattr("outrider.config.list_settings", lambda: settings[1:])
    assert main(["recipes"]) == 0
    assert "Recommended" not in capsys.readouterr().out


def test_a_recipe_is_shown_as_it_was_written_with_its_setting(capsys):
    assert main(["recipes", "show", "grpo"]) == 0
    shown, folder = capsys.readouterr().out, Path(outrider.__file__).parent
    assert shown.startswith((folder / "recipes/grpo.yaml").read_text())
    assert (folder / "settings/countdown.yaml").read_text() in shown
    assert "credit.main, on a worked group" in shown
    assert main(["recipes", "show", "dars-et", "--setting", "released"]) == 0
    assert (folder / "settings/openr1-7b.yaml").read_text() in capsys.readouterr().out
    assert main(["recipes", "show", "gropo"]) == 2
    assert capsys.readouterr().err == "outrider: there is no recipe 'gropo' (did you mean 'grpo'?)\n"


def test_version(capsys):
    assert main(["version"]) == 0
    assert capsys.readouterr().out == f"outrider {outrider.__version__}\n"


def test_a_dry_run_prints_everything_and_runs_nothing(capsys, called):
    assert main(["train", "grpo", "seed=3", "--dry-run", "explore.0.n=4"]) == 0
    expected = load_recipe("grpo", ["seed=3", "explore.0.n=4"])
    printed = read_yaml(capsys.readouterr().out, "dry run")
    assert printed == expected.resolved()
    assert Recipe.model_validate(printed) == expected
    assert not called


def test_a_printed_dry_run_is_a_recipe_of_its_own(capsys, tmp_path):
    main(["train", "grpo", "seed=3", "--dry-run"])
    first = capsys.readouterr().out
    (tmp_path / "mine.yaml").write_text(first)
    main(["train", str(tmp_path / "mine.yaml"), "--dry-run"])
    again = capsys.readouterr().out
    measured = re.compile(r"^# time: .*$", re.MULTILINE)  # no two measurements are equal
    assert measured.sub("", again) == measured.sub("", first)


@pytest.mark.parametrize(
    "words",
    [
        "grpo seed=3 --out there --resume explore.0.n=4",
        "--out there grpo seed=3 explore.0.n=4 --resume",
        "--resume grpo --out=there seed=3 explore.0.n=4",
        "grpo --resume --out there seed=3 explore.0.n=4",
    ],
)
def test_train_takes_options_and_overrides_in_any_order(called, words):
    assert main(["train", *words.split()]) == 7  # the status is passed on
    [(function, (recipe,), options)] = called
    assert function == "train_command"
    assert recipe == load_recipe("grpo", ["seed=3", "explore.0.n=4"])
    assert options == {"out": Path("there"), "resume": True, "force": False}


def test_the_run_folder_is_named_after_recipe_and_seed(called, tmp_path):
    main(["train", "grpo", "seed=3", "--force"])
    path = tmp_path / "mine.yaml"
    resolved = load_recipe("grpo").resolved()
    del resolved["name"]
    path.write_text(dump_yaml(resolved))
    main(["train", str(path)])
    options = [options for _, _, options in called]
    assert [o["out"] for o in options] == [Path("runs/grpo-3"), Path("runs/mine-0")]
    assert [o["force"] for o in options] == [True, False]


def test_evaluate_takes_a_name_or_json_as_task(called, capsys):
    words = ["evaluate", "base:countdown", "--n", "4", "--problems", "9", "--task"]
    assert main([*words, '{"countdown": {"highest": 9}}', "sample.max_tokens=96", "--out", "there"]) == 7
    assert main([*words, "countdown", "evaluate.n=5"]) == 7
    (name, (first,), options), (_, (second,), _) = called
    assert (name, options) == ("evaluate_command", {"out": Path("there")})
    assert (first.model, first.task.highest, first.sample.max_tokens) == ("base:countdown", 9, 96)
    assert (first.evaluate.n, first.evaluate.problems) == (4, 9)
    assert second.evaluate.n == 5
    main([*words, "countdown", "--dry-run"])
    assert read_yaml(capsys.readouterr().out, "dry run") == second.model_copy(
        update={"evaluate": first.evaluate}
    ).model_dump(mode="json")


def test_sft_starts_from_the_base_models_own_settings(called, capsys):
    assert main(["sft", "countdown", "steps=5", "learn.lr=1e-3"]) == 7
    [(name, (sft,), options)] = called
    assert (name, options) == ("sft_command", {"out": Path("runs/sft-countdown-0")})
    assert (sft.steps, sft.learn.lr, sft.learn.betas, sft.learn.schedule) == (5, 1e-3, (0.9, 0.98), "cosine")
    main(["sft", "countdown", "--dry-run"])
    assert read_yaml(capsys.readouterr().out, "dry run")["learn"]["lr"] == 2e-3


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["train", "grqo"], "there is no recipe 'grqo' (did you mean 'grpo'?)"),
        (["train", "grpo", "lr=1e-4"], "lr=1e-4: lr is not a key (did you mean 'learn.lr'?)"),
        (["train", "grpo", "seed"], "an override is written key=value, as in train.steps=200, not 'seed'"),
        (
            ["train", "grpo", "--setting", "cuontdown"],
            "setting cuontdown: no shipped setting, nor one of grpo.yaml (did you mean 'countdown'?)",
        ),
        (
            ["train", "grpo", "profile=gsm8k-0.5b"],
            "profile=gsm8k-0.5b: profile is now called setting; use --setting gsm8k-0.5b (setting= in Python)",
        ),
        (
            ["validate", "grpo", "profile=null"],
            "profile=null: profile is now called setting; use --setting paper (setting= in Python)",
        ),
        (
            ["validate", "countdown", "--setting", "paper"],
            "setting paper: countdown is a task already; a setting is for a recipe",
        ),
        (
            ["evaluate", "m", "--task", "cuontdown"],
            "evaluate: task: 'cuontdown' is not a task (did you mean 'countdown'?)",
        ),
        (["evaluate", "m", "--task", '{"a'], '--task {"a: found unexpected end of stream'),
        (["evaluate", "m", "--task", "countdown", "--n", "0"], "evaluate: evaluate.n is 0, but should be at least 1"),
        (["sft", "countdown", "step=3"], "step=3: step is not a key (did you mean 'steps'?)"),
    ],
)
def test_a_users_mistake_is_one_sentence_and_status_2(called, capsys, words, sentence):
    assert main(words) == 2
    captured = capsys.readouterr()
    assert (captured.out, captured.err) == ("", f"outrider: {sentence}\n")
    assert not called


@pytest.mark.parametrize(
    "words", [[], ["tarin"], ["train"], ["train", "grpo", "--dry"], ["version", "x"], ["evaluate", "m"]]
)
def test_a_misspelt_command_line_shows_the_usage(capsys, words):
    with pytest.raises(SystemExit) as caught:
        main(words)
    assert caught.value.code == 2
    assert capsys.readouterr().err.startswith("usage: outrider")


def test_an_interrupt_is_one_sentence_and_a_bug_keeps_its_traceback(monkeypatch, capsys):
    def stop(*_, **__):
        raise error

    fake = types.ModuleType("outrider.commands.train_command")
    fake.train_command = stop
    monkeypatch.setitem(sys.modules, "outrider.commands.train_command", fake)
    error = KeyboardInterrupt()
    assert main(["train", "grpo"]) == 130
    assert capsys.readouterr().err.count("\n") == 1
    error = ZeroDivisionError()
    with pytest.raises(ZeroDivisionError):
        main(["train", "grpo"])


PRINTING = ["recipes", "recipes show dars-hw", "train grpo --dry-run", "--help", "train --help", "version"]


@pytest.mark.parametrize("words", PRINTING)
@pytest.mark.parametrize("lines", [0, 1])
def test_output_that_nobody_reads_ends_a_command_without_a_word(words, lines):
    """As ``| head`` does: the reader takes a line, or none, and goes."""
    read, write = os.pipe()
    if not lines:
        os.close(read)
    command = [sys.executable, "-u", "-m", "outrider", *words.split()]  # unbuffered: it writes when the reader has gone
    process = subprocess.Popen(command, stdout=write, stderr=subprocess.PIPE)
    os.close(write)
    if lines:
        os.read(read, 1)
        os.close(read)
    _, errors = process.communicate(timeout=120)
    assert errors == b""
    assert process.returncode in ((141,) if not lines else (0, 141)), "a short text is written before the reader goes"


def test_output_that_fits_into_a_buffer_is_missed_too():
    read, write = os.pipe()
    os.close(read)
    process = subprocess.run([sys.executable, "-m", "outrider", "recipes"], stdout=write, stderr=subprocess.PIPE)
    os.close(write)
    assert (process.returncode, process.stderr) == (141, b"")


def test_output_that_cannot_be_written_is_one_sentence():
    with open("/dev/full", "w") as full:
        command = [sys.executable, "-m", "outrider", "recipes"]
        done = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, text=True)
    said = "outrider: standard output cannot be written: No space left on device\n"
    assert (done.returncode, done.stderr) == (2, said)


@pytest.mark.parametrize(("words", "status"), [("recipes", 0), ("recipes show gropo", 2)])
def test_streams_that_the_shell_has_closed_are_not_missed(words, status):
    shell = f"exec {sys.executable} -m outrider {words} >&- 2>&-"
    assert subprocess.run(["/bin/sh", "-c", shell]).returncode == status


def test_a_broken_pipe_of_something_else_keeps_its_traceback(monkeypatch):
    from outrider.cli import version

    def stop(_):
        raise BrokenPipeError

    monkeypatch.setattr(version, "run", stop)
    with pytest.raises(BrokenPipeError):
        main(["version"])
