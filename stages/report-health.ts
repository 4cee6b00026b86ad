import { type Answer, answerJson, defineStage, type HealthPart, type ValueOf } from '../engine/api.ts';

const OPTIONS = {
  type: 'object',
  additionalProperties: false,
  properties: {
    checks: {
      type: 'array',
      items: { enum: ['database', 'spool'] },
      uniqueItems: true,
      default: [],
      description:
        'Parts to check. The response is 503 when one of them is unavailable and requests would be rejected for it, or when the gateway is stopping; 200 with `degraded` when requests would still be served. Empty: a liveness check.',
    },
    includes: {
      type: 'array',
      items: { enum: ['configuration', 'upstreams'] },
      uniqueItems: true,
      default: [],
      description:
        'Parts to report without effect on the status. configuration: when it was loaded, and whether the last reload failed. upstreams: the state of each by name (closed is healthy; else open, half_open, limited, drained, credential rejected or model missing), until when, and for how many models. `appscli upstreams list` shows administrators hosts and reasons.',
    },
  },
} as const;

type Parts = Readonly<Record<string, HealthPart>>;

function stateOf(part: HealthPart | undefined): string {
  return part?.state ?? (part?.ok === true ? 'ok' : 'unavailable');
}

function describe(parts: Parts, { checks: requested, includes }: ValueOf<typeof OPTIONS>, stopping: boolean): Answer {
  // A part that this gateway does not use is left out. Without any parts, the check itself failed: all are unavailable.
  const checks = Object.keys(parts).length === 0 ? requested : requested.filter((name) => parts[name] !== undefined);
  // The path is public, so the response names unavailable parts but not the reasons, which may contain hosts.
  const states = Object.fromEntries(checks.map((name) => [name, stateOf(parts[name])]));
  const reported = Object.fromEntries(includes.map((name) => [name, parts[name]?.public_details]));
  const away = checks.filter((name) => parts[name]?.ok !== true);
  const serves = away.every((name) => parts[name]?.needed === false);
  const status = stopping ? 'stopping' : away.length === 0 ? 'ok' : serves ? 'degraded' : 'unavailable';
  const reason = serves ? undefined : away.map((name) => parts[name]?.reason).find((words) => words !== undefined);
  const body = { status, checks: states, ...(reason !== undefined && { reason }), ...reported };
  return answerJson(serves && !stopping ? 200 : 503, body, { 'cache-control': 'no-store' });
}

export default defineStage({
  name: 'report-health',
  version: 1,
  summary: 'Responds to health checks: whether the gateway is alive, and whether the parts it needs are available.',
  options: OPTIONS,
  examples: [
    { title: 'Liveness: the process responds', yaml: '- stage: report-health' },
    {
      title: 'Readiness: requests would be served',
      yaml: '- stage: report-health\n  options: { checks: [database, spool] }',
    },
    {
      title: 'Readiness, with the result of the last reload and the state of the upstreams',
      yaml: '- stage: report-health\n  options: { checks: [database, spool], includes: [configuration, upstreams] }',
    },
  ],
  needs: ['respond'],
  terminal: true,
  create(options, { health, log }) {
    const is_liveness = options.checks.length === 0 && options.includes.length === 0;
    let running: Promise<Parts> | undefined;

    async function inspect(): Promise<Parts> {
      try {
        return await health.check();
      } catch (error) {
        log.error({ err: error }, 'the health checks failed');
        return {};
      } finally {
        running = undefined;
      }
    }

    return {
      async request() {
        if (is_liveness) return describe({}, options, false);
        // The path is public; concurrent probes share one check, to protect the database.
        running ??= inspect();
        return describe(await running, options, health.stopping === true);
      },
    };
  },
});
