import type { ReadableSpan } from '@opentelemetry/sdk-trace';
import type { GatewayConfig } from '../../contract/config.ts';
import type { Log } from '../../contract/services.ts';
import type { RedactingLog } from '../../kit/log.ts';
import { describeWay } from '../../kit/net/way.ts';
import type { SpanSink } from '../spans.ts';
import { type OpenSignals, openSignals, type SignalContext } from './open-signals.ts';
import { type ExportSettings, exportSettings, publicUrl, type Target } from './settings.ts';

/** Everything that is exported now. */
export interface Exports {
  readonly sink: SpanSink;
  /** Takes over other settings; what waits goes where they say. Those that cannot be used are logged, and the ones before stay. */
  use(telemetry: GatewayConfig['telemetry']): void;
  /** Sends what waits, within some seconds. */
  close(): Promise<void>;
}

/** A log whose lines are sent as well, where it can hand them out, and which is told what to keep out of them. */
export type ExportedLog = Log & Partial<Pick<RedactingLog, 'hide' | 'tap'>>;

/** Headers whose value is a credential. */
const SECRET_HEADER = /auth|cookie|key|pass|secret|signature|token/i;

/** Longest the end of the process waits for a collector. */
const CLOSE_PATIENCE_MS = 3000;

/** Opens exports by configuration. Raises StartError where it cannot be used. */
export async function openExports(
  options: Omit<SignalContext, 'takeMade'> & {
    readonly telemetry: GatewayConfig['telemetry'];
    readonly env: NodeJS.ProcessEnv;
    readonly log: ExportedLog;
  },
): Promise<Exports> {
  const { env, registry, log } = options;
  let settings: ExportSettings | undefined;
  let open: OpenSignals | undefined;
  registry.observe('gateway.telemetry.queue.length', () =>
    (['traces', 'logs'] as const).flatMap((signal) => {
      const queue = signal === 'traces' ? open?.spans : open?.logs;
      return queue === undefined ? [] : [{ value: queue.taken, labels: { 'gateway.telemetry.signal': signal } }];
    }),
  );

  async function moveTo(next: ExportSettings): Promise<void> {
    if (JSON.stringify(next) === JSON.stringify(settings)) return;
    hideCredentials(next, log);
    const before = open;
    const takeMade = (made: ReadableSpan) => open?.spans?.push({ made });
    const opened = await openSignals(next, { ...options, takeMade });
    settings = next;
    open = opened;
    for (const problem of next.not_done) log.warn({ code: 'telemetry_not_sent' }, problem);
    const goes = { traces: placeOf(next.traces), metrics: placeOf(next.metrics), logs: placeOf(next.logs) };
    if (Object.values(goes).some((place) => place !== undefined)) log.info(goes, 'where telemetry goes');
    else if (before !== undefined) log.info({}, 'telemetry is not sent any more');
    if (opened.spans !== undefined) for (const span of before?.spans?.release() ?? []) opened.spans.push(span);
    if (opened.logs !== undefined) for (const line of before?.logs?.release() ?? []) opened.logs.push(line);
    log.tap?.(opened.logs === undefined ? undefined : (line) => opened.logs!.push(line));
    // What is on its way, or has nowhere else to go, still goes where it was meant to.
    void before?.close(CLOSE_PATIENCE_MS);
  }

  await moveTo(exportSettings(options.telemetry, env));
  let moving = Promise.resolve();
  return {
    sink: {
      get active() {
        return open?.spans !== undefined;
      },
      take(finished) {
        for (const span of finished) open?.spans?.push(span);
      },
    },
    use(telemetry) {
      moving = moving
        .then(() => moveTo(exportSettings(telemetry, env)))
        .catch((err) => {
          const code = 'telemetry_not_changed';
          log.error({ err, code }, 'telemetry goes where it went: its configuration cannot be used');
        });
    },
    async close() {
      await moving;
      log.tap?.(undefined);
      await open?.close(CLOSE_PATIENCE_MS);
    },
  };
}

/** The whole of the variable may be hidden already; what is sent of it is not its text. */
function hideCredentials({ traces, metrics, logs }: ExportSettings, log: ExportedLog): void {
  for (const target of [traces, metrics, logs]) {
    for (const [name, value] of Object.entries(target?.headers ?? {})) {
      if (!SECRET_HEADER.test(name)) continue;
      for (const part of [value, value.slice(value.indexOf(' ') + 1)]) log.hide?.(part);
    }
  }
}

function placeOf(target: Target | undefined): string | undefined {
  if (target === undefined) return undefined;
  const { url, way } = target;
  return way?.proxy === undefined ? publicUrl(url) : `${publicUrl(url)} ${describeWay(way)}`;
}
