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
        'Parts to try. The answer is 503 when one of them is away and requests would be refused for it, or when the gateway is stopping; 200 with `degraded` when they would be served all the same. Empty: answering at all is the proof.',
    },
    tells: {
      type: 'array',
      items: { enum: ['configuration', 'upstreams'] },
      uniqueItems: true,
      default: [],
      description:
        'Parts to tell about without effect on the status: configuration says when it was loaded and whether the last reload failed; upstreams says of each by name whether it is closed (as it should be), open, half_open, limited, drained, its credential refused or a model missing, until when, and of how many models. Hosts and reasons are for administrators: see `appscli upstreams list`.',
    },
  },
} as const;

type Parts = Readonly<Record<string, HealthPart>>;

function stateOf(part: HealthPart | undefined): string {
  return part?.state ?? (part?.ok === true ? 'ok' : 'unavailable');
}

function describe(parts: Parts, { checks: asked, tells }: ValueOf<typeof OPTIONS>, stopping: boolean): Answer {
  // A part that this gateway does not have can't be away; a check that failed tells of no part at all.
  const checks = Object.keys(parts).length === 0 ? asked : asked.filter((name) => parts[name] !== undefined);
  // Anybody may ask, so the answer says which part is away but not why: details can name hosts.
  const states = Object.fromEntries(checks.map((name) => [name, stateOf(parts[name])]));
  const told = Object.fromEntries(tells.map((name) => [name, parts[name]?.told]));
  const away = checks.filter((name) => parts[name]?.ok !== true);
  const serves = away.every((name) => parts[name]?.needed === false);
  const status = stopping ? 'stopping' : away.length === 0 ? 'ok' : serves ? 'degraded' : 'unavailable';
  const reason = serves ? undefined : away.map((name) => parts[name]?.reason).find((words) => words !== undefined);
  const body = { status, checks: states, ...(reason !== undefined && { reason }), ...told };
  return answerJson(serves && !stopping ? 200 : 503, body, { 'cache-control': 'no-store' });
}

export default defineStage({
  name: 'report-health',
  version: 1,
  summary: 'Answers whether the gateway is alive and whether the parts it needs are available.',
  options: OPTIONS,
  examples: [
    { title: 'Liveness: the process answers', yaml: '- stage: report-health' },
    {
      title: 'Readiness: requests would be served',
      yaml: '- stage: report-health\n  options: { checks: [database, spool] }',
    },
    {
      title: 'Readiness that also says whether the last reload failed and how the upstreams are',
      yaml: '- stage: report-health\n  options: { checks: [database, spool], tells: [configuration, upstreams] }',
    },
  ],
  needs: ['respond'],
  terminal: true,
  create(options, { health, log }) {
    const nothing_asked = options.checks.length === 0 && options.tells.length === 0;
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
        if (nothing_asked) return describe({}, options, false);
        // This path is open to all; sharing one running check keeps a crowd of probes off the database.
        running ??= inspect();
        return describe(await running, options, health.stopping === true);
      },
    };
  },
});
