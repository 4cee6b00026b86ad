import { ERRORS } from '../../base/contract/errors.ts';
import { isSpendWindow, perWindow } from '../../base/contract/windows.ts';
import { refusedRequests } from '../../domain/audit/request-records.ts';
import { type LimitInForce, startOfDay } from '../../domain/budget/limits/limit-statuses.ts';
import { readUsage, summarizeUsage, type UsageSums } from '../../domain/budget/reports/usage.ts';
import { listRefusals } from '../../domain/identity/provider/refused-sign-ins.ts';
import type { AdminOptions, OperationContext } from './calls.ts';
import { configOperations } from './config.ts';
import { limitOperations } from './limits.ts';
import { type Shown, upstreamOperations } from './upstreams.ts';
import { ofStore, showSums } from './usage.ts';

type Configuration = Awaited<ReturnType<ReturnType<typeof configOperations>['getConfig']>>;

/** Current state of the gateway, from which issues are derived. */
export interface GatewayState {
  readonly configuration: Pick<Configuration, 'replicas' | 'failing'>;
  readonly upstreams: readonly Shown[];
  readonly limits: readonly LimitInForce[];
  readonly requests: number;
  readonly refused: Awaited<ReturnType<typeof refusedRequests>>;
  readonly refused_sign_ins: Awaited<ReturnType<typeof listRefusals>>;
  readonly today: UsageSums;
  /** Up to the same time of day. */
  readonly yesterday: UsageSums;
}

type Issue = ReturnType<typeof issue>;

/** `alarm`: requests or reloads fail now. The subject is an upstream, route, address or error code; `null`: the gateway. */
const issue = (
  kind: string,
  level: 'alarm' | 'warn',
  text: string,
  subject: string | null = null,
  at: Date | null = null,
) => ({ kind, level, text: /[.!?]$/.test(text) ? text : `${text}.`, subject, at });

const NEAR = 0.9;
const MANY_REFUSED = 20;
const MANY_REFUSED_SHARE = 0.1;
const COST_NANO_USD = 10_000_000_000n;
const ESTIMATED_PERCENT = 5n;

/** Issues, the most urgent first. */
export function findIssues(known: GatewayState): Issue[] {
  return [
    ...configurationFailed(known),
    ...known.upstreams.flatMap(upstreamUnavailable),
    ...known.upstreams.flatMap(upstreamDrained),
    ...configurationsDiffer(known),
    ...limitsNear(known),
    ...manyRefused(known),
    ...signInsRefused(known),
    ...costGrows(known),
    ...estimatesGrow(known),
  ].toSorted((a, b) => Number(b.level === 'alarm') - Number(a.level === 'alarm'));
}

function configurationFailed({ configuration: { replicas, failing } }: GatewayState): Issue[] {
  const since = replicas.flatMap(({ failing_since }) => failing_since ?? []).sort((a, b) => Number(a) - Number(b));
  if (since.length === 0) return [];
  const why = failing?.findings[0]?.message ?? failing?.problem;
  const who = replicas.length === 1 ? 'The gateway' : `${since.length} of ${replicas.length} replicas`;
  const text = `${who} cannot load the configuration and ${since.length === 1 ? 'keeps' : 'keep'} the previous one${why ? `: ${why}` : ''}`;
  return [issue('configuration_failed', 'alarm', text, null, since[0]!)];
}

function configurationsDiffer({ configuration: { replicas } }: GatewayState): Issue[] {
  const versions = new Set(replicas.map(({ version }) => version));
  if (versions.size < 2) return [];
  const text = `${replicas.length} replicas run ${versions.size} different configurations.`;
  return [issue('configurations_differ', 'warn', text)];
}

function upstreamUnavailable({ name, state, last_failure, models, elsewhere }: Shown): Issue[] {
  const because = (last: string | null) => (last === null ? '' : `: ${last}`);
  const open = models.find((model) => model.state === 'open');
  const [other] = elsewhere;
  const text =
    state === 'open'
      ? `${name} is unavailable${because(last_failure)}`
      : open !== undefined
        ? `${name} is unavailable for ${open.upstream_model}${because(open.last_failure)}`
        : other !== undefined && `${name} is unavailable for replica ${other.replica}${because(other.last)}`;
  if (text === false) return [];
  return [issue('upstream_unavailable', 'alarm', text, name)];
}

function upstreamDrained({ name, drained, routes }: Shown): Issue[] {
  if (drained === null) return [];
  const alone = routes.filter(({ is_last }) => is_last).map((route) => route.name);
  if (alone.length > 0) {
    const text = `${name} is drained, which leaves no upstream for the ${alone.length === 1 ? 'route' : 'routes'} ${alone.join(', ')}.`;
    return [issue('route_without_upstream', 'alarm', text, name, drained.at)];
  }
  const text = `${name} was drained by ${drained.by}${drained.reason === null ? '' : `: ${drained.reason}`}`;
  return [issue('upstream_drained', 'warn', text, name, drained.at)];
}

function limitsNear({ limits }: GatewayState): Issue[] {
  const near = limits
    .filter(({ limit, window }) => limit !== null && limit > 0 && isSpendWindow(window))
    .map((each) => ({ ...each, share: (each.spent + each.reserved) / each.limit! }))
    .filter(({ share }) => share >= NEAR)
    .sort((a, b) => b.share - a.share);
  const [first] = near;
  if (first === undefined) return [];
  const whose = Object.entries(first.of).map(([scope, key]) => `${scope} ${key}`);
  const unit = first.unit === 'usd' ? 'USD' : first.unit;
  const used = `${amount(first.spent + first.reserved)} of ${amount(first.limit!)} ${unit} ${perWindow(first.window)}`;
  const others =
    near.length === 1
      ? ''
      : `; ${near.length - 1} more ${near.length === 2 ? 'limit is' : 'limits are'} near exhaustion`;
  const text = `${whose.join(', ')} has used ${used}${others}.`;
  return [issue('limit_near', 'warn', capital(text), first.of.user ?? null)];
}

function manyRefused({ requests, refused }: GatewayState): Issue[] {
  const count = refused.reduce((sum, each) => sum + each.requests, 0);
  const [first] = refused;
  if (first === undefined || count < MANY_REFUSED || count < (requests + count) * MANY_REFUSED_SHARE) return [];
  const text = `${count} requests were rejected today, most of them with ${first.error}.`;
  return [issue('many_refused', 'warn', text, first.error)];
}

function signInsRefused({ refused_sign_ins }: GatewayState): Issue[] {
  const [last] = refused_sign_ins;
  if (last === undefined) return [];
  const many = refused_sign_ins.length;
  const who = last.email === '' ? 'a person without an address' : last.email;
  const text = `${many === 1 ? 'A sign-in was' : `${many} sign-ins were`} rejected in the last 24 hours${many === 1 ? '' : ', the latest'} of ${who}: ${last.detail}`;
  return [issue('sign_ins_refused', 'warn', text, last.email || null, last.at)];
}

function costGrows({ today, yesterday }: GatewayState): Issue[] {
  if (today.cost_nano_usd < COST_NANO_USD || today.cost_nano_usd < 2n * yesterday.cost_nano_usd) return [];
  if (yesterday.cost_nano_usd === 0n) return [];
  const times = Number(today.cost_nano_usd) / Number(yesterday.cost_nano_usd);
  const text = `Today cost ${times.toFixed(1)} times as much as yesterday up to this time.`;
  return [issue('cost_grows', 'warn', text)];
}

function estimatesGrow({ today, yesterday }: GatewayState): Issue[] {
  const percent = ({ cost_nano_usd, estimated_nano_usd }: GatewayState['today']) =>
    cost_nano_usd <= 0n ? 0n : (100n * estimated_nano_usd) / cost_nano_usd;
  const [now, before] = [percent(today), percent(yesterday)];
  if (now < ESTIMATED_PERCENT || now <= before) return [];
  const text = `${now} % of today's cost is estimated, as upstreams did not report usage; yesterday it was ${before} %.`;
  return [issue('estimates_grow', 'warn', text)];
}

function amount(value: number): string {
  return Number.isInteger(value) ? String(value) : value.toFixed(2);
}

function capital(text: string): string {
  return text.slice(0, 1).toUpperCase() + text.slice(1);
}

const DAY_MS = 86_400_000;
const MOST_ERRORS = 5;

/** Overview for administrators, composed from the other operations so that the numbers agree. */
export function homeOperations(options: AdminOptions) {
  const { config, database, clock } = options;
  const time_zone = config.spend_limits?.time_zone ?? 'UTC';
  const upstreamsOf = upstreamOperations(options);
  const limitsOf = limitOperations(options);
  const configOf = configOperations(options);
  const costOf = async (since: Date, until?: Date) => {
    const rows = await ofStore(readUsage(database, { filter: { since, until }, by: [], time_zone }));
    return summarizeUsage(rows, { by: [], limit: 1 }).total;
  };
  return {
    async getHome(context: OperationContext, _nothing: object) {
      const now = new Date(clock.now());
      const since = await startOfDay(options);
      const before = { since: new Date(since.getTime() - DAY_MS), until: new Date(now.getTime() - DAY_MS) };
      const [{ upstreams }, { limits }, configuration, refused, sign_ins] = await Promise.all([
        upstreamsOf.listUpstreams(context, {}),
        limitsOf.listLimits(context, {}),
        configOf.getConfig(context, {}),
        refusedRequests(database, since),
        listRefusals(database),
      ]);
      const [today, yesterday] = await Promise.all([costOf(since), costOf(before.since, before.until)]);
      const refused_sign_ins = sign_ins.filter(({ at }) => at.getTime() > now.getTime() - DAY_MS);
      const { requests } = today;
      const known = { configuration, upstreams, limits, requests, refused, refused_sign_ins, today, yesterday };
      return {
        since,
        until: now,
        time_zone,
        today: showSums(today),
        yesterday: { ...before, total: showSums(yesterday) },
        refused: {
          requests: refused.reduce((sum, each) => sum + each.requests, 0),
          by_error: refused.slice(0, MOST_ERRORS).map((each) => ({ ...each, meaning: meaningOf(each.error) })),
        },
        upstreams: {
          all: upstreams.length,
          unavailable: upstreams.filter(isUnavailable).map(({ name }) => name),
          drained: upstreams.filter(({ drained }) => drained !== null).map(({ name }) => name),
        },
        configuration: {
          version: configuration.version,
          loaded_at: latest(configuration.replicas),
          replicas: configuration.replicas.length,
          is_failing: configuration.replicas.some(({ failing_since }) => failing_since !== null),
        },
        look_at: findIssues(known),
      };
    },
  };
}

function meaningOf(code: string): string | null {
  return Object.hasOwn(ERRORS, code) ? ERRORS[code as keyof typeof ERRORS].meaning : null;
}

function isUnavailable({ state, models, elsewhere }: Shown): boolean {
  return state === 'open' || models.some((model) => model.state === 'open') || elsewhere.length > 0;
}

function latest(replicas: readonly { readonly loaded_at: Date }[]): Date | null {
  const times = replicas.map(({ loaded_at }) => loaded_at.getTime());
  return times.length === 0 ? null : new Date(Math.max(...times));
}
