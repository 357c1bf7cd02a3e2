"""How the report looks: one style sheet, with the colours of light and dark at its top."""

COLOURED = ("death", "sleep", "net", "slow", "disk", *(f"b{number}" for number in range(8)))
"""Kinds of faults, and brokers: boxes in the chart and keys in the legend have these classes."""

_SHEET = """
:root { color-scheme: light dark;
  --back: #fbfbfa; --card: #fff; --text: #1d2127; --soft: #626a75; --line: #e2e4e8; --lane: #eff1f3;
  --accent: #2f6fde; --bad: #c02637; --inside: #1d2127;
  --death: #d8404f; --sleep: #8a5bd6; --net: #dd8a1a; --slow: #2d9cb4; --disk: #6b7280;
  --b0: #a9c8f5; --b1: #f7cf9b; --b2: #aadfc4; --b3: #e3b9ea; --b4: #f3b8b4; --b5: #cfd8a2; --b6: #b9d9e6; --b7: #d9c9b4 }
@media (prefers-color-scheme: dark) { :root {
  --back: #14171b; --card: #1b1f25; --text: #e6e8eb; --soft: #98a1ad; --line: #2d333b; --lane: #22272e;
  --accent: #6ea3ff; --bad: #ff7480; --inside: #f3f4f6;
  --death: #e05561; --sleep: #a583e8; --net: #e29b3d; --slow: #4db4ca; --disk: #8b93a0;
  --b0: #2f588f; --b1: #80561e; --b2: #2a6b50; --b3: #6d4378; --b4: #84413d; --b5: #5d6632; --b6: #376273; --b7: #69573e } }
* { box-sizing: border-box }
body { margin: 0; background: var(--back); color: var(--text); font: 15px/1.5 system-ui, sans-serif }
main { max-width: 1180px; margin: 0 auto; padding: 28px 24px 60px }
h1 { font-size: 26px; margin: 0 0 16px; display: flex; align-items: center; gap: 14px; flex-wrap: wrap }
h1 span { font-size: 15px; padding: 3px 12px; border-radius: 20px; color: #fff }
h1 .good { background: #13795b } h1 .bad { background: #c02637 }
h2 { font-size: 18px; margin: 30px 0 8px }
h3 { font-size: 15px; margin: 18px 0 4px }
td:last-child { min-width: 260px }
.tiles { display: grid; grid-template-columns: repeat(auto-fill, minmax(125px, 1fr)); gap: 8px }
.tiles div { background: var(--card); border: 1px solid var(--line); border-radius: 8px; padding: 8px 12px }
.tiles b { display: block; font-size: 18px; font-variant-numeric: tabular-nums }
.tiles span { color: var(--soft); font-size: 13px }
figure { margin: 18px 0 0; padding: 6px 10px 12px; overflow-x: auto;
  background: var(--card); border: 1px solid var(--line); border-radius: 10px }
figcaption { color: var(--soft); font-size: 13px; padding: 4px 10px }
svg { width: 100%; min-width: 760px; height: auto; display: block; font: 11.5px system-ui, sans-serif }
.title { fill: var(--text); font-weight: 600; font-size: 13px }
.tick { fill: var(--soft) }
.inside { fill: var(--inside); pointer-events: none }
.fault + .inside { fill: #fff }
.grid { stroke: var(--line); stroke-width: 1 }
rect.lane { fill: var(--lane) }
.area { fill: var(--accent); opacity: .16 }
.line { fill: none; stroke-width: 1.6; stroke-linejoin: round }
.rate, .p50 { stroke: var(--accent) } .p99 { stroke: var(--slow) } .max { stroke: var(--soft) }
.key.p50::before { background: var(--accent) } .key.p99::before { background: var(--slow) }
.band { opacity: .13 }
.mark { stroke: var(--bad); stroke-width: 1.5; stroke-dasharray: 3 3 }
.reign { stroke: var(--card); stroke-width: 1 }
rect.nobody { fill: var(--death) }
.key { display: inline-block; margin: 0 10px 0 2px }
.key::before { content: ""; display: inline-block; width: 11px; height: 11px; border-radius: 3px; margin-right: 5px;
  vertical-align: -1px; background: var(--soft) }
.scroll { overflow-x: auto }
table { border-collapse: collapse; width: 100%; font-size: 14px }
th { text-align: left; color: var(--soft); font-weight: 600 }
th, td { padding: 6px 12px 6px 0; border-bottom: 1px solid var(--line); vertical-align: top; white-space: pre-line }
pre { background: var(--card); border: 1px solid var(--line); border-radius: 8px; padding: 10px 14px; white-space: pre-wrap }
"""

STYLE = _SHEET + "".join(
    f"rect.{name} {{ fill: var(--{name}) }} .key.{name}::before {{ background: var(--{name}) }}\n" for name in COLOURED
)
