#!/usr/bin/env python3
"""Does what the tutorial says, literally: writes its files, runs its commands, and compares what it shows of the output.

The blocks of docs/src/tutorial.md are taken in their order, in a new folder:

* `yaml` with a first line such as `# automations/order-desk.yaml` is saved there;
* `sh` is run and has to succeed, `sh fails` has to fail, `sh background` goes on beside the rest until the end;
* what is marked `output` below a command has to be in its output, line by line and in this order; `…` stands for anything.

What differs from a person at a terminal: the programs are those of the build, so nothing is installed; the ports are free ones;
`TOKEN` is that of the address that `cogwork list` shows. After a file is saved it waits until the daemon has seen it.

Usage: scripts/check-tutorial.py [folder of the programs]
"""

import json
import os
import pathlib
import re
import signal
import socket
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs/src/tutorial.md"
BLOCK = re.compile(r"^```(?P<language>\w+) ?(?P<kind>[\w=-]*)\n(?P<text>.*?)^```$", re.MULTILINE | re.DOTALL)
FILE = re.compile(r"^# (?P<path>(?:automations|connections)/\S+)$", re.MULTILINE)
WITHIN = 60  # seconds


class Fault(Exception):
    """The tutorial does not do what it says."""


class Reader:
    """Somebody who follows the tutorial."""

    def __init__(self, programs: pathlib.Path, folder: pathlib.Path) -> None:
        self.programs = programs
        self.folder = folder
        self.ports = {7070: free_port(), 7071: free_port(), 7099: free_port()}
        self.environment = {
            **{name: value for name, value in os.environ.items() if not name.startswith("COGWORK_")},
            "PATH": f"{programs}:{os.environ['PATH']}",
            "COGWORK_HOOKS": f"127.0.0.1:{self.ports[7070]}",
            "COGWORK_ADMIN": f"127.0.0.1:{self.ports[7071]}",
            "NO_COLOR": "1",
        }
        self.beside: list[subprocess.Popen] = []
        self.said: list[pathlib.Path] = []
        self.output = ""

    def adapted(self, text: str) -> str:
        for port, free in self.ports.items():
            text = text.replace(f"127.0.0.1:{port}", f"127.0.0.1:{free}")
        simulator = f"wiki-simulator --listen 127.0.0.1:{self.ports[7099]}"
        text = text.replace("cargo run --release -p tests --bin wiki-simulator", simulator)
        return text.replace("cargo install --locked --path crates/cli\n", "")

    def save(self, text: str) -> None:
        named = FILE.match(text)
        if not named:
            raise Fault("a file has no name in its first line")
        before = self.heard()
        (self.folder / named["path"]).write_text(self.adapted(text), encoding="utf-8")
        if len(self.beside) > 1 and named["path"].startswith("automations/") and ".test." not in named["path"]:
            wait_until(lambda: self.heard() > before, "the daemon did not say that it has seen the file")

    def heard(self) -> int:
        return sum(file.stat().st_size for file in self.said)

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
            if automation["id"] == "order-desk" and "liveUrl" in automation:
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
        # What each of them prints when it is ready.
        ready = "listens on" if "simulator" in text else "  loaded "
        wait_until(lambda: ready in said.read_text(encoding="utf-8"), f"this was not ready in time:\n{text}")

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
            else:
                raise Fault("nobody knows what to do with this block")
        except (Fault, OSError, subprocess.SubprocessError) as fault:
            line = page[: block.start()].count("\n") + 1
            raise Fault(f"{PAGE.relative_to(ROOT)}:{line}: {fault}") from fault
        count += 1
    return count


def main() -> int:
    programs = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else ROOT / "target/debug").resolve()
    if not (programs / "cogwork").is_file() or not (programs / "wiki-simulator").is_file():
        print(f"cogwork and wiki-simulator are not in {programs}: cargo build --workspace --bins comes first", file=sys.stderr)
        return 2
    with tempfile.TemporaryDirectory() as folder:
        start = pathlib.Path(folder) / "clone"
        start.mkdir()
        reader = Reader(programs, start)
        try:
            count = follow(reader, PAGE.read_text(encoding="utf-8"))
        except Fault as fault:
            print(fault, file=sys.stderr)
            for said in reader.said:
                print(f"--- said beside it:\n{said.read_text(encoding='utf-8')}", file=sys.stderr)
            return 1
        finally:
            reader.end()
    print(f"the tutorial does what it says, in {count} blocks")
    return 0


if __name__ == "__main__":
    sys.exit(main())
