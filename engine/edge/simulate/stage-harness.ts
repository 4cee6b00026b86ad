/** Runs the hooks of one stage by themselves, against a request and services that a test makes up. */

import type { GatewayConfig } from '../../base/contract/config.ts';
import type { FactPath } from '../../base/contract/facts.ts';
import type {
  AuditRecord,
  ChargedAttempt,
  CounterStatus,
  LimitDemand,
  ManagedPolicies,
  MoveDecision,
  Principal,
  ReservationDecision,
  ReservationRequest,
  Services,
  Settlement,
} from '../../base/contract/services.ts';
import type { StageDefinition, StageHooks } from '../../base/contract/stage.ts';
import { type FrozenClock, frozenClock } from '../../base/kit/clock.ts';
import { deepFreeze } from '../../base/kit/freeze.ts';
import { compileCondition } from '../../base/rules/compile.ts';
import type { Diagnostic } from '../../base/source/diagnostics/diagnostic.ts';
import { createFindings } from '../../base/source/findings.ts';
import { parseSource } from '../../base/source/source.ts';
import { validate } from '../../base/source/validate.ts';
import { recordOf } from '../../domain/audit/recorded-facts.ts';
import { BookedReservation, type Books, requestIdentity } from '../../domain/budget/ledger/reservation.ts';
import { NO_CHANGES } from '../../domain/budget/limits/limits-in-force.ts';
import { createModelCatalog } from '../../domain/upstreams/models.ts';
import { createUpstreamStates } from '../../domain/upstreams/states/upstream-states.ts';
import { checkGateway, validateGateway } from '../../pipeline/load/gateway.ts';
import { definitionProblem } from '../../pipeline/load/stage-definition.ts';
import { FakeContext, type RequestWishes } from './fake-context.ts';

export { type Facts, FakeContext, type RequestWishes } from './fake-context.ts';

/** Prices are 3000 nano-USD per input token, 15000 per output token, 300, 3750 and 6000 for what the cache reads and writes. */
const GATEWAY = `
server: { listen: "127.0.0.1:0", public_url: "http://127.0.0.1" }
upstreams:
  - name: main
    type: vendor
    base_url: http://127.0.0.1:9
    region: eu
    supports: { prompt_cache_1h: true, count_tokens: true, unproven_reasoning: false }
  - name: spare
    type: vendor
    base_url: http://127.0.0.1:9
    supports: { prompt_cache_1h: false, count_tokens: false, unproven_reasoning: false }
models:
${[
  'id: coder-1, family: coder, display_name: Coder 1, upstream_ids: { spare: coder-1@2026 }',
  'id: coder-2, family: coder',
  'id: writer-1, family: writer',
]
  .map(
    (model) => `  - { ${model}, context_window: 200000, max_output_tokens: 64000,
      supports: { tools: true, images: true, thinking: adaptive, sampling: true, prompt_cache_1h: true },
      pricing: { input: 3, output: 15, cache_read: 0.3, cache_write_5m: 3.75, cache_write_1h: 6 } }\n`,
  )
  .join('')}
token_groups:
  - { name: all, models: ["*"] }
  - { name: writers, families: [writer] }
routing: { default_upstream: main, rules: [] }
`;

let complete: GatewayConfig | undefined;

/** A complete configuration of two upstreams and three models; `sections` replace whole sections. */
export function stageConfig(sections: Partial<GatewayConfig> = {}): GatewayConfig {
  if (complete === undefined) {
    const findings = createFindings();
    const root = parseSource('gateway.yaml', GATEWAY, findings)!;
    const valid = validateGateway(root, 'gateway.yaml', findings);
    complete = checkGateway(valid, { env: {}, environment: 'ignored', findings }).config!;
  }
  return { ...complete, ...sections };
}

/** What the fake services were told. */
export interface Recorded {
  readonly settlements: Settlement[];
  readonly reservations: ReservationRequest[];
  readonly released: string[];
  /** Reservations that were moved to another upstream, with what earlier attempts hold. */
  readonly moved: { readonly request: ReservationRequest; readonly held: readonly ChargedAttempt[] }[];
  /** What reservations were raised to, in order. */
  readonly topped_up: { readonly request_id: string; readonly amount_nano_usd: number }[];
  readonly audit: AuditRecord[];
  /** Records by file. */
  readonly lines: Map<string, AuditRecord[]>;
  /** Log records: level, message and fields. */
  readonly log: { readonly level: string; readonly message: string; readonly fields: object }[];
}

/** What a test decides about the services. */
export interface ServiceWishes {
  /** Whom `tokens.verify` finds; throws to refuse. */
  readonly verify?: (token: string) => Principal | Promise<Principal>;
  /** What `ledger.reserve` finds, as far as it is not a reservation that was placed where nothing is limited; throws to fail. */
  readonly reserve?: (
    request: ReservationRequest,
  ) => Partial<ReservationDecision> | undefined | Promise<Partial<ReservationDecision> | undefined>;
  /** What moving a reservation finds, as far as it did not move; throws to fail. */
  readonly move?: (request: ReservationRequest) => Partial<MoveDecision> | undefined;
  /** What `ledger.typicalCost` knows; nothing unless this says so. */
  readonly typicalCost?: (user: string, model: string) => number | undefined;
  /** What `ledger.statuses` finds; throws to fail. */
  readonly statuses?: (demands: readonly LimitDemand[]) => readonly CounterStatus[] | Promise<readonly CounterStatus[]>;
  /** What `ledger.settle` does after noting the settlement. */
  readonly settle?: () => Promise<void>;
  /** What `health.check` finds. */
  readonly health?: () => Promise<Readonly<Record<string, { ok: boolean; detail?: string }>>>;
  /** What the stopped clock shows at first: milliseconds since the epoch, or a date that `Date` understands. */
  readonly now?: number | string;
  readonly secrets?: Readonly<Record<string, string>>;
  /** What the pipeline serves; Messages unless this says otherwise. */
  readonly protocol?: string;
  /** Names of the stages of the pipeline; one that translates unless this says otherwise. */
  readonly facts_read?: readonly string[];
  readonly stages?: readonly string[];
  /** Nobody has a policy unless this says so. */
  readonly policies?: ManagedPolicies;
}

/** What a test was to give. Throws where it did not. */
function wished<T>(given: T | undefined, otherwise: string): T {
  if (given === undefined) throw new Error(otherwise);
  return given;
}

/** Services that answer as wished and record what they are told. Prices and conditions are the real ones. */
function fakeServices(
  config: GatewayConfig,
  wishes: ServiceWishes,
): Services & { readonly recorded: Recorded; readonly clock: FrozenClock; readonly books: Books } {
  const recorded: Recorded = {
    ...{ settlements: [], reservations: [], released: [], moved: [], topped_up: [], audit: [], log: [] },
    lines: new Map(),
  };
  const { policies = { of: () => undefined, served() {} } } = wishes;
  const nothing_lacks = { exceeded: [], shadows: [], statuses: [] };
  const books: Books = {
    topUp: (request_id, amount_nano_usd) => void recorded.topped_up.push({ request_id, amount_nano_usd }),
    async move(request, held) {
      recorded.moved.push({ request, held });
      return { ...nothing_lacks, ...wishes.move?.(request) };
    },
    async settle(settlement) {
      recorded.settlements.push(settlement);
      await wishes.settle?.();
    },
    release: async (request_id) => void recorded.released.push(request_id),
  };
  const clock = frozenClock(wishes.now ?? 0);
  const logAt = (level: string) => (fields: object, message: string) => recorded.log.push({ level, message, fields });
  const log = { debug: logAt('debug'), info: logAt('info'), warn: logAt('warn'), error: logAt('error') };
  return {
    ...{ books, recorded, config, clock, log, policies },
    secret: (name) => wished(wishes.secrets?.[name], `the test gives no secret ${name}`),
    tokens: { verify: (token) => wished(wishes.verify, 'the test does not say whom tokens belong to')(token) },
    models: createModelCatalog(config, policies),
    ledger: {
      async reserve(request) {
        recorded.reservations.push(request);
        const decision = { ...nothing_lacks, unreserved: false, ...(await wishes.reserve?.(request)) };
        const reservation = new BookedReservation(books, request, true);
        return decision.exceeded.length > 0 ? decision : { ...decision, reservation };
      },
      unreserved: (identity) => new BookedReservation(books, identity, false),
      typicalCost: (user, model) => wishes.typicalCost?.(user, model),
      statuses: async (demands) => wished(wishes.statuses, 'the test does not say how limits stand')(demands),
    },
    audit: {
      write: (record) => recorded.audit.push(record),
      appendLine: (path, record) => recorded.lines.set(path, [...(recorded.lines.get(path) ?? []), record]),
    },
    upstreams: createUpstreamStates({ upstreams: config.upstreams, clock, log, random: () => 0.5 }),
    limits_in_force: { changes: async () => NO_CHANGES },
    pipeline: {
      protocol: wishes.protocol ?? 'messages',
      stages: wishes.stages ?? ['translate'],
      facts_read: new Set(wishes.facts_read),
    },
    health: { check: wishes.health ?? (async () => ({ database: { ok: true } })) },
    condition: compileCondition,
    facts: (ctx) => (ctx as unknown as FakeContext).facts,
    record: (ctx, now) => recordOf(ctx as unknown as FakeContext, now),
  };
}

/** A stage made ready by `create`, and requests for it. */
export interface StageHarness extends Recorded {
  readonly hooks: StageHooks;
  readonly services: Services;
  /** Stands still until `advance` moves it; tasks that wait then run in order. */
  readonly clock: FrozenClock;
  request(wishes?: RequestWishes): FakeContext;
}

function say({ message, found, expected, help }: Diagnostic): string {
  return [message, found && `found ${found}`, expected && `expected ${expected}`, help].filter(Boolean).join('; ');
}

/** Options as the loader hands them over: validated, with defaults, frozen. Throws an error that lists every problem. */
function readOptions(definition: StageDefinition, options: object, config: GatewayConfig): unknown {
  const findings = createFindings();
  const node = parseSource('options', JSON.stringify(options), findings);
  const value = node && deepFreeze(validate(definition.options, node, '.', findings).value);
  const problems = findings.diagnostics().map(say);
  if (problems.length === 0) problems.push(...(definition.check?.(value, config) ?? []));
  if (problems.length > 0) throw new Error(`the options of ${definition.name} are wrong: ${problems.join('\n')}`);
  return value;
}

/** Checks a stage's definition and options like the loader does, then creates the stage. Throws when they are wrong. */
export function openStage(
  definition: StageDefinition,
  {
    options = {},
    config = stageConfig(),
    ...wishes
  }: { options?: object; config?: GatewayConfig } & ServiceWishes = {},
): StageHarness {
  const problem = definitionProblem(definition);
  if (problem !== undefined) throw new Error(`this is not a stage the gateway would load: ${problem}`);
  const services = fakeServices(config, wishes);
  return {
    ...services.recorded,
    services,
    clock: services.clock,
    hooks: definition.create(readOptions(definition, options, config), services),
    request(request_wishes = {}) {
      const ctx = new FakeContext(definition, request_wishes, services.clock);
      const { facts = {} } = request_wishes;
      if (facts['spend.reserved_nano_usd'] !== undefined) {
        const identity = requestIdentity({ get: (path: FactPath) => facts[path] as never });
        ctx.reservation = new BookedReservation(services.books, identity, true);
      }
      return ctx;
    },
  };
}
