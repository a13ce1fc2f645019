"""Writes what was measured into a page, between <!-- name: ... --> and <!-- /name -->."""

import re
from pathlib import Path


def replace(page: Path, name: str, text: str) -> None:
    marks = re.compile(rf"(<!-- {name}:[^\n]*-->\n).*?(<!-- /{name} -->)", re.DOTALL)
    written, count = marks.subn(
        lambda found: found[1] + "\n" + text + "\n" + found[2], page.read_text()
    )
    assert count == 1, f"{page} needs <!-- {name}: ... --> and <!-- /{name} --> once"
    page.write_text(written)


def table(head: list[str], rows: list[list[str]]) -> str:
    lines = ["| " + " | ".join(line) + " |" for line in [head, *rows]]
    lines.insert(1, "|" + "---|" * len(head))
    return "\n".join(lines) + "\n"
