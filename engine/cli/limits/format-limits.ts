import type { InJson } from '../../admin/operations.ts';
import { printable } from '../../kit/text/printable.ts';
import { wrapText } from '../../kit/text/wrap-text.ts';
import { type AmountUnit, perWindow } from '../../money/limits/limit-names.ts';
import type { LimitInForce as Limit } from '../../money/limits/limit-statuses.ts';
import {
  describePersonal,
  describeUnlimited,
  describeWhose,
  formatAmount,
  formatShownUsd,
} from '../../money/limits/limit-words.ts';
import type { WrittenLimit } from '../../money/limits/written-limits.ts';
import { formatMoment } from '../times.ts';

type LimitInForce = InJson<Limit>;

const WIDTH = 80;
const INDENT = '    ';
/** A counter at this moment: a line with the limit in force, and below it what counts and where the limit comes from. */
export function describeInForce(limit: LimitInForce): string[] {
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
export function describeNoRoom({
  limit,
  room,
  spent,
  unit,
  window,
  resets_at,
  time_zone,
}: LimitInForce): string | undefined {
  if (limit === null || room !== 0) return undefined;
  if (limit === 0) return 'A limit of nothing refuses every request it is for.';
  if (window === 'open') return 'As many requests are under way already: further ones are refused until some are done.';
  const until = resets_at === null ? '' : ` until ${formatMoment(resets_at, time_zone)}`;
  if (spent < limit)
    return 'What is left is reserved by requests in flight: further ones are refused until some are done.';
  return `Already ${verbFor(unit)} ${formatAmount(spent, unit)} of it: further requests are refused${until}.`;
}

/** The limits of gateway.yaml, as they are written. */
export function describeWritten(written: readonly WrittenLimit[]): string[] {
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
