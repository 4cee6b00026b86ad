import type { GatewayConfig } from '../../contract/config.ts';
import type { Log } from '../../contract/services.ts';
import { parseListenAddress } from '../../kit/net/addresses.ts';
import { explainListenError } from '../../kit/net/listen-error.ts';
import { secretIn } from '../../kit/secret-names.ts';
import type { MetricRegistry } from '../metric-registry.ts';
import { type MetricsListener, startMetricsListener } from './metrics-listener.ts';
import { writePrometheusText } from './prometheus-text.ts';

/** Serves metrics where the configuration in force says, if it does. */
export interface OpenMetricsListener {
  /** Its port while it listens. */
  readonly port: number | undefined;
  /** Goes where a new configuration says. Stays where it is, and says why, when it can't listen there. Never rejects. */
  use(config: GatewayConfig): Promise<void>;
  close(): Promise<void>;
}

type MetricsSettings = GatewayConfig['telemetry']['metrics'];

/** A listener, and the settings it goes by; they change while it stays where it is. */
interface Active {
  settings: MetricsSettings;
  readonly listener: MetricsListener;
}

const KEY = 'telemetry.metrics.listen';

/** Starts to serve metrics if the configuration says where. Raises StartError when it can't listen there. */
export async function openMetricsListener(options: {
  readonly config: GatewayConfig;
  readonly env: NodeJS.ProcessEnv;
  readonly registry: MetricRegistry;
  readonly resource: () => Readonly<Record<string, string>>;
  readonly log: Log;
}): Promise<OpenMetricsListener> {
  const { env, registry, resource, log } = options;
  let active: Active | undefined;
  let moving: Promise<void> = Promise.resolve();
  let is_closed = false;

  async function start(listen: string, settings: MetricsSettings): Promise<Active> {
    const started = { settings };
    // Each listener goes by its own settings, so that none is ever open with the token of another.
    const token = () => {
      const { token_env } = started.settings;
      return token_env === undefined ? undefined : (secretIn(token_env, env) ?? '');
    };
    const text = () => writePrometheusText(registry, resource());
    const onError = (err: unknown) => log.error({ err }, 'metrics could not be served');
    try {
      const listener = await startMetricsListener({ listen, token, text, onError });
      log.info({ listen, port: listener.port }, 'metrics are served at /metrics');
      return Object.assign(started, { listener });
    } catch (error) {
      throw explainListenError(error as NodeJS.ErrnoException, listen, `${KEY} in gateway.yaml`);
    }
  }

  async function move(next: MetricsSettings): Promise<void> {
    if (is_closed) return;
    const { listen } = next;
    if (active !== undefined && listen === active.listener.listen) {
      active.settings = next;
      return;
    }
    const before = active;
    // A port can be free for other addresses only once it is let go of.
    const in_the_way = listen !== undefined && before !== undefined && samePort(listen, before.listener.listen);
    if (in_the_way) await before.listener.close();
    try {
      active = listen === undefined ? undefined : await start(listen, next);
    } catch (error) {
      log.error({ err: error }, 'metrics are served as before the reload');
      if (in_the_way) active = await start(before.listener.listen, before.settings).catch(notServed);
      return;
    }
    if (!in_the_way) await before?.listener.close();
    if (before !== undefined && listen === undefined) log.info({}, 'metrics are not served any more');
  }

  function notServed(error: unknown): undefined {
    log.error({ err: error }, 'metrics are not served any more');
  }

  const { metrics } = options.config.telemetry;
  if (metrics.listen !== undefined) active = await start(metrics.listen, metrics);
  return {
    get port() {
      return active?.listener.port;
    },
    use({ telemetry }) {
      moving = moving.then(() => move(telemetry.metrics));
      return moving;
    },
    async close() {
      is_closed = true;
      await moving;
      await active?.listener.close();
    },
  };
}

function samePort(one: string, other: string): boolean {
  const port = parseListenAddress(one)?.port;
  return port !== 0 && port === parseListenAddress(other)?.port;
}
