#!/usr/bin/env python3
"""Does what the tutorial and the README say, literally: writes their files, runs their commands, and compares what they show of
the output.

The blocks of a page are taken in their order, in a new folder:

* `yaml` with a first line such as `# automations/order-desk.yaml` is saved there;
* `sh` is run and has to succeed, `sh fails` has to fail, `sh background` goes on beside the rest until the end;
* what is marked `output` below a command has to be in its output, line by line and in this order; `…` stands for anything.

What differs from a person at a terminal: the programs are those of the build, so nothing is installed or built, and `make run` is the
script that it starts; `make test`, which this is a part of, is left out; the ports are free ones; `TOKEN` is that of the address
that `cogwork list` shows for the file that was saved last. After a file is saved it waits until the daemon has seen it.

Usage: scripts/check-tutorial.py [folder of the programs]
"""

import json
import os
import pathlib
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
PAGES = [ROOT / "docs/src/tutorial.md", ROOT / "README.md"]
# The parts of the clone that the commands of the pages need.
CLONE = ["automations", "connections", "scripts"]
BLOCK = re.compile(r"^```(?P<language>\w+) ?(?P<kind>[\w=-]*)\n(?P<text>.*?)^```$", re.MULTILINE | re.DOTALL)
FILE = re.compile(r"^# (?P<path>(?:automations|connections)/\S+)$", re.MULTILINE)
WITHIN = 60  # seconds


class Fault(Exception):
    """A page does not do what it says."""


class Reader:
    """Somebody who follows a page."""

    def __init__(self, programs: pathlib.Path, folder: pathlib.Path) -> None:
        self.programs = programs
        self.folder = folder
        self.ports = {7070: free_port(), 7071: free_port(), 7099: free_port()}
        self.environment = {
            **{name: value for name, value in os.environ.items() if not name.startswith("COGWORK_")},
            "PATH": f"{programs}:{os.environ['PATH']}",
            "COGWORK_HOOKS": f"127.0.0.1:{self.ports[7070]}",
            "COGWORK_ADMIN": f"127.0.0.1:{self.ports[7071]}",
            "BIN_DIR": str(programs),
            "HOOKS_PORT": str(self.ports[7070]),
            "ADMIN_PORT": str(self.ports[7071]),
            "WIKI_PORT": str(self.ports[7099]),
            "NO_COLOR": "1",
        }
        self.beside: list[subprocess.Popen] = []
        self.said: list[pathlib.Path] = []
        self.output = ""
        self.has_daemon = False
        self.saved = ""

    def adapted(self, text: str) -> str:
        for port, free in self.ports.items():
            text = text.replace(f"127.0.0.1:{port}", f"127.0.0.1:{free}")
        simulator = f"wiki-simulator --listen 127.0.0.1:{self.ports[7099]}"
        text = text.replace("cargo run --release -p wiki-simulator", simulator)
        for there, here in [
            ("cargo install --locked --path crates/cli\n", ""),
            ("make test\n", ""),
            ("make run\n", "scripts/run.sh\n"),
            ("./target/debug/cogwork ", "cogwork "),
        ]:
            text = text.replace(there, here)
        return text

    def save(self, text: str) -> None:
        named = FILE.match(text)
        if not named:
            raise Fault("a file has no name in its first line")
        before = len(self.heard())
        (self.folder / named["path"]).write_text(self.adapted(text), encoding="utf-8")
        if not named["path"].startswith("automations/") or ".test." in named["path"]:
            return
        self.saved = named["path"]
        if self.has_daemon:
            # Its message about a file that it loads, or rejects, names the automation.
            told = re.compile(f'(INFO|WARN) .*automation="?{re.escape(pathlib.Path(self.saved).stem)}\\b')
            wait_until(lambda: told.search(self.heard(), before), "the daemon did not say that it has seen the file")

    def heard(self) -> str:
        return self.said[-1].read_text(encoding="utf-8") if self.said else ""

    def run(self, text: str, fails: bool) -> None:
        text = self.adapted(text)
        if "TOKEN" in text:
            text = text.replace("TOKEN", self.token())
        where = self.folder.parent / "where"
        script = f"set -e\n{text}\npwd >'{where}'" if not fails else text
        done = subprocess.run(
            ["bash", "-c", script], cwd=self.folder, env=self.environment, text=True, capture_output=True, timeout=WITHIN, check=False
        )
        self.output = done.stdout + done.stderr
        if (done.returncode != 0) != fails:
            raise Fault(f"this ended with {done.returncode}:\n{text}{self.output}")
        if not fails:
            self.folder = pathlib.Path(where.read_text(encoding="utf-8").strip())

    def token(self) -> str:
        listed = subprocess.run(
            ["cogwork", "list", "--json"], cwd=self.folder, env=self.environment, text=True, capture_output=True, check=True
        )
        for automation in json.loads(listed.stdout)["automations"]:
            if automation["path"] == self.saved and "liveUrl" in automation:
                return automation["liveUrl"].rsplit("/", 1)[1]
        raise Fault("`cogwork list` does not show the webhook")

    def start(self, text: str) -> None:
        said = self.folder.parent / f"said-{len(self.said)}"
        with said.open("w", encoding="utf-8") as output:
            self.beside.append(
                subprocess.Popen(
                    ["bash", "-c", "exec env " + self.adapted(text)],
                    cwd=self.folder, env=self.environment, stdout=output, stderr=output,
                )
            )
        self.said.append(said)
        # The line that each of them prints when it is ready.
        known = [("wiki-simulator", "listens on"), ("make run", "Then change a file"), ("cogwork serve", "  loaded ")]
        ready = next((sign for program, sign in known if program in text), None)
        if ready is None:
            raise Fault("nobody knows when this is ready")
        wait_until(lambda: ready in said.read_text(encoding="utf-8"), f"this was not ready in time:\n{text}")
        self.has_daemon = self.has_daemon or "simulator" not in text

    def compare(self, text: str) -> None:
        at = 0
        for line in filter(None, (line.strip() for line in text.splitlines())):
            pattern = ".*?".join(re.escape(part) for part in line.split("…"))
            found = re.compile(pattern).search(self.output, at)
            if not found:
                raise Fault(f"the output has no `{line}`, or not in this place:\n{self.output}")
            at = found.end()

    def end(self) -> None:
        for process in self.beside:
            process.send_signal(signal.SIGTERM)
        for process in self.beside:
            process.wait(timeout=WITHIN)


def free_port() -> int:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        return taken.getsockname()[1]


def wait_until(holds, otherwise: str) -> None:
    end = time.monotonic() + WITHIN
    while not holds():
        if time.monotonic() > end:
            raise Fault(otherwise)
        time.sleep(0.05)


def follow(reader: Reader, page: str) -> int:
    count = 0
    for block in BLOCK.finditer(page):
        language, kind, text = block["language"], block["kind"], block["text"]
        try:
            if language == "yaml":
                reader.save(text)
            elif kind == "background":
                reader.start(text)
            elif language == "sh":
                reader.run(text, kind == "fails")
            elif kind == "output":
                reader.compare(text)
            elif language == "text":
                continue
            else:
                raise Fault("nobody knows what to do with this block")
        except (Fault, OSError, subprocess.SubprocessError) as fault:
            raise Fault(f"{page[: block.start()].count(chr(10)) + 1}: {fault}") from fault
        count += 1
    return count


def main() -> int:
    programs = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else ROOT / "target/debug").resolve()
    if not (programs / "cogwork").is_file() or not (programs / "wiki-simulator").is_file():
        print(f"cogwork and wiki-simulator are not in {programs}: cargo build --workspace --bins comes first", file=sys.stderr)
        return 2
    return max(check(programs, page) for page in PAGES)


def check(programs: pathlib.Path, page: pathlib.Path) -> int:
    name = page.relative_to(ROOT)
    with tempfile.TemporaryDirectory() as folder:
        start = pathlib.Path(folder) / "clone"
        for part in CLONE:
            shutil.copytree(ROOT / part, start / part)
        reader = Reader(programs, start)
        try:
            count = follow(reader, page.read_text(encoding="utf-8"))
        except Fault as fault:
            print(f"{name}:{fault}", file=sys.stderr)
            for said in reader.said:
                print(f"--- said beside it:\n{said.read_text(encoding='utf-8')}", file=sys.stderr)
            return 1
        finally:
            reader.end()
    print(f"{name} does what it says, in {count} blocks")
    return 0


if __name__ == "__main__":
    sys.exit(main())
