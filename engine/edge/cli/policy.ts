import { relative } from 'node:path';
import type { GatewayConfig } from '../../base/contract/config.ts';
import { StartError } from '../../base/contract/start-error.ts';
import { jsonText } from '../../base/kit/text/printable.ts';
import { wrapText } from '../../base/kit/text/wrap-text.ts';
import { type MapNode, type Node, pointerToken, type SourcePosition, toValue } from '../../base/source/node.ts';
import type { Loaded, Policy } from '../../base/source/spec.ts';
import { openDatabase } from '../../base/store/database.ts';
import {
  type ApplyingPolicy,
  inOrder,
  layOver,
  mergeAll,
  policiesFor,
} from '../../domain/policies/managed-policies.ts';
import { loadToRun } from '../gateway/reload.ts';
import type { CommandRow } from './commands.ts';
import type { CommandContext } from './context.ts';
import { EXIT_FINDINGS, EXIT_OK } from './exit-codes.ts';
import { collected, email, option, required } from './options.ts';
import { say, showList, showReport } from './show.ts';
import { formatList, numbers } from './table.ts';
import type { Terminal } from './terminal.ts';
import { formatMoment } from './times.ts';
import { commandLog } from './with-database.ts';

interface Person {
  readonly email: string;
  readonly groups: readonly string[];
  /** `undefined` when the groups are those of the command line, `null` when the person never signed in. */
  readonly signed_in_at?: Date | null;
}

async function loadPolicies({ env, stages }: CommandContext, file: string) {
  return loadToRun(file, { stages: await stages(), env, environment: 'ignored' });
}

/** `appscli policy show`: what somebody gets, and from where. */
export async function show(
  context: CommandContext,
  given: { readonly config: string; readonly user: string; readonly group?: readonly string[]; readonly json?: true },
): Promise<number> {
  const { terminal } = context;
  const { config, loaded } = await loadPolicies(context, given.config);
  const email = given.user.toLowerCase();
  const person = given.group === undefined ? await lastSignIn(context, config, email) : { email, groups: given.group };
  const applying = policiesFor(config.policies?.managed, loaded.policies, person);
  if (applying.length === 0 && !given.json) say(context, describeNothing(config, person));
  else
    showReport(context, given.json, asJson(config, person, applying), () =>
      describe(config, person, applying, terminal),
    );
  return applying.length === 0 ? EXIT_FINDINGS : EXIT_OK;
}

/** Somebody with the groups that the identity provider told last. Raises StartError when the database can't be asked. */
async function lastSignIn(context: CommandContext, config: GatewayConfig, email: string): Promise<Person> {
  try {
    const database = await openDatabase({ config, env: context.env, log: commandLog(context), wait: 'until-ready' });
    try {
      const [row] = await database.query<{ groups: readonly string[]; signed_in_at: Date | null }>(
        'policy_person',
        'select groups, signed_in_at from principals where id = $1',
        [`user:${email}`],
      );
      return { email, groups: row?.groups ?? [], signed_in_at: row?.signed_in_at ?? null };
    } finally {
      await database.close();
    }
  } catch (error) {
    const reason = error instanceof Error ? error.message : String(error);
    throw new StartError(
      `the groups of ${email} are not known, as the database cannot be asked: ${reason}; name them with --group to do without it`,
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
      : ' Managed policies are not handed out: see policies.managed in gateway.yaml.';
  return `No managed policy is meant for ${person.email} (${formatGroups(person)}).${off}`;
}

function mergedSettings(applying: readonly ApplyingPolicy[]) {
  const all = applying.map(({ policy }) => policy.settings);
  return mergeAll(all, all[0]!.mark);
}

function describe(
  config: GatewayConfig,
  person: Person,
  applying: readonly ApplyingPolicy[],
  { columns: line_width, table_columns }: Pick<Terminal, 'columns' | 'table_columns'>,
): string[] {
  const policies = applying.map(({ policy }) => policy);
  const { models, models_policy, checksum } = layOver(policies, config);
  const allowed = models === undefined ? [] : [`models: ${[...models].join(', ') || 'none'} (by ${models_policy})`];
  const rows = applying.map((each) => [each.policy.name, reasonOf(each), shortPath(each.policy.file)]);
  return [
    ...wrapText(`${person.email} (${formatGroups(person)}) gets, the last one having the last word:`, line_width),
    '',
    ...formatList(WHY_COLUMNS, rows, table_columns),
    '',
    ...wrapText('Mappings merge key by key, deny lists are united, everything else is replaced:', line_width),
    '',
    ...describeSettings(mergedSettings(applying), ({ file, line }) => `${shortPath(file)}:${line}`, line_width),
    '',
    ...allowed.flatMap((line) => wrapText(line, line_width, '', '  ')),
    `checksum ${checksum}`,
  ];
}

const WHY_COLUMNS = ['POLICY', 'BECAUSE', 'FILE'];

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
  const origins = originsOf(mergedSettings(applying), ({ file, line }) => `${shortPath(file)}:${line}`);
  return { ...head, uuid, checksum, models: models === undefined ? null : [...models], settings, origins };
}

/** `appscli policy list`: every policy and whom it is meant for. */
export async function list(
  context: CommandContext,
  given: { readonly config: string; readonly json?: true },
): Promise<number> {
  const { config, loaded } = await loadPolicies(context, given.config);
  const policies = ordered(config, loaded);
  const base = config.policies?.managed?.default_policy;
  if (given.json) {
    const facts = policies.map(({ name, version, summary, match, priority, file }) => {
      return { name, version, summary, is_default: name === base, match, priority, file: shortPath(file) };
    });
    return showReport(context, given.json, facts, () => []);
  }
  return showList(context, policies, undefined, {
    none: 'There are no managed policies; policies.managed of gateway.yaml says where they are.',
    columns: ['POLICY', ...numbers('PRIORITY'), 'FOR', 'SUMMARY'],
    cells: (policy) => [
      policy.name,
      policy.name === base ? '' : String(policy.priority),
      audienceOf(policy, base),
      policy.summary,
    ],
  });
}

function ordered(config: GatewayConfig, { policies }: Loaded): Policy[] {
  const isBase = ({ name }: Policy) => name === config.policies?.managed?.default_policy;
  return [...policies.filter(isBase), ...inOrder(policies.filter((policy) => !isBase(policy)))];
}

function audienceOf({ name, match }: Policy, base: string | undefined): string {
  if (name === base) return 'everybody';
  const words = [...match.groups, ...match.email_domains.map((domain) => `@${domain}`)];
  return words.length === 0 ? 'nobody' : words.join(', ');
}

/** How a position is written, such as `policies/standard.yaml:7`. */
export type TellPosition = (position: SourcePosition) => string;

interface Line {
  readonly text: string;
  /** Absent for the head of a mapping or list, whose parts have positions of their own. */
  readonly from?: string;
}

/** A column further to the right leaves no room for positions. */
const MAX_TEXT_WIDTH = 52;

/** Settings as lines of YAML, each with the position it comes from as a comment: beside it, or above it where the line is too long. */
export function describeSettings(settings: MapNode, tell: TellPosition, line_width: number): string[] {
  if (settings.entries.length === 0) return ['{}'];
  const lines = linesOf(settings, '', tell);
  const fitting = lines.filter(({ text }) => text.length <= MAX_TEXT_WIDTH);
  const width = fitting.reduce((widest, { text }) => Math.max(widest, text.length), 0);
  return lines.flatMap(({ text, from }) => {
    if (from === undefined) return [text];
    const line = `${text.padEnd(width)}  # ${from}`;
    if (line.length <= line_width) return [line];
    const indent = text.slice(0, text.length - text.trimStart().length);
    return [`${indent}# ${from}`, text];
  });
}

function linesOf(owner: MapNode, indent: string, tell: TellPosition): Line[] {
  return owner.entries.flatMap(({ key, key_mark, value }): Line[] => {
    const head = `${indent}${inYaml(key)}:`;
    if (value.kind === 'map' && value.entries.length > 0)
      return [{ text: head }, ...linesOf(value, `${indent}  `, tell)];
    if (value.kind === 'list' && value.items.length > 0) {
      const items = value.items.map((item) => ({ text: `${indent}  - ${flow(item)}`, from: tell(item.mark) }));
      return [{ text: head }, ...items];
    }
    return [{ text: `${head} ${flow(value)}`, from: tell(key_mark) }];
  });
}

function flow(node: Node): string {
  const value = toValue(node);
  return typeof value === 'string' ? inYaml(value) : jsonText(value);
}

/** A text that YAML reads as this text, without quotes where it needs none. */
function inYaml(text: string): string {
  const is_plain = /^[A-Za-z_][\w./@-]*$/.test(text) && !/^(?:true|false|null|yes|no|on|off|y|n)$/i.test(text);
  return is_plain ? text : jsonText(text);
}

/** The position of every part that is neither a mapping nor the list it stands in, by JSON pointer. */
export function originsOf(settings: MapNode, tell: TellPosition, pointer = ''): Record<string, string> {
  const origins = settings.entries.flatMap(({ key, key_mark, value }): [string, string][] => {
    const at = pointer + pointerToken(key);
    if (value.kind === 'map' && value.entries.length > 0) return Object.entries(originsOf(value, tell, at));
    if (value.kind !== 'list' || value.items.length === 0) return [[at, tell(key_mark)]];
    return value.items.map((item, index) => [at + pointerToken(index), tell(item.mark)]);
  });
  return Object.fromEntries(origins);
}

/** `appscli policy`. */
export const commands: readonly CommandRow[] = [
  {
    name: 'show',
    about: 'what somebody gets, and which file each part of it comes from; exits with 1 when it is nothing',
    options: [
      required('--user <email>', 'whose settings', email),
      option(
        '--group <name>',
        'group of the identity provider, or token group of their access token; may be repeated; those of their last sign-in where absent',
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
    about: 'all policies, in the order in which they are laid over each other',
    place: 'configuration',
    json: 'print a JSON array',
    examples: ['appscli policy list --config gateway.yaml'],
    run: list,
  },
];
