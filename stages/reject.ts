import { defineStage, ERRORS, type ErrorCode, StageError } from '../engine/api.ts';

const CODES = Object.keys(ERRORS) as ErrorCode[];

export default defineStage({
  name: 'reject',
  version: 1,
  summary: 'Ends the request with an error of the catalogue.',
  options: {
    type: 'object',
    additionalProperties: false,
    required: ['error'],
    properties: {
      error: {
        type: 'string',
        'x-ref': 'error-code',
        description: 'Error code of the catalogue; decides the status and the type clients see.',
      },
      message: {
        type: 'string',
        minLength: 1,
        maxLength: 500,
        description: 'Sentence for the person who reads the error. Without it, what the catalogue says about the code.',
      },
      status: {
        type: 'integer',
        minimum: 400,
        maximum: 599,
        description: "HTTP status to answer with instead of the catalogue's.",
      },
    },
  },
  examples: [
    {
      title: 'Refuse with a sentence of your own',
      yaml: '- stage: reject\n  options:\n    error: forbidden\n    message: Ask the platform team for access to this API.',
    },
    {
      title: 'Answer another status than the catalogue says',
      yaml: '- stage: reject\n  options: { error: spend_limit_exceeded, status: 402 }',
    },
  ],
  raises: CODES,
  terminal: true,
  create(options) {
    const message = options.message ?? `${ERRORS[options.error].meaning}.`;
    const more = options.status === undefined ? {} : { status: options.status };
    return {
      /** In `on_error` this error replaces the one being handled, details and headers included. */
      request() {
        throw new StageError(options.error, message, more);
      },
    };
  },
});
