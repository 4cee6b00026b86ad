/** A gateway by section 4 of WIRE.md, whose every response a test may replace. */
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { dirname, join } from 'node:path';
import type { FrozenClock } from '../../engine/base/kit/clock.ts';
import type { CommandContext } from '../../engine/edge/cli/commands.ts';
import type { Terminal } from '../../engine/edge/cli/terminal.ts';
import { atFileEnd } from '../support/file-end.ts';
import { ownDirectory } from '../support/own-directory.ts';

const closing: (() => void)[] = [];
atFileEnd(() => {
  for (const close of closing.splice(0)) close();
});

export interface Received {
  readonly method: string;
  readonly path: string;
  readonly headers: NodeJS.Dict<string | string[]>;
  readonly text: string;
  readonly form: Readonly<Record<string, string>>;
}

/** The response: an object as JSON, a text literally. `never` leaves the client without a response. */
export interface Reply {
  readonly status?: number;
  readonly headers?: Readonly<Record<string, string>>;
  readonly body?: unknown;
  readonly never?: true;
}

type Script = (received: Received) => Reply;

export interface ScriptedGateway {
  readonly url: string;
  readonly requests: Received[];
  to(path: string): Received[];
  readonly discovery: Record<string, unknown>;
  readonly device: Record<string, unknown>;
  /** Responses to the next polls; after them the last one again. */
  polls: Reply[];
  readonly scripts: Map<string, Script>;
  refresh_token: string;
  access_token: string;
  close(): void;
}

export const oauthError = (error: string, status = 400, headers = {}): Reply => ({ status, headers, body: { error } });

export const tokens = (more: object = {}): Reply => ({
  body: {
    access_token: 'access-0',
    token_type: 'Bearer',
    expires_in: 3600,
    refresh_token: 'refresh-0',
    email: 'alice@example.com',
    ...more,
  },
});

export async function startScriptedGateway(): Promise<ScriptedGateway> {
  const server = createServer((req, res) => {
    const chunks: Buffer[] = [];
    req.on('data', (chunk) => chunks.push(chunk));
    req.on('end', () => {
      const text = Buffer.concat(chunks).toString();
      const form = Object.fromEntries(new URLSearchParams(text));
      const received = { method: req.method!, path: req.url!, headers: req.headers, text, form };
      gateway.requests.push(received);
      const { status = 200, headers = {}, body, never } = answer(gateway, received);
      if (never) return;
      const json = typeof body === 'object';
      res.writeHead(status, { ...(json ? { 'content-type': 'application/json' } : {}), ...headers });
      res.end(json ? JSON.stringify(body) : (body as string | undefined));
    });
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const close = () => {
    server.closeAllConnections();
    server.close();
  };
  closing.push(close);
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  const gateway: ScriptedGateway = {
    url,
    requests: [],
    to: (path) => gateway.requests.filter((received) => received.path === path),
    discovery: {
      issuer: url,
      device_authorization_endpoint: `${url}/oauth/device_authorization`,
      token_endpoint: `${url}/oauth/token`,
      revocation_endpoint: `${url}/oauth/revoke`,
      grant_types_supported: ['urn:ietf:params:oauth:grant-type:device_code', 'refresh_token'],
    },
    device: {
      device_code: 'device-code-of-the-test',
      user_code: 'WDJB-MJHT',
      verification_uri: `${url}/device`,
      verification_uri_complete: `${url}/device?user_code=WDJB-MJHT`,
      expires_in: 600,
      interval: 5,
    },
    polls: [tokens()],
    scripts: new Map(),
    refresh_token: 'refresh-0',
    access_token: 'access-0',
    close,
  };
  return gateway;
}

let refreshes = 0;

function answer(gateway: ScriptedGateway, received: Received): Reply {
  const script = gateway.scripts.get(received.path);
  if (script !== undefined) return script(received);
  if (received.path === '/.well-known/oauth-authorization-server') return { body: gateway.discovery };
  if (received.path === '/oauth/device_authorization') return { body: gateway.device };
  if (received.path === '/oauth/revoke') return {};
  if (received.path === '/oauth/token' && received.form.grant_type === 'refresh_token')
    return refresh(gateway, received);
  if (received.path === '/oauth/token') return gateway.polls.length > 1 ? gateway.polls.shift()! : gateway.polls[0]!;
  return { status: 404, body: { type: 'error', error: { type: 'not_found_error', message: 'No such path.' } } };
}

function refresh(gateway: ScriptedGateway, { form }: Received): Reply {
  if (form.refresh_token !== gateway.refresh_token) return oauthError('invalid_grant', 401);
  refreshes++;
  gateway.refresh_token = `refresh-${refreshes}`;
  gateway.access_token = `access-${refreshes}`;
  return tokens({ access_token: gateway.access_token, refresh_token: gateway.refresh_token });
}

/** A home of its own, and a terminal that keeps what is said. */
export function createBackend({ watched = false } = {}) {
  const home = ownDirectory();
  const printed = { data: [] as string[], info: [] as string[] };
  const env: NodeJS.ProcessEnv = { HOME: home, PATH: process.env.PATH };
  const terminal: Terminal = {
    data: (text) => void printed.data.push(text),
    verbatim: (text) => void printed.data.push(text),
    info: (text) => void printed.info.push(text),
    rewrite: (line) => void printed.info.push(`\r${line}\x1b[K`),
    outliveReader() {},
    columns: 80,
    table_columns: Number.POSITIVE_INFINITY,
    interactive: watched,
    data_color: false,
    info_color: false,
  };
  const context: CommandContext = { env, stages: async () => [], terminal };
  const path = join(home, '.config', 'appscli', 'credentials.json');
  return { env, home, path, context, data: () => printed.data.join(''), info: () => printed.info.join('') };
}

export type Backend = ReturnType<typeof createBackend>;

/** Runs a command to its end, advancing time whenever it waits for nothing else. */
export async function drive<T>(clock: FrozenClock, command: Promise<T>): Promise<T> {
  let over = false;
  const ended = command.finally(() => {
    over = true;
  });
  ended.catch(() => {});
  while (!over) {
    await new Promise((resolve) => setImmediate(resolve));
    const next = clock.next();
    if (next !== undefined) clock.advance(next);
  }
  return ended;
}

export const NOW = '2027-01-31T12:00:00Z';

export function credentialsFor(left_seconds: number, more: object = {}): object {
  return {
    access_token: 'access-0',
    expires_at: new Date(Date.parse(NOW) + left_seconds * 1000).toISOString(),
    lifetime_seconds: 3600,
    refresh_token: 'refresh-0',
    email: 'alice@example.com',
    ...more,
  };
}

export function keep(backend: Backend, gateways: Readonly<Record<string, object>>, mode = 0o600): void {
  mkdirSync(dirname(backend.path), { recursive: true, mode: 0o700 });
  writeFileSync(backend.path, JSON.stringify({ version: 1, gateways }), { mode });
}

export function kept(backend: Backend): Record<string, Record<string, unknown>> {
  return JSON.parse(readFileSync(backend.path, 'utf8')).gateways;
}
