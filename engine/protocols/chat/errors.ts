import { compatErrors } from '../compat-errors.ts';
import type { ProtocolErrors } from '../errors.ts';

/** Errors of chat completions. */
export const chatErrors: ProtocolErrors = {
  ...compatErrors,
  breakOff: (error, { request_id }) => `data: ${compatErrors.body(error, request_id)}\n\n`,
};
