"""The page's style: one column of text, figures side by side where there is room, tables in boxes."""

from __future__ import annotations

from echo_core.spark_eval.report import palette

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


def stylesheet() -> str:
    return palette.properties() + "".join(line.strip() for line in _RULES.splitlines())
