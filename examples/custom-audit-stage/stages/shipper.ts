import type { Clock, Log, Timer } from 'appscli';

/** Settings of the delivery. */
export interface ShipperOptions {
  readonly url: string;
  readonly headers: Readonly<Record<string, string>>;
  readonly batch_records: number;
  readonly batch_seconds: number;
  readonly queue_records: number;
  readonly timeout_seconds: number;
}

/** A bounded queue that delivers records in order and in batches. */
export interface Shipper {
  /** Queues one record; returns at once. */
  add(record: object): void;
  /** Flushes the queue within 5 seconds. Never rejects. */
  close(): Promise<void>;
}

const RETRY_SECONDS_MAX = 60;
/** The gateway gives its stages 8 seconds to close. */
const CLOSE_SECONDS = 5;
/** Statuses that a retry cannot change: the content is at fault. Others may be temporary. */
const REFUSED: readonly number[] = [400, 413, 422];

/**
 * Opens a shipper. A record leaves the queue when the receiver has accepted it, so one may arrive twice; when the
 * receiver is away and the queue is full, new records are counted and dropped.
 */
export function openShipper(options: ShipperOptions, { clock, log }: { clock: Clock; log: Log }): Shipper {
  const { url, headers, batch_records, batch_seconds, queue_records, timeout_seconds } = options;
  const queue: string[] = [];
  let dropped = 0;
  let failures = 0;
  let closing = false;
  let waiting: Timer | undefined;
  let sending: Promise<void> | undefined;
  let attempt: AbortController | undefined;

  /** The status of the response, or the reason why there was none. */
  async function post(lines: readonly string[]): Promise<number | string> {
    attempt = new AbortController();
    const limit = clock.after(timeout_seconds * 1000, () => attempt?.abort());
    try {
      const body = `${lines.join('\n')}\n`;
      // A redirect would send the token to an unconfigured address.
      const response = await fetch(url, { method: 'POST', headers, body, redirect: 'manual', signal: attempt.signal });
      await response.body?.cancel();
      return response.status;
    } catch (error) {
      if (attempt.signal.aborted) return 'timeout';
      return (error as { cause?: { code?: string } }).cause?.code ?? 'no response';
    } finally {
      limit.close();
    }
  }

  function onFailure(reason: number | string): void {
    failures += 1;
    if (failures === 1) log.warn({ reason, queued: queue.length }, 'the SIEM takes no records; they wait in memory');
    if (closing) return;
    const seconds = Math.min(RETRY_SECONDS_MAX, 2 ** (failures - 1));
    waiting = clock.after(seconds * 1000, () => void flush());
  }

  function onAnswer(status: number, records: number): void {
    queue.splice(0, records);
    if (REFUSED.includes(status)) log.error({ status, records }, 'the SIEM rejected audit records; they are lost');
    if (dropped > 0) log.error({ records: dropped }, 'audit records were lost while the queue for the SIEM was full');
    else if (failures > 0) log.info({ attempts: failures }, 'the SIEM takes records again');
    failures = 0;
    dropped = 0;
  }

  async function sendQueue(): Promise<void> {
    while (queue.length > 0) {
      const lines = queue.slice(0, batch_records);
      const result = await post(lines);
      const settled = typeof result === 'number' && ((result >= 200 && result < 300) || REFUSED.includes(result));
      if (!settled) {
        onFailure(result);
        break;
      }
      onAnswer(result, lines.length);
    }
    sending = undefined;
  }

  function flush(): Promise<void> {
    waiting?.close();
    waiting = undefined;
    if (queue.length > 0) sending ??= sendQueue();
    return sending ?? Promise.resolve();
  }

  return {
    add(record) {
      if (queue.length >= queue_records) {
        dropped += 1;
        if (dropped === 1) log.error({ queued: queue.length }, 'the queue for the SIEM is full; records are lost');
        return;
      }
      queue.push(JSON.stringify(record));
      if (sending !== undefined || failures > 0) return;
      if (queue.length >= batch_records) void flush();
      else waiting ??= clock.after(batch_seconds * 1000, () => void flush());
    },
    async close() {
      closing = true;
      const limit = clock.after(CLOSE_SECONDS * 1000, () => attempt?.abort());
      await flush();
      limit.close();
      const lost = queue.length + dropped;
      if (lost > 0) log.error({ records: lost }, 'audit records were lost: the SIEM did not take them in time');
    },
  };
}
