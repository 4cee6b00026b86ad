import { type Answer, answerJson, defineStage, type HealthPart } from '../engine/api.ts';

interface ReportHealthOptions {
  readonly checks: readonly string[];
  readonly tells: readonly string[];
}

type Parts = Readonly<Record<string, HealthPart>>;

function describe(parts: Parts, { checks, tells }: ReportHealthOptions): Answer {
  // Anybody may ask, so the answer says which part is away but not why: details can name hosts.
  const states = Object.fromEntries(checks.map((name) => [name, parts[name]?.ok === true ? 'ok' : 'unavailable']));
  const told = Object.fromEntries(tells.map((name) => [name, parts[name]?.told]));
  const ok = Object.values(states).every((state) => state === 'ok');
  const body = { status: ok ? 'ok' : 'unavailable', checks: states, ...told };
  return answerJson(ok ? 200 : 503, body, { 'cache-control': 'no-store' });
}

export default defineStage({
  name: 'report-health',
  version: 1,
  summary: 'Answers whether the gateway is alive and whether the parts it needs are available.',
  options: {
    type: 'object',
    additionalProperties: false,
    properties: {
      checks: {
        type: 'array',
        items: { enum: ['database'] },
        uniqueItems: true,
        default: [],
        description: 'Parts that must be available for the answer 200. Empty: answering at all is the proof.',
      },
      tells: {
        type: 'array',
        items: { enum: ['configuration'] },
        uniqueItems: true,
        default: [],
        description:
          'Parts to tell about without effect on the status: configuration says when it was loaded and whether the last reload failed.',
      },
    },
  },
  examples: [
    { title: 'Liveness: the process answers', yaml: '- stage: report-health' },
    {
      title: 'Readiness: the database answers too',
      yaml: '- stage: report-health\n  options: { checks: [database] }',
    },
    {
      title: 'Readiness that also says whether the last reload failed',
      yaml: '- stage: report-health\n  options: { checks: [database], tells: [configuration] }',
    },
  ],
  needs: ['respond'],
  terminal: true,
  create(options: ReportHealthOptions, { health, log }) {
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
        if (nothing_asked) return describe({}, options);
        // This path is open to all; sharing one running check keeps a crowd of probes off the database.
        running ??= inspect();
        return describe(await running, options);
      },
    };
  },
});
