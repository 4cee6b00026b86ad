/** States of upstreams on a stopped clock, with their logs and messages to others. */
import type { UpstreamConfig } from '../../../engine/base/contract/config.ts';
import type { AttemptEffect, AttemptOrigin } from '../../../engine/base/contract/forwarding.ts';
import { type FrozenClock, frozenClock } from '../../../engine/base/kit/clock.ts';
import { createUpstreamStates, type Incident } from '../../../engine/domain/upstreams/states/upstream-states.ts';

export const BREAKER: UpstreamConfig['breaker'] = {
  mode: 'enforce',
  failures: 5,
  failure_percent: 50,
  requests_min: 20,
  window_seconds: 30,
  open_seconds: 5,
  open_seconds_max: 60,
};

type UpstreamSpec = Partial<Omit<UpstreamConfig, 'breaker'>> & {
  readonly breaker?: Partial<UpstreamConfig['breaker']>;
};

/** An upstream of gateway.yaml, as far as states look at it. */
export function upstream(name: string, { breaker, ...more }: UpstreamSpec = {}): UpstreamConfig {
  const base_url = `https://${name}.example.com`;
  const retry_budget = { percent: 20, min: 3 };
  const settings = { ...BREAKER, ...breaker };
  return { name, base_url, api_key_env: 'KEY', retry_budget, ...more, breaker: settings } as unknown as UpstreamConfig;
}

type Surroundings = Pick<Parameters<typeof createUpstreamStates>[0], 'onIncident' | 'onRecovery' | 'random'>;

/** States of `main` and `spare`, or the given upstreams, on a clock at 1,000,000 ms since the epoch. */
export function openScene(
  upstreams: readonly UpstreamConfig[] = [upstream('main'), upstream('spare')],
  { clock = frozenClock(1_000_000), ...more }: Surroundings & { readonly clock?: FrozenClock } = {},
) {
  const logged: { level: string; message: string; fields: Record<string, unknown> }[] = [];
  const incidents: Incident[] = [];
  const at = (level: string) => (fields: object, message: string) => {
    logged.push({ level, message, fields: fields as Record<string, unknown> });
  };
  const log = { debug: at('debug'), info: at('info'), warn: at('warn'), error: at('error') };
  // In the middle: open for exactly as long as the settings say.
  const random = () => 0.5;
  const onIncident = (incident: Incident) => incidents.push(incident);
  const states = createUpstreamStates({ upstreams, clock, log, random, onIncident, ...more });
  return {
    states,
    clock,
    logged,
    incidents,
    /** Has attempts show something, one after the other. */
    show(
      effect: AttemptEffect,
      { times = 1, to = 'main', model = 'm', detail = 'status 500', by = undefined as AttemptOrigin | undefined } = {},
      retry_after?: number,
    ) {
      for (let n = 0; n < times; n++) {
        const handle = states.begin(to, model, by);
        handle.report(effect, detail, retry_after);
        handle.leave();
      }
    },
    /** Levels and messages of the log. */
    lines: () => logged.map(({ level, message }) => `${level} ${message}`),
    unavailable: (name = 'main', model = 'm') => states.unavailable(name, model),
    /** Milliseconds until it may be tried; `undefined` when it may be now. */
    waits(name = 'main', model = 'm') {
      const until = states.unavailable(name, model)?.until;
      return until === undefined ? undefined : until - clock.now();
    },
  };
}
