import { basename, dirname, join } from 'node:path';
import type { GatewayConfig, ModelConfig } from '../contract/config.ts';
import { MODELS_KEY, namesModel } from '../identity/policies/managed-policies.ts';
import { deepFreeze } from '../kit/freeze.ts';
import { didYouMean, listed, oneOf } from '../kit/text/suggest.ts';
import type { NameSet } from '../rules/check-names.ts';
import { keyName, quote } from '../source/describe.ts';
import { filesIn, namesBeside } from '../source/find-files.ts';
import type { Findings } from '../source/findings.ts';
import { childOf, entryOf, itemsOf, type MapNode, type Mark, type Node, textOf } from '../source/node.ts';
import { readSource } from '../source/read-source.ts';
import { whyUnreadable } from '../source/read-text.ts';
import { POLICY_SCHEMA } from '../source/schemas.ts';
import type { Policy, PolicyMatch } from '../source/spec.ts';
import { validate } from '../source/validate.ts';
import { allowWarnings } from './allow.ts';
import { checkGroups } from './link/known-groups.ts';
import { checkGroupName, keptGroups, reportForgotten } from './link/link-auth.ts';
import { checkDropped, checkSettings } from './policy-settings.ts';
import { checkContent, checkTelemetry, withTelemetry } from './policy-telemetry.ts';
import { repeated } from './repeated.ts';
import { isName } from './stage-definition.ts';

/** What gateway.yaml says about policies that are handed out. */
export interface PolicySource {
  /** Absolute. */
  readonly directory: string;
  /** Where the directory is written; absent when it is the usual one. */
  readonly directory_mark?: Mark | undefined;
  readonly default_policy?: Node | undefined;
  /** Globs of the groups that are kept at sign-in; none when all are. */
  readonly kept_groups: readonly string[];
  /** Groups of the identity provider that make up each token group. */
  readonly token_groups: ReadonlyMap<string, readonly string[]>;
  /** The groups that gateway.yaml knows, where it says anything of them. */
  readonly groups?: NameSet | undefined;
}

/** Where policies are, by a gateway.yaml that may have mistakes; `undefined` when they are not handed out. */
export function policySource(root: MapNode, value: unknown, groups?: NameSet): PolicySource | undefined {
  const managed = (value as { policies?: { managed?: { enabled?: unknown; directory?: unknown } } }).policies?.managed;
  if (managed?.enabled !== true || typeof managed.directory !== 'string') return undefined;
  const node = childOf(root, 'policies', 'managed');
  const { directory } = managed;
  return {
    directory,
    directory_mark: childOf(node, 'directory')?.mark,
    default_policy: childOf(node, 'default_policy'),
    kept_groups: keptGroups(root),
    groups,
    token_groups: new Map(
      itemsOf(childOf(root, 'token_groups')).map((group) => [textOf(childOf(group, 'name')) ?? '', membersOf(group)]),
    ),
  };
}

function membersOf(token_group: Node): readonly string[] {
  return itemsOf(childOf(token_group, 'members')).flatMap((member) => textOf(member) ?? []);
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
  reportTwins(policies, findings);
  const default_policy = textOf(source.default_policy);
  reportUnknownDefault(source, files, findings);
  for (const policy of policies) {
    if (policy.name === default_policy) reportIdle(policy, findings);
    else if (entryOf(policy.root, 'match') === undefined) reportNobody(policy, findings);
  }
  checkDropped(policies, default_policy, findings);
  if (config !== undefined) {
    for (const { root, settings } of policies) {
      if (!config.from_model_lists) checkModels(settings, config.models, findings);
      checkTelemetry(childOf(root, 'telemetry'), config, findings);
    }
  }
  return deepFreeze(
    policies.map(({ root, ...policy }) => {
      if (config === undefined) return policy;
      return { ...policy, settings: withTelemetry(policy.settings, childOf(root, 'telemetry'), config) };
    }),
  );
}

const nameMark = ({ root }: ReadPolicy): Mark => (childOf(root, 'policy') ?? root).mark;

function reportNobody(policy: ReadPolicy, findings: Findings): void {
  findings.report('W7060', nameMark(policy), `the policy ${quote(policy.name)} is meant for nobody`, {
    help: 'say for whom: match: { groups: [...] }, or make it the default_policy of gateway.yaml',
  });
}

/** Keys that others would need, and that the default policy goes without. */
function reportIdle({ root, priority }: ReadPolicy, findings: Findings): void {
  const why = { match: 'is meant for everybody', priority: 'is always the lowest' };
  for (const key of ['match', 'priority'] as const) {
    const entry = entryOf(root, key);
    if (entry === undefined || (key === 'priority' && priority === 0)) continue;
    findings.report('W7050', entry.key_mark, `${keyName(key)} has no effect: the default policy ${why[key]}`, {
      help: 'remove the key, or name another default_policy in gateway.yaml',
    });
  }
}

/** The policy files in a directory, sorted; `undefined` after reporting why they can't be told. */
function policyFiles(source: PolicySource, findings: Findings): readonly string[] | undefined {
  const { directory, directory_mark, default_policy } = source;
  const files = filesOrWhy(directory);
  if (typeof files !== 'string') return files;
  const mark = directory_mark ?? default_policy?.mark;
  // Without a word about them there need be no policies.
  if (mark === undefined && files === NO_DIRECTORY) return undefined;
  const name = textOf(default_policy);
  const write = name === undefined ? undefined : howToWrite(name, directory);
  const help =
    files === NO_DIRECTORY ? didYouMean(basename(directory), namesBeside(directory, 'directories'), write) : undefined;
  if (directory_mark === undefined && name !== undefined && files === NO_DIRECTORY) {
    // The usual directory need not be there: a first gateway.yaml may name the policy before it is written.
    const message = `there are no policies, so the policy ${quote(name)} is given to nobody`;
    findings.report('W7065', mark!, message, { help });
    return undefined;
  }
  findings.report('C9001', mark ?? { file: directory }, files, {
    expected: `a directory at ${directory}`,
    help,
  });
  return undefined;
}

const NO_DIRECTORY = 'the directory of policies does not exist';

/** The policy files in a directory, sorted, or why it can't be read. */
function filesOrWhy(directory: string): readonly string[] | string {
  try {
    return filesIn(directory);
  } catch (error) {
    const failure = error as NodeJS.ErrnoException;
    if (failure.code === 'ENOENT') return NO_DIRECTORY;
    if (failure.code === 'ENOTDIR') return 'this is not a directory';
    return `the directory of policies cannot be read: ${whyUnreadable(failure)}`;
  }
}

interface ReadPolicy extends Policy {
  readonly root: Node;
}

interface RawPolicy {
  readonly policy: string;
  readonly version: number;
  readonly summary: string;
  readonly match?: Partial<PolicyMatch>;
  readonly priority: number;
}

const nameOf = (file: string): string => basename(file).replace(/\.ya?ml$/, '');

/** Reads and checks one policy file by itself; `undefined` after reporting what keeps it from being one. */
export function readPolicy(file: string, findings: Findings, source?: PolicySource): ReadPolicy | undefined {
  const text = readSource(file, findings);
  if (text === undefined) return undefined;
  const { value, ok, node: root } = validate(POLICY_SCHEMA, text, dirname(file), findings);
  const settings = childOf(root, 'settings');
  if (settings?.kind === 'map') {
    checkSettings(settings, ok, findings);
    checkContent(settings, findings);
  }
  checkPolicyGroups(itemsOf(childOf(root, 'match', 'groups')), source, findings);
  const name = childOf(root, 'policy');
  if (name !== undefined) reportOtherName(name, nameOf(file), findings);
  allowWarnings(root, findings);
  if (!ok || settings?.kind !== 'map') return undefined;
  const { policy, version, summary, match, priority } = value as RawPolicy;
  const groups = match?.groups ?? [];
  const email_domains = (match?.email_domains ?? []).map((domain) => domain.toLowerCase());
  return {
    name: policy,
    version,
    summary,
    file,
    match: { groups, email_domains },
    priority,
    settings,
    root,
  };
}

function checkPolicyGroups(groups: readonly Node[], source: PolicySource | undefined, findings: Findings): void {
  for (const node of groups) checkGroupName(node, findings);
  if (source === undefined) return;
  const names = groups.map((node) => textOf(node) ?? '');
  reportForgotten(
    groups.filter((_, index) => !source.token_groups.has(names[index]!)),
    source.kept_groups,
    findings,
  );
  checkGroups(groups, source.groups, findings);
  for (const [index, node] of groups.entries()) {
    const missed = source.token_groups.get(names[index]!)?.filter((member) => !names.includes(member)) ?? [];
    if (missed.length === 0) continue;
    const message = `only access tokens of the group ${quote(names[index]!)} get this policy, its members who sign in do not`;
    findings.report('W7064', node.mark, message, { help: `name their groups as well: ${missed.join(', ')}` });
  }
}

function reportOtherName(node: Node, file_name: string, findings: Findings): void {
  const name = textOf(node);
  // What can be no name at all was reported already.
  if (name === undefined || name === file_name || !isName(name)) return;
  findings.report('C9003', node.mark, `the policy is called ${quote(name)}, its file is not`, {
    ...(isName(file_name) && { expected: file_name }),
    help: isName(file_name)
      ? 'rename one of them: people look for a policy by the name of its file'
      : `rename the file to ${name}.yaml: people look for a policy by the name of its file`,
  });
}

/** Two files of one name with different endings; a name that is not that of its file was reported already. */
function reportTwins(policies: readonly ReadPolicy[], findings: Findings): void {
  const named = policies.filter(({ name, file }) => name === nameOf(file));
  for (const [policy, first] of repeated(named, ({ name }) => name)) {
    const help = `the other is ${first.file}`;
    findings.report('C4005', nameMark(policy), `there are two policies named ${quote(policy.name)}`, { help });
  }
}

function reportUnknownDefault(
  { default_policy: node, directory }: PolicySource,
  files: readonly string[],
  findings: Findings,
): void {
  const name = textOf(node);
  // A file with mistakes is there all the same.
  const known = files.map(nameOf);
  if (node === undefined || name === undefined || known.includes(name)) return;
  const help = oneOf(nameOf(name), known, 'policies', howToWrite(name, directory));
  findings.report('C9002', node.mark, `there is no policy ${quote(name)}`, { help });
}

/** What to do about a default policy where there are no policies at all. */
function howToWrite(name: string, directory: string): string {
  return `write the policy to ${join(directory, `${nameOf(name)}.yaml`)} (appscli explain C9002 shows one), or remove the key`;
}

function checkModels(settings: MapNode, models: readonly ModelConfig[], findings: Findings): void {
  const ids = models.map(({ id }) => id);
  const families = models.flatMap(({ family }) => family ?? []);
  for (const item of itemsOf(childOf(settings, MODELS_KEY))) {
    const word = textOf(item);
    if (word === undefined || models.some((model) => namesModel(word, model))) continue;
    const all = ids.length === 0 ? 'there are no models' : `models: ${listed(ids)}`;
    findings.report('W7061', item.mark, `no model matches ${keyName(MODELS_KEY)}: ${quote(word)}`, {
      help: didYouMean(word, [...ids, ...families], all) ?? all,
    });
  }
}
