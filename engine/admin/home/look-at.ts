import { perWindow } from '../../money/limits/limit-names.ts';
import type { LimitInForce } from '../../money/limits/limit-statuses.ts';
import type { UsageSums } from '../../money/reports/usage-summary.ts';

/** What an administrator had better look at. */
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
  /** `alarm`: requests or changes fail now. */
  readonly level: 'alarm' | 'warn';
  /** A sentence. */
  readonly text: string;
  /** What it is about: name of an upstream or a route, e-mail address, error code; `null` for the gateway as a whole. */
  readonly subject: string | null;
  /** Since when, or when it was; `null` where that says nothing. */
  readonly at: Date | null;
}

/** What is known of the gateway at the moment. */
export interface Circumstances {
  readonly configuration: {
    readonly replicas: readonly { readonly version: string; readonly failing_since: Date | null }[];
    readonly failing: {
      readonly findings: readonly { readonly message: string }[];
      readonly problem: string | null;
    } | null;
  };
  readonly upstreams: readonly {
    readonly name: string;
    readonly state: string;
    readonly last_failure: string | null;
    readonly drained: { readonly by: string; readonly at: Date; readonly reason: string | null } | null;
    readonly models: readonly {
      readonly upstream_model: string;
      readonly state: string;
      readonly last_failure: string | null;
    }[];
    readonly routes: readonly { readonly name: string; readonly is_last: boolean }[];
    readonly elsewhere: readonly {
      readonly replica: string;
      readonly upstream_model: string | null;
      readonly last: string | null;
    }[];
  }[];
  /** Those nearest to their end. */
  readonly limits: readonly LimitInForce[];
  readonly requests: number;
  readonly refused: readonly { readonly error: string; readonly requests: number }[];
  /** Of the last day, the newest first. */
  readonly refused_sign_ins: readonly { readonly at: Date; readonly email: string; readonly detail: string }[];
  readonly today: Pick<UsageSums, 'cost_nano_usd' | 'estimated_nano_usd'>;
  /** Yesterday up to the same time. */
  readonly yesterday: Pick<UsageSums, 'cost_nano_usd' | 'estimated_nano_usd'>;
}

const NEAR = 0.9;
const MANY_REFUSED = 20;
const MANY_REFUSED_SHARE = 0.1;
/** Below that, a cost that doubles is nothing to look at. */
const COST_NANO_USD = 10_000_000_000n;
const ESTIMATED_PERCENT = 5n;

/** What to look at, the most urgent first. */
export function lookAt(known: Circumstances): LookAt[] {
  return [
    ...configurationFailed(known),
    ...known.upstreams.flatMap(upstreamClosed),
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
  const text = `${who} cannot load the configuration and ${since.length === 1 ? 'goes' : 'go'} on with the one before${why ? `: ${why}` : ''}`;
  return [{ kind: 'configuration_failed', level: 'alarm', text: sentence(text), subject: null, at: since[0]! }];
}

function configurationsDiffer({ configuration: { replicas } }: Circumstances): LookAt[] {
  const versions = new Set(replicas.map(({ version }) => version));
  if (versions.size < 2) return [];
  const text = `${replicas.length} replicas run ${versions.size} different configurations.`;
  return [{ kind: 'configurations_differ', level: 'warn', text, subject: null, at: null }];
}

type Upstream = Circumstances['upstreams'][number];

function upstreamClosed({ name, state, last_failure, models, elsewhere }: Upstream): LookAt[] {
  const because = (last: string | null) => (last === null ? '' : `: ${last}`);
  const open = models.find((model) => model.state === 'open');
  const [other] = elsewhere;
  const text =
    state === 'open'
      ? `${name} gets no requests for a while${because(last_failure)}`
      : open !== undefined
        ? `${name} gets no requests for ${open.upstream_model} for a while${because(open.last_failure)}`
        : other !== undefined &&
          `${name} gets no requests of replica ${other.replica} for a while${because(other.last)}`;
  if (text === false) return [];
  return [{ kind: 'upstream_closed', level: 'alarm', text: sentence(text), subject: name, at: null }];
}

function upstreamDrained({ name, drained, routes }: Upstream): LookAt[] {
  if (drained === null) return [];
  const alone = routes.filter(({ is_last }) => is_last).map((route) => route.name);
  if (alone.length > 0) {
    const text = `${name} is drained, and nothing else serves the ${alone.length === 1 ? 'route' : 'routes'} ${alone.join(', ')}.`;
    return [{ kind: 'route_without_upstream', level: 'alarm', text, subject: name, at: drained.at }];
  }
  const text = `${name} was drained by ${drained.by}${drained.reason === null ? '' : `: ${drained.reason}`}`;
  return [{ kind: 'upstream_drained', level: 'warn', text: sentence(text), subject: name, at: drained.at }];
}

function limitsNear({ limits }: Circumstances): LookAt[] {
  const near = limits
    .filter(({ limit, window }) => limit !== null && limit > 0 && window !== 'minute' && window !== 'open')
    .map((each) => ({ ...each, share: (each.spent + each.reserved) / each.limit! }))
    .filter(({ share }) => share >= NEAR)
    .sort((a, b) => b.share - a.share);
  const [first] = near;
  if (first === undefined) return [];
  const whose = Object.entries(first.of).map(([scope, key]) => `${scope} ${key}`);
  const unit = first.unit === 'usd' ? 'USD' : first.unit;
  const used = `${amount(first.spent + first.reserved)} of ${amount(first.limit!)} ${unit} ${perWindow(first.window)}`;
  const others = near.length === 1 ? '' : `; ${near.length - 1} more ${near.length === 2 ? 'is' : 'are'} near a limit`;
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
  const who = last.email === '' ? 'somebody without an address' : last.email;
  const text = `${many === 1 ? 'A sign-in was' : `${many} sign-ins were`} refused in the last day${many === 1 ? '' : ', the last'} of ${who}: ${last.detail}`;
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
  const text = `${now} % of today's cost is estimated, because upstreams did not say what was used; it was ${before} % yesterday.`;
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
