import type { ErrorDetails } from '../../contract/errors.ts';
import type { LimitStatus } from '../../contract/money.ts';
import { nanoToUsd } from '../../kit/money.ts';
import type { Attributes, SpanEvent } from '../spans.ts';
import { type Decision, decisionsOf, refusedBy } from './decisions.ts';
import type { SpanParts } from './request-span.ts';

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
