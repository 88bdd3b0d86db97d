"""Gathers the pages of the site in .build/pages, where they lie as in the repository.

So links between them work in both places. What only the tests of the documentation read, the
comments, is left out; files that are linked to and are no pages are copied as they are.
"""

import re
import shutil
from pathlib import Path

ROOT = Path(__file__).parent.parent
PAGES = ROOT / ".build" / "pages"
LINK = re.compile(r"\]\(([^)\s#]+)[^)\s]*\)")


def main() -> None:
    shutil.rmtree(PAGES, ignore_errors=True)
    for page in pages():
        text = page.read_text()
        put(page, re.sub(r"<!--.*?-->\n?", "", text, flags=re.DOTALL))
        for target in LINK.findall(text):
            file = (page.parent / target).resolve()
            if "://" not in target and file.suffix != ".md" and file.is_file():
                put(file, file.read_text())


def pages() -> list[Path]:
    """The pages of the documentation, which are those of the site."""
    folders = ("*.md", "docs/**/*.md", "examples/**/*.md")
    return sorted(page for folder in folders for page in ROOT.glob(folder))


def put(file: Path, text: str) -> None:
    goal = PAGES / file.relative_to(ROOT)
    goal.parent.mkdir(parents=True, exist_ok=True)
    goal.write_text(text)


if __name__ == "__main__":
    main()
