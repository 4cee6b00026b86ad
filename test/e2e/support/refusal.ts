/** The form of every rejection of the gateway's own. */
import assert from 'node:assert/strict';
import type { ScriptedUpstream } from '../../support/model-provider/scripted-upstream.ts';
import type { RawResponse, Response } from './client.ts';

export interface Expected {
  readonly status: number;
  readonly type: string;
  /** Required words of the message. */
  readonly says?: RegExp;
}

/** Checks the Messages error envelope: JSON, the right type, a sentence, an identifier; nothing went upstream. */
export function assertRefused(upstream: ScriptedUpstream, response: Response | RawResponse, expected: Expected): void {
  const text = typeof response.body === 'string' ? response.body : response.body.toString('utf8');
  assert.equal(response.status, expected.status, text);
  assert.match(String(response.headers['content-type']), /^application\/json/);
  assert.equal(response.headers.location, undefined);
  const request_id = response.headers['x-gateway-request-id'];
  assert.match(String(request_id), /^\S{8,}$/);
  const body = JSON.parse(text);
  assert.equal(body.type, 'error');
  assert.equal(body.error.type, expected.type);
  assert.equal(typeof body.error.message, 'string');
  assert.ok(body.error.message.length > 15, `"${body.error.message}" explains nothing`);
  if (expected.says !== undefined) assert.match(body.error.message, expected.says);
  assert.equal(body.request_id, request_id);
  assert.equal(upstream.requests.length, 0, 'nothing was forwarded');
}

export const INVALID = { status: 400, type: 'invalid_request_error' };
