import type { GatewayConfig } from '../../contract/config.ts';

/** Why a request has a trace: by the ratio, or whatever the ratio. */
export type SampledReason = 'ratio' | 'refused' | 'upstream_refused' | 'failed' | 'fallback' | 'downgraded' | 'slow';

/**
 * The ratio in force: that of gateway.yaml, else of OTEL_TRACES_SAMPLER and OTEL_TRACES_SAMPLER_ARG, else 1. What a sampler makes of
 * a parent does not count: any client could then fill the collector.
 */
export function ratioOf({ telemetry }: Pick<GatewayConfig, 'telemetry'>, env: NodeJS.ProcessEnv): number {
  const { ratio } = telemetry.sampling;
  if (ratio !== undefined) return ratio;
  const sampler = (env.OTEL_TRACES_SAMPLER ?? '').trim().replace(/^parentbased_/, '');
  if (sampler === 'always_off') return 0;
  if (sampler !== 'traceidratio') return 1;
  const argument = env.OTEL_TRACES_SAMPLER_ARG?.trim() ?? '';
  const given = argument === '' ? 1 : Number(argument);
  return given >= 0 && given <= 1 ? given : 1;
}

const UNKNOWN_CALLERS_PER_SECOND = 20;

/**
 * Makes the function that says whether there is still room in this second for the trace of a refused request of nobody known:
 * whoever sends requests without a credential must not fill the queue for spans.
 */
export function roomForUnknown(): (now_ms: number) => boolean {
  let second = 0;
  let taken = 0;
  return (now_ms) => {
    const now = Math.floor(now_ms / 1000);
    if (now !== second) {
      second = now;
      taken = 0;
    }
    return ++taken <= UNKNOWN_CALLERS_PER_SECOND;
  };
}
