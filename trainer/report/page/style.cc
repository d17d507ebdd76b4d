#include <tutti/trainer/report/page/sections.h>

namespace tutti::trainer::page {

// Series s0 ... s7 and the two colours of the matrix; each set was chosen against its own background.
const char kStyle[] = R"(
:root{color-scheme:light dark;--page:#f6f7f9;--card:#fff;--text:#1b1f24;--soft:#5c6670;--line:#e3e6ea;--lane:#f1f3f5;
--s0:#2a6fd6;--s1:#d9622b;--s2:#16936a;--s3:#8a5cd0;--s4:#b8860b;--s5:#c2407f;--s6:#2592a8;--s7:#7d8790;
--good:#16784f;--goodback:#e6f5ee;--warn:#96370b;--warnback:#fdeee6;--right:42,111,214;--wrong:217,98,43}
@media (prefers-color-scheme:dark){:root{--page:#101317;--card:#181c22;--text:#e8ebee;--soft:#9aa5b0;--line:#2b323a;
--lane:#20262d;--s0:#5b9bf2;--s1:#f0864f;--s2:#3dbd90;--s3:#ae8bea;--s4:#d9aa3a;--s5:#e673ab;--s6:#54b9cf;--s7:#8f9aa4;
--good:#6cd3a6;--goodback:#132a21;--warn:#ffb088;--warnback:#37200f;--right:72,140,240;--wrong:240,134,79}}
*{box-sizing:border-box}
body{margin:0;background:var(--page);color:var(--text);font:15px/1.55 system-ui,"Segoe UI",Roboto,"DejaVu Sans",sans-serif}
main{max-width:1040px;margin:0 auto;padding:28px 20px 60px}
h1{font-size:26px;line-height:1.25;margin:0 0 2px}h2{font-size:18px;margin:0 0 12px}
header p{margin:0;color:var(--soft);overflow-wrap:anywhere}
section{background:var(--card);border:1px solid var(--line);border-radius:12px;padding:20px 22px;margin-top:18px}
.tiles{display:grid;grid-template-columns:repeat(auto-fit,minmax(150px,1fr));gap:12px;margin-top:18px}
.tile{background:var(--card);border:1px solid var(--line);border-radius:12px;padding:12px 16px}
.tile b{display:block;font-size:22px;font-weight:650;line-height:1.3}.tile span{color:var(--soft);font-size:13px}
.charts{display:grid;grid-template-columns:repeat(auto-fit,minmax(430px,1fr));gap:18px 26px;align-items:end}
@media (max-width:520px){.charts{grid-template-columns:1fr}}
figure{margin:0 0 6px}figure+figure,.scroll+figure{margin-top:16px}.charts figure+figure{margin-top:0}
figcaption{font-weight:600;font-size:14px;margin-bottom:4px}
svg{display:block;width:100%;height:auto}.strip{overflow:visible}
.tick{fill:var(--soft);font-size:12px}.end{text-anchor:end}.mid{text-anchor:middle}
.grid{stroke:var(--line)}.axis{stroke:var(--soft)}
.line{fill:none;stroke-width:2;stroke-linejoin:round}.line.faint{stroke-width:1;opacity:.6}
.dot{stroke:var(--card);stroke-width:1.5}
.line.s0{stroke:var(--s0)}.line.s1{stroke:var(--s1)}.line.s2{stroke:var(--s2)}.line.s3{stroke:var(--s3)}
.line.s4{stroke:var(--s4)}.line.s5{stroke:var(--s5)}.line.s6{stroke:var(--s6)}.line.s7{stroke:var(--s7)}
.dot.s0,rect.s0{fill:var(--s0)}.dot.s1,rect.s1{fill:var(--s1)}.dot.s2,rect.s2{fill:var(--s2)}.dot.s3,rect.s3{fill:var(--s3)}
rect.s4{fill:var(--s4)}rect.s5{fill:var(--s5)}rect.s6{fill:var(--s6)}rect.s7{fill:var(--s7)}
.heat{fill:var(--s0)}.lane{fill:var(--lane)}
.legend{list-style:none;display:flex;flex-wrap:wrap;gap:4px 18px;margin:0 0 6px;padding:0;font-size:13px;color:var(--soft)}
.key{display:inline-block;width:18px;height:3px;border-radius:2px;margin-right:6px;vertical-align:middle}
.key.box{width:11px;height:11px;border-radius:3px}.key.faint{height:1px;opacity:.6}
.key.s0,.bar.s0{background:var(--s0)}.key.s1,.bar.s1{background:var(--s1)}.key.s2,.bar.s2{background:var(--s2)}
.key.s3{background:var(--s3)}.key.s4{background:var(--s4)}.key.s5{background:var(--s5)}.key.s6{background:var(--s6)}
.key.s7{background:var(--s7)}
.scroll{overflow-x:auto}table{border-collapse:collapse;font-variant-numeric:tabular-nums}
.plain td,.plain th{padding:4px 14px 4px 0;text-align:left;vertical-align:middle;border-top:1px solid var(--line);white-space:nowrap}
.plain tr:first-child th{border-top:0;color:var(--soft);font-weight:500;font-size:13px}
.plain.options td{white-space:normal;overflow-wrap:anywhere}
.bars{width:100%}.plain td.wide,.plain th.wide{width:55%;padding-right:0}.bars th[scope=row]{font-weight:600}
.bar{display:inline-block;height:12px;vertical-align:middle;border-radius:2px}.bar.blank{visibility:hidden}
.light{opacity:.45}.straggler th,.straggler td{color:var(--warn)}
.confusion caption{caption-side:top;text-align:left;color:var(--soft);font-size:13px;padding-bottom:6px}
.confusion td,.confusion th{padding:5px 8px;text-align:right;font-size:13px;min-width:44px;border:2px solid var(--card)}
.confusion th{color:var(--soft);font-weight:500;white-space:nowrap}
.confusion.small td,.confusion.small th{padding:3px 4px;min-width:30px;font-size:12px;border-width:1px}
.confusion .right{background:rgba(var(--right),calc(.08 + .84*var(--d)))}
.confusion .wrong{background:rgba(var(--wrong),calc(.04 + .8*var(--d)))}.confusion .none{color:var(--soft);opacity:.75}
.confusion .deep{color:#fff}.confusion .share{color:var(--soft);padding-left:14px}
.good,.warning,.absent,.remarks{padding:9px 14px;border-radius:8px;margin:0 0 12px}
.good{background:var(--goodback);color:var(--good)}.warning{background:var(--warnback);color:var(--warn)}
.absent{color:var(--soft);background:var(--lane);margin:0}
.remarks{background:var(--warnback);color:var(--warn);margin-top:18px}.remarks ul{margin:4px 0 0;padding-left:20px}
details{margin-top:12px}summary{cursor:pointer;color:var(--soft)}section>details:first-of-type{margin-top:10px}
pre{overflow-x:auto;font:12.5px/1.5 ui-monospace,"DejaVu Sans Mono",monospace;margin:0}code{font-size:13px}
.small-text{font-size:13px;color:var(--soft);overflow-wrap:anywhere}
@media print{body{background:#fff}section,.tile{break-inside:avoid}}
)";

}  // namespace tutti::trainer::page
