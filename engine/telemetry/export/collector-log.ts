import type { Log } from '../../contract/services.ts';
import type { Metrics } from '../metrics.ts';
import type { NotTaken } from '../sent.ts';
import type { LossReason, QueueEvents } from './export-queue.ts';
import type { Signal } from './targets.ts';

/** Counts what becomes of a signal, and tells the log when a collector stops taking it and when it takes it again. */
export function createCollectorLog(options: {
  readonly signal: Signal;
  /** Without credentials. */
  readonly url: string;
  readonly metrics: Metrics;
  readonly log: Log;
}): QueueEvents {
  const { signal, url, metrics, log } = options;
  const labels = { 'gateway.telemetry.signal': signal, 'gateway.telemetry.destination': 'collector' };
  let is_failing = false;
  let is_dropping = false;
  let dropped = 0;

  function wentWrong(answer: NotTaken): void {
    if (is_failing) return;
    is_failing = true;
    const what =
      answer.outcome === 'refused'
        ? 'the collector refuses telemetry, which is lost'
        : 'the collector does not take telemetry, which waits for it';
    log.warn({ signal, url, reason: answer.why, code: 'collector_failing' }, what);
  }

  return {
    dropped(items: number, reason: LossReason) {
      metrics.add('gateway.telemetry.dropped', { ...labels, 'gateway.telemetry.reason': reason }, items);
      dropped += items;
      if (is_dropping || reason === 'refused') return;
      is_dropping = true;
      if (reason === 'closing') {
        log.warn({ signal, url, items, code: 'telemetry_dropped' }, 'telemetry that waited for the collector is lost');
        return;
      }
      log.warn(
        { signal, url, reason, code: 'telemetry_dropped' },
        'telemetry is dropped: the collector has not taken it',
      );
    },
    sent(_items, answer) {
      metrics.add('gateway.telemetry.sends', {
        'gateway.telemetry.signal': signal,
        'gateway.telemetry.outcome': answer.outcome,
      });
      if (answer.outcome !== 'taken') return wentWrong(answer);
      if (answer.rejected > 0) {
        if (!is_failing) {
          // The collector's own words may repeat what it was sent.
          log.warn(
            { signal, url, rejected: answer.rejected, code: 'collector_failing' },
            'the collector keeps a part of telemetry only',
          );
        }
        is_failing = true;
      } else if (is_failing) {
        log.info({ signal, url, dropped }, 'the collector takes telemetry again');
        is_failing = is_dropping = false;
        dropped = 0;
      }
    },
  };
}
