import { existsSync } from 'node:fs';
import { basename, dirname, join } from 'node:path';
import {
  CONTENT_VARIABLES,
  NEUTRAL_FEATURE_PREFIX,
  type Signal,
  telemetryVariables,
} from '../../base/contract/client-telemetry.ts';
import type { GatewayConfig, ModelConfig } from '../../base/contract/config.ts';
import { deepFreeze } from '../../base/kit/freeze.ts';
import { closest, didYouMean, listed, oneOf } from '../../base/kit/text/suggest.ts';
import type { NameSet } from '../../base/rules/check.ts';
import { isSecretKey, looksSecret } from '../../base/source/diagnostics/secrets.ts';
import type { Findings } from '../../base/source/findings.ts';
import {
  childOf,
  type Entry,
  entriesOf,
  entryOf,
  itemsOf,
  keyName,
  type MapNode,
  type Node,
  quote,
  type ScalarNode,
  textOf,
} from '../../base/source/node.ts';
import { filesIn, namesBeside, whyUnreadable } from '../../base/source/read-text.ts';
import { POLICY_SCHEMA } from '../../base/source/schemas.ts';
import { readSource } from '../../base/source/source.ts';
import type { Policy, PolicyMatch } from '../../base/source/spec.ts';
import { validate } from '../../base/source/validate.ts';
import { inOrder, isDenyKey, MODELS_KEY, mergeSettings, namesModel } from '../../domain/policies/managed-policies.ts';
import { allowWarnings } from './annotations.ts';
import { checkGroups } from './link/known-names.ts';
import { checkGroupName } from './link/link-auth.ts';
import { itemsAt, nameOf, reportOtherName, reportRepeated, textsAt, type Written } from './link/link-keys.ts';

/** Keys that would allow prototype pollution in programs that merge settings into objects. */
const RESERVED: ReadonlySet<string> = new Set(['__proto__', 'constructor', 'prototype']);

/** Names of model allow lists and deny lists in other programs. */
const LIKE_MODELS =
  /^(?:(?:allow|allowed|enabled|permitted|deny|denied|block|blocked|disabled|disallowed|forbidden)models?|models?)(?:(?:allow|deny|block)?list)?$/;

/** Checks open settings beyond a schema. @param is_valid whether the rest of the file is; else an empty key's value may be misplaced */
function checkSettings(settings: MapNode, is_valid: boolean, findings: Findings): void {
  for (const { key, key_mark, value } of settings.entries) {
    const is_slip = key !== MODELS_KEY && closest(spelling(key), [spelling(MODELS_KEY)]) !== undefined;
    if (!is_slip && !(value.kind === 'list' && LIKE_MODELS.test(spelling(key)))) continue;
    findings.report('W7063', key_mark, `${keyName(key)} restricts nothing: the gateway only enforces ${MODELS_KEY}`, {
      help: is_slip ? `did you mean \`${MODELS_KEY}\`?` : `list the models that may be used under \`${MODELS_KEY}\``,
    });
  }
  checkNode(settings, [], is_valid, findings);
}

const spelling = (key: string): string => key.toLowerCase().replaceAll(/[_-]/g, '');

/** @param path keys that lead to the node, with an empty one for each list */
function checkNode(node: Node, path: readonly string[], is_valid: boolean, findings: Findings): void {
  if (node.kind === 'scalar') checkScalar(node, path, is_valid, findings);
  if (node.kind === 'list') for (const item of node.items) checkNode(item, [...path, ''], is_valid, findings);
  for (const { key, key_mark, value } of entriesOf(node)) {
    if (RESERVED.has(key)) {
      findings.report('C9004', key_mark, `the key ${keyName(key)} is reserved`, { help: 'use another name' });
    }
    if (key === MODELS_KEY && path.length > 0) {
      const message = `${keyName(key)} restricts nothing here: the gateway only enforces it directly under \`settings\``;
      findings.report('W7063', key_mark, message, { help: 'move it up to `settings`' });
    }
    checkNode(value, [...path, key], is_valid, findings);
  }
}

/** Values that are credentials under any key. Shorter ones may be words. */
const EVIDENT =
  /\b(?:(?:sk|ghp|gho|ghs|glpat|xox[a-z]|gw)[-_][\w-]{16,}|github_pat_\w{16,}|AKIA[0-9A-Z]{12,}|eyJ[\w-]{10,}\.[\w-]+\.)|:\/\/[^\s@/:]+:[^\s@/]+@/;

/** Whether a string looks like a credential; below `env`, also as the value of an Authorization header. */
function isCredential(text: string, in_env: boolean): boolean {
  if (EVIDENT.test(text)) return true;
  return in_env && (looksSecret(text) || /\b(?:bearer|basic)(?:\s|%20)+[\w.~+/=-]{8,}/i.test(text));
}

function checkScalar(node: ScalarNode, path: readonly string[], is_valid: boolean, findings: Findings): void {
  const { value, range, mark } = node;
  const key = path.at(-1) ?? '';
  // People put credentials into the environment of clients.
  const in_env = path.includes('env');
  if (value === null && range[0] === range[1]) {
    if (!is_valid) return;
    findings.report('C3007', mark, 'the empty value would override other policies', {
      expected: 'a value; write null if that is meant',
    });
  } else if (typeof value === 'number' && !(Number.isFinite(value) && Math.abs(value) <= Number.MAX_SAFE_INTEGER)) {
    const message = Number.isFinite(value)
      ? 'the number is outside the range of safe integers'
      : 'JSON has no infinite numbers and no NaN';
    findings.report('C9004', mark, message, {
      expected: `a number from -${Number.MAX_SAFE_INTEGER} to ${Number.MAX_SAFE_INTEGER}, or a quoted string`,
    });
  } else if (typeof value === 'string' && value !== '' && (isSecretKey(key) || isCredential(value, in_env))) {
    findings.hide(node);
    findings.report('W7062', mark, `${key === '' ? 'this' : keyName(key)} looks like a secret`, {
      help: 'everyone who gets the policy can read it; distribute credentials in another way',
    });
  }
}

/** Reports settings that would replace a deny list of a policy below them, and strings that a deny list above would replace. */
function checkDropped(policies: readonly Policy[], default_policy: string | undefined, findings: Findings): void {
  const base = policies.filter(({ name }) => name === default_policy);
  const ordered = [...base, ...inOrder(policies.filter((policy) => !base.includes(policy)))];
  const reported = new Set<Entry>();
  const lists = new Set<string>();
  const report = (entry: Entry, message: string, expected = 'a list: lists are merged') => {
    if (!reported.has(entry)) findings.report('C9006', entry.key_mark, message, { expected });
    reported.add(entry);
  };
  ordered.forEach(({ name, settings }, index) => {
    for (const { path, entry } of denials(settings)) {
      const list = keyName(path.join('.'));
      const is_list = entry.value.kind === 'list';
      if (is_list && lists.has(list)) continue;
      if (is_list) lists.add(list);
      for (const over of ordered.slice(index + 1)) {
        const dropping = is_list ? droppingEntry(over.settings, path) : undefined;
        if (dropping !== undefined) {
          const message = `this would replace the deny list ${list} of the policy ${quote(name)}`;
          report(dropping, message, dropping.key === path.at(-1) ? undefined : 'a mapping');
        } else if (!is_list && childOf(over.settings, ...path)?.kind === 'list') {
          report(entry, `the deny list ${list} of the policy ${quote(over.name)} would replace this string`);
        }
      }
    }
  });
}

function denials(settings: MapNode): { readonly path: string[]; readonly entry: Entry }[] {
  return settings.entries.flatMap((entry) => {
    const { key, value } = entry;
    if (value.kind === 'map') return denials(value).map((inside) => ({ ...inside, path: [key, ...inside.path] }));
    const is_denial = value.kind === 'list' || typeof value.value === 'string';
    return is_denial && isDenyKey(key) ? [{ path: [key], entry }] : [];
  });
}

/** The first entry along the path of a list that has another kind. */
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

type ServerConfig = Pick<GatewayConfig, 'server' | 'telemetry'>;

/**
 * The settings of a policy with the variables for client telemetry; the policy's own values win. The address is left out:
 * clients with managed settings are signed in, and an address would make the client ask each user for approval.
 */
function withTelemetry(settings: MapNode, signals: Node | undefined, { server }: ServerConfig): MapNode {
  if (signals?.kind !== 'list') return settings;
  const feature_prefix = server.profile.clients?.messages?.feature_prefix ?? NEUTRAL_FEATURE_PREFIX;
  const wanted = signals.items.map((item) => textOf(item) as Signal);
  const variables = telemetryVariables(wanted, { feature_prefix });
  const { mark } = signals;
  const env: MapNode = {
    kind: 'map',
    mark,
    entries: Object.entries(variables).map(([key, value]) => {
      return { key, key_mark: mark, value: { kind: 'scalar', value, mark, range: [0, 0] } };
    }),
  };
  return mergeSettings({ kind: 'map', mark, entries: [{ key: 'env', key_mark: mark, value: env }] }, settings);
}

/** Reports telemetry that no client would send, or that has no destination. */
function checkTelemetry(signals: Node | undefined, { server, telemetry }: ServerConfig, findings: Findings): void {
  const items = itemsOf(signals);
  if (items.length === 0) return;
  if (server.profile.clients?.messages?.feature_prefix === undefined) {
    const message = `no client will send it: without a profile, the variable is ${NEUTRAL_FEATURE_PREFIX}_ENABLE_TELEMETRY`;
    findings.report('W7066', signals!.mark, message, {
      help: 'set `server.profile` in gateway.yaml to a profile with the names of your clients',
    });
  }
  for (const item of items) {
    const signal = textOf(item) as Signal;
    if (telemetry.forward_to.some((destination) => destination[signal])) continue;
    const message = `clients will send ${signal} to the gateway, which has no destination for them`;
    findings.report('W7066', item.mark, message, {
      help: `set \`${signal}: true\` at a destination under \`telemetry.forward_to\` of gateway.yaml`,
    });
  }
}

/** Values that keep texts out of client telemetry. */
const OFF = /^(?:0|false|no|off)?$/i;

/** Reports variables that add prompts, responses or tool data to client telemetry. */
function checkContent(settings: MapNode, findings: Findings): void {
  for (const { key, value } of entriesOf(childOf(settings, 'env'))) {
    const is_off = value.kind !== 'scalar' || OFF.test(String(value.value ?? ''));
    if (is_off || !(CONTENT_VARIABLES as readonly string[]).includes(key)) continue;
    findings.report('W7067', value.mark, `${keyName(key)} adds prompts, responses or tool data to telemetry`, {
      help: 'remove it, or accept it with the reason: allow: { W7067: "..." }',
    });
  }
}

type PolicySource = NonNullable<ReturnType<typeof policySource>>;

/** The policy settings of a gateway.yaml that may have errors; `undefined` when managed policies are disabled. */
export function policySource(root: MapNode, value: unknown, groups?: NameSet) {
  const managed = (value as { policies?: { managed?: { enabled?: unknown; directory?: unknown } } }).policies?.managed;
  if (managed?.enabled !== true || typeof managed.directory !== 'string') return undefined;
  const node = childOf(root, 'policies', 'managed');
  const { directory } = managed;
  return {
    directory,
    directory_mark: childOf(node, 'directory')?.mark,
    default_policy: childOf(node, 'default_policy'),
    groups,
    /** The identity provider's groups in each token group. */
    token_groups: new Map(
      itemsAt(root, 'token_groups').map((group) => {
        const members = textsAt(group, 'members.*').map(({ text }) => text);
        return [textOf(childOf(group, 'name')) ?? '', members] as const;
      }),
    ),
  };
}

/** Reads and checks the policies of a gateway.yaml, in the order of their names. */
export function loadPolicies(
  source: PolicySource | undefined,
  config: Pick<GatewayConfig, 'models' | 'from_model_lists' | 'server' | 'telemetry'> | undefined,
  findings: Findings,
): readonly Policy[] {
  const files = source === undefined ? undefined : policyFiles(source, findings);
  if (source === undefined || files === undefined) return [];
  const policies = files.flatMap((file) => readPolicy(file, findings, source) ?? []);
  const default_policy = textOf(source.default_policy);
  reportRepeated(
    'policies',
    policies.flatMap(({ root }) => textsAt(root, 'policy')),
    findings,
  );
  reportUnknownDefault(source, files, findings);
  checkDropped(policies, default_policy, findings);
  for (const policy of policies) {
    const { root, settings } = policy;
    if (policy.name === default_policy) reportIdle(policy, findings);
    else if (entryOf(root, 'match') === undefined) {
      const { mark } = childOf(root, 'policy') ?? root;
      findings.report('W7060', mark, `the policy ${quote(policy.name)} applies to no one`, {
        help: 'add match: { groups: [...] }, or make it the default_policy of gateway.yaml',
      });
    }
    if (config !== undefined && !config.from_model_lists) checkModels(settings, config.models, findings);
    if (config !== undefined) checkTelemetry(childOf(root, 'telemetry'), config, findings);
  }
  return deepFreeze(
    policies.map(({ root, ...policy }) => {
      if (config === undefined) return policy;
      return { ...policy, settings: withTelemetry(policy.settings, childOf(root, 'telemetry'), config) };
    }),
  );
}

function reportIdle({ root, priority }: ReadPolicy, findings: Findings): void {
  const why = { match: 'applies to everyone', priority: 'always has the lowest priority' };
  for (const key of ['match', 'priority'] as const) {
    const entry = entryOf(root, key);
    if (entry === undefined || (key === 'priority' && priority === 0)) continue;
    findings.report('W7050', entry.key_mark, `${keyName(key)} has no effect: the default policy ${why[key]}`, {
      help: 'remove the key, or name another default_policy in gateway.yaml',
    });
  }
}

/** The policy files in a directory, sorted; `undefined` when it cannot be read. */
function policyFiles(
  { directory, directory_mark, default_policy }: PolicySource,
  findings: Findings,
): readonly string[] | undefined {
  const mark = directory_mark ?? default_policy?.mark;
  try {
    return filesIn(directory);
  } catch (error) {
    const failure = error as NodeJS.ErrnoException;
    // The default directory is optional.
    if (mark === undefined && failure.code === 'ENOENT') return undefined;
    const name = textOf(default_policy);
    const write = name === undefined ? undefined : howToWrite(name, directory);
    const help = didYouMean(basename(directory), namesBeside(directory, 'directories'), write);
    if (directory_mark === undefined && name !== undefined && failure.code === 'ENOENT') {
      // Only a warning: a new gateway.yaml may name the policy before it is written.
      findings.report('W7065', mark!, `there are no policies, so no one gets the policy ${quote(name)}`, { help });
    } else {
      const is_file = failure.code === 'ENOTDIR' && existsSync(directory);
      const message = is_file
        ? `${keyName(basename(directory))} is a file`
        : `the directory of policies cannot be read: ${whyUnreadable(failure)}`;
      findings.report('C4015', mark ?? { file: directory }, message, {
        expected: `a directory at ${directory}`,
        help: is_file ? 'name the directory of the policies' : help,
      });
    }
    return undefined;
  }
}

interface ReadPolicy extends Policy {
  readonly root: Node;
}

type RawPolicy = Pick<Policy, 'version' | 'summary' | 'priority'> & { policy: string; match?: Partial<PolicyMatch> };

/** Reads and checks one policy file; `undefined` after an error. */
export function readPolicy(file: string, findings: Findings, source?: PolicySource): ReadPolicy | undefined {
  const text = readSource(file, findings);
  if (text === undefined) return undefined;
  const { value, ok, node: root } = validate(POLICY_SCHEMA, text, dirname(file), findings);
  const settings = childOf(root, 'settings');
  if (settings?.kind === 'map') {
    checkSettings(settings, ok, findings);
    checkContent(settings, findings);
  }
  checkPolicyGroups(textsAt(root, 'match.groups.*'), source, findings);
  if (ok) reportOtherName('policy', childOf(root, 'policy'), file, findings);
  allowWarnings(root, findings);
  if (!ok || settings?.kind !== 'map') return undefined;
  const { policy, version, summary, match, priority } = value as RawPolicy;
  const groups = match?.groups ?? [];
  const email_domains = (match?.email_domains ?? []).map((domain) => domain.toLowerCase());
  return { name: policy, version, summary, file, match: { groups, email_domains }, priority, settings, root };
}

function checkPolicyGroups(groups: readonly Written[], source: PolicySource | undefined, findings: Findings): void {
  for (const { node } of groups) checkGroupName(node, findings);
  if (source === undefined) return;
  const { token_groups } = source;
  checkGroups(groups, source.groups, findings);
  const names = groups.map(({ text }) => text);
  for (const { text, mark } of groups) {
    const missed = token_groups.get(text)?.filter((member) => !names.includes(member)) ?? [];
    if (missed.length === 0) continue;
    const message = `only access tokens of the group ${quote(text)} get this policy; its members who sign in do not`;
    const all = [...names, ...missed].join(', ');
    const help = `also list the groups that these members have at the identity provider: groups: [${all}]`;
    findings.report('W7064', mark, message, { help });
  }
}

function reportUnknownDefault(
  { default_policy: node, directory }: PolicySource,
  files: readonly string[],
  findings: Findings,
): void {
  const name = textOf(node);
  // Files with errors count, too.
  const known = files.map(nameOf);
  if (node === undefined || name === undefined || known.includes(name)) return;
  const help = oneOf(nameOf(name), known, 'policies', howToWrite(name, directory));
  findings.report('C9002', node.mark, `there is no policy ${quote(name)}`, { help });
}

function howToWrite(name: string, directory: string): string {
  return `write the policy to ${join(directory, `${nameOf(name)}.yaml`)} (appscli explain C9002 shows one), or remove the key`;
}

function checkModels(settings: MapNode, models: readonly ModelConfig[], findings: Findings): void {
  const ids = models.map(({ id }) => id);
  const families = models.flatMap(({ family }) => family ?? []);
  for (const item of itemsOf(childOf(settings, MODELS_KEY))) {
    const word = textOf(item);
    if (word === undefined || models.some((model) => namesModel(word, model))) continue;
    const all = ids.length === 0 ? 'there are no models' : `configured models: ${listed(ids)}`;
    findings.report('W7061', item.mark, `${keyName(MODELS_KEY)}: no model matches ${quote(word)}`, {
      help: didYouMean(word, [...ids, ...families], all) ?? all,
    });
  }
}
