import { isSecretKey, looksSecret } from '../diagnostics/secrets.ts';
import { closest } from '../diagnostics/suggest.ts';
import { MODELS_KEY } from '../policies/managed-policies.ts';
import { isDenyKey } from '../policies/merge.ts';
import { inOrder, type Policy } from '../policies/policy.ts';
import { keyName, quote } from './describe.ts';
import type { Findings } from './findings.ts';
import { type Entry, entryOf, type MapNode, type Node, type ScalarNode } from './node.ts';

/** Keys that would change how an object works in programs which copy settings into one. */
const RESERVED: ReadonlySet<string> = new Set(['__proto__', 'constructor', 'prototype']);

/** Checks what no schema of open settings can say: that they survive as JSON, hold no secret, and mean what they seem to. */
export function checkSettings(settings: MapNode, findings: Findings): void {
  for (const { key, key_mark } of settings.entries) {
    if (key === MODELS_KEY || closest(spelling(key), [spelling(MODELS_KEY)]) === undefined) continue;
    findings.report('W7063', key_mark, `${keyName(key)} restricts nothing: the gateway acts on ${MODELS_KEY} only`, {
      help: `did you mean \`${MODELS_KEY}\`?`,
    });
  }
  checkEntries(settings, { findings, in_env: false });
}

const spelling = (key: string): string => key.toLowerCase().replaceAll(/[_-]/g, '');

interface SettingsContext {
  readonly findings: Findings;
  /** Whether these are variables for the environment of clients, where people put credentials. */
  readonly in_env: boolean;
}

function checkEntries(owner: MapNode, context: SettingsContext): void {
  for (const { key, key_mark, value } of owner.entries) {
    if (RESERVED.has(key)) {
      context.findings.report('C9004', key_mark, `the key ${keyName(key)} is reserved`, { help: 'use another name' });
    }
    checkNode(value, key, { ...context, in_env: context.in_env || key === 'env' });
  }
}

function checkNode(node: Node, key: string, context: SettingsContext): void {
  if (node.kind === 'map') checkEntries(node, context);
  else if (node.kind === 'list') for (const item of node.items) checkNode(item, '', context);
  else checkScalar(node, key, context);
}

function checkScalar(node: ScalarNode, key: string, { findings, in_env }: SettingsContext): void {
  const { value, range, mark } = node;
  if (value === null && range[0] === range[1]) {
    findings.report('C3007', mark, 'no value stands here, which would replace what other policies set', {
      expected: 'a value; null, where that is meant',
    });
  } else if (typeof value === 'number' && !(Number.isFinite(value) && Math.abs(value) <= Number.MAX_SAFE_INTEGER)) {
    findings.report('C9005', mark, 'the number cannot be kept exactly in JSON', {
      expected: `a number up to ${Number.MAX_SAFE_INTEGER}, or the number as text in quotes`,
    });
  } else if (typeof value === 'string' && value !== '' && (isSecretKey(key) || (in_env && looksSecret(value)))) {
    findings.hide(node);
    findings.report('W7062', mark, `${key === '' ? 'this' : keyName(key)} looks like a secret`, {
      help: 'everybody the policy is meant for can read it; hand credentials out in another way',
    });
  }
}

/** Reports a setting that would drop a deny list of a policy below it, or text that a deny list above it would drop. */
export function checkDropped(
  policies: readonly Policy[],
  default_policy: string | undefined,
  findings: Findings,
): void {
  const base = policies.filter(({ name }) => name === default_policy);
  const lists = new Map<string, { readonly path: readonly string[]; readonly policy: string }>();
  const texts = new Map<string, Entry>();
  for (const { name, settings } of [...base, ...inOrder(policies.filter((policy) => !base.includes(policy)))]) {
    reportDropping(settings, [...lists.values()], findings);
    for (const { path, entry } of denials(settings)) {
      const key = JSON.stringify(path);
      if (entry.value.kind !== 'list') texts.set(key, entry);
      else {
        const text = texts.get(key);
        if (text !== undefined) reportDropped(text, path, name, findings);
        if (!lists.has(key)) lists.set(key, { path, policy: name });
      }
    }
  }
}

/** What settings would drop of the deny lists below them, each entry once. */
function reportDropping(
  settings: MapNode,
  lists: readonly { readonly path: readonly string[]; readonly policy: string }[],
  findings: Findings,
): void {
  const told = new Set<Entry>();
  for (const { path, policy } of lists) {
    const entry = droppingEntry(settings, path);
    if (entry === undefined || told.has(entry)) continue;
    told.add(entry);
    const message = `this would drop the deny list ${keyName(path.join('.'))} of the policy ${quote(policy)}`;
    const expected = entry.key === path.at(-1) ? 'a list, which is united with it' : 'a mapping';
    findings.report('C9006', entry.key_mark, message, { expected });
  }
}

function reportDropped({ key_mark }: Entry, path: readonly string[], policy: string, findings: Findings): void {
  const list = keyName(path.join('.'));
  findings.report('C9006', key_mark, `the deny list ${list} of the policy ${quote(policy)} would drop this text`, {
    expected: 'a list, which is united with it',
  });
}

/** Deny lists, and texts that stand under such a key, with their keys from the top. */
function denials(settings: MapNode): { readonly path: string[]; readonly entry: Entry }[] {
  return settings.entries.flatMap((entry) => {
    const { key, value } = entry;
    if (value.kind === 'map') return denials(value).map((inside) => ({ ...inside, path: [key, ...inside.path] }));
    const is_denial = value.kind === 'list' || typeof value.value === 'string';
    return is_denial && isDenyKey(key) ? [{ path: [key], entry }] : [];
  });
}

/** The entry on the way to a list that is of another kind than there. */
function droppingEntry(settings: MapNode, path: readonly string[]): Entry | undefined {
  let owner: Node = settings;
  for (const [depth, key] of path.entries()) {
    const entry = entryOf(owner, key);
    if (entry === undefined) return undefined;
    if (entry.value.kind !== (depth === path.length - 1 ? 'list' : 'map')) return entry;
    owner = entry.value;
  }
  return undefined;
}
