import { createHash } from 'node:crypto';

/** The style of every page. It stands inside the page, so that a page is one answer and asks for nothing else. */
export const PAGE_STYLE = `
:root {
  color-scheme: light dark;
  --ground: #f4f5f7; --sheet: #fff; --edge: #dcdfe5; --ink: #171a21; --soft: #535b69;
  --accent: #2448c5; --accent-over: #1b389d; --on-accent: #fff; --tint: #eef1fb; --tint-edge: #cfd8f6;
  --alarm: #a3211b; --alarm-tint: #fdf0ef; --alarm-edge: #efc4c1; --good: #17653a; --field-edge: #7d8594;
}
@media (prefers-color-scheme: dark) {
  :root {
    --ground: #101216; --sheet: #191c22; --edge: #2e333d; --ink: #eceef2; --soft: #a6aebc;
    --accent: #9db4ff; --accent-over: #bccbff; --on-accent: #10183a; --tint: #1f2536; --tint-edge: #35405f;
    --alarm: #ff9d96; --alarm-tint: #331a1a; --alarm-edge: #6b3431; --good: #7fd6a2; --field-edge: #7a8291;
  }
}
*, *::before, *::after { box-sizing: border-box; }
html { -webkit-text-size-adjust: 100%; text-size-adjust: 100%; }
body {
  margin: 0; min-height: 100vh; min-height: 100svh; padding: 1.5rem 1rem; display: grid; align-content: center;
  justify-items: center; background: var(--ground); color: var(--ink);
  font: 1rem/1.55 system-ui, -apple-system, "Segoe UI", Roboto, "Helvetica Neue", Arial, sans-serif;
}
main, .brand { width: 100%; max-width: 28rem; }
.brand { display: flex; align-items: center; gap: .6rem; margin: 0 0 .9rem; padding: 0 .25rem; color: var(--soft); font-weight: 600; font-size: .9375rem; }
.brand svg { width: 1.375rem; height: 1.375rem; flex: none; color: var(--accent); }
main { background: var(--sheet); border: 1px solid var(--edge); border-radius: 1rem; padding: clamp(1.25rem, 6vw, 2rem); overflow-wrap: break-word; }
main > :last-child { margin-bottom: 0; }
h1 { margin: 0 0 .6rem; font-size: 1.5rem; line-height: 1.25; font-weight: 650; letter-spacing: -.012em; text-wrap: balance; }
h2 { margin: 1.5rem 0 .5rem; font-size: 1.0625rem; line-height: 1.3; font-weight: 650; }
p { margin: 0 0 1rem; text-wrap: pretty; }
.soft { color: var(--soft); }
.small { font-size: .875rem; line-height: 1.5; }
label { display: block; margin: 1.25rem 0 .4rem; font-weight: 600; }
.hint { margin: .5rem 0 0; color: var(--soft); font-size: .875rem; }
code, input { font-family: ui-monospace, SFMono-Regular, Menlo, Consolas, "Liberation Mono", monospace; }
input {
  display: block; width: 100%; padding: .7rem .8rem; color: var(--ink); background: var(--sheet); border: 1px solid var(--field-edge);
  border-radius: .6rem; font-size: 1.375rem; letter-spacing: .1em; text-transform: uppercase;
}
input[aria-invalid="true"] { border-color: var(--alarm); }
.code { margin: 1.25rem 0; padding: .9rem .5rem 1rem; text-align: center; background: var(--tint); border: 1px solid var(--tint-edge); border-radius: .75rem; }
.code span { display: block; color: var(--soft); font-size: .875rem; }
.code code { display: block; font-size: clamp(1.5rem, 9vw, 2.125rem); line-height: 1.3; font-weight: 600; letter-spacing: .08em; margin-right: -.08em; }
dl { display: grid; grid-template-columns: minmax(5.5rem, auto) 1fr; gap: .35rem 1rem; margin: 0 0 1.25rem; font-size: .9375rem; }
dt { color: var(--soft); }
time { white-space: nowrap; }
dd { margin: 0; min-width: 0; overflow-wrap: anywhere; }
@media (max-width: 22rem) { dl { grid-template-columns: 1fr; gap: 0; } dd { margin-bottom: .5rem; } }
.alert, .notice { margin: 0 0 1rem; padding: .7rem .9rem; border: 1px solid; border-radius: .6rem; font-size: .9375rem; }
.alert { color: var(--alarm); background: var(--alarm-tint); border-color: var(--alarm-edge); }
.notice { color: var(--ink); background: transparent; border-color: var(--edge); white-space: pre-line; }
.actions { display: grid; gap: .65rem; margin: 1.5rem 0 0; }
button, .button {
  display: block; width: 100%; min-height: 2.875rem; padding: .65rem 1rem; border: 1px solid transparent; border-radius: .6rem;
  font: inherit; font-weight: 600; text-align: center; text-decoration: none; cursor: pointer; transition: background-color .12s;
}
.primary { color: var(--on-accent); background: var(--accent); }
.primary:hover { background: var(--accent-over); }
.secondary { color: var(--ink); background: transparent; border-color: var(--field-edge); }
.secondary:hover { background: var(--tint); }
:focus-visible { outline: 3px solid var(--accent); outline-offset: 3px; }
input:focus-visible { outline-offset: 1px; }
.mark { display: block; width: 2.5rem; height: 2.5rem; margin: 0 0 1rem; }
.mark.good { color: var(--good); }
.mark.alarm { color: var(--alarm); }
.reference { margin: 1.5rem 0 0; padding-top: 1rem; border-top: 1px solid var(--edge); color: var(--soft); font-size: .8125rem; overflow-wrap: anywhere; }
pre { margin: 0 0 1rem; padding: .75rem .9rem; white-space: pre-wrap; overflow-wrap: anywhere; background: var(--tint); border: 1px solid var(--tint-edge); border-radius: .6rem; font-size: .875rem; }
a { color: var(--accent); }
.button.primary { color: var(--on-accent); }
.help { width: 100%; max-width: 28rem; margin: .9rem 0 0; padding: 0 .25rem; font-size: .875rem; }
@media (prefers-reduced-motion: reduce) { * { transition: none !important; } }
@media (forced-colors: active) { button, .button { border-color: ButtonText; } }
`;

/** The source of `PAGE_STYLE` for a content security policy: a hash, so that no other inline style is ever applied. */
export const PAGE_STYLE_SOURCE = `'sha256-${createHash('sha256').update(PAGE_STYLE).digest('base64')}'`;
