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
        description: 'Error code of the catalogue, which determines the status and the error type.',
      },
      message: {
        type: 'string',
        minLength: 1,
        maxLength: 500,
        description: 'Error message. By default, the meaning of the code in the catalogue.',
      },
      status: {
        type: 'integer',
        minimum: 400,
        maximum: 599,
        description: 'HTTP status, in place of that of the catalogue.',
      },
    },
  },
  examples: [
    {
      title: 'Reject with your own message',
      yaml: '- stage: reject\n  options:\n    error: forbidden\n    message: Ask the platform team for access to this API.',
    },
    {
      title: 'Reject with another status than that of the catalogue',
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
