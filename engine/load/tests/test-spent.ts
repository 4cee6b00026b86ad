/** Checks what a case says is spent, and granted, before its first request. */
import { quote } from '../../source/describe.ts';
import type { Findings } from '../../source/findings.ts';
import { childOf, entryOf, itemsOf, type Node, textOf } from '../../source/node.ts';

/** What a window counts, by key. */
const AMOUNTS: Readonly<Record<string, readonly string[]>> = {
  day: ['usd', 'reserved_usd'],
  week: ['usd', 'reserved_usd'],
  month: ['usd', 'reserved_usd'],
  minute: ['requests', 'tokens'],
  open: ['requests'],
};
const ALL_AMOUNTS = ['usd', 'reserved_usd', 'requests', 'tokens'];

/** Checks the entries under `spent:` and `grants:` of a case. */
export function checkSpent(node: Node, findings: Findings): void {
  for (const item of ['spent', 'grants'].flatMap((key) => itemsOf(childOf(node, key)))) {
    checkAmount(item, findings);
    checkKey(item, childOf(node, 'caller'), findings);
  }
}

function checkAmount(item: Node, findings: Findings): void {
  const window = textOf(childOf(item, 'window')) ?? '';
  const fitting = AMOUNTS[window] ?? [];
  for (const key of ALL_AMOUNTS) {
    const entry = entryOf(item, key);
    if (entry === undefined || fitting.includes(key)) continue;
    findings.report('C4009', entry.key_mark, `\`${key}\` does not go with the window ${quote(window)}`, {
      help: `say how much of it with \`${fitting.join('` or `')}\``,
    });
    return;
  }
  const present = fitting.flatMap((key) => entryOf(item, key) ?? []);
  const [, second] = present;
  if (window === 'minute' && second !== undefined) {
    findings.report('C4009', second.key_mark, '`requests` and `tokens` are limits of their own', {
      help: 'write an entry for each of them',
    });
    return;
  }
  // What is reserved comes on top of what is spent.
  if (present.some(({ key }) => key !== 'reserved_usd')) return;
  const needed = fitting.filter((key) => key !== 'reserved_usd').map((key) => `\`${key}\``);
  findings.report('C3002', item.mark, `${needed.join(' or ')} is missing`, {
    help: `say how much of the ${quote(window)} is used up: ${needed.join(' or ')}`,
  });
}

function checkKey(item: Node, caller: Node | undefined, findings: Findings): void {
  const scope_node = childOf(item, 'scope');
  const key_node = childOf(item, 'key');
  const texts = (node: Node | undefined) =>
    node?.kind === 'list' ? itemsOf(node).map((each) => textOf(each) ?? '') : node ? [textOf(node) ?? ''] : [];
  const scopes = texts(scope_node);
  const keys = texts(key_node);
  if (key_node !== undefined) {
    if (keys.length === scopes.length) return;
    findings.report('C8006', key_node.mark, `there is a key for ${keys.length} of ${scopes.length} scopes`, {
      help: `name one for each, in this order: ${scopes.join(', ')}`,
    });
    return;
  }
  for (const scope of scopes) {
    if (scope === 'user' || scope === 'token' || childOf(caller, scope) !== undefined) continue;
    const own = scope === 'team' || scope === 'project';
    const problem = own ? `the caller has no ${scope} whose budget could be spent` : `which ${scope} is not said`;
    const names = scopes.map((each) => `<${each}>`).join(', ');
    const key = `key: ${scopes.length === 1 ? names : `[${names}]`}`;
    const help = own ? `give the caller one, or name it: ${key}` : `name it: ${key}`;
    findings.report('C8006', scope_node?.mark ?? item.mark, problem, { help });
  }
}
