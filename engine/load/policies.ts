import { readdirSync } from 'node:fs';
import { basename, dirname, join } from 'node:path';
import type { ModelConfig } from '../config.ts';
import { didYouMean, listed } from '../diagnostics/suggest.ts';
import { MODELS_KEY, namesModel } from '../policies/managed-policies.ts';
import type { Policy, PolicyMatch } from '../policies/policy.ts';
import { allowWarnings } from './allow.ts';
import { keyName, quote } from './describe.ts';
import type { Findings } from './findings.ts';
import { deepFreeze } from './freeze.ts';
import { childOf, itemsOf, type MapNode, type Mark, type Node, textOf } from './node.ts';
import { checkDropped, checkSettings } from './policy-settings.ts';
import { POLICY_SCHEMA } from './schemas.ts';
import { readSource } from './source.ts';
import { validate } from './validate.ts';

/** What gateway.yaml says about policies that are handed out. */
export interface PolicySource {
  /** Absolute. */
  readonly directory: string;
  /** Where the directory is written; absent when it is the usual one. */
  readonly directory_mark?: Mark | undefined;
  readonly default_policy?: Node | undefined;
}

/** Where policies are, by a gateway.yaml that may have mistakes; `undefined` when they are not handed out. */
export function policySource(root: MapNode, value: unknown): PolicySource | undefined {
  const managed = (value as { policies?: { managed?: { enabled?: unknown; directory?: unknown } } }).policies?.managed;
  if (managed?.enabled !== true || typeof managed.directory !== 'string') return undefined;
  const node = childOf(childOf(root, 'policies'), 'managed');
  const { directory } = managed;
  return {
    directory,
    directory_mark: childOf(node, 'directory')?.mark,
    default_policy: childOf(node, 'default_policy'),
  };
}

/** Reads and checks the policies of a gateway.yaml, in the order of their names. */
export function loadPolicies(
  source: PolicySource | undefined,
  models: readonly ModelConfig[] | undefined,
  findings: Findings,
): readonly Policy[] {
  const files = source === undefined ? undefined : policyFiles(source, findings);
  if (source === undefined || files === undefined) return [];
  const policies = files.flatMap((file) => readPolicy(file, findings) ?? []);
  reportTwins(policies, findings);
  const default_policy = textOf(source.default_policy);
  reportUnknownDefault(source.default_policy, files, findings);
  for (const policy of policies) {
    if (policy.is_matched || policy.name === default_policy) continue;
    findings.report('W7060', policy.mark, `the policy ${quote(policy.name)} is meant for nobody`, {
      help: 'say for whom: match: { groups: [...] }, or make it the default_policy of gateway.yaml',
    });
  }
  if (models !== undefined) for (const { settings } of policies) checkModels(settings, models, findings);
  checkDropped(policies, default_policy, findings);
  return deepFreeze(policies.map(({ is_matched: _, mark: __, ...policy }) => policy));
}

/** The policy files in a directory, sorted; `undefined` after reporting why they can't be told. */
function policyFiles(source: PolicySource, findings: Findings): readonly string[] | undefined {
  const { directory, directory_mark, default_policy } = source;
  const files = filesIn(directory);
  if (typeof files !== 'string') return files;
  const mark = directory_mark ?? default_policy?.mark;
  // Without a word about them there need be no policies.
  if (mark === undefined && files === NO_DIRECTORY) return undefined;
  findings.report('C9001', mark ?? { file: directory }, files, { expected: `a directory at ${directory}` });
  return undefined;
}

const NO_DIRECTORY = 'the directory of policies does not exist';

const REASONS: Readonly<Record<string, string>> = {
  ENOENT: NO_DIRECTORY,
  ENOTDIR: 'this is not a directory',
  EACCES: 'the directory of policies cannot be read: permission denied',
  EPERM: 'the directory of policies cannot be read: permission denied',
};

/** The policy files in a directory, sorted, or why it can't be read. */
function filesIn(directory: string): readonly string[] | string {
  let names: string[];
  try {
    names = readdirSync(directory);
  } catch (error) {
    const { code = 'unknown reason' } = error as NodeJS.ErrnoException;
    return REASONS[code] ?? `the directory of policies cannot be read: ${code}`;
  }
  // Hidden files are an editor's.
  const own = names.filter((name) => /^[^.].*\.ya?ml$/.test(name) && !/\.test\.ya?ml$/.test(name));
  return own.toSorted().map((name) => join(directory, name));
}

interface ReadPolicy extends Policy {
  readonly mark: Mark;
  readonly is_matched: boolean;
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
export function readPolicy(file: string, findings: Findings): ReadPolicy | undefined {
  const source = readSource(file, findings);
  if (source === undefined) return undefined;
  const { value, ok, node: root } = validate(POLICY_SCHEMA, source, dirname(file), findings);
  const settings = childOf(root, 'settings');
  if (settings?.kind === 'map') checkSettings(settings, findings);
  const name = childOf(root, 'policy');
  if (name !== undefined && textOf(name) !== undefined && textOf(name) !== nameOf(file)) {
    findings.report('C9003', name.mark, `the policy is called ${quote(textOf(name)!)}, its file is not`, {
      expected: nameOf(file),
      help: 'rename one of them: people look for a policy by the name of its file',
    });
  }
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
    mark: name!.mark,
    is_matched: match !== undefined,
  };
}

/** Two files of one name with different endings; a name that is not that of its file was reported already. */
function reportTwins(policies: readonly ReadPolicy[], findings: Findings): void {
  const first = new Map<string, ReadPolicy>();
  for (const policy of policies.filter(({ name, file }) => name === nameOf(file))) {
    const earlier = first.get(policy.name);
    if (earlier === undefined) first.set(policy.name, policy);
    else {
      const help = `the other is ${earlier.file}`;
      findings.report('C4005', policy.mark, `there are two policies named ${quote(policy.name)}`, { help });
    }
  }
}

function reportUnknownDefault(node: Node | undefined, files: readonly string[], findings: Findings): void {
  const name = textOf(node);
  // A file with mistakes is there all the same.
  const known = files.map(nameOf);
  if (node === undefined || name === undefined || known.includes(name)) return;
  const all = known.length === 0 ? 'there are no policies' : `policies: ${listed(known)}`;
  const help = didYouMean(name, known, all) ?? all;
  findings.report('C9002', node.mark, `there is no policy ${quote(name)}`, { help });
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
