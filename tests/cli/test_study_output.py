"""What a terminal is given: harmless text, no secrets, nothing heavy, completion, exit codes."""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import sys
import time
from pathlib import Path

import pytest
import rich_click as click
from click.shell_completion import get_completion_class
from click.testing import CliRunner

import sumwise as sw
from sumwise.cli import Lazy, main
from sumwise.cli.output import message, visible, with_error
from sumwise.util.progress import waiting
from tests.marks import slow
from tests.studies import copy_of
from tests.tables import write_csv

CONSOLE_SCRIPT = str(Path(sys.executable).with_name("sumwise"))
HOSTILE = "[red]x[/red]\x1b[31m\x07\r\n\u202e\u2028" + "y" * 9_000


def run(*arguments, **env):
    runner = CliRunner(env={"COLUMNS": "80", "SUMWISE_USER": None, **env})
    return runner.invoke(main, [str(a) for a in arguments])


def shell(*arguments, **options):
    """The installed command, as a process of its own."""
    env = {**os.environ, "COLUMNS": "80", "SUMWISE_USER": "", **options}
    command = [CONSOLE_SCRIPT, *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, env=env, check=False)


def made(path):
    data = write_csv(path.parent / "data.csv")
    words = ("--by", "g", "--x", "a", "--x", "b", "--basis", "linear", "--strategy", "AggMI")
    assert run("init", path, data, *words).exit_code == 0


@pytest.fixture
def url(tmp_path):
    write_csv(tmp_path / "data.csv")
    return str(copy_of(made, tmp_path / "s.db"))


@pytest.mark.parametrize(
    ("rows", "said"),
    [
        ("n,1\nn,2\ns,3\ns,4\n", "2 sets of 2 individuals each (4 in all)"),
        ("n,1\nn,2\n", "1 set of 2 individuals (2 in all)"),
        ("n,1\ns,3\ns,4\n", "2 sets of 1 to 2 individuals (3 in all)"),
    ],
)
def test_the_sizes_of_sets_are_one_number_where_they_are_the_same(tmp_path, rows, said):
    (tmp_path / "data.csv").write_text(f"g,a\n{rows}")
    made = run("init", tmp_path / "s.db", tmp_path / "data.csv", "--by", "g", "--x", "a")
    assert said in " ".join(made.stdout.split())


# --- text of users --------------------------------------------------------------------------------


@pytest.fixture
def hostile(tmp_path):
    """A study in which every name, id and note tries to act on the terminal."""
    sets = sw.Sets.from_arrays(
        [[[0.0], [1.0]], [[2.0]], [[5.0]]], ids=[HOSTILE, "$(touch pwned)", "c\x1b]0;t\x07"]
    )
    path = str(tmp_path / "h.db")
    model = sw.AggregateRegressor("linear")
    with sw.create_study(path, sets, name=f"n{HOSTILE}", model=model) as study:
        study.ask(2, by=HOSTILE)
        study.tell("c\x1b]0;t\x07", 5.0, by=HOSTILE, note=HOSTILE)
    return path


def printed(result):
    text = result.stdout + result.stderr
    assert all(c.isprintable() or c == "\n" for c in text), [c for c in text if not c.isprintable()]
    assert "y" * 3_000 not in text
    return text


@pytest.mark.parametrize(
    "words",
    [
        ("status",),
        ("history",),
        ("predict",),
        ("predict", "--sets"),
        ("ask", "--by", HOSTILE),
        ("storage", "studies"),
        ("tell", HOSTILE, "5", "--by", HOSTILE, "--note", HOSTILE),
        ("tell", HOSTILE, HOSTILE),
        ("tell", HOSTILE + "?", "5"),
        ("release", HOSTILE),
        ("renew", HOSTILE),
        ("skip", HOSTILE),
        ("skip", HOSTILE, "--note", HOSTILE),
        ("amend", "c\x1b]0;t\x07", "6"),
        ("retract", "c\x1b]0;t\x07"),
        ("ask", "--study", HOSTILE),
        ("ask", f"--{HOSTILE}"),
        ("predict", HOSTILE),
        ("predict", "-o", HOSTILE),
        (HOSTILE,),
        ("status", HOSTILE),
    ],
    ids=lambda words: visible(" ".join(words), 30),
)
def test_text_of_users_cannot_act_on_the_terminal(hostile, words):
    at = 2 if words[0] == "storage" else 1
    result = run(*words[:at], hostile, *words[at:])
    text = printed(result)
    assert "Traceback" not in text
    assert result.exception is None or isinstance(result.exception, SystemExit)


def test_text_of_users_is_shown_for_what_it_is(hostile):
    shown = r"[red]x[/red]\x1b[31m\x07\r\n\u202e\u2028yy"
    assert shown in run("status", hostile).stdout
    assert shown in run("history", hostile, COLUMNS="250").stdout  # a table
    assert ":smile:" in run("tell", hostile, "$(touch pwned)", "5", "--note", ":smile:").stdout + (
        run("history", hostile).stdout
    )


def test_names_of_columns_and_files_cannot_act_on_the_terminal(tmp_path):
    evil = "[bold]\x1b[2J"
    data = write_csv(tmp_path / f"{evil}.csv", name=evil)
    made = run("init", tmp_path / f"{evil}.db", data, "--by", "g", "--name", evil)
    assert made.exit_code == 0
    assert r"inputs [bold]\x1b[2J, a, b" in printed(made)
    printed(run("init", tmp_path / "x.db", data, "--by", evil + "?"))
    printed(run("predict", tmp_path / f"{evil}.db"))
    printed(run("predict", tmp_path / f"{evil}.db", "-o", tmp_path / f"{evil}.csv"))
    assert r"'\x1b[2J'" in printed(run("init", tmp_path / "y.db", data, "--by", "\x1b[2J"))


def test_json_is_plain_ascii_and_gives_text_back_as_it_was(hostile):
    found = run("history", hostile, "--json")
    assert found.stdout.isascii()
    assert [c for c in found.stdout if not c.isprintable()] == ["\n"]
    told = next(line for line in json.loads(found.stdout) if line["what"] == "told")
    assert (told["by"], told["note"]) == (HOSTILE, HOSTILE)


def test_what_cannot_be_typed_is_not_suggested(hostile):
    sets = sw.Sets.from_arrays([[[0.0]]], ids=["it's; $(rm -rf) \\ `x`"])
    with sw.create_study(hostile, sets, name="two", model=sw.AggregateRegressor("linear")):
        pass
    typed = run("ask", hostile, "--study", "two").stderr.strip().splitlines()[-1]
    assert shlex.split(typed)[-2] == "it's; $(rm -rf) \\ `x`"
    held = run("status", hostile, "--study", f"n{HOSTILE}", "--json")
    assert json.loads(held.stdout)["open_claims"] >= 1


def test_visible_text_keeps_what_people_write():
    for text in ("Ann Arbor", "Zürich", "東京", "naïve\u00a0café", "a [b] {c}", "👩"):
        assert visible(text) == text


# --- secrets --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "words",
    [
        ("ask", "postgresql://ann:s3cret@127.0.0.1:1/lab"),
        ("ask", "postgresql://ann:s3%63ret@127.0.0.1:1/lab?password=s3cret"),
        ("ask", "postgresql://ann:s3cret@[/lab"),
        ("ask", "postgresql://ann:s3 cret@127.0.0.1:1/lab", "more"),
        ("ask", "x.db", "postgresql://ann:s3cret@127.0.0.1:1/lab"),
        ("postgresql://ann:s3cret@127.0.0.1:1/lab",),
        ("postgresql://ann:s3cret@127.0.0.1:1/lab", "ask"),
        ("mysql://ann:s3cret@127.0.0.1:1/lab",),
        ("ask", "mysql://ann:s3cret@127.0.0.1:1/lab"),
        ("predict", "x.db", "postgresql://ann:s3cret@127.0.0.1:1/lab"),
        ("storage", "studies", "postgresql://ann:s3cret@127.0.0.1:1/lab"),
        ("storage", "upgrade", "postgresql://ann:s3cret@127.0.0.1:1/lab"),
    ],
)
def test_a_password_is_never_printed(words):
    result = run(*words)
    assert result.exit_code in (1, 2)
    text = " ".join((result.stdout + result.stderr).replace("│", " ").split())
    assert "s3cret" not in text
    assert "cret" not in text.replace("secret", "")
    assert "s3%63" not in text


def test_a_password_is_not_printed_when_all_goes_well(postgres_url, tmp_path):
    password = postgres_url.split(":")[2].split("@")[0]
    data = write_csv(tmp_path / "data.csv")
    said = []
    for words in (
        ("init", postgres_url, data, "--by", "g", "--x", "a"),
        ("ask", postgres_url),
        ("tell", postgres_url, "003", "4"),
        ("status", postgres_url),
        ("predict", postgres_url),
        ("storage", "studies", postgres_url),
        ("storage", "upgrade", postgres_url),
        ("export", postgres_url, tmp_path / "folder"),
        ("import", tmp_path / "folder", postgres_url, "--name", "again"),
    ):
        result = run(*words)
        assert result.exit_code == 0, result.output
        said.append(result.output)
    assert password not in "".join(said)
    assert "***@127.0.0.1" in "".join(said)


def test_messages_are_cut_and_masked():
    assert message("at p://u:pw@h and p://v:x@h") == "at p://u:***@h"
    assert message("PASSWORD=abc&x=1 'sslpassword=q'") == "PASSWORD=***&x=1 'sslpassword=***'"
    assert len(message("x" * 10_000)) == 2_000


# --- how it looks ---------------------------------------------------------------------------------


@pytest.mark.parametrize("columns", [40, 80])
@pytest.mark.parametrize(
    "words", [("ask", "-n", "2"), ("status",), ("history",), ("predict",), ("predict", "--sets")]
)
def test_it_fits_the_terminal(url, columns, words):
    run("tell", url, "003", "40", "--by", "ann", "--note", "a long note " * 5)
    run("ask", url, "--by", "a person with quite a long name")
    result = run(words[0], url, *words[1:], COLUMNS=str(columns))
    assert result.exit_code == 0
    assert max(map(len, result.stdout.splitlines())) <= columns
    commands = [line for line in result.stderr.splitlines() if not line.startswith("  sumwise")]
    assert max(map(len, commands), default=0) <= columns


def test_columns_of_predictions_give_way_in_the_middle(url):
    shown = run("predict", url, COLUMNS="45").stdout
    assert shown.splitlines()[0].split()[0] == "set"
    assert shown.splitlines()[0].split()[-4:] == ["mean", "std", "lower", "upper"]
    assert re.search(r"Not shown: .*b", " ".join(shown.split()))


@pytest.mark.parametrize(
    ("mean", "std", "text"),
    [
        (10470.33, 1199.5, "10470 ± 1200"),
        (-3.14159, 0.5, "-3.14 ± 0.50"),
        (5, 99.7, "5 ± 100"),
        (0.0, 0.0, "0 ± 0"),
        (1e12, 3e10, "1e+12 ± 3e+10"),
        (1.0, 1e-9, "1 ± 1e-09"),
    ],
)
def test_figures_have_the_digits_that_their_error_leaves(mean, std, text):
    assert with_error(mean, std) == text


def test_help_of_the_group_teaches_the_story_in_order():
    text = run("--help").stdout
    story = ["sumwise init ", "sumwise ask ", "sumwise tell ", "sumwise predict "]
    assert sorted(story, key=text.index) == story
    panels = ["─ A study ─", "─ Looking ─", "─ Moving ─", "─ Trying it out ─"]
    assert sorted(panels, key=text.index) == panels


def every_command():
    with click.Context(main) as ctx:
        for name in main.list_commands(ctx):
            command = main.get_command(ctx, name)
            assert isinstance(command, Lazy)
            yield name, command, command.load()


def test_every_command_is_what_the_group_says_it_is_and_comes_with_examples():
    for name, lazy, command in every_command():
        assert command.name == name
        first = " ".join(command.help.split("\n\n")[0].split())
        assert lazy.short_help == first, name
        parts = [command, *getattr(command, "commands", {}).values()]
        for part in parts:
            assert len(re.findall(r"^ *(?:eval \S+)?(?:cp .*)?sumwise \S", part.help, re.M)) >= 2, (
                part.name
            )


def test_every_command_of_a_study_prints_json_and_takes_a_name():
    for name, _, command in every_command():
        parts = list(getattr(command, "commands", {}).values()) or [command]
        for part in parts:
            options = {option for param in part.params for option in param.opts}
            if name not in ("completion", "demo", "serve", "simulate", "reproduce"):
                assert "--json" in options, part.name
            if name not in (
                "completion",
                "demo",
                "serve",
                "simulate",
                "reproduce",
                "init",
                "import",
            ):
                assert ("--study" in options) == (name != "storage"), part.name


# --- what is loaded -------------------------------------------------------------------------------


def imported(url, *words):
    code = (
        "import sys\nfrom click.testing import CliRunner\nfrom sumwise.cli import main\n"
        "result = CliRunner().invoke(main, sys.argv[1:])\nassert result.exit_code == 0, result\n"
        "print(' '.join(sys.modules))"
    )
    command = [sys.executable, "-c", code, *words]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return set(done.stdout.split())


HEAVY = {
    "altair", "vl_convert", "sklearn", "pandas", "numba", "scipy", "narwhals", "alembic", "jax",
    "rich.table", "psycopg", "sumwise.report", "sumwise.experiments", "joblib",
}  # fmt: skip


@pytest.mark.parametrize("words", [("ask",), *slow(("tell", "001", "5"), ("release", "003"))])
def test_asking_and_telling_load_nothing_heavy(url, words):
    run("claim", url, "003")
    loaded = imported(url, words[0], url, *words[1:])
    assert sorted(HEAVY & loaded) == []
    assert "sumwise.cli.predict" not in loaded


def test_help_of_the_group_loads_no_command(url):
    loaded = imported(url, "--help")
    mine = {name for name in loaded if name.startswith("sumwise.cli.")}
    assert mine == {"sumwise.cli.output"}
    heavy = {"sumwise.experiments", "sqlalchemy", "pyarrow", "numpy"}
    assert not heavy & loaded
    assert not heavy & imported(url, "completion", "bash")


# --- completion -----------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["bash", *slow("zsh", "fish")])
def test_completion_scripts_are_printed_with_what_to_do(name):
    done = shell("completion", name)
    assert done.returncode == 0
    assert "_SUMWISE_COMPLETE" in done.stdout
    assert "sumwise" in done.stdout
    assert "To have this in every new shell" in done.stderr
    if name == "bash":
        check = subprocess.run(["bash", "-n"], input=done.stdout, text=True, capture_output=True)
        assert (check.returncode, check.stderr) == (0, "")


@pytest.fixture
def completed(monkeypatch):
    """What a shell is offered for the last of these words."""

    def offered(*words, shell_name="zsh"):
        monkeypatch.setenv("_SUMWISE_COMPLETE", f"{shell_name}_complete")
        monkeypatch.setenv("COMP_WORDS", " ".join(("sumwise", *words)))
        monkeypatch.setenv("COMP_CWORD", str(len(words)))
        script = get_completion_class(shell_name)(main, {}, "sumwise", "_SUMWISE_COMPLETE")
        found = script.complete()
        if shell_name == "zsh":
            return found.split("\n")[1::3]
        return [line.partition(",")[2] for line in found.splitlines()]

    return offered


def test_commands_and_options_are_completed(completed):
    assert completed("re") == ["retract", "renew", "release", "report", "reproduce"]
    assert "--study" in completed("ask", "s.db", "--s")
    assert completed("storage", "u") == ["upgrade"]


def test_sets_are_completed_those_being_measured_first(url, completed):
    run("claim", url, "007")
    assert completed("tell", url, "0")[:3] == ["007", "000", "001"]
    assert completed("release", url, "01") == ["010", "011"]
    assert completed("tell", url, "x") == []
    assert completed("tell", "nowhere.db", "0") == []
    assert not Path("nowhere.db").exists()


def test_a_shell_is_never_given_text_that_it_would_run(hostile, completed):
    assert completed("tell", "--study", "x", hostile, "", shell_name="bash") == []  # no such study
    ids = ["$(touch x)", "a b", "*", "a\nplain,b", "a\x1b[31m", "a" * 5_000]
    sets = sw.Sets.from_arrays([[[float(a)]] for a in range(len(ids))], ids=ids)
    with sw.create_study(hostile, sets, name="two", model=sw.AggregateRegressor("linear")):
        pass
    offered = completed("tell", "--study", "two", hostile, "", shell_name="bash")
    assert offered == ["'$(touch x)'", "'a b'"]
    assert completed("tell", "--study", "two", hostile, "a") == ["a b"]


def test_bash_itself_completes_a_set(url):
    run("claim", url, "007")
    folder = Path(CONSOLE_SCRIPT).parent
    script = (
        f'PATH="{folder}:$PATH"; eval "$(sumwise completion bash 2>/dev/null)"\n'
        f"COMP_WORDS=(sumwise tell {url} 0); COMP_CWORD=3; _sumwise_completion sumwise\n"
        'printf "%s\\n" "${COMPREPLY[@]}"'
    )
    done = subprocess.run(["bash", "-c", script], capture_output=True, text=True, check=False)
    assert done.stdout.split()[:3] == ["007", "000", "001"], done.stderr


# --- processes ------------------------------------------------------------------------------------


def test_results_go_to_stdout_and_talk_to_stderr(tmp_path):
    data = write_csv(tmp_path / "data.csv")
    url = tmp_path / "s.db"
    made = shell("init", url, data, "--by", "g", "--x", "a", "--json")
    assert made.returncode == 0
    assert json.loads(made.stdout)["sets"] == 12
    assert "inputs a" in made.stderr
    asked = shell("ask", url)
    assert "Held until" in asked.stdout
    assert "sumwise tell" not in asked.stdout
    assert "sumwise tell" in asked.stderr
    assert "\x1b" not in asked.stdout + asked.stderr


def test_exit_codes_tell_done_refused_and_misused(url):
    assert shell("tell", url, "001", "-5").returncode == 0
    refused = shell("tell", url, "001", "1,234.5")
    assert (refused.returncode, refused.stdout) == (1, "")
    misused = shell("tell", url, "001")
    assert (misused.returncode, misused.stdout) == (2, "")
    assert run().exit_code == 2
    assert run("--help").exit_code == 0


@pytest.mark.slow  # test_study_care has a quick one
def test_a_reader_that_has_seen_enough_is_no_traceback(url):
    command = f"'{CONSOLE_SCRIPT}' predict '{url}' --json | head -c 10"
    done = subprocess.run(["bash", "-c", command], capture_output=True, text=True, check=False)
    assert "Traceback" not in done.stderr
    assert len(done.stdout) == 10


def test_colours_are_for_terminals_and_can_be_turned_off(url):
    script = "import pty, sys; sys.exit(pty.spawn(sys.argv[1:]) >> 8)"
    for setting, coloured in (("", True), ("1", False)):
        env = {**os.environ, "NO_COLOR": setting, "TERM": "xterm-256color", "COLUMNS": "80"}
        if not setting:
            del env["NO_COLOR"]
        command = [sys.executable, "-c", script, CONSOLE_SCRIPT, "ask", "nowhere.db"]
        done = subprocess.run(
            command, capture_output=True, text=True, env=env, stdin=subprocess.DEVNULL, check=False
        )
        assert done.returncode == 1
        assert bool(re.search("\x1b\\[[0-9;]*3[0-9]m", done.stdout)) == coloured


def test_a_sign_of_life_appears_after_a_while_and_goes_away(monkeypatch, capsys):
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setattr("sumwise.util.progress.PATIENCE", 0.0)
    seen, deadline = "", time.monotonic() + 20
    with waiting("reading [/b]"):
        while "reading [/b]" not in seen and time.monotonic() < deadline:
            seen += capsys.readouterr().err
    assert "reading [/b]" in seen
    rest = capsys.readouterr().err
    assert rest.rstrip("\r").endswith("\x1b[1A\x1b[2K")  # its line is wiped


def test_nobody_is_shown_a_sign_of_life_without_a_terminal(monkeypatch, capsys):
    monkeypatch.setattr("sumwise.util.progress.PATIENCE", 0.0)
    with waiting("reading"):
        pass
    assert capsys.readouterr() == ("", "")
