#!/usr/bin/env python3
"""Checks the YAML of the manual, the README and the contributors' guide with the real program.

Every fenced block of YAML is looked at by what it is:

* an automation (it has the keys `trigger` and `steps` at its left edge) becomes a file of a temporary project;
* a connection (`type` and `with`) becomes a file of its connections folder;
* a connector manifest (`connector` and `title`) becomes a file of its connectors folder;
* anything else is an excerpt, and is left alone.

A comment `# connections/mainWiki.yaml` in the first line of a block says which file it is. The connections of the repository
are there too, and so are the connectors of all blocks of the same page. `cogwork validate` then checks each page's project, and
an error or a warning is a fault of the page, reported at its line there.

Checked too: relative links lead to a file and a heading that exist; every page is in the table of contents; every code of a
diagnostic and of a refused request, every setting, every subcommand and every route of the API is in the manual.

Usage: scripts/check-docs.py [path of the cogwork program]
"""

import json
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass

ROOT = pathlib.Path(__file__).resolve().parent.parent
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", ROOT / "ARCHITECTURE.md", *sorted((ROOT / "docs/src").rglob("*.md"))]
FENCE = re.compile(r"^(?P<indent> *)(?P<marks>`{3,})(?P<language>[\w-]*)")
NAMED = re.compile(r"^# (?P<folder>automations|connections|connectors)/(?P<stem>[\w-]+)\.yaml\s*$")
LINK = re.compile(r"(?<!!)\[[^\]]*\]\((?P<target>[^)\s]+)\)")
CODE = re.compile(r'Diagnostic::(?:error|warning|hint)\(\s*"([a-z0-9-]+)"')
REFUSAL = re.compile(r'(?:(?:::new|bad_request|plain)\(\s*(?:[\w:]+,\s*)?|\bcode: )"([a-z]+(?:_[a-z]+)+|unavailable|busy|internal)"')
TABLED_CODE = re.compile(r'\("([a-z0-9-]+)", "')
HEADING = re.compile(r"^#{1,6}\s+(?P<text>.+?)\s*$")


@dataclass
class Block:
    """A fenced block: its text, and the line of the page at which the text begins."""

    line: int
    language: str
    text: str

    def keys(self) -> set[str]:
        return set(re.findall(r"^([A-Za-z$][\w$-]*):", self.text, re.MULTILINE))

    def folder(self) -> str | None:
        keys = self.keys()
        if {"trigger", "steps"} <= keys:
            return "automations"
        if {"type", "with"} <= keys:
            return "connections"
        if {"connector", "title"} <= keys:
            return "connectors"
        return None


def blocks(page: pathlib.Path) -> list[Block]:
    found: list[Block] = []
    opened = None
    lines: list[str] = []
    for number, line in enumerate(page.read_text(encoding="utf-8").splitlines(), start=1):
        fence = FENCE.match(line)
        if opened is None:
            if fence:
                opened, start, lines = fence, number + 1, []
        elif fence and line.strip() == opened["marks"]:
            found.append(Block(start, opened["language"], "\n".join(lines) + "\n"))
            opened = None
        else:
            lines.append(line.removeprefix(opened["indent"]))
    if opened is not None:
        raise SystemExit(f"{page.relative_to(ROOT)}: a fenced block does not end")
    return found


def check_yaml(page: pathlib.Path, program: pathlib.Path) -> tuple[int, list[str]]:
    """How many blocks of a page were checked, and what is wrong with them."""
    places: dict[str, int] = {}
    with tempfile.TemporaryDirectory() as folder:
        project = pathlib.Path(folder)
        shutil.copytree(ROOT / "connections", project / "connections")
        for block in blocks(page):
            kind = block.folder() if block.language in ("yaml", "yml") else None
            if kind is None:
                continue
            named = NAMED.match(block.text.splitlines()[0])
            stem = named["stem"] if named and named["folder"] == kind else f"line-{block.line}"
            # Pages may show one file as it grows: each version of it is checked, under a name of its own.
            path = f"{kind}/{stem}.yaml"
            if path in places:
                path = f"{kind}/{stem}-line-{block.line}.yaml"
            target = project / path
            target.parent.mkdir(exist_ok=True)
            target.write_text(block.text, encoding="utf-8")
            places[path] = block.line
        if not places:
            return 0, []
        (project / "automations").mkdir(exist_ok=True)
        done = subprocess.run(
            [program, "--dir", project, "validate", "--format", "json"], capture_output=True, text=True, check=False
        )
    if done.returncode not in (0, 1):
        return 0, [f"{page.relative_to(ROOT)}: `cogwork validate` ended with {done.returncode}: {done.stderr.strip()}"]
    problems = []
    for found in json.loads(done.stdout)["diagnostics"]:
        if found["severity"] == "hint":
            continue
        line = places.get(found["file"], 1) + found["line"] - 1
        problems.append(f"{page.relative_to(ROOT)}:{line}: {found['severity']}[{found['code']}]: {found['message']}")
    return len(places), problems


def anchor(heading: str) -> str:
    """The name of a heading in a link, as mdBook and code forges make it."""
    text = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading)
    return re.sub(r"[^\w\- ]", "", text.replace("`", "").lower()).strip().replace(" ", "-")


def outside_fences(page: pathlib.Path) -> list[tuple[int, str]]:
    kept, marks = [], None
    for number, line in enumerate(page.read_text(encoding="utf-8").splitlines(), start=1):
        fence = FENCE.match(line)
        if marks is None and fence:
            marks = fence["marks"]
        elif marks is not None:
            marks = None if line.strip() == marks else marks
        else:
            kept.append((number, line))
    return kept


def anchors(page: pathlib.Path) -> set[str]:
    headings = (HEADING.match(line) for _, line in outside_fences(page))
    return {anchor(heading["text"]) for heading in headings if heading}


def check_links(page: pathlib.Path) -> list[str]:
    problems = []
    for number, line in outside_fences(page):
        for link in LINK.finditer(re.sub(r"`[^`]*`", "", line)):
            target, _, fragment = link["target"].partition("#")
            if "://" in target or target.startswith("mailto:"):
                continue
            file = (page.parent / target).resolve() if target else page
            if not file.exists():
                problems.append(f"{page.relative_to(ROOT)}:{number}: there is no `{target}`")
            elif fragment and file.suffix == ".md" and fragment not in anchors(file):
                problems.append(f"{page.relative_to(ROOT)}:{number}: `{target}` has no heading `#{fragment}`")
    return problems


def check_summary() -> list[str]:
    """Every page of the manual is in its table of contents."""
    book = ROOT / "docs/src"
    linked = set(LINK.findall((book / "SUMMARY.md").read_text(encoding="utf-8")))
    pages = {str(page.relative_to(book)) for page in book.rglob("*.md")} - {"SUMMARY.md"}
    return [f"docs/src/SUMMARY.md: `{page}` is missing" for page in sorted(pages - linked)]


def check_codes() -> list[str]:
    """Every code of a diagnostic that the program can give is explained."""
    sources = [
        file.read_text(encoding="utf-8").split("#[cfg(test)]\nmod tests {")[0]
        for file in (ROOT / "crates").glob("*/src/**/*.rs")
        if not {"tests", "tests.rs"} & set(file.parts)
    ]
    found = {code for text in sources for code in CODE.findall(text)}
    found |= set(TABLED_CODE.findall((ROOT / "crates/model/src/load/codes.rs").read_text(encoding="utf-8")))
    page = (ROOT / "docs/src/diagnostics.md").read_text(encoding="utf-8")
    explained = set(re.findall(r"^\| `([a-z0-9-]+)` \|", page, re.MULTILINE))
    return [f"docs/src/diagnostics.md: the code `{code}` is missing" for code in sorted(found - explained)]


def check_refusals() -> list[str]:
    """Every code that a caller of a webhook can get is explained."""
    crates = ROOT / "crates"
    files = [crates / "server/src/hooks.rs", crates / "engine/src/hooks.rs"]
    files += [*(crates / "trigger/src").rglob("*.rs"), *(crates / "server/src/net").rglob("*.rs")]
    texts = [file.read_text(encoding="utf-8").split("#[cfg(test)]\nmod tests {")[0] for file in files]
    found = {code for text in texts for code in REFUSAL.findall(text)}
    page = (ROOT / "docs/src/webhooks.md").read_text(encoding="utf-8")
    return [f"docs/src/webhooks.md: the code `{code}` is missing" for code in sorted(found) if f"`{code}`" not in page]


def check_lists() -> list[str]:
    """Every setting, subcommand and route that the program has is in the page that lists them."""

    def texts(place: str) -> str:
        files = [ROOT / place] if place.endswith(".rs") else sorted((ROOT / place).rglob("*.rs"))
        return "".join(file.read_text(encoding="utf-8") for file in files)

    problems = []
    for place, pattern, page, shown in [
        ("crates/cli/src/settings/table.rs", r'^ +key: "([^"]+)"', "settings.md", "| `{}` |"),
        ("crates/cli/src/commands", r'const NAME: &\'static str = "([^"]+)"', "command-line.md", "`cogwork {}"),
        ("crates/server/src/admin", r'path = "(/api/[^"]+)"', "admin-api.md", "{}"),
    ]:
        text = (ROOT / "docs/src" / page).read_text(encoding="utf-8").replace("\ncogwork ", "\n`cogwork ")
        for name in re.findall(pattern, texts(place), re.MULTILINE):
            if shown.format(name) not in text:
                problems.append(f"docs/src/{page}: `{name}` is missing")
    return problems


def main() -> int:
    program = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else ROOT / "target/debug/cogwork").resolve()
    if not program.is_file():
        print(f"there is no program at {program}: cargo build --bin cogwork comes first", file=sys.stderr)
        return 2
    checked, problems = 0, check_summary() + check_codes() + check_refusals() + check_lists()
    for page in PAGES:
        count, found = check_yaml(page, program)
        checked += count
        problems += found + check_links(page)
    for problem in problems:
        print(problem, file=sys.stderr)
    print(f"{len(PAGES)} pages, {checked} YAML files in them, {len(problems)} problems")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
