import { isDeepStrictEqual } from 'node:util';
import type { GatewayConfig } from '../../contract/config.ts';
import type { Clock, Log } from '../../contract/services.ts';
import type { EndedRequest, Telemetry } from '../../contract/telemetry.ts';
import { isInRatio } from '../../kit/net/trace-context.ts';
import type { Metrics } from '../metrics.ts';
import type { FinishedSpan, SpanSink } from '../spans.ts';
import { attemptSpan } from './attempt-span.ts';
import { alwaysSampled, type Ending, endingOf } from './ending.ts';
import { type KnownConfiguration, learnConfiguration } from './known-configuration.ts';
import { Budgets } from './limits.ts';
import { createPseudonyms } from './pseudonyms.ts';
import { countRequest } from './request-counts.ts';
import { requestEvents } from './request-events.ts';
import { requestSpan, type SpanParts } from './request-span.ts';
import { roomForUnknown, type SampledReason } from './sampling.ts';

/** What telemetry of requests needs. */
export interface RequestTelemetryOptions {
  readonly in_force: () => GatewayConfig;
  readonly env: NodeJS.ProcessEnv;
  /** Where spans go now. */
  readonly sink: () => SpanSink;
  readonly metrics: Metrics;
  readonly clock: Pick<Clock, 'now' | 'monotonic'>;
  readonly log: Log;
}

/** Makes what turns requests into spans and metrics when they are over. */
export function createRequestTelemetry({
  in_force,
  env,
  sink,
  metrics,
  clock,
  log,
}: RequestTelemetryOptions): Pick<Telemetry, 'requestEnded' | 'keepsTrace' | 'requestRejected'> {
  const budgets = new Budgets(metrics, () => clock.now());
  const hasRoomForUnknown = roomForUnknown();
  let known: KnownConfiguration | undefined;
  let pseudonymOf: ReturnType<typeof createPseudonyms> | undefined;

  function knownNow(): KnownConfiguration {
    const config = in_force();
    if (known?.config !== config) {
      if (!isDeepStrictEqual(known?.config.spend_limits, config.spend_limits)) budgets.clear();
      known = learnConfiguration(config, env);
      pseudonymOf = known.tells_caller ? createPseudonyms(config, env) : undefined;
    }
    return known;
  }

  /** Why the request has a trace; `undefined` where it has none. */
  function whySampled(request: EndedRequest, ending: Ending, { ratio, slow_ms }: KnownConfiguration) {
    const always: SampledReason | undefined = alwaysSampled(ending, slow_ms);
    const is_known = request.peek('principal.id') !== undefined;
    if (always !== undefined && (is_known || hasRoomForUnknown(clock.monotonic()))) return always;
    return isInRatio(request.notes.trace.trace_id, ratio) ? 'ratio' : undefined;
  }

  function spansOf(parts: SpanParts): readonly FinishedSpan[] {
    const spans = [requestSpan(parts, requestEvents(parts))];
    for (let index = 0; index < parts.request.attempts.length; index++) spans.push(attemptSpan(parts, index));
    return spans;
  }

  function tell(request: EndedRequest): void {
    const known = knownNow();
    const ending = endingOf(request, known);
    // The answer of a client that has left is read on.
    const is_drained = request.peek('outcome.drained') === true;
    const ended_at = is_drained ? clock.monotonic() : (request.ended_at ?? clock.monotonic());
    budgets.note({
      limits: request.notes.limits,
      told_at: request.notes.limits_at,
      ended_at: clock.monotonic(),
      reserved: request.peek('spend.reserved_nano_usd') ?? 0,
      cost: request.peek('usage.cost_nano_usd') ?? 0,
    });
    countRequest(metrics, { request, ending, known, ended_at });
    const spans = sink();
    if (!spans.active) return;
    const sampled_reason = whySampled(request, ending, known);
    if (sampled_reason === undefined) return;
    const received_at = request.peek('request.received_at') ?? clock.now();
    const epoch = (monotonic: number) => received_at + (monotonic - request.started_at);
    const principal = pseudonymOf && request.peek('principal.id');
    const caller = principal === undefined ? undefined : pseudonymOf!(principal);
    spans.take(spansOf({ request, ending, known, epoch, ended_at, sampled_reason, caller }));
  }

  return {
    requestEnded(request) {
      try {
        tell(request);
      } catch (error) {
        const fields = { request_id: request.peek('request.id'), trace_id: request.notes.trace.trace_id };
        log.error({ err: error, ...fields }, 'telemetry could not be made of a request');
      }
    },
    keepsTrace: (trace_id) => sink().active && isInRatio(trace_id, knownNow().ratio),
    requestRejected(status, code) {
      metrics.add('gateway.rejected', { 'gateway.error.code': code, 'http.response.status_code': status });
    },
  };
}
