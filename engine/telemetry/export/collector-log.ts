import type { Signal } from '../../contract/client-telemetry.ts';
import type { Log } from '../../contract/services.ts';
import type { Metrics } from '../metrics.ts';
import type { NotTaken } from './collector.ts';
import type { LossReason, QueueEvents } from './export-queue.ts';

/** A destination that refuses so many requests of clients in a row refuses what the gateway does, and not what one client sent. */
const REFUSALS_MAX = 5;

/** Counts what becomes of a signal, and tells the log when a collector stops taking it and when it takes it again. */
export function createCollectorLog(options: {
  readonly signal: Signal;
  /** Without credentials. */
  readonly url: string;
  /** Of `telemetry.forward_to`, by its name in metrics; absent for the collector of the gateway's own telemetry. */
  readonly destination?: string;
  readonly metrics: Metrics;
  readonly log: Log;
}): QueueEvents {
  const { signal, url, destination, metrics, log } = options;
  const labels = { 'gateway.telemetry.signal': signal, 'gateway.telemetry.destination': destination ?? 'collector' };
  const [telemetry, collector] =
    destination === undefined ? ['telemetry', 'the collector'] : ['telemetry of clients', 'its destination'];
  let refusals = 0;
  let is_failing = false;
  let is_dropping = false;
  let dropped = 0;

  function wentWrong(answer: NotTaken): void {
    if (is_failing || (answer.outcome === 'refused' && destination !== undefined && ++refusals < REFUSALS_MAX)) return;
    is_failing = true;
    const what =
      answer.outcome === 'refused'
        ? `${collector} refuses ${telemetry}, which is lost`
        : `${collector} does not take ${telemetry}, which waits for it`;
    log.warn({ signal, url, reason: answer.why, code: 'collector_failing' }, what);
  }

  return {
    dropped(items: number, reason: LossReason) {
      metrics.add('gateway.telemetry.dropped', { ...labels, 'gateway.telemetry.reason': reason }, items);
      dropped += items;
      if (is_dropping || reason === 'refused') return;
      is_dropping = true;
      if (reason === 'closing') {
        log.warn(
          { signal, url, items, code: 'telemetry_dropped' },
          `${telemetry} that waited for ${collector} is lost`,
        );
        return;
      }
      log.warn(
        { signal, url, reason, code: 'telemetry_dropped' },
        `${telemetry} is dropped: ${collector} has not taken it`,
      );
    },
    sent(_items, answer) {
      if (destination === undefined) {
        metrics.add('gateway.telemetry.sends', {
          'gateway.telemetry.signal': signal,
          'gateway.telemetry.outcome': answer.outcome,
        });
      } else if (answer.outcome === 'taken') metrics.add('gateway.client_telemetry.sent', labels);
      if (answer.outcome !== 'taken') return wentWrong(answer);
      refusals = 0;
      if (answer.rejected > 0) {
        if (!is_failing) {
          // The collector's own words may repeat what it was sent.
          log.warn(
            { signal, url, rejected: answer.rejected, code: 'collector_failing' },
            `${collector} keeps a part of ${telemetry} only`,
          );
        }
        is_failing = true;
      } else if (is_failing) {
        log.info({ signal, url, dropped }, `${collector} takes ${telemetry} again`);
        is_failing = is_dropping = false;
        dropped = 0;
      }
    },
  };
}
