"""Source text and briefs as safe HTML: Pygments for code, Markdown (no raw HTML, sanitised) for briefs.

Not for diffs (diffs.py). Both bound what they take, and what they return is already escaped.
"""

from __future__ import annotations

import nh3
from django.utils.html import escape, format_html
from django.utils.safestring import SafeString, mark_safe
from markdown_it import MarkdownIt
from pygments import highlight as pygments_highlight
from pygments.formatters import HtmlFormatter
from pygments.lexers import CppLexer, CudaLexer, JsonLexer, MarkdownLexer, PythonLexer, TextLexer

from portal.pages import text

SOURCE_CHARACTERS = 200_000
HIGHLIGHT_CHARACTERS = 100_000  # of one text; beyond this it would take seconds: shown without colours
HIGHLIGHT_BUDGET = 200_000  # of all texts of one page
BRIEF_CHARACTERS = 100_000

_LEXERS = {
    "py": PythonLexer, "cu": CudaLexer, "cuh": CudaLexer, "cpp": CppLexer, "cc": CppLexer, "cxx": CppLexer,
    "h": CppLexer, "hpp": CppLexer, "json": JsonLexer, "md": MarkdownLexer,
}
_FORMATTER = HtmlFormatter(nowrap=True, classprefix="hl-")
_MARKDOWN = MarkdownIt("commonmark", {"html": False, "linkify": False}).enable(["table", "strikethrough"])
_TAGS = {
    "p", "br", "hr", "h1", "h2", "h3", "h4", "h5", "h6", "em", "strong", "s", "code", "pre", "blockquote",
    "ul", "ol", "li", "a", "table", "thead", "tbody", "tr", "th", "td",
}


def code(source: str, file_name: str, *, colours: bool = True, anchor: str = "") -> SafeString:
    """Highlighted lines, each in ``<span class="line">``. The language follows from the file name's ending.

    ``colours=False`` shows the lines without: for the files of a page beyond its HIGHLIGHT_BUDGET. With ``anchor`` line
    n has the id ``<anchor>-<n>``.
    """
    shown = text.block(source, characters=SOURCE_CHARACTERS, lines=6_000)
    lexer = _LEXERS.get(file_name.rpartition(".")[2].lower(), TextLexer)
    if not colours or len(shown.text) > HIGHLIGHT_CHARACTERS:
        lexer = TextLexer
    rendered = pygments_highlight(shown.text, lexer(stripnl=False, ensurenl=True), _FORMATTER)
    # Pygments closes and reopens its spans at line ends, so a split by lines keeps the markup balanced.
    lines = rendered.rstrip("\n").split("\n")
    body = text.lines_as_spans([mark_safe(line) for line in lines], anchor)  # noqa: S308 - escaped by Pygments
    if shown.truncated:
        return format_html('{}<span class="cut">{}</span>', body, shown.notice)
    return body


def markdown(source: str, *, below: int = 2) -> SafeString:
    """A brief as HTML: CommonMark and tables; raw HTML is shown as text, images and foreign schemes are dropped.

    Its headings move ``below`` levels down: where a brief stands, the page has an h1 and an h2 above it.
    """
    shown = text.reveal(source[:BRIEF_CHARACTERS])
    rendered = nh3.clean(
        _MARKDOWN.render(shown), tags=_TAGS, attributes={"a": {"href", "title"}, "th": {"align"}, "td": {"align"}},
        url_schemes={"http", "https", "mailto"}, link_rel="noopener noreferrer nofollow",
    )
    for level in (4, 3, 2, 1):
        lower = level + below
        rendered = rendered.replace(f"<h{level}>", f"<h{lower}>").replace(f"</h{level}>", f"</h{lower}>")
    return mark_safe(rendered)  # noqa: S308 - sanitised above


def plain(source: str) -> SafeString:
    """Escaped text, for the places where a template cannot do it."""
    return mark_safe(escape(source))  # noqa: S308
