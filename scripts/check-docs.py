#!/usr/bin/env python3
"""Checks the YAML of the manual, the README and the contributors' guide with the real program. No block is left out.

A fenced block of YAML is a whole file, known by its keys or by a comment in its first line that names it
(`# automations/order-desk.yaml`, `# automations/order-desk.test.yaml`, `# connections/mainWiki.yaml`, `# project.yaml`, `# cogwork.yaml`), or it
says behind `yaml` what it is:

* `yaml steps`: a list of steps; `yaml step`: keys of a step; `yaml top`: keys of an automation; `yaml trigger`: what stands
  below `trigger`. Such an excerpt is checked in an automation made around it.
* `yaml wrong=CODE`: an automation with this mistake, which the program has to tell.
* `yaml foreign`: another program's; it is not looked at.

A block of JavaScript is a file of code; its first line names it (`// automations/lib/slug.js`).

The files of a page are a project, with the connections of the repository beside them. `cogwork validate` checks it; an error or a
warning is a fault of the page, reported at its line there. `cogwork test` runs the tests that the page has. Where a page shows a
file as it grows, each version is checked, and the last one is tested. A recipe with the name of an example shows its files.

Checked too: relative links lead to a file and a heading that exist; every page is in the table of contents; every code of a
diagnostic and of a refused request, every setting, every subcommand, every route of the API and every type of a connection is in the manual; every subcommand
that a page, a comment or a message names exists.

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
FAULTS = ROOT / "docs/src/diagnostics"
RECIPES = ROOT / "docs/src/recipes"
SCRIPT = re.compile(r"^// (?P<path>automations/[\w/-]+\.m?js)\s*$")
FENCE = re.compile(r"^(?P<indent> *)(?P<marks>`{3,})(?P<language>[\w-]*) *(?P<kind>[\w=-]*)")
# The connections of the reference to services that no example of the repository uses.
CONNECTIONS = {
    "mainAnthropic": 'type: anthropic.key\nwith: {key: "${{ secrets.key }}"}\n',
    "mainDiscord": 'type: discord.bot\nwith: {token: "${{ secrets.token }}"}\n',
    "mainGoogleDrive": 'type: googleDrive.serviceAccount\nwith: {email: a@example.com, key: "${{ secrets.key }}"}\n',
    "mainGoogleSheets": 'type: googleSheets.serviceAccount\nwith: {email: a@example.com, key: "${{ secrets.key }}"}\n',
    "mainGoogleCalendar": 'type: googleCalendar.serviceAccount\nwith: {email: a@example.com, key: "${{ secrets.key }}"}\n',
    "mainHubspot": 'type: hubspot.token\nwith: {token: "${{ secrets.token }}"}\n',
    "mainJira": 'type: jira.token\nwith: {site: "https://example.atlassian.net", email: a@example.com, token: "${{ secrets.token }}"}\n',
    "mainOpenai": 'type: openai.key\nwith: {key: "${{ secrets.key }}"}\n',
    "mainAmqp": 'type: amqp.server\nwith: {host: rabbit.example.com, user: cogwork, password: "${{ secrets.key }}"}\n',
    "mainMailImap": 'type: mail.imap\nwith: {host: imap.example.com, username: a@example.com, password: "${{ secrets.key }}"}\n',
    "mainRedis": "type: redis.server\nwith: {host: redis.example.com}\n",
    "mainNats": "type: nats.server\nwith: {host: nats.example.com}\n",
    "mainS3": 'type: s3.keys\nwith: {bucket: archive, accessKey: A, secretKey: "${{ secrets.key }}"}\n',
    "mainSftp": 'type: sftp.key\nwith: {host: files.example.com, user: a, privateKey: "${{ secrets.key }}", hostKey: "SHA256:uNiVztksCsDhcc0u9e8BrrJXVGDsD6zJ0wzqVYLvKQ8"}\n',
    "mainSql": "type: sql.sqlite\nwith: {file: books.db}\n",
}
NAMED = re.compile(r"^# (?P<path>(?:automations|connections|connectors)/[\w-]+(?:\.test)?\.yaml|(?:cogwork|project)\.yaml)\s*$")
# The frame of an excerpt: the lines before it, its indentation, and the lines after it.
WRAPPERS = {
    "steps": ("trigger: {manual: {}}\nsteps:\n", 2, ""),
    "step": ("trigger: {manual: {}}\nsteps:\n  - action: http.request\n    with: {url: https://example.com/}\n", 4, ""),
    "top": ("trigger: {webhook: {verify: none}}\n", 0, "steps:\n  - {action: log.info, with: {message: here}}\n"),
    "trigger": ("trigger:\n", 2, "steps:\n  - {action: log.info, with: {message: here}}\n"),
}
LINK = re.compile(r"(?<!!)\[[^\]]*\]\((?P<target>[^)\s]+)\)")
CODE = re.compile(r'(?:Diagnostic::(?:error|warning|hint)\(|\.error\(|tell\(\s*Severity::\w+,|const CODE: &str = )\s*"([a-z0-9-]+)"')
REFUSAL = re.compile(r'(?:(?:::new|bad_request|plain)\(\s*(?:[\w:]+,\s*)?|\bcode: )"([a-z]+(?:_[a-z]+)+|unavailable|busy|internal)"')
TABLED_CODE = re.compile(r'\("([a-z0-9-]+)", "')
COMMAND = re.compile(r"`cogwork ([a-z]+)\b")
HEADING = re.compile(r"^#{1,6}\s+(?P<text>.+?)\s*$")


@dataclass
class Block:
    """A fenced block: its text, and the line of the page at which the text begins."""

    line: int
    language: str
    kind: str
    text: str

    def keys(self) -> set[str]:
        return set(re.findall(r"^([A-Za-z$][\w$-]*):", self.text, re.MULTILINE))

    def path(self) -> str | None:
        """The file that it is, if it is a whole one."""
        named = NAMED.match(self.text.splitlines()[0])
        if named:
            return named["path"]
        keys = self.keys()
        for folder, own in [
            ("automations", {"trigger", "steps"}), ("connections", {"type", "with"}), ("connectors", {"connector", "title"})
        ]:
            if own <= keys:
                return f"{folder}/line-{self.line}.yaml"
        return None


@dataclass
class File:
    """A file of a page's project, and where each of its lines stands in the page."""

    path: str
    text: str
    line: int
    wrong: str = ""


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
            found.append(Block(start, opened["language"], opened["kind"], "\n".join(lines) + "\n"))
            opened = None
        else:
            lines.append(line.removeprefix(opened["indent"]))
    if opened is not None:
        raise SystemExit(f"{page.relative_to(ROOT)}: a fenced block does not end")
    return found


def file_of(block: Block) -> File | str | None:
    """What a block of YAML is: a file to check, what is wrong with how it is marked, or nothing to look at."""
    if block.kind == "foreign":
        return None
    path = f"automations/line-{block.line}.yaml"
    if block.kind in WRAPPERS:
        before, indent, after = WRAPPERS[block.kind]
        text = "".join(" " * indent + line if line.strip() else line for line in block.text.splitlines(keepends=True))
        return File(path, before + text + after, block.line - before.count("\n"))
    if block.kind.startswith("wrong="):
        return File(path, block.text, block.line, block.kind.removeprefix("wrong="))
    if block.kind:
        return f"`{block.kind}` is no kind of block; the head of scripts/check-docs.py names them"
    path = block.path()
    if path is None:
        return "this is no whole file; say behind `yaml` what it is: the head of scripts/check-docs.py names the kinds"
    return File(path, block.text, block.line)


def script_of(block: Block) -> File | str:
    named = SCRIPT.match(block.text.splitlines()[0])
    if not named:
        return "the first line of JavaScript names its file: `// automations/name.js`"
    return File(named["path"], block.text, block.line)


def files_of(page: pathlib.Path) -> tuple[list[File], list[str]]:
    """The files of a page's project, and what is wrong with how its blocks are marked."""
    files: dict[str, File] = {}
    problems = []
    for block in blocks(page):
        if block.language == "js":
            file = script_of(block)
        elif block.language in ("yaml", "yml"):
            file = file_of(block)
        else:
            continue
        if isinstance(file, str):
            problems.append(f"{page.relative_to(ROOT)}:{block.line}: {file}")
        if not isinstance(file, File):
            continue
        earlier = files.pop(file.path, None)
        if earlier:
            earlier.path = earlier.path.replace(".yaml", f"-line-{earlier.line}.yaml")
            # Two connectors of one name would stand in each other's way.
            earlier.text = re.sub(r"(?m)^connector: (\w+)$", rf"connector: \1Line{earlier.line}", earlier.text)
            files[earlier.path] = earlier
        files[file.path] = file
    return list(files.values()), problems


def run(program: pathlib.Path, project: pathlib.Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([program, "--dir", project, *arguments], capture_output=True, text=True, check=False)


def check_yaml(page: pathlib.Path, program: pathlib.Path) -> tuple[int, list[str]]:
    """How many blocks of a page were checked, and what is wrong with them."""
    files, problems = files_of(page)
    if not files:
        return 0, problems
    name = page.relative_to(ROOT)
    with tempfile.TemporaryDirectory() as folder:
        project = pathlib.Path(folder)
        shutil.copytree(ROOT / "connections", project / "connections")
        for connection, text in CONNECTIONS.items():
            (project / f"connections/{connection}.yaml").write_text(text, encoding="utf-8")
        (project / "automations").mkdir()
        for file in files:
            target = project / file.path
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_text(file.text, encoding="utf-8")
        done = run(program, project, "validate", "--format", "json")
        if done.returncode not in (0, 1):
            return 0, [*problems, f"{name}: `cogwork validate` ended with {done.returncode}: {done.stderr.strip()}"]
        problems += told(name, files, json.loads(done.stdout)["diagnostics"])
        if not problems and any(file.path.endswith(".test.yaml") for file in files):
            done = run(program, project, "test")
            if done.returncode != 0:
                problems.append(f"{name}: its tests do not pass\n{done.stdout}{done.stderr}")
    return len(files), problems


def told(name: pathlib.Path, files: list[File], diagnostics: list[dict]) -> list[str]:
    """What the program tells of a page's files and should not, and what it should tell and does not."""
    places = {file.path: file for file in files}
    problems = []
    for found in diagnostics:
        file = places.get(found["file"])
        expected = file is not None and file.wrong == found["code"]
        # A secret of an example is set nowhere.
        if found["severity"] == "hint" or found["code"] == "missing-secret" or expected:
            continue
        line = found["line"] - 1 + (file.line if file else 1)
        problems.append(f"{name}:{line}: {found['severity']}[{found['code']}]: {found['message']}")
    for file in files:
        if file.wrong and not any(found["file"] == file.path and found["code"] == file.wrong for found in diagnostics):
            problems.append(f"{name}:{file.line}: nothing is told of `{file.wrong}`")
    return problems


def check_copies(page: pathlib.Path) -> list[str]:
    """A recipe of an example shows the files of the example, without the comment at their top."""

    def content(text: str) -> str:
        return re.sub(r"\A(?:#.*\n|\n)+", "", text)

    problems = []
    for block in blocks(page):
        path = block.path() or ""
        example = ROOT / path
        if path.startswith("automations/") and example.is_file() and content(block.text) != content(example.read_text(encoding="utf-8")):
            problems.append(f"{page.relative_to(ROOT)}:{block.line}: this differs from {example.relative_to(ROOT)}")
    return problems


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
        if not {"tests", "tests.rs", "script"} & set(file.parts)
    ]
    found = {code for text in sources for code in CODE.findall(text)}
    found |= set(TABLED_CODE.findall((ROOT / "crates/language/src/load/codes.rs").read_text(encoding="utf-8")))
    page = (ROOT / "docs/src/diagnostics.md").read_text(encoding="utf-8")
    explained = set(re.findall(r"^\| \[`([a-z0-9-]+)`\]\(", page, re.MULTILINE))
    return [f"docs/src/diagnostics.md: the code `{code}` is missing" for code in sorted(found - explained)]


def check_refusals() -> list[str]:
    """Every code that a caller of a webhook can get is explained."""
    crates = ROOT / "crates"
    files = [crates / "server/src/hooks.rs", crates / "ingress/src/hooks/mod.rs"]
    files += [*(crates / "trigger/src").rglob("*.rs"), *(crates / "server/src/net").rglob("*.rs")]
    texts = [file.read_text(encoding="utf-8").split("#[cfg(test)]\nmod tests {")[0] for file in files]
    found = {code for text in texts for code in REFUSAL.findall(text)}
    page = (ROOT / "docs/src/webhook-answers.md").read_text(encoding="utf-8")
    return [f"docs/src/webhook-answers.md: the code `{code}` is missing" for code in sorted(found) if f"`{code}`" not in page]


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


def check_connections(program: pathlib.Path) -> list[str]:
    """Every type of a connection has a row with all its inputs."""
    page = (ROOT / "docs/src/connections.md").read_text(encoding="utf-8")
    rows = dict(re.findall(r"^\| `([a-z]+\.\w+)` \| (.*) \|$", page, re.MULTILINE))

    def shown(*arguments: str) -> object:
        return json.loads(run(program, ROOT, "connectors", *arguments, "--json").stdout)

    problems = []
    for connector in shown("list"):
        for kind in shown("show", connector["name"]).get("connections", []):
            inputs = {field["name"] for field in kind["inputs"]}
            if inputs != set(re.findall(r"`(\w+)`", rows.get(kind["name"], ""))):
                problems.append(f"docs/src/connections.md: the row of `{kind['name']}` has to name {', '.join(sorted(inputs))}")
    return problems


def check_commands() -> list[str]:
    """Every subcommand that a page, a comment or a message names exists."""
    sources = {file: file.read_text(encoding="utf-8") for file in (ROOT / "crates").glob("*/src/**/*.rs")}
    known = {"help", *re.findall(r'const NAME: &\'static str = "([^"]+)"', "".join(sources.values()))}
    texts = sources | {page: page.read_text(encoding="utf-8") for page in PAGES}
    return [
        f"{file.relative_to(ROOT)}: there is no command `cogwork {name}`"
        for file, text in texts.items()
        for name in sorted(set(COMMAND.findall(text)) - known)
    ]


def main() -> int:
    program = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else ROOT / "target/debug/cogwork").resolve()
    if not program.is_file():
        print(f"there is no program at {program}: cargo build --bin cogwork comes first", file=sys.stderr)
        return 2
    checked, problems = 0, check_summary() + check_codes() + check_refusals() + check_lists() + check_commands()
    problems += check_connections(program)
    for page in PAGES:
        count, found = (0, []) if page.parent == FAULTS else check_yaml(page, program)
        checked += count
        problems += found + check_links(page) + (check_copies(page) if page.parent == RECIPES else [])
    for problem in problems:
        print(problem, file=sys.stderr)
    print(f"{len(PAGES)} pages, {checked} YAML files in them, {len(problems)} problems")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
