package report

// mark is the server's, as its page has it.
const mark = `<svg class="mark" viewBox="0 0 64 64" aria-hidden="true"><rect width="64" height="64" rx="14" fill="#17463c"/><g fill="none" stroke="#f6f3ea" stroke-width="4.5" ` +
	`stroke-linecap="round"><circle cx="17" cy="32" r="8"/><circle cx="47" cy="32" r="8"/><path d="M25 32h14"/></g></svg>`

// style is the look of the server's page (server/ui/style) in what a report needs of it: a test
// holds the colours to be the same.
const style = `:root{color-scheme:light dark;
--paper:#fbfaf7;--raised:#fff;--soft:#f2f0ea;--line:#e2dfd6;--ink:#1f1e1b;--dim:#625f57;--go:#17614f;
--s1:#17614f;--s2:#b0672a;--s3:#3b6aa8;--s4:#8a3c7c;--s5:#7a7a2a;--s6:#5d5b9c;--s7:#a8423d;--s8:#2f7d8a}
@media (prefers-color-scheme:dark){:root{--paper:#15171a;--raised:#1c1f23;--soft:#22262b;--line:#31363d;--ink:#e7e5e0;--dim:#a7a59e;--go:#7fcdb3;
--s1:#7fcdb3;--s2:#e2a56b;--s3:#8fbdea;--s4:#d59bd0;--s5:#cbcb7b;--s6:#b1aef0;--s7:#f29a92;--s8:#6fb9c5}}
*{box-sizing:border-box}
body{margin:0 auto;max-width:66rem;padding:1rem 1.2rem 3rem;background:var(--paper);color:var(--ink);font:16px/1.55 ui-sans-serif,system-ui,"Segoe UI","Noto Sans","Helvetica Neue",sans-serif}
header{display:flex;align-items:center;gap:.7rem;margin-block:.6rem .2rem}.mark{width:2.2rem;height:2.2rem}
h1,h2,h3{line-height:1.25;font-weight:650;letter-spacing:-.011em;margin:0}h1{font-size:1.4rem}h2{font-size:1.2rem;margin-block:2rem .2rem}h3{font-size:1rem;margin-block:0 .6rem}
p{margin:.5rem 0}.facts{color:var(--dim);font-size:.9rem}
.tiles{display:grid;grid-template-columns:repeat(auto-fit,minmax(9rem,1fr));gap:1px;background:var(--line);border:1px solid var(--line);border-radius:.9rem;overflow:hidden;margin-block:.8rem 1.2rem}
.tiles:empty{display:none}.tile{background:var(--raised);padding:.7rem 1rem}.tile dt{color:var(--dim);font-size:.84rem}.tile dd{margin:0;color:var(--dim);font-size:.9rem}
.tile b{font-size:1.45rem;font-weight:600;letter-spacing:-.02em;color:var(--ink)}
.panel{border:1px solid var(--line);border-radius:.9rem;background:var(--raised);padding:.9rem 1.1rem 1rem;margin-block:1rem}
.plots{display:grid;grid-template-columns:repeat(auto-fit,minmax(min(27rem,100%),1fr));gap:0 1rem}
.wide{overflow-x:auto}table{border-collapse:collapse;width:100%;font-size:.86rem;font-variant-numeric:tabular-nums;white-space:nowrap}
td,th{padding:.4rem .8rem .4rem 0;text-align:right;border-bottom:1px solid var(--line)}th{color:var(--dim);font-weight:550}tr:last-child td{border-bottom:0}
td:first-child,th:first-child{text-align:left}
svg{width:100%;height:auto;display:block}svg text{fill:var(--dim);font:13px ui-sans-serif,system-ui,sans-serif}
.axis{stroke:var(--dim);stroke-opacity:.6}.grid{stroke:var(--line)}
.s1{--c:var(--s1)}.s2{--c:var(--s2)}.s3{--c:var(--s3)}.s4{--c:var(--s4)}.s5{--c:var(--s5)}.s6{--c:var(--s6)}
.s7{--c:var(--s7)}.s8{--c:var(--s8)}.limit{--c:var(--dim)}.best{--c:var(--ink)}
.t1{--h:0;--k:0%}.t2{--h:137;--k:9%}.t3{--h:274;--k:-7%}.t4{--h:51;--k:0%}.t5{--h:188;--k:9%}.t6{--h:325;--k:-7%}.t7{--h:102;--k:0%}.t8{--h:239;--k:9%}.t9{--h:16;--k:-7%}.t10{--h:153;--k:0%}.t11{--h:290;--k:9%}.t12{--h:67;--k:-7%}.t13{--h:204;--k:0%}.t14{--h:341;--k:9%}
[class^=t]:is(rect){--c:hsl(var(--h) 38% calc(70% + var(--k)))}@media (prefers-color-scheme:dark){[class^=t]:is(rect){--c:hsl(var(--h) 28% calc(48% + var(--k)))}}
rect[class],circle[class]{fill:var(--c)}.line{fill:none;stroke:var(--c);stroke-width:2}
`
