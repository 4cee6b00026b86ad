/** Stages with the declarations of real ones and no behaviour, so that loader tests don't move when a stage does. */
import { defineStage, ERRORS, type ErrorCode, type JsonSchema, type StageDefinition } from '../../../engine/api.ts';

const closed = (properties: Record<string, unknown> = {}, required: readonly string[] = []): JsonSchema => ({
  type: 'object',
  additionalProperties: false,
  required,
  properties,
});

const about = { version: 1, summary: 'Stands in for a stage.', examples: [], create: () => ({}) };

const codes = Object.keys(ERRORS) as ErrorCode[];

/** Enough stages to compile the shipped pipelines, and some with unusual needs. */
export const stages: readonly StageDefinition[] = [
  defineStage({
    ...about,
    name: 'authenticate',
    options: closed(),
    writes: ['principal.id', 'principal.email', 'principal.groups', 'principal.team', 'principal.token.group'],
    raises: ['credential_missing', 'credential_invalid'],
  }),
  defineStage({
    ...about,
    name: 'read-body',
    options: closed(),
    writes: ['request.model', 'request.max_tokens', 'request.stream', 'request.body_bytes'],
    raises: ['invalid_json'],
    needs: ['raw-body'],
  }),
  defineStage({
    ...about,
    name: 'resolve-route',
    options: closed(),
    reads: ['request.model', 'principal.email'],
    readsIfSet: ['principal.team'],
    writes: ['route.upstream', 'route.upstream_model', 'route.supports.count_tokens'],
    raises: ['model_not_found'],
  }),
  defineStage({
    ...about,
    name: 'check-budget',
    options: closed({
      charge: { enum: ['everything', 'nothing'], default: 'everything', description: 'What is charged.' },
      only_for: { 'x-rule': true, description: 'Condition under which the budget counts.' },
    }),
    reads: ['route.upstream'],
    writes: ['spend.reserved_nano_usd'],
    raises: ['spend_limit_exceeded'],
  }),
  defineStage({
    ...about,
    name: 'meter-usage',
    options: closed({
      charge: { enum: ['everything', 'nothing'], default: 'everything', description: 'What is charged.' },
    }),
    reads: ['route.upstream'],
    readsIfSet: ['upstream.status', 'outcome.aborted'],
    writes: ['usage.input_tokens', 'usage.output_tokens', 'usage.cost_nano_usd'],
    below: ['check-budget'],
  }),
  defineStage({
    ...about,
    name: 'forward',
    options: closed(),
    reads: ['route.upstream'],
    writes: ['upstream.status'],
    raises: ['upstream_timeout'],
    needs: ['raw-body', 'rewrite-body', 'respond', 'network'],
    terminal: true,
  }),
  defineStage({
    ...about,
    name: 'translate',
    options: closed(),
    reads: ['route.upstream'],
    needs: ['raw-body', 'rewrite-body', 'convert-response'],
  }),
  defineStage({ ...about, name: 'list-models', options: closed(), terminal: true }),
  defineStage({ ...about, name: 'needs-group', options: closed(), reads: ['principal.token.group'], terminal: true }),
  defineStage({
    ...about,
    name: 'report-health',
    options: closed({
      checks: { type: 'array', items: { enum: ['database'] }, uniqueItems: true, default: [], description: 'Parts.' },
    }),
    terminal: true,
  }),
  defineStage({
    ...about,
    name: 'reject',
    options: closed(
      {
        error: { enum: codes, description: 'Error code.' },
        message: { type: 'string', minLength: 1, maxLength: 500, description: 'Sentence.' },
        status: { type: 'integer', minimum: 400, maximum: 599, description: 'HTTP status.' },
      },
      ['error'],
    ),
    raises: codes,
    terminal: true,
  }),
  defineStage({
    ...about,
    name: 'audit',
    options: closed({ path: { type: 'string', minLength: 1, description: 'File of JSON lines.' } }),
    readsIfSet: ['outcome.status', 'outcome.rewrites', 'usage.cost_nano_usd'],
    place: 'finally',
  }),
  defineStage({
    ...about,
    name: 'mirror',
    options: closed({
      upstream: { type: 'string', 'x-ref': 'upstream', description: 'Upstream.' },
      model: { type: 'string', 'x-ref': 'model', description: 'Model.' },
      group: { type: 'string', 'x-ref': 'token-group', description: 'Token group.' },
      error: { type: 'string', 'x-ref': 'error-code', description: 'Error code.' },
      token_env: { type: 'string', 'x-secret': true, description: 'Variable with the token.' },
      port: { type: 'integer', default: 514, description: 'Port.' },
    }),
    check: (options: { port: number }) => (options.port === 13 ? ['Port 13 brings bad luck.'] : []),
  }),
];
