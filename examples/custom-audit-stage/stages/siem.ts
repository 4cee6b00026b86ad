import { defineStage, type StageContext } from 'appscli';
import { openShipper } from './shipper.ts';

// A record consists of these facts only, never of headers or bodies, so it contains no credential and no prompt text.
const RECORDED = [
  'request.id',
  'request.method',
  'request.path',
  'request.protocol',
  'request.client.address',
  'request.client.name',
  'request.client.version',
  'request.session_id',
  'request.model',
  'principal.id',
  'principal.email',
  'principal.team',
  'principal.project',
  'principal.token.id',
  'route.upstream',
  'route.rule',
  'spend.rule',
  'upstream.status',
  'upstream.request_id',
  'usage.input_tokens',
  'usage.output_tokens',
  'usage.cost_nano_usd',
  'outcome.status',
  'outcome.error',
  'outcome.aborted',
  'outcome.duration_ms',
  'outcome.rewrites',
  'error.stage',
] as const;

type SiemContext = StageContext<never, (typeof RECORDED)[number], never>;

/** Bounds strings that callers choose, so that none fills the queue. */
const TEXT_CHARS_MAX = 200;

function describe(ctx: SiemContext, now: number): object {
  const facts = RECORDED.map((path) => {
    const value = ctx.get(path);
    return [path, typeof value === 'string' ? value.slice(0, TEXT_CHARS_MAX) : value];
  });
  return { at: new Date(now).toISOString(), ...Object.fromEntries(facts) };
}

export default defineStage({
  name: 'siem',
  version: 1,
  place: 'finally',
  summary: 'Sends a record of every request, also of rejected ones, to a SIEM over HTTP, without prompt text.',
  options: {
    type: 'object',
    additionalProperties: false,
    required: ['url'],
    properties: {
      url: {
        type: 'string',
        'x-url': 'endpoint',
        description: 'Where records are posted to, as lines of JSON (application/x-ndjson).',
      },
      token_env: {
        type: 'string',
        'x-secret': 'SIEM_TOKEN',
        description: 'Environment variable with the bearer token for the SIEM; without it, none is sent.',
      },
      batch_records: {
        type: 'integer',
        minimum: 1,
        maximum: 1000,
        default: 100,
        description: 'Most records of one HTTP request; so many are sent at once.',
      },
      batch_seconds: {
        type: 'number',
        exclusiveMinimum: 0,
        maximum: 60,
        default: 2,
        description: 'Longest a record waits for others to be sent along with, in seconds.',
      },
      queue_records: {
        type: 'integer',
        minimum: 1,
        maximum: 1_000_000,
        default: 10_000,
        description: 'Most records that wait in memory while the SIEM is away; further ones are counted and dropped.',
      },
      timeout_seconds: {
        type: 'number',
        exclusiveMinimum: 0,
        maximum: 60,
        default: 10,
        description: 'Timeout of a delivery to the SIEM, in seconds; then the same records are sent again.',
      },
    },
  },
  examples: [
    {
      title: 'Send records with a token',
      yaml: '- stage: siem\n  options: { url: "https://siem.example.com/ingest", token_env: SIEM_TOKEN }',
    },
  ],
  readsIfSet: RECORDED,
  needs: ['network'],
  create({ url, token_env, ...limits }, { clock, log, secret }) {
    const headers: Record<string, string> = { 'content-type': 'application/x-ndjson' };
    if (token_env !== undefined) headers.authorization = `Bearer ${secret(token_env)}`;
    const shipper = openShipper({ url, headers, ...limits }, { clock, log });
    return {
      finally: (ctx) => shipper.add(describe(ctx, clock.now())),
      close: () => shipper.close(),
    };
  },
});
