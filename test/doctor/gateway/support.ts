import assert from 'node:assert/strict';
import { createServer, type RequestListener } from 'node:http';
import { diagnoseGateway } from '../../../engine/edge/doctor/gateway/diagnose-gateway.ts';
import type { Connection, Diagnosis } from '../../../engine/edge/doctor/workstation.ts';
import { ownPort } from '../../support/net/own-port.ts';
import { workstationWith } from '../support.ts';

export const TOKEN = 'gw_planted-token-7d1f04c2a9';

export const listen = (listener: RequestListener) => ownPort(createServer(listener));

export interface StandIn {
  readonly models?: readonly object[];
  readonly accepts?: readonly string[];
  readonly code?: string;
  readonly status?: number;
}

/** A gateway that is none of ours: it lists models, and has nothing else. */
export function standIn({
  models = [{ id: 'coder-1', context_window: 200_000 }],
  accepts = [TOKEN],
  code = 'nope',
  status = 401,
}: StandIn = {}): RequestListener {
  return (req, res) => {
    req.resume();
    const json = { 'content-type': 'application/json' };
    const bearer = /^Bearer (.*)$/.exec(req.headers.authorization ?? '')?.[1] ?? '';
    if (!accepts.includes(bearer)) {
      res.writeHead(status, json);
      const message = `refused \u001b]0;owned\u0007 ${bearer}`;
      res.end(JSON.stringify({ type: 'error', error: { type: 'authentication_error', code, message } }));
    } else if (req.url === '/v1/models?limit=1000') {
      res.writeHead(200, json);
      res.end(JSON.stringify({ data: models }));
    } else {
      res.writeHead(404, json);
      res.end('{"type":"error","error":{"type":"not_found_error","code":"model_not_found","message":"nothing"}}');
    }
  };
}

/** Looks at a gateway from a workstation, and at what is told of it. */
export async function diagnose(
  root_url: string,
  given: {
    readonly env?: Readonly<Record<string, string>>;
    readonly connections?: readonly Partial<Connection>[];
    readonly seconds?: number;
  } = {},
): Promise<{ readonly diagnoses: readonly Diagnosis[]; of(id: string): Diagnosis }> {
  const { env = {}, connections = [{}], seconds = 60 } = given;
  const workstation = workstationWith({ env });
  const usual = { client: 'messages', root_url, token: TOKEN, model: undefined, context_window: undefined } as const;
  const diagnoses = await diagnoseGateway(
    workstation,
    connections.map((each) => ({ ...usual, ...each })),
    { seconds },
  );
  const reported = JSON.stringify(diagnoses);
  assert.ok(!reported.includes(TOKEN) && !reported.includes(TOKEN.slice(4, 20)), 'a token is told');
  assert.doesNotMatch(reported, /\\u00(?:0|1)[0-9a-f]|[\u0080-\u009f\u202e]/);
  for (const { verdict, remedy, found } of diagnoses) {
    if (verdict === 'failed' || verdict === 'warning') assert.ok(remedy, `${found}: no remedy`);
  }
  return {
    diagnoses,
    of(id) {
      const found = diagnoses.find((each) => each.id === `gateway.${id}`);
      assert.ok(found, `nothing is said of ${id}: ${diagnoses.map((each) => each.id).join(', ')}`);
      return found;
    },
  };
}

export function faultsOf(diagnoses: readonly Diagnosis[]): string[] {
  return diagnoses
    .filter(({ verdict }) => verdict === 'failed' || verdict === 'warning')
    .map(({ id }) => id.replace('gateway.', ''));
}
