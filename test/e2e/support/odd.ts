/** Shared parts of tests of rare requests and responses: documents of upstreams, and their results. */
import assert from 'node:assert/strict';
import type { Protocol } from '../../../engine/base/contract/protocol.ts';
import type { TestGateway } from '../../support/gateway.ts';
import type { Response } from './client.ts';
import { askBody, type Nine, post } from './nine.ts';
import { auditRecord } from './state.ts';

/** The identifier that the gateway gave a request. */
export const idOf = ({ headers }: Response): string => String(headers['x-gateway-request-id']);

// biome-ignore lint/suspicious/noExplicitAny: a test asserts on whatever was recorded
type Recorded = any;

/** The fields of the audit record of a request, once it is written. */
export async function recordOf({ database }: Pick<TestGateway, 'database'>, answer: Response): Promise<Recorded> {
  return (await auditRecord(database, idOf(answer))).record;
}

/** Losses in translation by the audit record, as names of rules. */
export const lossesOf = async ({ gateway }: Nine, answer: Response): Promise<readonly string[]> =>
  (await recordOf(gateway, answer)).losses;

/** Fields that the gateway changed in a request, by its audit record. */
export const rewritesOf = async (gateway: TestGateway, answer: Response): Promise<readonly string[]> =>
  (await recordOf(gateway, answer)).rewrites;

/** The message of a rejection without a request to the upstream. */
export async function refusal(nine: Nine, spoken: Protocol, model: string, more: object): Promise<string> {
  const answer = await post(nine.gateway, spoken, askBody(spoken, model, 'Hi', more));
  assert.equal(answer.status, 400, answer.text);
  assert.equal(nine.provider.upstream.requests.length, 0);
  return answer.json().error.message;
}
