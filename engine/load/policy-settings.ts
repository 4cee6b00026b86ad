import { MODELS_KEY } from '../identity/policies/managed-policies.ts';
import { isDenyKey } from '../identity/policies/merge.ts';
import { inOrder } from '../identity/policies/policy.ts';
import { closest } from '../kit/text/suggest.ts';
import { keyName, quote } from '../source/describe.ts';
import { isSecretKey, looksSecret } from '../source/diagnostics/secrets.ts';
import type { Findings } from '../source/findings.ts';
import { type Entry, entryOf, type MapNode, type Mark, type Node, type ScalarNode } from '../source/node.ts';
import type { Policy } from '../source/spec.ts';

/** Keys that would change how an object works in programs which copy settings into one. */
const RESERVED: ReadonlySet<string> = new Set(['__proto__', 'constructor', 'prototype']);

/** Keys by which other programs, and people, call lists of models that may or may not be used. */
const LIKE_MODELS =
  /^(?:(?:allow|allowed|enabled|permitted|deny|denied|block|blocked|disabled|disallowed|forbidden)models?|models?)(?:(?:allow|deny|block)?list)?$/;

/**
 * Checks what no schema of open settings can say: that they survive as JSON, hold no secret, and mean what they seem to.
 * @param is_valid whether the rest of the file is; otherwise a key without a value may be one whose value went astray.
 */
export function checkSettings(settings: MapNode, is_valid: boolean, findings: Findings): void {
  for (const { key, key_mark, value } of settings.entries) {
    const is_slip = key !== MODELS_KEY && closest(spelling(key), [spelling(MODELS_KEY)]) !== undefined;
    if (is_slip) reportIdle(key, key_mark, `did you mean \`${MODELS_KEY}\`?`, findings);
    else if (value.kind === 'list' && LIKE_MODELS.test(spelling(key))) {
      reportIdle(key, key_mark, `list the models that may be used under \`${MODELS_KEY}\``, findings);
    }
  }
  checkEntries(settings, { findings, is_valid, in_env: false, is_top: true });
}

function reportIdle(key: string, mark: Mark, help: string, findings: Findings): void {
  findings.report('W7063', mark, `${keyName(key)} restricts nothing: the gateway acts on ${MODELS_KEY} only`, { help });
}

function reportNested(mark: Mark, findings: Findings): void {
  findings.report(
    'W7063',
    mark,
    `${keyName(MODELS_KEY)} restricts nothing here: the gateway acts on that of \`settings\` only`,
    {
      help: 'move it up, so that it stands directly under `settings`',
    },
  );
}

const spelling = (key: string): string => key.toLowerCase().replaceAll(/[_-]/g, '');

interface SettingsContext {
  readonly findings: Findings;
  readonly is_valid: boolean;
  /** Whether these are the settings themselves, and not a part of them. */
  readonly is_top: boolean;
  /** Whether these are variables for the environment of clients, where people put credentials. */
  readonly in_env: boolean;
}

function checkEntries(owner: MapNode, context: SettingsContext): void {
  for (const { key, key_mark, value } of owner.entries) {
    if (RESERVED.has(key)) {
      context.findings.report('C9004', key_mark, `the key ${keyName(key)} is reserved`, { help: 'use another name' });
    }
    if (key === MODELS_KEY && !context.is_top) {
      reportNested(key_mark, context.findings);
    }
    checkNode(value, key, { ...context, is_top: false, in_env: context.in_env || key === 'env' });
  }
}

function checkNode(node: Node, key: string, context: SettingsContext): void {
  if (node.kind === 'map') checkEntries(node, context);
  else if (node.kind === 'list') for (const item of node.items) checkNode(item, '', context);
  else checkScalar(node, key, context);
}

/** What is a credential wherever it stands; shorter than that, it may be a word. */
const EVIDENT =
  /\b(?:(?:sk|ghp|gho|ghs|glpat|xox[a-z]|gw)[-_][\w-]{16,}|github_pat_\w{16,}|AKIA[0-9A-Z]{12,}|eyJ[\w-]{10,}\.[\w-]+\.)|:\/\/[^\s@/:]+:[^\s@/]+@/;

/** Whether a text seems to hold a credential; a variable, also as the value of a header. */
function isCredential(text: string, in_env: boolean): boolean {
  if (EVIDENT.test(text)) return true;
  return in_env && (looksSecret(text) || /\b(?:bearer|basic)(?:\s|%20)+[\w.~+/=-]{8,}/i.test(text));
}

function checkScalar(node: ScalarNode, key: string, { findings, is_valid, in_env }: SettingsContext): void {
  const { value, range, mark } = node;
  if (value === null && range[0] === range[1]) {
    if (!is_valid) return;
    findings.report('C3007', mark, 'no value stands here, which would replace what other policies set', {
      expected: 'a value; null, where that is meant',
    });
  } else if (typeof value === 'number' && !(Number.isFinite(value) && Math.abs(value) <= Number.MAX_SAFE_INTEGER)) {
    findings.report('C9005', mark, 'the number cannot be kept exactly in JSON', {
      expected: `a number up to ${Number.MAX_SAFE_INTEGER}, or the number as text in quotes`,
    });
  } else if (typeof value === 'string' && value !== '' && (isSecretKey(key) || isCredential(value, in_env))) {
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
