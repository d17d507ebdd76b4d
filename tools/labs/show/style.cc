#include <tutti/tools/labs/show/parts.h>

namespace tutti::labs::show {

// Added to the style of the report's pages (trainer/report/page/style.cc). --r0 ... --r15: the ranks' colours.
const char kShowStyle[] = R"(
:root{--r0:#2a6fd6;--r1:#d9622b;--r2:#16936a;--r3:#8a5cd0;--r4:#b8860b;--r5:#c2407f;--r6:#2592a8;--r7:#6b757e;
--r8:#173f86;--r9:#8f3a10;--r10:#0b5c41;--r11:#55319a;--r12:#735400;--r13:#7d1f4d;--r14:#115c6c;--r15:#2f363d}
@media (prefers-color-scheme:dark){:root{--r0:#5b9bf2;--r1:#f0864f;--r2:#3dbd90;--r3:#ae8bea;--r4:#d9aa3a;--r5:#e673ab;
--r6:#54b9cf;--r7:#9aa5b0;--r8:#a9c9fb;--r9:#f9c3a6;--r10:#a5e6cd;--r11:#d8c8f8;--r12:#f2dca6;--r13:#f5bcd8;--r14:#b3e4ee;--r15:#dfe4e8}}
.show main{max-width:1500px}
.sides{display:grid;grid-template-columns:repeat(auto-fit,minmax(min(100%,560px),1fr));gap:0 18px;align-items:start}
.sides>section{min-width:0}
.kicker{margin:0;color:var(--soft);font-size:13px}.show h2{margin-bottom:10px;overflow-wrap:anywhere}
.tiles.small{grid-template-columns:repeat(auto-fit,minmax(110px,1fr));gap:8px;margin:0 0 14px}
.tiles.small .tile{padding:8px 12px;background:var(--lane);border:0}.tiles.small b{font-size:17px;font-variant-numeric:tabular-nums}
.tiles.small span{font-size:12px;line-height:1.3;display:block}
.how{margin-top:10px}.how p{max-width:760px;margin:6px 0 0;font-size:14px}
.failed pre{white-space:pre-wrap;overflow-wrap:anywhere}
.failed h2{color:var(--warn)}
#controls{position:sticky;top:0;z-index:2;background:var(--card);border:1px solid var(--line);border-radius:12px;
padding:12px 16px;margin-top:14px;box-shadow:0 2px 10px rgba(0,0,0,.07)}
#controls[hidden]{display:none}
.buttons{display:flex;flex-wrap:wrap;gap:6px 8px;align-items:center}
button,select{font:inherit;color:inherit;background:var(--lane);border:1px solid var(--line);border-radius:8px;
padding:5px 11px;min-height:36px;cursor:pointer}
#run{min-width:76px;background:var(--s0);color:#fff;border-color:transparent;font-weight:600}
@media (prefers-color-scheme:dark){#run{color:#0b1016}}
:is(button,select,input,summary,.scroll):focus-visible{outline:3px solid var(--s0);outline-offset:2px}
.buttons label{font-size:13px;color:var(--soft)}#where{margin-left:auto;font-variant-numeric:tabular-nums;font-size:14px}
#slider{width:100%;margin:8px 0 0;accent-color:var(--s0)}
.keys{margin:2px 0 0}
.unseen{position:absolute;width:1px;height:1px;overflow:hidden;clip-path:inset(50%);white-space:nowrap}
.stage{position:relative;margin:0 0 18px}
.rank{display:grid;grid-template-columns:74px 58px minmax(0,1fr);gap:0 8px;align-items:center;padding:5px 0;
border-top:1px solid var(--line);min-height:46px}
.rank:first-of-type{border-top:0}
.rank .name{grid-column:2;font-weight:600;font-size:13px;line-height:1.2}
.rank .name small{display:block;font-weight:400;color:var(--soft);font-size:11px}
.rank .memory{grid-column:3;min-width:0}
.state{grid-column:3;font-size:12.5px;color:var(--soft);min-height:19px;line-height:19px}
.state .w{color:var(--warn)}.state .s{color:var(--s0)}.state .r{color:var(--s2)}.state .a{color:var(--s3)}
.state span+span:before{content:" · ";color:var(--soft)}
.buffer{display:grid;grid-template-columns:auto minmax(0,1fr);gap:0 6px;margin:2px 0}
.buffer[hidden]{display:none}.buffer>div{display:flex;flex-wrap:wrap;gap:3px}
.buffer>em{font-style:normal;font-size:11px;color:var(--soft);min-width:44px;padding-top:4px}
.cell{min-width:38px;border:1px solid var(--line);border-radius:5px;text-align:center;background:var(--page);overflow:hidden;
display:inline-block;line-height:1.15}
.cell b{display:block;font-size:12.5px;font-weight:600;font-variant-numeric:tabular-nums;padding:1px 3px 0}
.cell i{display:block;font-style:normal;font-size:10px;color:var(--soft);padding:0 3px 1px;white-space:nowrap}
.cell u{display:block;height:5px}
.cell.new{border-color:var(--s0);box-shadow:0 0 0 1px var(--s0)}
.cell.bad{border-color:var(--warn);box-shadow:0 0 0 1px var(--warn);background:var(--warnback)}
.cell.bad b:after{content:" \2260";color:var(--warn)}
.arcs{position:absolute;left:0;top:0;width:74px;height:100%;pointer-events:none;overflow:visible}
.arc{fill:none;stroke:var(--s0);stroke-width:2}.arc.stuck{stroke:var(--warn);stroke-dasharray:5 4}
.head{fill:var(--s0)}.head.stuck{fill:var(--warn)}.parcel{fill:var(--s1);stroke:var(--card);stroke-width:1.5}
.spacetime{min-width:520px}.b-send,.b-recv,.b-add{stroke:var(--lane);stroke-width:1}
.b-send,.k-send{fill:var(--s0);background:var(--s0)}.b-recv,.k-recv{fill:var(--s2);background:var(--s2)}
.b-add,.k-add{fill:var(--s3);background:var(--s3)}
.b-wait{fill:url(#hatch)}.hatch{fill:var(--warn);opacity:.5}.b-wait.never{stroke:var(--warn);stroke-dasharray:4 3}
.k-wait{background:repeating-linear-gradient(45deg,var(--warn) 0 2px,transparent 2px 5px)}
.flight{stroke:var(--soft);stroke-width:1;opacity:.75}.cursor{stroke:var(--s1);stroke-width:2}
.w-bar{background:var(--warn);opacity:.6}
.messages tr.now td{background:var(--goodback)}.messages .scroll{max-height:340px;overflow:auto}
.deadlock{display:flex;flex-wrap:wrap;gap:8px 24px;justify-content:space-between}.deadlock p,.deadlock ol{margin:0}
.deadlock ol{padding-left:22px}.deadlock>div{flex:1 1 240px;min-width:0;overflow-wrap:anywhere}
.warning p{margin:0}.warning ul{margin:4px 0 0;padding-left:20px}.cycle{width:170px;flex:0 0 auto}
.ball{fill:var(--card);stroke:var(--warn);stroke-width:2}.stuck-line{fill:none;stroke:var(--warn);stroke-width:2}
.cycle .tick{fill:var(--text);font-weight:600}
@media (max-width:560px){main{padding:16px 10px 40px}section{padding:14px 12px}.keys{display:none}#controls{padding:8px 10px}
.rank{grid-template-columns:46px 44px minmax(0,1fr);gap:0 6px}.arcs{width:46px}.buffer{grid-template-columns:1fr}.buffer>em{padding:0}
.cell{min-width:32px}.cell b{font-size:11.5px}button,select{padding:4px 8px}#run{min-width:62px}.buttons{gap:5px}
.buttons label span{position:absolute;width:1px;height:1px;overflow:hidden;clip-path:inset(50%)}}
@media print{#controls{display:none}}
)";

}  // namespace tutti::labs::show
