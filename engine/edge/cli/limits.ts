import { SPEND_SCOPES, type SpendScope } from '../../base/contract/config.ts';
import type { LimitWindow } from '../../base/contract/services.ts';
import { printable, printableLines } from '../../base/kit/text/printable.ts';
import { wrapText } from '../../base/kit/text/wrap-text.ts';
import {
  AMOUNT_UNITS,
  type AmountUnit,
  amountUnit,
  describeNothingLimited,
  describePersonal,
  describeUnlimited,
  describeWhere,
  describeWhose,
  formatAmount,
  formatShownUsd,
  LIMIT_WINDOWS,
  type LimitParts,
  partsToFind,
  perWindow,
  unitOfWindow,
} from '../../domain/budget/limits/limit-names.ts';
import type { LimitInForce as Limit, WrittenLimit } from '../../domain/budget/limits/limit-statuses.ts';
import type { InJson } from '../admin/operations.ts';
import { type AnswerOf, type Given, operation } from './admin.ts';
import type { CommandRow } from './commands.ts';
import type { CommandContext } from './context.ts';
import { EXIT_OK, usageError } from './exit-codes.ts';
import { choice, email, expiryThere, notEmpty, numberThat, option, required } from './options.ts';
import { say, showReport, showResult } from './show.ts';
import { formatMoment } from './times.ts';

type LimitInForce = InJson<Limit>;

/** Whose limit it is, as options say it: several together are a combination. */
type WhoseOptions = Readonly<Partial<Record<SpendScope, string>>>;

interface LimitOptions extends WhoseOptions {
  readonly window: LimitWindow;
}

/** What names one limit and an amount of it. */
type AmountOptions = LimitOptions & Readonly<Partial<Record<AmountUnit, number>>> & { readonly reason?: string };
type ClearOptions = LimitOptions & { readonly unit?: AmountUnit };

function unitMeant({ window, unit }: ClearOptions): AmountUnit | undefined {
  const only = unitOfWindow(window);
  return unit ?? (only === undefined ? undefined : amountUnit(only));
}

function partsIn(given: WhoseOptions): LimitParts {
  return Object.fromEntries(
    SPEND_SCOPES.flatMap((scope) => (given[scope] === undefined ? [] : [[scope, given[scope]]])),
  );
}

function demandAmount(given: AmountOptions): void {
  const [unit, another] = AMOUNT_UNITS.filter((each) => given[each] !== undefined);
  if (unit === undefined) throw usageError('how much? Give --usd, --requests or --tokens');
  if (another !== undefined) throw usageError('give one of --usd, --requests and --tokens, not several');
}

function titled(title: string, lines: readonly string[]): string[] {
  return lines.length === 0 ? [] : [`${title}:`, ...lines, ''];
}

function tellNow(context: CommandContext, now: InJson<LimitInForce>): void {
  context.terminal.info(printableLines(describeInForce(now)));
  for (const text of [describeNoRoom(now), describeWhere(now), describeNothingLimited(now)]) {
    if (text !== undefined) say(context, text);
  }
}

const WIDTH = 80;
const INDENT = '    ';
/** A counter at this moment: a line with the limit in force, and below it what counts and where the limit comes from. */
function describeInForce(limit: LimitInForce): string[] {
  const { unit, set, grants, rules, time_zone } = limit;
  const amount = (value: number) => formatAmount(value, unit);
  const in_force = limit.limit === null ? describeUnlimited(limit) : amount(limit.limit);
  const idle = limit.counted ? [] : ['no limit of gateway.yaml counts this: what is set or granted has no effect'];
  const personal = describePersonal(limit);
  const because = (reason: string | null) => (reason === null ? '' : `: ${printable(reason)}`);
  const from = [
    formatStatus(limit),
    ...(personal === undefined ? [] : [personal]),
    ...idle,
    ...(set === null
      ? []
      : [
          `set to ${amount(set.limit)}${byWhom(set.set_by)}, ${formatMoment(set.set_at, time_zone)}${because(set.reason)}`,
        ]),
    ...grants.map(
      (grant) =>
        `plus ${amount(grant.amount)} until ${formatMoment(grant.expires_at, time_zone)}, ${grant.id}${byWhom(grant.granted_by)}${because(grant.reason)}`,
    ),
    ...rules.map((rule) => `gateway.yaml: ${formatRule(limit, rule)}`),
  ];
  return [
    ...wrapText(`${describeWhose(limit)}: ${in_force}`, WIDTH, '', INDENT),
    ...from.flatMap((line) => wrapText(line, WIDTH, INDENT, `${INDENT}  `)),
  ];
}

/** Developers are not told which administrator it was. */
function byWhom(who: string | null): string {
  return who === null ? '' : ` by ${printable(who)}`;
}

/** What somebody must know who has just made a limit smaller than what is spent; `undefined` when there is room. */
function describeNoRoom({ limit, room, spent, unit, window, resets_at, time_zone }: LimitInForce): string | undefined {
  if (limit === null || room !== 0) return undefined;
  if (limit === 0) return 'A limit of nothing refuses every request it is for.';
  if (window === 'open') return 'As many requests are under way already: further ones are refused until some are done.';
  const until = resets_at === null ? '' : ` until ${formatMoment(resets_at, time_zone)}`;
  if (spent < limit)
    return 'What is left is reserved by requests in flight: further ones are refused until some are done.';
  return `Already ${verbFor(unit)} ${formatAmount(spent, unit)} of it: further requests are refused${until}.`;
}

function describeWritten(written: readonly WrittenLimit[]): string[] {
  return written.flatMap(({ rule, scope, window, unit, limit, by_group, mode, always, condition }) => {
    const amounts = formatAmounts({ limit, by_group }, unit);
    const scopes = scope.split('+').filter((each) => each !== 'rule');
    const each = `each ${scopes.join(' and ')} ${perWindow(window)}`;
    const matching = scope.endsWith('+rule');
    const extra = [forWhich({ always, condition }, matching), mode === 'shadow' ? ', only reported (shadow)' : ''];
    return wrapText(printable(`${rule}: ${amounts}, ${each}${extra.join('')}`), WIDTH, '', INDENT);
  });
}

/** `50 USD for science, 5 USD for others`. */
function formatAmounts({ limit, by_group }: Pick<WrittenLimit, 'limit' | 'by_group'>, unit: AmountUnit): string {
  const amounts = [
    ...Object.entries(by_group ?? {}).map(([group, most]) => `${formatAmount(most, unit)} for ${group}`),
    ...(limit === null ? [] : [`${formatAmount(limit, unit)}${by_group === null ? '' : ' for others'}`]),
  ];
  return amounts.length === 0 ? 'by group' : amounts.join(', ');
}

/** Which requests a limit is for; empty for all. */
function forWhich({ always, condition }: Pick<WrittenLimit, 'always' | 'condition'>, matching: boolean): string {
  if (condition === null) return always ? '' : ', for some requests';
  return matching ? `, counting only requests where ${condition}` : `, for requests where ${condition}`;
}

function verbFor(unit: AmountUnit): string {
  return unit === 'usd' ? 'spent' : 'used';
}

function formatStatus({ window, unit, spent, reserved, in_flight, room, resets_at, time_zone }: LimitInForce): string {
  const bare = (value: number) => (unit === 'usd' ? formatShownUsd(value) : String(value));
  const left = room === null ? '' : `, ${bare(room)} left`;
  if (window === 'open') return `${in_flight} under way${left}`;
  const in_flight_part =
    reserved === 0 ? '' : `, ${bare(reserved)} reserved by ${formatAmount(in_flight, 'requests')} in flight`;
  const resets = resets_at === null ? '' : `; resets ${formatMoment(resets_at, time_zone)}`;
  return `${formatAmount(spent, unit)} ${verbFor(unit)}${in_flight_part}${left}${resets}`;
}

function formatRule({ unit, set, of }: LimitInForce, rule: LimitInForce['rules'][number]): string {
  const { limit, by_group, mode, always, condition } = rule;
  const name = `${formatAmounts({ limit, by_group }, unit)} (${printable(rule.rule)})`;
  const which = printable(
    forWhich({ always: always || limit === null || by_group !== null, condition }, of.rule !== undefined),
  );
  if (mode === 'shadow') return `${name}, only reported${which}`;
  return set === null ? `${name}${which}` : `${name}, replaced`;
}

/** An amount in USD, exact to the nano-dollar. */
const usd = numberThat(/^\d{1,7}(?:\.\d{1,9})?$/, 'Write an amount in USD below 10000000, in digits: 100 or 0.25.');
const whole = numberThat(/^\d{1,13}$/, 'Write a whole number of at most 13 digits, such as 500.');

const WHOSE = [
  option('--user <email>', 'whose', email),
  option('--team <name>', 'of which team', notEmpty),
  option('--project <name>', 'of which project', notEmpty),
  option('--token <id>', 'of which access token, as tokens list shows it', notEmpty),
  option('--model <id>', 'of which model', notEmpty),
  option('--upstream <name>', 'of which upstream', notEmpty),
  option('--rule <name>', 'of which rule with `count: matching`', notEmpty),
];

const WHICH = [
  ...WHOSE,
  choice('--window <window>', 'for how long; open is for requests at once', LIMIT_WINDOWS).makeOptionMandatory(),
];

const AMOUNT = [
  ...WHICH,
  option('--usd <amount>', 'how much money, with a day, week or month', usd),
  option('--requests <number>', 'how many, with a minute or open', whole),
  option('--tokens <number>', 'how many, with a minute', whole),
  option('--reason <text>', 'for the list of changes', notEmpty),
];

/** A command that changes a limit, and says what holds from then on. */
function change<Name extends 'setLimit' | 'clearLimit' | 'grantLimit' | 'revokeGrant', Options>(
  name: Name,
  {
    told,
    ...row
  }: Omit<Parameters<typeof operation<Name, Options>>[1], 'show'> & {
    told(done: AnswerOf<Name>, given: Given<Options>): string;
  },
): CommandRow {
  return operation<Name, Options>(name, {
    ...row,
    show: (context, done, given) =>
      showResult(context, done as object, given.json, () => {
        say(context, told(done, given));
        tellNow(context, done.now);
      }),
  });
}

/** `appscli limits`. */
export const commands: readonly CommandRow[] = [
  operation<'listLimits', WhoseOptions>('listLimits', {
    name: 'list',
    about: 'limits: in force, spent, reserved, left; without a name, what to look at first',
    options: WHOSE,
    examples: ['appscli limits list', 'appscli limits list --user ana@example.com --team search'],
    call: (admin, given) => admin('listLimits', partsToFind(partsIn(given))),
    show(context, found, given) {
      const { written, limits } = found;
      if (!given.json && written.length === 0 && limits.length === 0) {
        context.terminal.info('There are no such limits.\n');
        return EXIT_OK;
      }
      const changed = limits.filter(({ set, grants }) => set !== null || grants.length > 0);
      const others = limits.filter((limit) => !changed.includes(limit));
      const at_a_glance = Object.keys(partsIn(given)).length === 0 && written.length > 0;
      return showReport(context, given.json, found, () => {
        const blocks = at_a_glance
          ? [
              ...titled('In gateway.yaml', describeWritten(written)),
              ...titled('Set or granted', changed.flatMap(describeInForce)),
              ...titled('Nearest to their limit', others.flatMap(describeInForce)),
            ]
          : [
              ...limits.flatMap(describeInForce),
              ...(limits.length > 0 && written.length > 0 ? [''] : []),
              ...titled('Also in gateway.yaml for their requests', describeWritten(written)),
            ];
        return blocks.at(-1) === '' ? blocks.slice(0, -1) : blocks;
      });
    },
  }),
  change<'setLimit', AmountOptions>('setLimit', {
    name: 'set',
    about: 'set a limit, in place of those of gateway.yaml; gateways go by it from the next request on',
    options: AMOUNT,
    json: 'print a JSON object: what was set before, and what holds now',
    examples: [
      'appscli limits set --user ana@example.com --window day --usd 100',
      'appscli limits set --team search --model coder-1 --window month --usd 500',
      'appscli limits set --user ana@example.com --window minute --tokens 90000',
    ],
    check: demandAmount,
    told({ previous, now }, given) {
      const before = previous === null ? '' : `, in place of ${formatAmount(previous, now.unit)}`;
      const amount = formatAmount(given[now.unit]!, now.unit);
      return `Set ${describeWhose(now)} to ${amount}${before}. In force from now on:`;
    },
  }),
  change<'clearLimit', ClearOptions>('clearLimit', {
    name: 'clear',
    about: 'take back a limit that was set; those of gateway.yaml hold again',
    options: [...WHICH, choice('--unit <unit>', 'which, of the two of a minute', ['usd', 'requests', 'tokens'])],
    json: 'print a JSON object: what was set, and what holds now',
    examples: ['appscli limits clear --user ana@example.com --window day'],
    check(given) {
      if (unitMeant(given) !== undefined) return;
      throw usageError('a minute can have a limit of requests and one of tokens: which? Give --unit');
    },
    input: (given) => ({ unit: unitMeant(given) }),
    told({ previous, now }) {
      const was = previous === null ? '' : ` of ${formatAmount(previous, now.unit)}`;
      return `Took back the limit${was} for ${describeWhose(now)}. In force from now on:`;
    },
  }),
  change<'grantLimit', AmountOptions & { readonly expires: Date | string }>('grantLimit', {
    name: 'grant',
    about: 'grant room on top of the limit in force, for a time',
    options: [
      ...AMOUNT,
      required(
        '--expires <when>',
        'its end: 3d, 12h or a date, a year away at most; a date means its first moment, by spend_limits.time_zone of the gateway: to last until the end of a Friday, name the Saturday',
        expiryThere,
      ),
    ],
    json: 'print a JSON object: the grant, and what holds now',
    examples: [
      'appscli limits grant --user ana@example.com --window day --usd 20 --expires 3d',
      'appscli limits grant --team search --window month --usd 9 --expires 12h',
      'appscli limits grant --user ana@example.com --team search --window month \\\n    --usd 40 --expires 2027-01-30',
    ],
    check: demandAmount,
    // A day begins where the gateway is: it says when.
    input: ({ expires }) =>
      typeof expires === 'string' ? { expires_on: expires } : { expires_at: expires.toISOString() },
    told({ grant: { id, amount, unit, expires_at }, now }) {
      const until = `until ${formatMoment(expires_at, now.time_zone)}`;
      return `Grant ${id}: ${formatAmount(amount, unit)} more for ${describeWhose(now)}, ${until}.`;
    },
  }),
  change<'revokeGrant', { readonly id: string }>('revokeGrant', {
    name: 'revoke',
    about: 'end a grant before its time',
    arguments: [['<id>', 'its id, as limits list shows it']],
    json: 'print a JSON object: the grant, and what holds now',
    examples: ['appscli limits revoke grt_1a2b3c4d5e6f7'],
    told: ({ grant: { amount, unit }, now }, { id }) =>
      `Revoked ${id}: ${formatAmount(amount, unit)} for ${describeWhose(now)}. In force from now on:`,
  }),
];
