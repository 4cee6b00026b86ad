import type { ErrorDetails } from '../../contract/errors.ts';
import type { AttemptRecord } from '../../contract/forwarding.ts';
import type { LimitStatus } from '../../contract/money.ts';
import type { EndedRequest } from '../../contract/telemetry.ts';
import { nanoToUsd } from '../../kit/money.ts';
import {
  addModelAnswer,
  addModelUsage,
  CONVERSATION,
  type ModelUsage,
  modelRequestAttributes,
  operationOf,
} from '../conventions.ts';
import type { Metrics, Reading } from '../metric-registry.ts';
import type { Attributes, AttributeValue, FinishedSpan, SpanEvent } from '../spans.ts';
import type { Ending, KnownConfiguration } from './request-telemetry.ts';

export interface SpanParts {
  readonly request: EndedRequest;
  readonly ending: Ending;
  readonly known: KnownConfiguration;
  /** Milliseconds since the epoch of a time on the monotonic clock. */
  readonly epoch: (monotonic: number) => number;
  readonly ended_at: number;
  readonly sampled_reason: string;
  /** Pseudonym of the caller, where callers are told apart. */
  readonly caller: string | undefined;
}

export function requestSpan(parts: SpanParts, events: readonly SpanEvent[]): FinishedSpan {
  const { request, ending, epoch, ended_at } = parts;
  const { trace } = request.notes;
  return {
    name: `${ending.method} ${ending.route}`,
    kind: 'server',
    trace_id: trace.trace_id,
    span_id: trace.span_id,
    parent_span_id: trace.parent_span_id,
    parent_is_remote: trace.parent_span_id !== undefined,
    trace_state: trace.trace_state,
    began_at: epoch(request.started_at),
    ended_at: epoch(ended_at),
    attributes: attributesOf(parts),
    events,
    failed: ending.outcome === 'failed',
  };
}

/** As money is written in attributes. */
export function usdOf(nano_usd: number | undefined): number | undefined {
  return nano_usd === undefined ? undefined : nanoToUsd(nano_usd);
}

/** Adds an attribute that has a value: encoders would write others as empty values. */
export function put(attributes: Record<string, AttributeValue>, name: string, value: AttributeValue | undefined): void {
  if (value !== undefined) attributes[name] = value;
}

function attributesOf(parts: SpanParts): Attributes {
  const { request, ending, known, sampled_reason } = parts;
  const { address } = known;
  const attributes: Record<string, AttributeValue> = {
    'http.request.method': ending.method,
    'http.route': ending.route,
    'http.response.status_code': ending.status,
    'url.scheme': address.scheme,
    'server.address': address.host,
    'server.port': address.port,
    'gateway.protocol': ending.protocol,
    'gateway.outcome': ending.outcome,
    'gateway.pipeline': request.pipeline.spec.name,
    'gateway.config.hash': known.hash,
  };
  put(attributes, 'gateway.request_id', request.peek('request.id'));
  if (sampled_reason !== 'ratio') attributes['gateway.sampled.reason'] = sampled_reason;
  addCaller(attributes, parts);
  addRoute(attributes, parts);
  addMoney(attributes, request);
  if (ending.outcome !== 'answered' || request.shadows.length > 0) addTrouble(attributes, parts);
  return attributes;
}

function addCaller(attributes: Record<string, AttributeValue>, { request, ending, caller }: SpanParts): void {
  put(attributes, 'user_agent.name', fitting(request.peek('request.client.name'), PRODUCT));
  put(attributes, 'user_agent.version', fitting(request.peek('request.client.version'), VERSION));
  put(attributes, 'gateway.team', ending.team);
  put(attributes, 'gateway.project', request.peek('principal.project'));
  put(attributes, 'gateway.token_group', request.peek('principal.token.group'));
  put(attributes, 'gateway.caller.kind', request.peek('principal.kind'));
  if (caller === undefined) return;
  attributes['enduser.id'] = caller;
  put(attributes, CONVERSATION, fitting(request.peek('request.session_id'), UUID));
}

function addRoute(attributes: Record<string, AttributeValue>, { request, ending }: SpanParts): void {
  const { attempts } = request;
  if (ending.model !== undefined) attributes['gateway.model'] = ending.model;
  else put(attributes, 'gateway.model.unknown', unknownModel(request.peek('request.model')));
  if (ending.upstream === undefined) return;
  attributes['gateway.upstream'] = ending.upstream;
  put(attributes, 'gateway.route.rule', request.peek('route.rule'));
  put(attributes, 'gateway.route.candidates', request.peek('route.candidates'));
  put(attributes, 'gateway.route.dropped', request.peek('route.dropped'));
  put(attributes, 'gateway.translation.losses', request.peek('translation.losses'));
  put(attributes, 'gateway.rewrites', request.peek('outcome.rewrites'));
  const replaced = request.peek('outcome.replaced');
  put(attributes, 'gateway.replaced', replaced && Object.keys(replaced));
  if (attempts.length > 1) attributes['gateway.attempts'] = attempts.length;
  if (ending.fallbacks.length > 0) attributes['gateway.fallback'] = true;
  if (ending.unconfirmed > 0) attributes['gateway.unconfirmed_attempts'] = ending.unconfirmed;
  const requested = request.peek('cache.requested_ttl');
  if (requested === undefined || requested === 'none') return;
  attributes['gateway.cache.requested'] = requested;
  put(attributes, 'gateway.cache.effective', request.peek('cache.effective_ttl'));
  if (ending.downgraded) attributes['gateway.cache.downgraded'] = true;
}

function addMoney(attributes: Record<string, AttributeValue>, request: EndedRequest): void {
  const cost_from = request.peek('usage.provenance')?.cost;
  put(attributes, 'gateway.cost_usd', usdOf(request.peek('usage.cost_nano_usd')));
  if (typeof cost_from === 'string' && cost_from !== 'upstream') attributes['gateway.cost.source'] = cost_from;
  put(attributes, 'gateway.possibly_billed_usd', usdOf(request.peek('usage.possibly_billed_nano_usd')));
  put(attributes, 'gateway.reserved_usd', usdOf(request.peek('spend.reserved_nano_usd')));
  put(attributes, 'gateway.unreserved', request.peek('spend.unreserved'));
  const tightest = tightestOf(request.notes.limits);
  if (tightest === undefined) return;
  attributes['gateway.budget.rule'] = tightest.rule;
  attributes['gateway.budget.window'] = tightest.window;
  attributes['gateway.budget.used_ratio'] = usedRatio(tightest);
  attributes['gateway.budget.remaining_usd'] = remainingUsd(tightest);
}

function addTrouble(attributes: Record<string, AttributeValue>, { request, ending }: SpanParts): void {
  const { outcome, error_code, status } = ending;
  if (outcome === 'failed') attributes['error.type'] = error_code ?? String(status);
  put(attributes, 'gateway.error.code', error_code);
  put(attributes, 'gateway.error.stage', request.peek('error.stage'));
  if (outcome === 'aborted') attributes['gateway.aborted'] = true;
  put(attributes, 'gateway.drained', request.peek('outcome.drained'));
  if (request.shadows.length > 0) attributes['gateway.shadow'] = request.shadows;
}

/** What went wrong with an attempt, in a word of a small closed set; `undefined` where it served and nothing broke it off. */
export function errorOfAttempt({ outcome, status }: AttemptRecord, broken_by: string | undefined): string | undefined {
  if (outcome !== 'answered') return outcome === 'gone' ? undefined : outcome;
  if (status !== null && status >= 400) return String(status);
  return broken_by;
}

export function brokenBy({ notes, attempts }: EndedRequest, outcome: string): string | undefined {
  return outcome === 'failed' && attempts.at(-1)?.outcome === 'answered' ? notes.error?.code : undefined;
}

/** When an attempt ended on the monotonic clock: the one that served with its answer. */
export function attemptEnd({ attempts, notes }: EndedRequest, index: number, ended_at: number): number {
  const times = notes.attempt_times[index];
  return attempts[index]!.outcome === 'answered' || times === undefined ? ended_at : times.ended_at;
}

/** The span of an attempt. @param index from 0 */
export function attemptSpan(parts: SpanParts, index: number): FinishedSpan {
  const { request, ending, epoch, ended_at } = parts;
  const { trace, attempt_times } = request.notes;
  const attempt = request.attempts[index]!;
  const is_last = index === request.attempts.length - 1;
  const error = errorOfAttempt(attempt, is_last ? brokenBy(request, ending.outcome) : undefined);
  const operation = operationOf(ending.protocol);
  return {
    name: `${operation} ${attempt.upstream_model}`,
    kind: 'client',
    trace_id: trace.trace_id,
    span_id: trace.attemptSpanId(attempt.n),
    parent_span_id: trace.span_id,
    parent_is_remote: false,
    trace_state: trace.trace_state,
    began_at: epoch(attempt_times[index]?.began_at ?? request.started_at),
    ended_at: epoch(attemptEnd(request, index, ended_at)),
    attributes: attributesOfAttempt(parts, attempt, { operation, error, is_last }),
    events: NO_EVENTS,
    failed: error !== undefined,
  };
}

function attributesOfAttempt(
  { request, ending, known }: SpanParts,
  attempt: AttemptRecord,
  { operation, error, is_last }: { operation: string; error: string | undefined; is_last: boolean },
): Attributes {
  const { conventions } = known;
  const upstream = known.upstreams.get(attempt.upstream);
  // The route's facts are those of the upstream that was asked last.
  const protocol = is_last ? (request.peek('route.protocol') ?? ending.protocol) : ending.protocol;
  const attributes = modelRequestAttributes({
    operation,
    provider: upstream?.provider(protocol),
    model: attempt.upstream_model,
    max_tokens: request.peek('request.max_tokens'),
    stream: request.peek('request.stream'),
    choices: request.peek('request.choices'),
  });
  if (upstream !== undefined) {
    attributes['server.address'] = upstream.address.host;
    attributes['server.port'] = upstream.address.port;
    put(attributes, 'gateway.upstream.region', upstream.region);
  }
  attributes['gateway.upstream'] = attempt.upstream;
  attributes['gateway.attempt'] = attempt.n;
  attributes['gateway.attempt.reason'] = attempt.reason;
  put(attributes, 'http.response.status_code', attempt.status ?? undefined);
  put(attributes, 'gateway.upstream.request_id', fitting(attempt.upstream_request_id, UPSTREAM_ID));
  if (protocol !== ending.protocol) attributes['gateway.upstream.protocol'] = protocol;
  if (error !== undefined) attributes['error.type'] = error;
  if (attempt.sends !== 1) attributes['gateway.attempt.sends'] = attempt.sends;
  const has_answered = attempt.outcome === 'answered';
  if (!has_answered) {
    attributes['gateway.attempt.outcome'] = attempt.outcome;
    attributes['gateway.attempt.certainty'] = attempt.certainty;
  }
  if (!is_last) return attributes;
  if (has_answered) addAnswer(attributes, request);
  const usage = usageOf(request);
  // What did not answer has told no usage: no tokens are not the same as 0.
  const is_metered = has_answered || (usage !== undefined && usage.input + usage.output > 0);
  if (is_metered && usage !== undefined && ending.protocol !== 'count_tokens') {
    addModelUsage(attributes, usage, conventions);
  }
  // Of several attempts, those before it may have cost something too.
  if (request.attempts.length === 1) put(attributes, 'gateway.cost_usd', usdOf(request.peek('usage.cost_nano_usd')));
  return attributes;
}

function addAnswer(attributes: Record<string, AttributeValue>, request: EndedRequest): void {
  const ttfb_ms = request.peek('upstream.ttfb_ms');
  const seconds = ttfb_ms === undefined ? undefined : ttfb_ms / 1000;
  const is_stream = request.peek('request.stream') === true;
  const model = fitting(request.peek('usage.answered_model'), MODEL_NAME) ?? request.peek('route.upstream_model');
  if (model !== undefined) addModelAnswer(attributes, model, is_stream ? seconds : undefined);
  if (!is_stream) put(attributes, 'gateway.time_to_first_byte', seconds);
}

const NO_EVENTS: readonly SpanEvent[] = [];

/** What happened within a request: what decided, that it was refused, went to another upstream, or had its cache downgraded. */
export function requestEvents(parts: SpanParts): readonly SpanEvent[] {
  const { request, ending, epoch, ended_at } = parts;
  const { attempt_times } = request.notes;
  const decided_at = epoch(attempt_times[0]?.began_at ?? ended_at);
  const decisions = decisionsOf(request);
  const is_plain = ending.error_code === undefined && ending.fallbacks.length === 0 && !ending.downgraded;
  if (decisions.length === 0 && is_plain) return NO_EVENTS;
  const events: SpanEvent[] = [];
  for (const decision of decisions) {
    events.push({
      name: 'gateway.decision',
      at: decided_at,
      attributes: decisionAttributes(decision, ending.upstream),
    });
  }
  if (ending.downgraded) {
    events.push({
      name: 'gateway.cache.downgraded',
      at: decided_at,
      attributes: {
        'gateway.cache.requested': request.peek('cache.requested_ttl'),
        'gateway.cache.effective': request.peek('cache.effective_ttl'),
        'gateway.cache.downgrade.reason': 'upstream_unsupported',
        'gateway.upstream': ending.upstream,
      },
    });
  }
  for (const { upstream, reason, attempt } of ending.fallbacks) {
    const at = attempt === undefined ? decided_at : epoch(attempt_times[attempt - 1]?.ended_at ?? ended_at);
    const attributes = { 'gateway.upstream': upstream, 'gateway.fallback.reason': reason, 'gateway.attempt': attempt };
    events.push({ name: 'gateway.fallback', at, attributes });
  }
  if (ending.error_code !== undefined) {
    for (const attributes of refusals(parts)) events.push({ name: 'gateway.refused', at: epoch(ended_at), attributes });
  }
  return events;
}

function decisionAttributes({ kind, rule, mode, outcome }: Decision, upstream: string | undefined): Attributes {
  return {
    'gateway.decision.kind': kind,
    'gateway.rule': rule,
    'gateway.rule.mode': mode,
    'gateway.decision.outcome': outcome,
    'gateway.upstream': outcome === 'routed' ? upstream : undefined,
  };
}

/** Of the limits that refused a request one each, the one that its error is about first. */
function refusals({ request, ending }: SpanParts): readonly Attributes[] {
  const { error, limits } = request.notes;
  const common = { 'gateway.error.code': ending.error_code, 'gateway.error.stage': request.peek('error.stage') };
  const details = error?.details ?? {};
  const { exceeded } = details;
  const first = { ...common, 'gateway.rule': refusedBy(request), ...limitAttributes(details) };
  if (!Array.isArray(exceeded)) return [first];
  const others = (exceeded as readonly ErrorDetails[]).slice(1).map((detail) => {
    const status = limits.find(({ rule, window }) => rule === detail.rule && window === detail.window);
    return {
      ...common,
      'gateway.rule': textOf(detail.rule),
      ...limitAttributes(detail),
      ...(status && usedOf(status)),
    };
  });
  return [first, ...others];
}

function usedOf({ spent, reserved }: LimitStatus): Attributes {
  return { 'gateway.limit.spent': nanoToUsd(spent), 'gateway.limit.held': nanoToUsd(reserved) };
}

/** A limit as errors describe it, without whose it is. */
function limitAttributes(details: ErrorDetails): Attributes {
  const { scope, window, limit_usd, spent_usd, reserved_usd, needed_usd, unit } = details;
  if (window === undefined) return {};
  const is_money = limit_usd !== undefined;
  return {
    'gateway.limit.scope': textOf(scope),
    'gateway.limit.window': textOf(window),
    'gateway.limit.unit': is_money ? 'usd' : textOf(unit),
    'gateway.limit.limit': numberOf(is_money ? limit_usd : details.limit),
    'gateway.limit.spent': numberOf(is_money ? spent_usd : details.used),
    'gateway.limit.held': numberOf(is_money ? reserved_usd : details.reserved),
    'gateway.limit.needed': numberOf(is_money ? needed_usd : details.needed),
    'gateway.limit.resets_at': textOf(details.resets_at),
  };
}

const textOf = (value: unknown) => (typeof value === 'string' ? value : undefined);
const numberOf = (value: unknown) => (typeof value === 'number' ? value : undefined);

export interface Decision {
  readonly kind: 'route' | 'access' | 'spend' | 'policy' | 'token_group' | 'stage';
  readonly rule: string;
  readonly mode: 'enforce' | 'shadow';
  readonly outcome: 'routed' | 'refused' | 'served' | 'matched';
}

const SHADOWS: readonly (readonly [prefix: string, kind: Decision['kind']])[] = [
  ['routing:', 'route'],
  ['access:', 'access'],
  ['spend:', 'spend'],
];

/** What decided over a request; limits that had room did not. */
export function decisionsOf(request: EndedRequest): readonly Decision[] {
  const found: Decision[] = [];
  const rule = request.peek('route.rule');
  if (rule !== undefined && rule !== 'default') add(found, 'route', rule, 'routed');
  const refused_by = limitOf(request);
  if (refused_by !== undefined) add(found, 'spend', refused_by, 'refused');
  for (const name of request.peek('policy.names') ?? []) add(found, 'policy', name, 'served');
  const { policy, token_group, access_rule } = request.notes.error?.details ?? {};
  if (typeof access_rule === 'string') add(found, 'access', access_rule, 'refused');
  if (typeof policy === 'string') add(found, 'policy', policy, 'refused');
  if (typeof token_group === 'string') add(found, 'token_group', token_group, 'refused');
  for (const name of request.shadows) found.push(shadowOf(name));
  return found;
}

export function limitOf(request: EndedRequest): string | undefined {
  return request.peek('spend.rule') ?? request.peek('request.limit_rule');
}

/** The rule, policy or token group that refused a request. */
export function refusedBy(request: EndedRequest): string | undefined {
  const { policy, token_group, access_rule } = request.notes.error?.details ?? {};
  const by = limitOf(request) ?? policy ?? token_group ?? access_rule;
  return typeof by === 'string' ? by : undefined;
}

function add(decisions: Decision[], kind: Decision['kind'], rule: string, outcome: Decision['outcome']): void {
  decisions.push({ kind, rule, mode: 'enforce', outcome });
}

function shadowOf(name: string): Decision {
  for (const [prefix, kind] of SHADOWS) {
    if (name.startsWith(prefix)) return { kind, rule: name.slice(prefix.length), mode: 'shadow', outcome: 'matched' };
  }
  return { kind: 'stage', rule: name, mode: 'shadow', outcome: 'matched' };
}

/** The part of a limit in money that is spent or reserved. */
export function usedRatio({ limit, spent, reserved }: LimitStatus): number {
  return limit > 0 ? (spent + reserved) / limit : 1;
}

/** What is left of a limit in money, in US dollars. */
export function remainingUsd({ limit, spent, reserved }: LimitStatus): number {
  return nanoToUsd(Math.max(0, limit - spent - reserved));
}

export function tightestOf(limits: readonly LimitStatus[]): LimitStatus | undefined {
  let tightest: LimitStatus | undefined;
  for (const limit of limits) {
    if (tightest === undefined || usedRatio(limit) > usedRatio(tightest)) tightest = limit;
  }
  return tightest;
}

type BudgetMetric = 'gateway.budget.used_ratio' | 'gateway.budget.remaining' | 'gateway.budget.resets_in';

interface Settled {
  readonly reserved: number;
  readonly cost: number;
}

/** A request that is over, as its limits know it. */
export interface EndedUse extends Settled {
  /** With what was reserved for the request in them. */
  readonly limits: readonly LimitStatus[];
  /** When they were told; both on the monotonic clock. */
  readonly told_at: number;
  readonly ended_at: number;
}

interface Tracked {
  limit: LimitStatus;
  told_at: number;
  /** Requests that ended last, the newest at the end. */
  readonly ended: (Settled & { readonly ended_at: number })[];
}

const ENDED_MAX = 200;

/**
 * Keeps of each rule and window whoever has used most of the limit, so that a rule by user has one series and not one for each of
 * them. What requests tell is all that is known: it may change elsewhere meanwhile.
 */
export class Budgets {
  readonly #by_rule = new Map<string, Map<string, Tracked>>();
  readonly #now: () => number;

  constructor(metrics: Pick<Metrics, 'observe'>, now: () => number) {
    this.#now = now;
    const observe = (name: BudgetMetric, read: (limit: LimitStatus) => number) =>
      metrics.observe(name, () => this.#read(read));
    observe('gateway.budget.used_ratio', usedRatio);
    observe('gateway.budget.remaining', remainingUsd);
    observe('gateway.budget.resets_in', ({ resets_at }) => Math.max(0, ((resets_at ?? 0) - this.#now()) / 1000));
  }

  clear(): void {
    this.#by_rule.clear();
  }

  /** Takes note of the limits that a request came under, in the place of whose reservation its cost counts now. */
  note(use: EndedUse): void {
    for (const limit of use.limits) {
      let windows = this.#by_rule.get(limit.rule);
      if (windows === undefined) {
        windows = new Map();
        this.#by_rule.set(limit.rule, windows);
      }
      const tracked = windows.get(limit.window);
      if (tracked !== undefined && isOfSame(limit, tracked.limit)) {
        follow(tracked, limit, use);
        continue;
      }
      const left = settle(limit, use);
      if (tracked !== undefined && !isAhead(left, tracked.limit)) continue;
      windows.set(limit.window, { limit: left, told_at: use.told_at, ended: [endOf(use)] });
    }
  }

  *#read(read: (limit: LimitStatus) => number): Generator<Reading<BudgetMetric>> {
    const now = this.#now();
    for (const [rule, windows] of this.#by_rule) {
      for (const [window, { limit }] of windows) {
        if (limit.resets_at !== null && limit.resets_at <= now) windows.delete(window);
        else yield { value: read(limit), labels: { 'gateway.rule': rule, 'gateway.budget.window': window } };
      }
      if (windows.size === 0) this.#by_rule.delete(rule);
    }
  }
}

function isOfSame(limit: LimitStatus, known: LimitStatus): boolean {
  return limit.key === known.key && limit.scope === known.scope && limit.resets_at === known.resets_at;
}

function isAhead(limit: LimitStatus, known: LimitStatus): boolean {
  if (limit.resets_at !== known.resets_at) return (limit.resets_at ?? 0) > (known.resets_at ?? 0);
  return usedRatio(limit) > usedRatio(known);
}

/** Requests end in another order than they began in: what was told last stands, less the reservations that ended since. */
function follow(tracked: Tracked, limit: LimitStatus, use: EndedUse): void {
  if (use.told_at < tracked.told_at) {
    tracked.limit = settle(tracked.limit, use);
  } else {
    let { reserved, cost } = use;
    for (let index = tracked.ended.length - 1; index >= 0; index--) {
      const ended = tracked.ended[index]!;
      if (ended.ended_at <= use.told_at) break;
      reserved += ended.reserved;
      cost += ended.cost;
    }
    tracked.limit = settle(limit, { reserved, cost });
    tracked.told_at = use.told_at;
  }
  tracked.ended.push(endOf(use));
  if (tracked.ended.length > ENDED_MAX) tracked.ended.shift();
}

function settle(limit: LimitStatus, { reserved, cost }: Settled): LimitStatus {
  return { ...limit, spent: limit.spent + cost, reserved: Math.max(0, limit.reserved - reserved) };
}

function endOf({ reserved, cost, ended_at }: EndedUse): Tracked['ended'][number] {
  return { reserved, cost, ended_at };
}

/** What the answer of the last attempt used, as the conventions count it; `undefined` where nothing was metered. */
export function usageOf(request: EndedRequest): ModelUsage | undefined {
  const output = request.peek('usage.output_tokens');
  if (output === undefined) return undefined;
  const cache_read = request.peek('usage.cache_read_input_tokens') ?? 0;
  const cache_write =
    (request.peek('usage.cache_write_5m_input_tokens') ?? 0) + (request.peek('usage.cache_write_1h_input_tokens') ?? 0);
  const input = (request.peek('usage.input_tokens') ?? 0) + cache_read + cache_write;
  return { input, output, cache_read, cache_write };
}

/** What clients write about themselves; anything longer, with more digits or with other characters is no name of a product. */
const PRODUCT = /^(?=.{1,30}$)[A-Za-z][A-Za-z_.-]*\d{0,2}[A-Za-z_.-]*$/;
const VERSION = /^\d{1,6}(?:\.\d{1,6}){0,3}(?:[.+-][0-9A-Za-z.-]{1,20})?$/;
const MODEL_NAME = /^[\w][\w./:@+-]{0,99}$/;
/** Of a session: it says nothing about anybody. */
const UUID = /^[0-9a-f]{8}-(?:[0-9a-f]{4}-){3}[0-9a-f]{12}$/i;
const UPSTREAM_ID = /^[\w.:/+=-]{1,100}$/;
/** What access tokens, session tokens and keys of providers begin with, or look like. */
const CREDENTIAL = /^(?:sk|pk|gw|key|tok|token|bearer|eyJ)[-_.]|[\w-]{20,}\.[\w-]{20,}\.|[A-Za-z0-9_-]{40,}/i;

function fitting(text: string | undefined, form: RegExp): string | undefined {
  return text !== undefined && form.test(text) ? text : undefined;
}

/** What a client asked for as a model that does not exist, where it looks like the name of one. */
function unknownModel(text: string | undefined): string | undefined {
  const name = fitting(text, MODEL_NAME);
  return name === undefined || name.includes('@') || CREDENTIAL.test(name) ? undefined : name;
}
