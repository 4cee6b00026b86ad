import { type Answer, defineStage } from '../engine/api.ts';

/** Headers of the connection and of framing, which only the server writes. */
const NOT_YOURS = /^(?:connection|content-length|transfer-encoding|keep-alive|upgrade|trailer|te|proxy-.*)$/i;

/** Statuses of responses without a body (RFC 9110). */
const WITHOUT_BODY: readonly number[] = [204, 205, 304];

function contentOf(json: unknown, text: string | undefined): { readonly body: string; readonly type?: string } {
  if (json !== undefined) return { body: JSON.stringify(json), type: 'application/json' };
  return text === undefined ? { body: '' } : { body: text, type: 'text/plain; charset=utf-8' };
}

export default defineStage({
  name: 'respond',
  version: 1,
  summary: 'Responds with a fixed status, headers and body.',
  options: {
    type: 'object',
    additionalProperties: false,
    properties: {
      status: { type: 'integer', minimum: 200, maximum: 599, default: 200, description: 'HTTP status.' },
      headers: {
        type: 'object',
        additionalProperties: { type: 'string', pattern: '^[\\t\\x20-\\x7e]*$', maxLength: 1000 },
        propertyNames: { pattern: '^[A-Za-z0-9-]{1,100}$' },
        default: {},
        description: 'Response headers by name.',
      },
      json: { description: 'Body, sent as JSON.' },
      text: { type: 'string', maxLength: 65536, description: 'Body, sent as plain text.' },
    },
  },
  examples: [
    { title: 'Return a fixed text', yaml: '- stage: respond\n  options: { json: { status: ok } }' },
    {
      title: 'Announce maintenance',
      yaml: '- stage: respond\n  options:\n    status: 503\n    headers: { retry-after: "600" }\n    text: Back at 18:00 UTC.',
    },
  ],
  needs: ['respond'],
  terminal: true,
  check(options) {
    const { status, headers, json, text } = options;
    const taken = Object.keys(headers).filter((name) => NOT_YOURS.test(name));
    return [
      ...(json !== undefined && text !== undefined ? ['`json` and `text` exclude each other: remove one of them'] : []),
      ...(WITHOUT_BODY.includes(status) && (json ?? text) !== undefined
        ? [`a response with status ${status} has no body: remove \`json\` and \`text\``]
        : []),
      ...taken.map((name) => `only the server sets the header ${name}: remove it`),
    ];
  },
  create(options) {
    const { body, type } = contentOf(options.json, options.text);
    const named = Object.fromEntries(
      Object.entries(options.headers).map(([name, value]) => [name.toLowerCase(), value]),
    );
    const headers = { ...(type === undefined ? {} : { 'content-type': type }), ...named };
    const answer: Answer = { kind: 'answer', status: options.status, headers, body };
    return { request: () => answer };
  },
});
