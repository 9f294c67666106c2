"""The other side of the channel to environments of ``verifiers``, without the package: it does what its config says."""

from __future__ import annotations

import json
import os
import queue
import socket
import subprocess
import sys
import time
from typing import Any

from outrider.environments.verifiers_process import Channel

READY = {"ready": "0", "tasks": 9, "keys": []}


def main(handle: int) -> None:
    end = socket.socket(fileno=handle)
    first = b""
    while not first.endswith(b"\n"):
        first += end.recv(1)
    does = json.loads(first)["does"]
    if does == "reads nothing":
        end.sendall(json.dumps(READY).encode() + b"\n")
        time.sleep(1000)
    heard = queue.SimpleQueue[Any]()
    channel = Channel(end, heard.put)
    channel.send(READY)
    if does == "servers":  # one in its group, one in a session of its own, and then as a loop that is blocked
        for alone in (False, True):
            subprocess.Popen([sys.executable, "-c", "import time; time.sleep(1000)"], start_new_session=alone)
        time.sleep(1000)
    while (asked := heard.get()) is not None:
        key, task = asked["key"], asked.get("task")
        if asked["do"] == "answer":
            channel.send({"key": "", "here": True})
        elif asked["do"] == "begin" and task != "silent":
            text = "?" * task if isinstance(task, int) else "?"
            channel.send({"key": key, "messages": [{"role": "user", "content": text}], "tools": []})
            if task == "fails":
                channel.send({"key": key, "failed": "it is gone"})
        elif asked["do"] == "act" and does == "dies":
            os._exit(1)
        elif asked["do"] == "act":
            channel.send({"key": key, "reward": 1.0, "stop": asked["content"]})


if __name__ == "__main__":
    main(int(sys.argv[1]))
