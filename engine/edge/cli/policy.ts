import { relative } from 'node:path';
import type { GatewayConfig } from '../../base/contract/config.ts';
import { StartError } from '../../base/contract/start-error.ts';
import { jsonText } from '../../base/kit/text/printable.ts';
import { type MapNode, type Node, pointerToken, type SourcePosition, toValue } from '../../base/source/node.ts';
import type { Policy } from '../../base/source/spec.ts';
import {
  type ApplyingPolicy,
  inOrder,
  layOver,
  mergeAll,
  policiesFor,
} from '../../domain/policies/managed-policies.ts';
import { policyPerson } from '../../domain/policies/policy-fetches.ts';
import {
  type CommandContext,
  type CommandRow,
  type ConfigOptions,
  collected,
  EXIT_FINDINGS,
  EXIT_OK,
  email,
  option,
  required,
} from './commands.ts';
import {
  type Columns,
  formatList,
  formatMoment,
  paragraph,
  say,
  showList,
  showReport,
  tableOf,
  WIDTH,
} from './output.ts';
import type { Terminal } from './terminal.ts';
import { loadConfig, useDatabase } from './with-database.ts';

interface Person {
  readonly email: string;
  readonly groups: readonly string[];
  /** `undefined` if the command line names the groups; `null` if the person never signed in. */
  readonly signed_in_at?: Date | null;
}

/** `appscli policy show`: a person's effective settings, and their origins. */
export async function show(
  context: CommandContext,
  options: ConfigOptions & { readonly user: string; readonly group?: readonly string[] },
): Promise<number> {
  const { terminal } = context;
  const { config, loaded } = await loadConfig(context, options.config);
  const email = options.user.toLowerCase();
  const person =
    options.group === undefined ? await lastSignIn(context, config, email) : { email, groups: options.group };
  const applying = policiesFor(config.policies?.managed, loaded.policies, person);
  if (applying.length === 0 && !options.json) say(context, describeNothing(config, person));
  else
    showReport(context, options.json, asJson(config, person, applying), () =>
      describe(config, person, applying, terminal),
    );
  return applying.length === 0 ? EXIT_FINDINGS : EXIT_OK;
}

async function lastSignIn(context: CommandContext, config: GatewayConfig, email: string): Promise<Person> {
  try {
    const known = await useDatabase(context, config, (database) => policyPerson(database, email));
    return { email, groups: known?.groups ?? [], signed_in_at: known?.signed_in_at ?? null };
  } catch (error) {
    const reason = error instanceof Error ? error.message : String(error);
    throw new StartError(
      `cannot read the groups of ${email} from the database: ${reason}. Name the groups with --group`,
      { cause: error },
    );
  }
}

const shortPath = (file: string): string => relative(process.cwd(), file);

function reasonOf({ because }: ApplyingPolicy): string {
  if (because.by === 'default') return 'the default policy';
  return because.by === 'group' ? `member of ${because.group}` : `e-mail address at ${because.email_domain}`;
}

function formatGroups({ groups, signed_in_at }: Person): string {
  const named = groups.length === 0 ? 'in no group' : `in ${groups.join(', ')}`;
  if (signed_in_at === undefined) return named;
  if (signed_in_at === null) return `${named}: never signed in`;
  return `${named}, as of the sign-in or refresh on ${formatMoment(signed_in_at)}`;
}

function describeNothing(config: GatewayConfig, person: Person): string {
  const off =
    config.policies?.managed?.enabled === true
      ? ''
      : ' Managed policies are disabled: see policies.managed in gateway.yaml.';
  return `No managed policy applies to ${person.email} (${formatGroups(person)}).${off}`;
}

function mergedSettings(applying: readonly ApplyingPolicy[]): MapNode {
  const all = applying.map(({ policy }) => policy.settings);
  return mergeAll(all, all[0]!.mark);
}

function describe(
  config: GatewayConfig,
  person: Person,
  applying: readonly ApplyingPolicy[],
  { table_columns }: Terminal,
): string[] {
  const policies = applying.map(({ policy }) => policy);
  const { models, models_policy, checksum } = layOver(policies, config);
  const allowed = models === undefined ? [] : [`models: ${[...models].join(', ') || 'none'} (by ${models_policy})`];
  return [
    ...paragraph(`${person.email} (${formatGroups(person)}) gets these policies, later ones override:`),
    '',
    ...formatList(...tableOf(APPLYING, applying), table_columns),
    '',
    ...paragraph('Mappings merge by key, deny lists are united, everything else is replaced:'),
    '',
    ...describeSettings(mergedSettings(applying)),
    '',
    ...allowed.flatMap((line) => paragraph(line, '', '  ')),
    `checksum ${checksum}`,
  ];
}

const APPLYING: Columns<ApplyingPolicy> = [
  ['POLICY', ({ policy }) => policy.name],
  ['BECAUSE', reasonOf],
  ['FILE', ({ policy }) => shortPath(policy.file)],
];

function asJson(config: GatewayConfig, { email, groups, signed_in_at }: Person, applying: readonly ApplyingPolicy[]) {
  const policies = applying.map(({ policy: { name, priority, file }, because }) => {
    return { name, priority, file: shortPath(file), because };
  });
  const head = { user: email, groups, ...(signed_in_at === undefined ? {} : { signed_in_at }), policies };
  if (applying.length === 0) return head;
  const { uuid, checksum, settings, models } = layOver(
    applying.map(({ policy }) => policy),
    config,
  );
  const origins = originsOf(mergedSettings(applying));
  return { ...head, uuid, checksum, models: models === undefined ? null : [...models], settings, origins };
}

/** `appscli policy list`: all policies and their audiences. */
export async function list(context: CommandContext, options: ConfigOptions): Promise<number> {
  const { config, loaded } = await loadConfig(context, options.config);
  const base = config.policies?.managed?.default_policy;
  const isBase = ({ name }: Policy) => name === base;
  const policies = [...loaded.policies.filter(isBase), ...inOrder(loaded.policies.filter((each) => !isBase(each)))];
  const entries = policies.map(({ name, version, summary, match, priority, file }) => {
    return { name, version, summary, is_default: name === base, match, priority, file: shortPath(file) };
  });
  return showList(context, entries, options.json, {
    none: 'No managed policies; configure policies.managed in gateway.yaml.',
    columns: [
      ['POLICY', ({ name }) => name],
      ['PRIORITY', ({ is_default, priority }) => (is_default ? '' : String(priority)), 'number'],
      ['FOR', audienceOf],
      ['SUMMARY', ({ summary }) => summary],
    ],
  });
}

function audienceOf({ is_default, match }: { readonly is_default: boolean } & Pick<Policy, 'match'>): string {
  if (is_default) return 'all users';
  const words = [...match.groups, ...match.email_domains.map((domain) => `@${domain}`)];
  return words.length === 0 ? 'no users' : words.join(', ');
}

interface Line {
  readonly text: string;
  /** JSON pointer and position; absent for the head of a mapping or list, whose parts have their own. */
  readonly at?: string;
  readonly from?: string;
}

const MAX_TEXT_WIDTH = 52;

/** Settings as YAML, for another file or a ticket, with the position of every part as a comment. */
export function describeSettings(settings: MapNode): string[] {
  if (settings.entries.length === 0) return ['{}'];
  const lines = linesOf(settings);
  const fitting = lines.filter(({ text }) => text.length <= MAX_TEXT_WIDTH);
  const width = fitting.reduce((widest, { text }) => Math.max(widest, text.length), 0);
  return lines.flatMap(({ text, from }) => {
    if (from === undefined) return [text];
    const line = `${text.padEnd(width)}  # ${from}`;
    if (line.length <= WIDTH) return [line];
    const indent = text.slice(0, text.length - text.trimStart().length);
    return [`${indent}# ${from}`, text];
  });
}

/** Positions of settings by JSON pointer. */
export function originsOf(settings: MapNode): Record<string, string> {
  return Object.fromEntries(linesOf(settings).flatMap(({ at, from }) => (at && from ? [[at, from]] : [])));
}

/** Every part of settings that has no parts of its own, and every item of a list. */
function linesOf(owner: MapNode, indent = '', pointer = ''): Line[] {
  return owner.entries.flatMap(({ key, key_mark, value }): Line[] => {
    const [head, at] = [`${indent}${inYaml(key)}:`, pointer + pointerToken(key)];
    if (value.kind === 'map' && value.entries.length > 0) return [{ text: head }, ...linesOf(value, `${indent}  `, at)];
    if (value.kind !== 'list' || value.items.length === 0)
      return [{ text: `${head} ${flow(value)}`, at, from: positionOf(key_mark) }];
    const items = value.items.map((item, index) => {
      return { text: `${indent}  - ${flow(item)}`, at: at + pointerToken(index), from: positionOf(item.mark) };
    });
    return [{ text: head }, ...items];
  });
}

const positionOf = ({ file, line }: SourcePosition): string => `${shortPath(file)}:${line}`;

function flow(node: Node): string {
  const value = toValue(node);
  return typeof value === 'string' ? inYaml(value) : jsonText(value);
}

function inYaml(text: string): string {
  const is_plain = /^[A-Za-z_][\w./@-]*$/.test(text) && !/^(?:true|false|null|yes|no|on|off|y|n)$/i.test(text);
  return is_plain ? text : jsonText(text);
}

export const commands: readonly CommandRow[] = [
  {
    name: 'show',
    about: 'show the effective settings of a user, with the file of each part; exits 1 if no policy applies',
    options: [
      required('--user <email>', 'the user', email),
      option(
        '--group <name>',
        'group at the identity provider, or token group; repeatable (default: the groups of the last sign-in)',
        collected,
      ),
    ],
    place: 'configuration',
    json: 'print a JSON object',
    examples: [
      'appscli policy show --user alice@example.com',
      'appscli policy show --user pat@partner.example --group contractors',
    ],
    run: show,
  },
  {
    name: 'list',
    about: 'list all policies, in the order in which they apply',
    place: 'configuration',
    json: 'print a JSON array',
    examples: ['appscli policy list --config gateway.yaml'],
    run: list,
  },
];
