#!/usr/bin/env python3
"""Renders the manual and checks what came of it: every link of every page leads to a page and a heading that are there.

Usage: scripts/check-book.py [path of the program `manual`]
"""

import html.parser
import pathlib
import subprocess
import sys
import urllib.parse

ROOT = pathlib.Path(__file__).resolve().parent.parent
BOOK = ROOT / "docs/book"
# Made by mdBook from the other pages.
MADE = {"print.html", "toc.html", "404.html"}


class Page(html.parser.HTMLParser):
    """The links and the names that can be linked to of a page."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.links: list[tuple[int, str]] = []
        self.names: set[str] = set()
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = dict(attrs)
        if given.get("id"):
            self.names.add(given["id"])
        link = given.get("href") if tag in ("a", "link") else given.get("src")
        if link:
            self.links.append((self.getpos()[0], link))


def problems() -> list[str]:
    pages = {file: Page(file.read_text(encoding="utf-8")) for file in BOOK.rglob("*.html") if file.name not in MADE}
    found = []
    for file, page in sorted(pages.items()):
        for line, link in page.links:
            parts = urllib.parse.urlsplit(link)
            if parts.scheme or parts.netloc:
                continue
            target = (file.parent / urllib.parse.unquote(parts.path)).resolve() if parts.path else file
            if not target.is_file():
                found.append(f"{file.relative_to(ROOT)}:{line}: `{link}` leads nowhere")
            elif parts.fragment and target in pages and urllib.parse.unquote(parts.fragment) not in pages[target].names:
                found.append(f"{file.relative_to(ROOT)}:{line}: `{link}` leads to a heading that is not there")
    return found


def main() -> int:
    program = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else ROOT / "target/debug/manual").resolve()
    if not program.is_file():
        print(f"there is no program at {program}: cargo build --bin manual comes first", file=sys.stderr)
        return 2
    if subprocess.run([program, ROOT / "docs"], check=False).returncode != 0:
        return 1
    found = problems()
    print(*found, sep="\n", end="\n" if found else "", file=sys.stderr)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
