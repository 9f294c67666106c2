"""The viewer is for this machine, or for who has the token; its answers forbid what its pages do not need."""

from __future__ import annotations

import pytest
from viewing import RUN, client_of

from outrider.view.opened_run import OpenedRun


@pytest.fixture(scope="module")
def run() -> OpenedRun:
    return OpenedRun(RUN)


@pytest.mark.parametrize(("host", "status"), [("localhost", 200), ("127.0.0.1", 200), ("e.vil", 403), ("[::1]", 200)])
def test_other_host_names_are_refused(run: OpenedRun, host: str, status: int) -> None:
    assert client_of(run, host=host).get("/run/0/").status_code == status


def test_a_token_is_asked_for_once(run: OpenedRun) -> None:
    client = client_of(run, token="secret", host="10.0.0.7")
    assert client.get("/run/0/").status_code == 403
    assert client.get("/run/0/?token=wrong").status_code == 403
    answer = client.get("/run/0/?token=secret&x=1")
    assert answer.status_code == 303
    assert "token" not in answer.headers["location"]
    assert "HttpOnly" in answer.headers["set-cookie"]
    assert client.get("/run/0/").status_code == 200


def test_viewers_on_two_ports_do_not_take_each_others_token(run: OpenedRun) -> None:
    first = client_of(run, token="one", host="10.0.0.7:8766")
    second = client_of(run, token="two", host="10.0.0.7:8767")
    for client, token in ((first, "one"), (second, "two")):
        client.get(f"/run/0/?token={token}")
    second.cookies.update(first.cookies)  # a browser keeps the cookies of a host for all of its ports
    assert [client.get("/run/0/").status_code for client in (first, second)] == [200, 200]


@pytest.mark.parametrize(("site", "status"), [("cross-site", 403), ("same-origin", 200), ("none", 200)])
def test_another_site_starts_no_export(run: OpenedRun, site: str, status: int) -> None:
    answer = client_of(run).get("/run/0/export?format=csv&step=1", headers={"Sec-Fetch-Site": site})
    assert answer.status_code == status


@pytest.mark.parametrize("address", ["/run/0/", "/static/view.js", "/nothing", "/run/0/version"])
def test_every_answer_has_the_policy(run: OpenedRun, address: str) -> None:
    headers = client_of(run).get(address).headers
    assert "default-src 'none'" in headers["content-security-policy"]
    assert "script-src 'self';" in headers["content-security-policy"]
    assert headers["x-content-type-options"] == "nosniff"


def test_no_page_has_an_inline_script_or_a_remote_address(run: OpenedRun) -> None:
    import re

    client = client_of(run)
    for address in ("/run/0/", "/run/0/?over=tokens", "/run/0/rollouts", "/run/0/problems"):
        page = client.get(address).text
        for attributes, body in re.findall(r"<script([^>]*)>(.*?)</script>", page, re.S):
            assert "application/json" in attributes or not body.strip()
        assert not re.search(r'(?:src|href|action)="(?!/|\?|#|data:,)', page)
        assert not re.search(r"\son\w+=", page)
