import { relative } from 'node:path';
import type { GatewayConfig } from '../../contract/config.ts';
import { StartError } from '../../contract/start-error.ts';
import { loadToRun } from '../../gateway/load-configuration.ts';
import { layOver } from '../../identity/policies/managed-policies.ts';
import { mergeAll } from '../../identity/policies/merge.ts';
import { type ApplyingPolicy, inOrder, policiesFor } from '../../identity/policies/policy.ts';
import { wrapText } from '../../kit/text/wrap-text.ts';
import type { Loaded, Policy } from '../../source/spec.ts';
import { openDatabase } from '../../store/database.ts';
import type { CommandContext } from '../context.ts';
import { EXIT_FINDINGS, EXIT_OK, EXIT_UNAVAILABLE } from '../exit-codes.ts';
import { describeSettings, originsOf } from '../explain/describe-settings.ts';
import { say, showList, showReport } from '../show.ts';
import { formatList, numbers } from '../table.ts';
import type { Terminal } from '../terminal.ts';
import { formatMoment } from '../times.ts';
import { commandLog } from '../with-database.ts';

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
      { exit_code: EXIT_UNAVAILABLE, cause: error },
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
