import { type Answer, answerJson, defineStage } from '../engine/api.ts';

interface ReportHealthOptions {
  readonly checks: readonly string[];
}

type State = 'ok' | 'unavailable';

function answer(checks: Readonly<Record<string, State>>): Answer {
  const ok = Object.values(checks).every((state) => state === 'ok');
  return answerJson(ok ? 200 : 503, { status: ok ? 'ok' : 'unavailable', checks }, { 'cache-control': 'no-store' });
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
    },
  },
  examples: [
    { title: 'Liveness: the process answers', yaml: '- stage: report-health' },
    {
      title: 'Readiness: the database answers too',
      yaml: '- stage: report-health\n  options: { checks: [database] }',
    },
  ],
  needs: ['respond'],
  terminal: true,
  create({ checks: names }: ReportHealthOptions, { health, log }) {
    let running: Promise<Record<string, State>> | undefined;

    async function inspect(): Promise<Record<string, State>> {
      const parts = await health.check().catch((error: unknown) => {
        log.error({ err: error }, 'the health checks failed');
        return {};
      });
      const found: Readonly<Record<string, { ok: boolean }>> = parts;
      // Anybody may ask, so the answer says which part is away but not why: details can name hosts.
      return Object.fromEntries(names.map((name) => [name, found[name]?.ok === true ? 'ok' : 'unavailable']));
    }

    return {
      async request() {
        if (names.length === 0) return answer({});
        // This path is open to all; sharing one running check keeps a crowd of probes off the database.
        running ??= inspect().finally(() => {
          running = undefined;
        });
        return answer(await running);
      },
    };
  },
});
