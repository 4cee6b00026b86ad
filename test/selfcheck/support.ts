import { createServer, type IncomingMessage, type ServerResponse, request as send } from 'node:http';
import { buffer } from 'node:stream/consumers';
import type { CheckResult } from '../../engine/base/contract/checks.ts';
import type { SelfCheck, Subject } from '../../engine/edge/selfcheck/check.ts';
import { createGatewayClient, runChecks } from '../../engine/edge/selfcheck/run.ts';
import { openPort } from '../support/net/own-port.ts';

export const TOKEN = 'gw_token-of-a-test';

export function subjectAt(root_url: string, more: Partial<Subject> = {}): Subject {
  const header_prefixes = more.header_prefixes ?? ['vendor'];
  const asker = createGatewayClient({ root_url, token: TOKEN, header_prefixes, seconds: 30, total_seconds: 300 });
  asker.close();
  return { root_url, model: 'coder-1', limit_token: undefined, echo: undefined, ...asker, ...more, header_prefixes };
}

export async function makeCheck(checks: readonly SelfCheck[], id: string, subject: Subject): Promise<CheckResult> {
  const check = checks.find((each) => each.id === id);
  if (check === undefined) throw new Error(`there is no check ${id}`);
  for await (const result of runChecks([check], subject)) return result;
  throw new Error('nothing came');
}

export const listen = (
  response: (request: { readonly req: IncomingMessage; readonly body: Buffer; readonly res: ServerResponse }) => void,
) =>
  openPort(
    createServer((req, res) => {
      buffer(req).then(
        (body) => response({ req, body, res }),
        () => {},
      );
    }),
  );

/** A gateway's changes to forwarded bodies; correct by default. */
export interface Habits {
  body?(body: Buffer): string | Buffer;
  headers?(headers: Record<string, string | string[] | undefined>): void;
  path?(path: string): string;
  answer?(answer: { status: number; headers: Record<string, string>; body: string }): void;
  /** Its reaction to an upstream that breaks off a response; it does the same. */
  broken?(res: ServerResponse): void;
  instead?(request: { readonly req: IncomingMessage; readonly res: ServerResponse; readonly body: Buffer }): boolean;
}

/** A gateway that forwards everything to one upstream, with a credential of its own in place of the caller's. */
export function forwardTo(upstream_url: string, habits: Habits = {}) {
  return listen(({ req, body, res }) => {
    if (habits.instead?.({ req, body, res })) return;
    const { host: _, authorization: __, connection: ___, 'content-length': ____, ...headers } = req.headers;
    const sent = habits.body?.(body) ?? body;
    const changed: Record<string, string | string[] | undefined> = { ...headers, 'x-api-key': 'key-of-the-gateway' };
    if (sent.length > 0) changed['content-length'] = String(Buffer.byteLength(sent));
    habits.headers?.(changed);
    const path = habits.path?.(req.url ?? '') ?? req.url ?? '';
    const onwards = send(`${upstream_url}${path}`, { method: req.method, headers: changed, agent: false }, (from) => {
      const chunks: Buffer[] = [];
      from.on('data', (chunk: Buffer) => chunks.push(chunk));
      from.on('end', () => {
        const text = Buffer.concat(chunks).toString();
        const { 'content-length': _, 'transfer-encoding': __, connection: ___, ...rest } = from.headers;
        const response = { status: from.statusCode ?? 502, headers: rest as Record<string, string>, body: text };
        habits.answer?.(response);
        res.writeHead(response.status, response.headers).end(response.body);
      });
      from.on('error', () => {
        if (habits.broken === undefined) res.destroy();
        else habits.broken(res);
      });
    });
    onwards.on('error', () =>
      res.writeHead(502, { 'content-type': 'application/json' }).end('{"error":{"message":"no"}}'),
    );
    onwards.end(sent);
  });
}
