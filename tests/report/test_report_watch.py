"""A page that is watched: made anew when the run goes on, for this machine alone, taken over in place."""

from __future__ import annotations

import http.client
import json
import re
import signal
import socket
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path
from urllib.parse import urlsplit

import pytest
import report_sample
from browsing import PATIENCE, Tab, chromium

import runs
from outrider.errors import UserError
from outrider.report.page import render
from outrider.report.watch import Served, files_in, serving, watch


def get(address: str, path: str, host: str = "") -> tuple[int, bytes]:
    place = urlsplit(address)
    connection = http.client.HTTPConnection("127.0.0.1", place.port, timeout=PATIENCE)
    connection.request("GET", path, headers={"Host": host or place.netloc})
    answer = connection.getresponse()
    return answer.status, answer.read()


def news(address: str) -> dict[str, str]:
    return json.loads(get(address, "/version")[1])


def test_the_page_is_served_with_its_version_and_a_new_page_has_another():
    served = Served()
    served.take("<html lang='en'>a</html>")
    with serving(served, 0) as address:
        first = news(address)
        assert get(address, "/") == (200, f"<html data-version=\"{first['version']}\" lang='en'>a</html>".encode())
        assert first["error"] == ""
        served.take("<html lang='en'>a</html>")
        assert news(address) == first
        served.take("<html lang='en'>b</html>")
        assert news(address)["version"] != first["version"]
        assert get(address, "/../secret")[0] == 404


@pytest.mark.parametrize(
    "host", ["evil.example:80", "evil.example", "localhost.evil.example:80", "0.0.0.0:80", "[::]:80"]
)
def test_a_request_under_another_name_is_refused(host):
    served = Served(b"rollouts")
    with serving(served, 0) as address:
        status, body = get(address, "/", host)
        assert (status, b"rollouts" in body) == (403, False)
        assert get(address, "/", host="127.0.0.1:1")[0] == 200


def test_the_server_listens_at_one_address_of_this_machine_alone():
    with serving(Served(), 0) as address, socket.socket() as other:
        assert other.connect_ex(("127.0.0.2", urlsplit(address).port)) != 0


def test_a_taken_port_is_one_sentence():
    with serving(Served(), 0) as address:
        port = urlsplit(address).port
        with pytest.raises(
            UserError, match=f"^cannot serve the report on port {port}: .*; choose another port with --port.$"
        ):
            watch(lambda: "", [], port)
    with pytest.raises(UserError, match="port 70000"):
        watch(lambda: "", [], 70_000)


def test_a_file_that_grows_appears_or_goes_is_a_change_and_a_hidden_one_is_none(tmp_path):
    (tmp_path / "rollouts").mkdir()
    metrics = tmp_path / "metrics.jsonl"
    states = [files_in([tmp_path])]
    for text in ("a", "ab"):
        metrics.write_text(text)
        states.append(files_in([tmp_path]))
    (tmp_path / "rollouts" / "1.parquet").write_text("")
    states.append(files_in([tmp_path]))
    (tmp_path / "rollouts" / ".2.parquet.tmp").write_text("")
    assert files_in([tmp_path]) == states[-1]
    metrics.unlink()
    states.append(files_in([tmp_path]))
    assert len({tuple(state.items()) for state in states}) == len(states)
    assert files_in([tmp_path / "gone"]) == {}
    assert files_in([tmp_path / "rollouts" / "1.parquet"]) == states[-1]


PROGRAM = """
import sys
from pathlib import Path
from outrider.errors import UserError
from outrider.report import watch as watching

watching.LOOK = 0.2
folder = Path(sys.argv[1])

def make():
    text = (folder / "metrics.jsonl").read_text()
    print("made", text, flush=True)
    if text == "broken":
        raise UserError("metrics.jsonl is broken.")
    if text == "bug":
        raise ZeroDivisionError
    return f"<html lang='en'>{text}</html>"

watching.watch(make, [folder], 0, lambda sentence: print(sentence, flush=True))
"""


class Watched:
    """A watch in a process of its own, as the command line runs it."""

    def __init__(self, folder: Path) -> None:
        self.metrics = folder / "metrics.jsonl"
        self.metrics.write_text("one")
        command = [sys.executable, "-c", PROGRAM, str(folder)]
        pipe = subprocess.PIPE
        self.process = subprocess.Popen(command, stdout=pipe, stderr=pipe, text=True, preexec_fn=runs.heed_ctrl_c)
        assert self.line() == "made one"
        self.address = re.search(r"http://localhost:\d+/", self.line())[0]

    def line(self) -> str:
        return self.process.stdout.readline().strip()

    def ask_until(self, **wanted: str) -> None:
        """What an open page does, until the answer is as wanted or the process has ended."""
        end = time.monotonic() + PATIENCE
        while not wanted.items() <= (found := news(self.address)).items():
            assert time.monotonic() < end, f"never {wanted}: {found}"
            time.sleep(0.1)


@pytest.fixture
def watched(tmp_path):
    watched = Watched(tmp_path)
    yield watched
    watched.process.kill()
    watched.process.communicate()


def test_the_page_follows_the_run_keeps_the_last_one_that_could_be_made_and_ends_with_a_sentence(watched):
    assert get(watched.address, "/")[1].endswith(b">one</html>")
    watched.metrics.write_text("two")
    time.sleep(0.7)  # nobody asks, so nothing is made: the next line would say it twice
    watched.metrics.write_text("three")
    watched.ask_until()
    assert watched.line() == "made three"
    watched.metrics.write_text("broken")
    watched.ask_until(error="metrics.jsonl is broken.")
    assert get(watched.address, "/")[1].endswith(b">three</html>")
    assert watched.line() == "made broken"
    watched.metrics.write_text("mended")
    watched.ask_until(error="")
    assert get(watched.address, "/")[1].endswith(b">mended</html>")
    watched.process.send_signal(signal.SIGINT)
    out, err = watched.process.communicate(timeout=PATIENCE)
    assert out.splitlines() == ["made mended", "Stopped serving the report; the run continues."]
    assert (watched.process.returncode, err) == (0, "")


def test_a_bug_in_the_report_ends_the_watch_with_its_traceback(watched):
    watched.metrics.write_text("bug")
    with pytest.raises((OSError, http.client.HTTPException)):
        watched.ask_until(error="never")
    assert "ZeroDivisionError" in watched.process.communicate(timeout=PATIENCE)[1]
    assert watched.process.returncode == 1


def test_an_open_page_takes_the_new_one_over_where_the_reader_is_and_says_when_the_watch_has_ended():
    served = Served()
    entropy, budget = report_sample.entropy(), report_sample.budget()
    sections = [replace(entropy, figures=entropy.figures[:2]), report_sample.examples()]
    report = replace(report_sample.sample(), sections=sections)
    served.take(render(report))
    with chromium() as browser:
        with serving(served, 0) as address:
            tab = Tab(browser).open(address)
            page = tab.page
            page.locator("#live", has_text="Live").wait_for()
            page.locator(".finding summary").first.click()
            tab.draw_all()
            page.locator("#examples .node summary").first.click()
            page.evaluate(
                "Plotly.relayout(document.querySelector('#entropy-entropy .plot'), {'xaxis.range': [0, 500000]})"
            )
            page.locator("#entropy-exchange .legend button").first.click()
            page.evaluate("document.querySelector('#entropy-exchange').scrollIntoView()")
            place = page.locator("#entropy-exchange").bounding_box()["y"]

            longer = [replace(budget, figures=budget.figures[:1]), *sections]  # a chapter more, above the reader
            served.take(render(replace(report, title="further", sections=longer)))
            tab.until("document.title === 'further'")
            assert page.locator("#contents li").count() == 5
            assert page.locator("#entropy-exchange").bounding_box()["y"] == pytest.approx(place, abs=2)
            assert page.locator(".finding .evidence").first.is_visible()
            assert page.locator("#examples .node pre").first.is_visible()
            assert page.evaluate("document.querySelector('#entropy-entropy .plot').layout.xaxis.range") == [0, 500_000]
            assert page.locator("#entropy-exchange .scatterlayer .trace").count() == 1
            tab.draw_all()
            served.error = "the run folder was moved."
            page.locator("#live.trouble", has_text="Not up to date: the run folder was moved.").wait_for()
            assert tab.complaints == []
        page.locator("#live.trouble", has_text="No longer updated").wait_for()
