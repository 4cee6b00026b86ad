/** Unit test harness for one stage, with a fake request and fake services. */
import { EventEmitter } from 'node:events';
import type { IncomingMessage, ServerResponse } from 'node:http';
import type { GatewayConfig } from '../../base/contract/config.ts';
import { ENGINE_FACTS, type FactPath, type FactValue } from '../../base/contract/facts.ts';
import { MAIN_PROTOCOL } from '../../base/contract/protocol.ts';
import type { Rewriting } from '../../base/contract/rewriting.ts';
import type {
  AuditRecord,
  ChargedAttempt,
  Clock,
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
import type { RequestBody, StageDefinition, StageHooks } from '../../base/contract/stage.ts';
import { type FrozenClock, frozenClock } from '../../base/kit/clock.ts';
import { deepFreeze } from '../../base/kit/freeze.ts';
import { compileCondition } from '../../base/rules/compile.ts';
import type { Diagnostic } from '../../base/source/diagnostics/diagnostic.ts';
import { createFindings } from '../../base/source/findings.ts';
import { parseSource } from '../../base/source/source.ts';
import { validate } from '../../base/source/validate.ts';
import { recordOf } from '../../domain/audit/recorded-facts.ts';
import { BookedReservation, type Books, requestIdentity } from '../../domain/budget/ledger/reservation.ts';
import { NO_CHANGES } from '../../domain/budget/limits/headroom.ts';
import { compileRewriting, TextRewriter } from '../../domain/protocols/rewriting.ts';
import { createModelCatalog } from '../../domain/upstreams/models.ts';
import { createUpstreamStates } from '../../domain/upstreams/states/upstream-states.ts';
import { checkGateway, validateGateway } from '../../pipeline/load/gateway.ts';
import { definitionProblem } from '../../pipeline/load/stage-definition.ts';
import { BufferedBody } from '../../pipeline/run/body.ts';
import type { CompiledPipeline } from '../../pipeline/run/compiled.ts';
import { RequestContext, type RequestEnvironment } from '../../pipeline/run/context.ts';
import { factMask } from '../../pipeline/run/fact-store.ts';
import { ConcurrencyLimiter } from '../../pipeline/run/resources.ts';
import { checkRewriting } from '../../pipeline/run/rewriting.ts';

/**
 * Applies the result of a stage's `rewrite` hook to a text in pieces.
 * @param rewriting return value of the hook. Throws if it is invalid.
 * @returns the rewritten text and its pieces, the last being what was buffered until the end; and the number of replacements
 */
export function replaceTexts(
  rewriting: Rewriting | undefined,
  pieces: readonly string[],
): { text: string; pieces: readonly string[]; replaced: number } {
  const checked = checkRewriting(rewriting);
  if (checked === undefined) return { text: pieces.join(''), pieces, replaced: 0 };
  let replaced = 0;
  const rewriter = new TextRewriter(compileRewriting(checked), () => replaced++);
  const passed = [...pieces.map((piece) => rewriter.push(piece)), rewriter.end()];
  return { text: passed.join(''), pieces: passed, replaced };
}

/** Values of facts by dotted path. */
export type Facts = Readonly<Partial<Record<FactPath, unknown>>>;

export interface FakeRequest {
  readonly facts?: Facts;
  readonly headers?: Readonly<Record<string, string | string[]>>;
  readonly url?: string;
  readonly body?: string | Buffer;
}

/** The engine's request context for one stage, without a connection. */
export class FakeContext extends RequestContext {
  readonly written: Record<string, unknown> = {};

  constructor(definition: StageDefinition, { facts = {}, headers = {}, url = '/', body }: FakeRequest, clock: Clock) {
    const req = Object.assign(new EventEmitter(), { headers, url }) as unknown as IncomingMessage;
    const res = new EventEmitter() as unknown as ServerResponse;
    const environment = { clock, under_way: new ConcurrencyLimiter(clock) } as unknown as RequestEnvironment;
    super({ rewrites: false } as CompiledPipeline, { req, res }, environment, 0);
    if (body !== undefined)
      this.incoming.held = new BufferedBody(Buffer.from(body), (key) => {
        this.incoming.rewrites = [...this.rewrites, key];
      });
    this.noteAll(facts);
    this.stage = {
      id: definition.name,
      definition,
      hooks: {},
      guard: undefined,
      shadow: false,
      readable: factMask([...definition.reads, ...definition.readsIfSet, ...ENGINE_FACTS]),
      writable: factMask(definition.writes),
    };
  }

  /** Sets facts on behalf of the engine or other stages. */
  noteAll(facts: Facts): void {
    for (const [path, value] of Object.entries(facts)) {
      if (value !== undefined) this.putFact(path as FactPath, value as never);
    }
  }

  override set<P extends FactPath>(path: P, value: FactValue<P>): void {
    super.set(path, value);
    this.written[path] = value;
  }

  override setOwnFact(path: string, value: unknown): void {
    super.setOwnFact(path, value);
    this.written[path] = value;
  }

  override async readBody(): Promise<RequestBody> {
    if (this.body === undefined) throw new Error('the request of the test has no body');
    return this.body;
  }
}

/** Prices in nano-USD per token: 3000 input, 15000 output, 300 cache read, 3750 and 6000 cache write. */
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

/** Recorded calls of the fake services. */
export interface Recorded {
  readonly settlements: Settlement[];
  readonly reservations: ReservationRequest[];
  readonly released: string[];
  /** Reservations moved to another upstream, with the reserved cost of earlier attempts. */
  readonly moved: { readonly request: ReservationRequest; readonly held: readonly ChargedAttempt[] }[];
  /** New amounts of raised reservations, in order. */
  readonly topped_up: { readonly request_id: string; readonly amount_nano_usd: number }[];
  readonly audit: AuditRecord[];
  readonly lines: Map<string, AuditRecord[]>;
  readonly log: { readonly level: string; readonly message: string; readonly fields: object }[];
}

export interface ServiceStubs {
  readonly verify?: (token: string) => Principal | Promise<Principal>;
  /** Overrides of the result of `ledger.reserve`, by default a reservation without limits; throws to fail. */
  readonly reserve?: (
    request: ReservationRequest,
  ) => Partial<ReservationDecision> | undefined | Promise<Partial<ReservationDecision> | undefined>;
  /** Overrides of the result of moving a reservation, by default success; throws to fail. */
  readonly move?: (request: ReservationRequest) => Partial<MoveDecision> | undefined;
  /** Result of `ledger.typicalCost`; by default `undefined`. */
  readonly typicalCost?: (user: string, model: string) => number | undefined;
  /** Result of `ledger.statuses`; throws to fail. */
  readonly statuses?: (demands: readonly LimitDemand[]) => readonly CounterStatus[] | Promise<readonly CounterStatus[]>;
  readonly settle?: () => Promise<void>;
  readonly health?: () => Promise<Readonly<Record<string, { ok: boolean; detail?: string }>>>;
  /** Start of the stopped clock: milliseconds since the epoch, or a text for `Date`. */
  readonly now?: number | string;
  readonly secrets?: Readonly<Record<string, string>>;
  readonly protocol?: string;
  readonly facts_read?: readonly string[];
  readonly stages?: readonly string[];
  readonly policies?: ManagedPolicies;
}

function required<T>(value: T | undefined, message: string): T {
  if (value === undefined) throw new Error(message);
  return value;
}

function fakeServices(
  config: GatewayConfig,
  stubs: ServiceStubs,
): Services & { readonly recorded: Recorded; readonly clock: FrozenClock; readonly books: Books } {
  const recorded: Recorded = {
    ...{ settlements: [], reservations: [], released: [], moved: [], topped_up: [], audit: [], log: [] },
    lines: new Map(),
  };
  const { policies = { of: () => undefined, served() {} } } = stubs;
  const no_limits = { exceeded: [], shadows: [], statuses: [] };
  const books: Books = {
    topUp: (request_id, amount_nano_usd) => void recorded.topped_up.push({ request_id, amount_nano_usd }),
    async move(request, held) {
      recorded.moved.push({ request, held });
      return { ...no_limits, ...stubs.move?.(request) };
    },
    async settle(settlement) {
      recorded.settlements.push(settlement);
      await stubs.settle?.();
    },
    release: async (request_id) => void recorded.released.push(request_id),
  };
  const clock = frozenClock(stubs.now ?? 0);
  const logAt = (level: string) => (fields: object, message: string) => recorded.log.push({ level, message, fields });
  const log = { debug: logAt('debug'), info: logAt('info'), warn: logAt('warn'), error: logAt('error') };
  return {
    ...{ books, recorded, config, clock, log, policies },
    secret: (name) => required(stubs.secrets?.[name], `the test does not define the secret ${name}`),
    tokens: { verify: (token) => required(stubs.verify, 'the test does not define verify')(token) },
    models: createModelCatalog(config, policies),
    ledger: {
      async reserve(request) {
        recorded.reservations.push(request);
        const decision = { ...no_limits, unreserved: false, ...(await stubs.reserve?.(request)) };
        const reservation = new BookedReservation(books, request, true);
        return decision.exceeded.length > 0 ? decision : { ...decision, reservation };
      },
      unreserved: (identity) => new BookedReservation(books, identity, false),
      typicalCost: (user, model) => stubs.typicalCost?.(user, model),
      statuses: async (demands) => required(stubs.statuses, 'the test does not define statuses')(demands),
    },
    audit: {
      write: (record) => recorded.audit.push(record),
      appendLine: (path, record) => recorded.lines.set(path, [...(recorded.lines.get(path) ?? []), record]),
    },
    upstreams: createUpstreamStates({ upstreams: config.upstreams, clock, log, random: () => 0.5 }),
    limits_in_force: { changes: async () => NO_CHANGES },
    pipeline: {
      protocol: stubs.protocol ?? MAIN_PROTOCOL,
      stages: stubs.stages ?? ['translate'],
      facts_read: new Set(stubs.facts_read),
    },
    health: { check: stubs.health ?? (async () => ({ database: { ok: true } })) },
    condition: compileCondition,
    facts: (ctx) => (ctx as unknown as FakeContext).facts,
    record: (ctx, now) => recordOf(ctx as unknown as FakeContext, now),
  };
}

/** A stage after `create`, and a factory of requests. */
export interface StageHarness extends Recorded {
  readonly hooks: StageHooks;
  readonly services: Services;
  /** Stopped clock; `advance` runs due timers in order. */
  readonly clock: FrozenClock;
  request(input?: FakeRequest): FakeContext;
}

function describe({ message, found, expected, help }: Diagnostic): string {
  return [message, found && `found ${found}`, expected && `expected ${expected}`, help].filter(Boolean).join('; ');
}

/** Validates options like the loader: with defaults, frozen. Throws an error with all problems. */
function readOptions(definition: StageDefinition, options: object, config: GatewayConfig): unknown {
  const findings = createFindings();
  const node = parseSource('options', JSON.stringify(options), findings);
  const value = node && deepFreeze(validate(definition.options, node, '.', findings).value);
  const problems = findings.diagnostics().map(describe);
  if (problems.length === 0) problems.push(...(definition.check?.(value, config) ?? []));
  if (problems.length > 0) throw new Error(`the options of ${definition.name} are wrong: ${problems.join('\n')}`);
  return value;
}

/** Checks a stage's definition and options like the loader, then creates the stage. Throws if they are invalid. */
export function openStage(
  definition: StageDefinition,
  { options = {}, config = stageConfig(), ...stubs }: { options?: object; config?: GatewayConfig } & ServiceStubs = {},
): StageHarness {
  const problem = definitionProblem(definition);
  if (problem !== undefined) throw new Error(`the gateway would not load this stage: ${problem}`);
  const services = fakeServices(config, stubs);
  return {
    ...services.recorded,
    services,
    clock: services.clock,
    hooks: definition.create(readOptions(definition, options, config), services),
    request(request_input = {}) {
      const ctx = new FakeContext(definition, request_input, services.clock);
      const { facts = {} } = request_input;
      if (facts['spend.reserved_nano_usd'] !== undefined) {
        const identity = requestIdentity({ get: (path: FactPath) => facts[path] as never });
        ctx.reservation = new BookedReservation(services.books, identity, true);
      }
      return ctx;
    },
  };
}
