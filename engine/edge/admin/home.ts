import { ERRORS } from '../../base/contract/errors.ts';
import { isSpendWindow, perWindow } from '../../base/contract/windows.ts';
import { refusedRequests } from '../../domain/audit/request-records.ts';
import { startOfDay } from '../../domain/budget/limits/find-limits.ts';
import type { LimitInForce } from '../../domain/budget/limits/limit-statuses.ts';
import { readUsage, summarizeUsage, type UsageSums } from '../../domain/budget/reports/usage-summary.ts';
import { listRefusals } from '../../domain/identity/provider/refused-sign-ins.ts';
import type { AdminOptions, OperationContext } from './calls.ts';
import { configOperations } from './config.ts';
import { limitOperations } from './limits.ts';
import { type Shown, upstreamOperations } from './upstreams.ts';
import { ofStore, showSums } from './usage.ts';

/** An issue for administrators to look at. */
export interface LookAt {
  readonly kind:
    | 'configuration_failed'
    | 'route_without_upstream'
    | 'upstream_closed'
    | 'upstream_drained'
    | 'configurations_differ'
    | 'limit_near'
    | 'many_refused'
    | 'sign_ins_refused'
    | 'cost_grows'
    | 'estimates_grow';
  /** `alarm`: requests or reloads fail now. */
  readonly level: 'alarm' | 'warn';
  readonly text: string;
  /** Name of an upstream or a route, e-mail address or error code; `null` for the gateway as a whole. */
  readonly subject: string | null;
  /** Time of the issue, or its beginning; `null` if not applicable. */
  readonly at: Date | null;
}

/** Current state of the gateway, from which issues are derived. */
export interface Circumstances {
  readonly configuration: {
    readonly replicas: readonly { readonly version: string; readonly failing_since: Date | null }[];
    readonly failing: {
      readonly findings: readonly { readonly message: string }[];
      readonly problem: string | null;
    } | null;
  };
  readonly upstreams: readonly (Pick<Shown, 'name' | 'last_failure' | 'drained'> & {
    readonly state: string;
    readonly models: readonly (Pick<Shown['models'][number], 'upstream_model' | 'last_failure'> & {
      readonly state: string;
    })[];
    readonly routes: readonly Pick<Shown['routes'][number], 'name' | 'is_last'>[];
    readonly elsewhere: readonly Pick<Shown['elsewhere'][number], 'replica' | 'upstream_model' | 'last'>[];
  })[];
  /** Limits with the highest utilization. */
  readonly limits: readonly LimitInForce[];
  readonly requests: number;
  readonly refused: readonly { readonly error: string; readonly requests: number }[];
  /** Last 24 hours, newest first. */
  readonly refused_sign_ins: readonly { readonly at: Date; readonly email: string; readonly detail: string }[];
  readonly today: Pick<UsageSums, 'cost_nano_usd' | 'estimated_nano_usd'>;
  /** Yesterday up to the same time of day. */
  readonly yesterday: Pick<UsageSums, 'cost_nano_usd' | 'estimated_nano_usd'>;
}

const NEAR = 0.9;
const MANY_REFUSED = 20;
const MANY_REFUSED_SHARE = 0.1;
/** Lowest daily cost at which doubling is reported. */
const COST_NANO_USD = 10_000_000_000n;
const ESTIMATED_PERCENT = 5n;

/** Issues, the most urgent first. */
export function lookAt(known: Circumstances): LookAt[] {
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

function configurationFailed({ configuration: { replicas, failing } }: Circumstances): LookAt[] {
  const since = replicas.flatMap(({ failing_since }) => failing_since ?? []).sort((a, b) => Number(a) - Number(b));
  if (since.length === 0) return [];
  const why = failing?.findings[0]?.message ?? failing?.problem;
  const who = replicas.length === 1 ? 'The gateway' : `${since.length} of ${replicas.length} replicas`;
  const text = `${who} cannot load the configuration and ${since.length === 1 ? 'keeps' : 'keep'} the previous one${why ? `: ${why}` : ''}`;
  return [{ kind: 'configuration_failed', level: 'alarm', text: sentence(text), subject: null, at: since[0]! }];
}

function configurationsDiffer({ configuration: { replicas } }: Circumstances): LookAt[] {
  const versions = new Set(replicas.map(({ version }) => version));
  if (versions.size < 2) return [];
  const text = `${replicas.length} replicas run ${versions.size} different configurations.`;
  return [{ kind: 'configurations_differ', level: 'warn', text, subject: null, at: null }];
}

type KnownUpstream = Circumstances['upstreams'][number];

function upstreamUnavailable({ name, state, last_failure, models, elsewhere }: KnownUpstream): LookAt[] {
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
  return [{ kind: 'upstream_closed', level: 'alarm', text: sentence(text), subject: name, at: null }];
}

function upstreamDrained({ name, drained, routes }: KnownUpstream): LookAt[] {
  if (drained === null) return [];
  const alone = routes.filter(({ is_last }) => is_last).map((route) => route.name);
  if (alone.length > 0) {
    const text = `${name} is drained, which leaves no upstream for the ${alone.length === 1 ? 'route' : 'routes'} ${alone.join(', ')}.`;
    return [{ kind: 'route_without_upstream', level: 'alarm', text, subject: name, at: drained.at }];
  }
  const text = `${name} was drained by ${drained.by}${drained.reason === null ? '' : `: ${drained.reason}`}`;
  return [{ kind: 'upstream_drained', level: 'warn', text: sentence(text), subject: name, at: drained.at }];
}

function limitsNear({ limits }: Circumstances): LookAt[] {
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
  return [{ kind: 'limit_near', level: 'warn', text: capital(text), subject: first.of.user ?? null, at: null }];
}

function manyRefused({ requests, refused }: Circumstances): LookAt[] {
  const count = refused.reduce((sum, each) => sum + each.requests, 0);
  const [first] = refused;
  if (first === undefined || count < MANY_REFUSED || count < (requests + count) * MANY_REFUSED_SHARE) return [];
  const text = `${count} requests were refused today, most of them with ${first.error}.`;
  return [{ kind: 'many_refused', level: 'warn', text, subject: first.error, at: null }];
}

function signInsRefused({ refused_sign_ins }: Circumstances): LookAt[] {
  const [last] = refused_sign_ins;
  if (last === undefined) return [];
  const many = refused_sign_ins.length;
  const who = last.email === '' ? 'a person without an address' : last.email;
  const text = `${many === 1 ? 'A sign-in was' : `${many} sign-ins were`} refused in the last 24 hours${many === 1 ? '' : ', the latest'} of ${who}: ${last.detail}`;
  return [{ kind: 'sign_ins_refused', level: 'warn', text: sentence(text), subject: last.email || null, at: last.at }];
}

function costGrows({ today, yesterday }: Circumstances): LookAt[] {
  if (today.cost_nano_usd < COST_NANO_USD || today.cost_nano_usd < 2n * yesterday.cost_nano_usd) return [];
  if (yesterday.cost_nano_usd === 0n) return [];
  const times = Number(today.cost_nano_usd) / Number(yesterday.cost_nano_usd);
  const text = `Today cost ${times.toFixed(1)} times as much as yesterday up to this time.`;
  return [{ kind: 'cost_grows', level: 'warn', text, subject: null, at: null }];
}

function estimatesGrow({ today, yesterday }: Circumstances): LookAt[] {
  const percent = ({ cost_nano_usd, estimated_nano_usd }: Circumstances['today']) =>
    cost_nano_usd <= 0n ? 0n : (100n * estimated_nano_usd) / cost_nano_usd;
  const [now, before] = [percent(today), percent(yesterday)];
  if (now < ESTIMATED_PERCENT || now <= before) return [];
  const text = `${now} % of today's cost is estimated, as upstreams did not report usage; yesterday it was ${before} %.`;
  return [{ kind: 'estimates_grow', level: 'warn', text, subject: null, at: null }];
}

function amount(value: number): string {
  return Number.isInteger(value) ? String(value) : value.toFixed(2);
}

function capital(text: string): string {
  return text.slice(0, 1).toUpperCase() + text.slice(1);
}

function sentence(text: string): string {
  return /[.!?]$/.test(text) ? text : `${text}.`;
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
          closed: upstreams.filter(isClosed).map(({ name }) => name),
          drained: upstreams.filter(({ drained }) => drained !== null).map(({ name }) => name),
        },
        configuration: {
          version: configuration.version,
          loaded_at: latest(configuration.replicas),
          replicas: configuration.replicas.length,
          is_failing: configuration.replicas.some(({ failing_since }) => failing_since !== null),
        },
        look_at: lookAt(known),
      };
    },
  };
}

function meaningOf(code: string): string | null {
  return Object.hasOwn(ERRORS, code) ? ERRORS[code as keyof typeof ERRORS].meaning : null;
}

type Upstream = Awaited<ReturnType<ReturnType<typeof upstreamOperations>['listUpstreams']>>['upstreams'][number];

/** Whether an upstream is unavailable, wholly or for a model, at this or another replica. */
function isClosed({ state, models, elsewhere }: Upstream): boolean {
  return state === 'open' || models.some((model) => model.state === 'open') || elsewhere.length > 0;
}

function latest(replicas: readonly { readonly loaded_at: Date }[]): Date | null {
  const times = replicas.map(({ loaded_at }) => loaded_at.getTime());
  return times.length === 0 ? null : new Date(Math.max(...times));
}
