/** Exports that are opened and closed around each test, and the collector they go to. */
import { after, afterEach, before, beforeEach } from 'node:test';
import type { GatewayConfig } from '../../../engine/contract/config.ts';
import { systemClock } from '../../../engine/kit/clock.ts';
import { createLog } from '../../../engine/kit/log.ts';
import { type Exports, openExports } from '../../../engine/telemetry/export/exports.ts';
import { MetricRegistry } from '../../../engine/telemetry/metric-registry.ts';
import { startCollector, type TestCollector } from '../../support/telemetry/collector.ts';

/** Fast, so that no test waits. */
const FAST = { OTEL_BSP_SCHEDULE_DELAY: '1', OTEL_BLRP_SCHEDULE_DELAY: '1' };

/** A collector for the tests of a file, and what opens exports to it. */
export function useExports() {
  let collector: TestCollector;
  const opened: Exports[] = [];
  before(async () => {
    collector = await startCollector();
  });
  after(() => collector?.close());
  beforeEach(() => {
    collector.clear();
    collector.trouble(undefined);
  });
  afterEach(async () => {
    collector.trouble(undefined);
    await Promise.all(opened.splice(0).map((exports) => exports.close()));
  });

  /** Of these keys of `telemetry.otlp`; `undefined` for none. */
  function telemetryOf(otlp: object | undefined, more: object = {}): GatewayConfig['telemetry'] {
    const written = otlp && { endpoint: collector.endpoint, metrics: false, ...otlp };
    return { sampling: {}, metrics: {}, forward_to: [], ...(written && { otlp: written }), ...more } as never;
  }

  async function open(otlp: object | undefined, env: NodeJS.ProcessEnv = {}, more: object = {}) {
    const registry = new MetricRegistry(0);
    const lines: string[] = [];
    const created = createLog({ write: (line) => lines.push(line), format: 'json', debug: false });
    let tapped: ((line: string) => void) | undefined;
    const log: typeof created = {
      ...created,
      tap(take) {
        tapped = take;
        created.tap(take);
      },
    };
    const exports = await openExports({
      telemetry: telemetryOf(otlp, more),
      env: { ...FAST, ...env },
      registry,
      clock: systemClock,
      log,
    });
    opened.push(exports);
    /** How many items were dropped, by reason. */
    const dropped = () =>
      Object.fromEntries(
        registry
          .measure()
          .filter(({ name }) => name === 'gateway.telemetry.dropped')
          .flatMap(({ series }) => series.map(({ labels, sum }) => [labels['gateway.telemetry.reason'], sum])),
      );
    /** Hands a line over as the log does. */
    const tap = (line: string) => tapped?.(line);
    /** What the log says of trouble, without where telemetry goes. */
    const troubles = () => lines.filter((line) => !/where telemetry goes/.test(line));
    return { exports, registry, log, lines, troubles, dropped, tap };
  }

  return {
    get collector() {
      return collector;
    },
    telemetryOf,
    open,
  };
}
