#!/usr/bin/env python3
"""Checks the documents without the packages of the site: every link leads to a file and a heading, every page is in the
navigation of mkdocs.yml, and README.md has at most 120 lines."""
import pathlib
import re
import sys
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
PAGES = [ROOT / name for name in ("README.md", "CONTRIBUTING.md", "CHANGELOG.md")]
PAGES += [p for folder in ("docs", "examples", "studies") for p in sorted((ROOT / folder).rglob("*.md"))]


def text_of(page):
    """A page without its code blocks and code spans."""
    text = re.sub(r"^```.*?^```", "", page.read_text(encoding="utf-8"), flags=re.S | re.M)
    text = re.sub(r"(?m)(?<=\n\n)(?: {4}.*\n|\n)+", "\n", text)
    return re.sub(r"`[^`\n]*`", "", text)


def anchors_of(page):
    """The anchors of a page's headings, as GitHub and Python-Markdown make them."""
    found = set()
    for heading in re.findall(r"^#+ (.*)$", page.read_text(encoding="utf-8"), re.M):
        plain = re.sub(r"[^\w\s-]", "", heading.replace("`", "")).strip().lower()
        found.add(re.sub(r"[-\s]+", "-", plain))
    return found


def broken_links(page):
    for target in re.findall(r"\]\(([^)\s]+)\)", text_of(page)):
        if re.match(r"https?:", target):
            continue
        path, _, anchor = target.partition("#")
        file = (page.parent / path).resolve() if path else page
        if not file.is_file():
            yield f"{page.relative_to(ROOT)}: {target}: no such file"
        elif anchor and anchor not in anchors_of(file):
            yield f"{page.relative_to(ROOT)}: {target}: no such heading"


class Documents(unittest.TestCase):
    def test_links_lead_somewhere(self):
        self.assertEqual([broken for page in PAGES for broken in broken_links(page)], [])

    def test_every_page_is_in_the_navigation(self):
        listed = set(re.findall(r"(\S+\.md)$", (ROOT / "mkdocs.yml").read_text(), re.M))
        self.assertEqual(listed, {str(page.relative_to(ROOT)) for page in PAGES})

    def test_the_readme_is_short(self):
        self.assertLessEqual(len((ROOT / "README.md").read_text().splitlines()), 120)


if __name__ == "__main__":
    sys.exit(unittest.main())
