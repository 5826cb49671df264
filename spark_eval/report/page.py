"""Renders a document as one self-contained HTML page, without scripts, fonts or other files."""

from __future__ import annotations

import html
import re
from collections.abc import Iterator

from echo_core.spark_eval.report import palette
from echo_core.spark_eval.report.document import Document, Figure, Row, Section, Table, Value

_MARKS = {"rival": ("▼", "the rival is faster"), "noisy": ("~", "noisy")}


def render(document: Document) -> str:
    return "\n".join((*_head(document), *_body(document))) + "\n"


def _head(document: Document) -> Iterator[str]:
    yield "<!DOCTYPE html>"
    yield '<html lang="en"><head><meta charset="utf-8">'
    yield '<meta name="viewport" content="width=device-width, initial-scale=1">'
    yield '<link rel="icon" href="data:,">'
    yield f"<title>{html.escape(document.title)}</title>"
    yield f"<style>{_stylesheet()}</style></head>"


def _body(document: Document) -> Iterator[str]:
    yield "<body><header>"
    yield f"<h1>{_text(document.title)}</h1><p class=subtitle>{_text(document.subtitle)}</p>"
    yield '<nav aria-label="Sections"><ul>'
    yield from (f'<li><a href="#{s.name}">{_text(s.title)}</a></li>' for s in document.sections)
    yield "</ul></nav></header><main>"
    for section in document.sections:
        yield from _section(section)
    yield "</main></body></html>"


def _section(section: Section) -> Iterator[str]:
    yield f'<section id="{section.name}" aria-labelledby="{section.name}-heading">'
    yield f'<h2 id="{section.name}-heading">{_text(section.title)}</h2>'
    yield from (f"<p>{_text(paragraph)}</p>" for paragraph in section.paragraphs)
    if section.bullets:
        yield from ("<ul class=findings>", *(f"<li>{_text(b)}</li>" for b in section.bullets), "</ul>")
    if section.figures:
        yield from ("<div class=figures>", *(_figure(figure) for figure in section.figures), "</div>")
    yield "<div class=tables>"
    for table in section.tables:
        yield from _folded(table) if section.folded else _table(table)
    yield "</div></section>"


def _figure(figure: Figure) -> str:
    note = f" <span>{_text(figure.note)}</span>" if figure.note else ""
    return f"<figure><figcaption>{_text(figure.title)}{note}</figcaption>{figure.svg}</figure>"


def _folded(table: Table) -> Iterator[str]:
    yield f"<details><summary>{_text(table.caption)}</summary>"
    yield from _table(table)
    yield "</details>"


def _table(table: Table) -> Iterator[str]:
    """A table in a box that scrolls, also by keyboard, so that the page never scrolls sideways."""
    name = f"table-{table.name}"
    yield f'<div class=box role=region tabindex=0 aria-labelledby="{name}">'
    yield f'<table class="{table.kind or table.name}">'
    yield f'<caption id="{name}"><span>{_text(table.caption)}</span></caption>'
    yield f"<thead><tr>{''.join(f'<th scope=col>{_text(name)}</th>' for name in table.header)}</tr></thead>"
    yield from ("<tbody>", *(_row(row) for row in table.rows), "</tbody></table></div>")


def _row(row: Row) -> str:
    ours = " class=ours" if row.ours else ""
    return f"<tr{ours}><th scope=row>{_text(row.name)}</th>{''.join(_value(v) for v in row.values)}</tr>"


def _value(value: Value) -> str:
    if isinstance(value, str):
        return f"<td>{_text(value)}</td>"
    data = f'<data value="{value.value!r}">{_text(value.text)}</data>'
    if not value.mark:
        return f"<td>{data}</td>"
    sign, meaning = _MARKS[value.mark]
    return f'<td class={value.mark}>{data} <abbr title="{meaning}">{sign}</abbr></td>'


def _text(text: str) -> str:
    escaped = html.escape(text)
    escaped = re.sub(r"`([^`]+)`", r"<code>\1</code>", escaped)
    return re.sub(r"\*\*([^*]+)\*\*", r"<strong>\1</strong>", escaped)


# One column of text, figures side by side where there is room, tables in boxes.
_RULES = """
*{box-sizing:border-box}
html{-webkit-text-size-adjust:100%;scroll-behavior:smooth}
body{margin:0 auto;max-width:74rem;padding:2.5rem clamp(1rem,4vw,3rem) 5rem;background:var(--surface);
  color:var(--ink);font:1rem/1.55 system-ui,-apple-system,"Segoe UI",Roboto,"Helvetica Neue",sans-serif;
  overflow-wrap:break-word}
h1{font-size:clamp(1.6rem,1.2rem + 2vw,2.4rem);line-height:1.15;letter-spacing:-.02em;margin:0;
  text-wrap:balance}
h2{font-size:1.3rem;line-height:1.25;letter-spacing:-.01em;margin:0 0 .75rem}
p,.findings{max-width:44rem;margin:0 0 1rem}
.subtitle,caption,nav{color:var(--muted)}
.subtitle{margin:.4rem 0 0}
nav ul{display:flex;flex-wrap:wrap;gap:.25rem 1.1rem;list-style:none;margin:1.25rem 0 0;padding:0;
  font-size:.9rem}
a{color:var(--echo);text-underline-offset:.15em;text-decoration-thickness:1px}
section{margin-top:2.25rem;padding-top:1.75rem;border-top:1px solid var(--rule)}
code{font:.92em ui-monospace,"SF Mono",Menlo,Consolas,monospace;color:var(--echo)}
strong{font-weight:650}
.findings{padding-left:1.1rem}
.findings li{margin:0 0 .55rem}
.findings li::marker{color:var(--muted)}
.figures{display:grid;grid-template-columns:repeat(auto-fit,minmax(min(100%,25rem),1fr));gap:2rem 2.5rem;
  align-items:start;margin:1.5rem 0 2rem}
figure{margin:0;min-width:0}
figure svg{display:block;width:100%;height:auto;max-width:34rem;overflow:visible;font-family:inherit}
figcaption{font-size:.9rem;line-height:1.4;font-weight:600;color:var(--ink);margin:0 0 .6rem;max-width:34rem}
figcaption span{display:block;font-size:.8rem;font-weight:400;color:var(--muted)}
.tables{display:flex;flex-wrap:wrap;gap:0 2.5rem;align-items:flex-start}
.tables>details{flex:1 1 100%;min-width:0}
.box{overflow-x:auto;margin:0 0 1.75rem;max-width:100%}
.box:focus-visible{outline:2px solid var(--echo);outline-offset:3px}
table{border-collapse:collapse;font-size:.86rem;line-height:1.35;font-variant-numeric:tabular-nums}
caption{text-align:left;font-size:.85rem;padding:0 0 .5rem;position:sticky;left:0;max-width:44rem}
caption span{display:block;width:max-content;max-width:min(26rem,100vw - 2rem)}
th,td{padding:.3rem .7rem;text-align:right;white-space:nowrap;border-bottom:1px solid var(--rule)}
thead th{font-weight:600;color:var(--muted);border-bottom-color:var(--muted);vertical-align:bottom}
th:first-child{text-align:left;position:sticky;left:0;background:var(--surface);padding-left:0}
tbody th{font-weight:400}
tbody tr:hover>*{background:var(--shade)}
.ours th,.ours td{font-weight:600}
.ours th{color:var(--echo)}
td.rival{color:var(--xml)}
td abbr{text-decoration:none;font-size:.8em}
td.noisy abbr{color:var(--muted)}
.environment td,.words td{text-align:left;white-space:normal;max-width:44rem;min-width:12rem}
.environment th,.words th{vertical-align:top}
.environment thead th,.words thead th{text-align:left}
.words .ours td{font-weight:400}
summary{cursor:pointer;padding:.5rem 0;font-weight:600}
details .box{max-height:36rem;overflow:auto}
details thead th{position:sticky;top:0;background:var(--surface);z-index:1}
details caption{position:absolute;width:1px;height:1px;overflow:hidden;clip-path:inset(50%)}
@media (max-width:40rem){body{padding-top:1.5rem}th,td{padding:.28rem .5rem}
  .cells th:first-child,.all-ratios th:first-child,.environment th{max-width:9rem;
  min-width:6rem;white-space:normal}}
@media (prefers-reduced-motion:reduce){html{scroll-behavior:auto}}
@media print{body{max-width:none;padding:0;font-size:10pt}nav{display:none}
  .box,details .box{overflow:visible;max-height:none}table{font-size:7pt}th,td{padding:.15rem .3rem}
  th:first-child,details thead th{position:static}figure,tr{break-inside:avoid}h2,caption{break-after:avoid}
  .figures{grid-template-columns:1fr 1fr;gap:1rem}details::details-content{content-visibility:visible;
  block-size:auto;height:auto}}
"""


def _stylesheet() -> str:
    return palette.properties() + "".join(line.strip() for line in _RULES.splitlines())
