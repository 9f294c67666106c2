"""Tables of texts that a phone shows as cards."""

from __future__ import annotations

import html
import re

LONG_CELL = 40
"""Characters of a cell beyond which a table is one of texts."""


def with_cards(content: str) -> str:
    """Tables with long texts, marked so that a narrow screen shows each row as a card with the names of its columns.

    Tables of numbers keep their columns, and scroll.

    >>> with_cards("<table><tr><th>a</th></tr><tr><td>" + "word " * 9 + "</td></tr></table>")[:56]
    '<table data-cards><tr><th>a</th></tr><tr><td data-label='
    """

    def marked(found: re.Match[str]) -> str:
        table = found[0]
        names = [text(cell) for cell in re.findall(r"<th[^>]*>(.*?)</th>", table, re.DOTALL)]
        cells = [text(cell) for cell in re.findall(r"<td[^>]*>(.*?)</td>", table, re.DOTALL)]
        if not names or max((len(cell) for cell in cells), default=0) <= LONG_CELL:
            return table

        def row(line: re.Match[str]) -> str:
            labels = iter(names)
            return re.sub(r"<td", lambda _: f'<td data-label="{html.escape(next(labels, ""))}"', line[0])

        return re.sub(r"<tr>.*?</tr>", row, table.replace("<table", "<table data-cards", 1), flags=re.DOTALL)

    def text(cell: str) -> str:
        return html.unescape(re.sub(r"<[^>]+>", "", cell)).strip()

    return re.sub(r"<table>.*?</table>", marked, content, flags=re.DOTALL)
