/** Runs pipeline tests through the real loader, run loop and HTTP server, in front of a scripted upstream. */
import { once } from 'node:events';
import { request as httpRequest, type IncomingMessage } from 'node:http';
import { auditRecord, ledgerRows, nothingHeld } from '../e2e/state.ts';
import { createTestDatabase } from './database.ts';
import { type ConfigSections, gatewayConfig, UPSTREAM_KEY } from './gateway.ts';
import { type Happened, type Mismatch, mismatches } from './pipeline-expect.ts';
import { type RequestRecord, startWatchedGateway, type WatchedGateway } from './pipeline-gateway.ts';
import type { HeaderWishes, PipelineCase, PipelineTest } from './pipeline-test-file.ts';
import { EVENT_STREAM, type Script, type ScriptedUpstream, sse, startUpstream } from './scripted-upstream.ts';
import { until } from './until.ts';

/** Runs the cases of one file; gateways with the same configuration are shared. */
export interface PipelineRunner {
  /** Throws an error that lists every mismatch, one line each with file and line. */
  run(case_index: number): Promise<void>;
  close(): Promise<void>;
}

interface Client {
  readonly response: Happened['response'];
  readonly sent_body: Buffer;
}

function isMapping(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

/** Lays sections over others: mappings are merged, everything else is replaced. */
function overlay(base: ConfigSections, over: ConfigSections): ConfigSections {
  const merged: Record<string, unknown> = { ...base };
  for (const [key, value] of Object.entries(over)) {
    const before = merged[key];
    merged[key] = isMapping(before) && isMapping(value) ? overlay(before, value) : value;
  }
  return merged;
}

function present(headers: HeaderWishes = {}): string[] {
  return Object.entries(headers).flatMap(([name, value]) => (value === null ? [] : [name, value]));
}

function upstreamBody({ json, text, events }: PipelineCase['upstream']): Buffer {
  return Buffer.from(events?.map(sse).join('') ?? text ?? (json === undefined ? '' : JSON.stringify(json)));
}

function upstreamScript(upstream: PipelineCase['upstream']): Script {
  const body = upstreamBody(upstream);
  const type = upstream.events ? EVENT_STREAM : ['content-type', 'application/json'];
  const { fails } = upstream;
  return ({ res, socket }) => {
    if (fails === 'reset') return void socket.resetAndDestroy();
    if (fails === 'hang' && upstream.events === undefined) return;
    const own = present(upstream.headers);
    res.writeHead(upstream.status, own.includes('content-type') ? own : [...type, ...own]);
    res.write(body);
    if (fails === undefined) res.end();
  };
}

function credentialHeaders(credential: PipelineCase['caller']['credential'], token: string): string[] {
  switch (credential) {
    case 'bearer':
      return ['authorization', `Bearer ${token}`];
    case 'x-api-key':
      return ['x-api-key', token];
    case 'wrong':
      return ['authorization', 'Bearer gw_thisTokenWasNeverMade'];
    case 'none':
      return [];
  }
}

async function readUpTo(head: IncomingMessage, bytes: number): Promise<Buffer> {
  const chunks: Buffer[] = [];
  let size = 0;
  for await (const chunk of head as AsyncIterable<Buffer>) {
    chunks.push(chunk);
    size += chunk.length;
    if (size >= bytes) break;
  }
  return Buffer.concat(chunks);
}

/** Plays the client of a case. */
async function send(
  test_case: PipelineCase,
  path: string,
  gateway_url: string,
  token: string,
  upstream: ScriptedUpstream,
): Promise<Client> {
  const { method, json, text, headers, leaves } = test_case.request;
  const body = Buffer.from(text ?? (json === undefined ? '' : JSON.stringify(json)));
  const { host, hostname, port } = new URL(gateway_url);
  const framing = body.length > 0 ? ['content-type', 'application/json', 'content-length', String(body.length)] : [];
  const credential = credentialHeaders(test_case.caller.credential, token);
  const req = httpRequest({
    hostname,
    port,
    method,
    path: test_case.request.path ?? path,
    headers: ['host', host, ...credential, ...framing, ...present(headers)],
    agent: false,
  });
  req.on('error', () => {});
  req.end(body);
  if (leaves === 'before_answer') {
    await upstream.arrived(1);
    req.destroy();
    return { response: undefined, sent_body: body };
  }
  const [head] = (await once(req, 'response')) as [IncomingMessage];
  const enough = leaves === 'during_answer' ? upstreamBody(test_case.upstream).length : Number.POSITIVE_INFINITY;
  const received = await readUpTo(head, enough);
  req.destroy();
  return { response: { status: head.statusCode!, headers: head.headers, body: received }, sent_body: body };
}

/** What must hold for every request, whatever a case says: no secret gets out, refusals are JSON. */
function brokenPromises(happened: Happened, token: string): Mismatch[] {
  const { response, audit, calls } = happened;
  const told = `${JSON.stringify(response?.headers)}${response?.body}${JSON.stringify(audit)}`;
  const secrets = { "the upstream's key": UPSTREAM_KEY, "the caller's token": token };
  const broken = Object.entries(secrets).flatMap(([what, secret]) =>
    told.includes(secret) ? [`${what} got out`] : [],
  );
  if (JSON.stringify(calls.map((call) => [call.raw_headers, call.url])).includes(token)) {
    broken.push("the caller's token went upstream");
  }
  const own_answer = response !== undefined && calls.length === 0 && response.body.length > 0;
  if (own_answer && !response.headers['content-type']?.includes('application/json')) {
    broken.push('the gateway answered with something that is not JSON');
  }
  return broken.map((problem) => ({ pointer: '', problem }));
}

function explain(test: PipelineTest, index: number, found: readonly Mismatch[], happened: Happened): Error {
  const lines = found.map(({ pointer, problem }) => `${test.place(index, pointer)}: ${pointer.slice(1)}: ${problem}`);
  const { response } = happened;
  const got = response ? `status ${response.status}, body ${response.body.toString().slice(0, 1000)}` : 'no response';
  return new Error(['not as expected:', ...lines, `the client got ${got}`].join('\n'));
}

/** Opens what the cases of a file share; `path` is where requests go that name none. */
export async function openPipelineRunner(test: PipelineTest, path: string): Promise<PipelineRunner> {
  const upstream = await startUpstream();
  const { url, drop } = await createTestDatabase();
  const gateways = new Map<string, Promise<WatchedGateway>>();

  function gatewayFor({ gateway = {} }: PipelineCase): Promise<WatchedGateway> {
    const config = overlay(overlay(gatewayConfig(upstream.url), test.gateway), gateway);
    const key = JSON.stringify(config);
    const opened = gateways.get(key) ?? startWatchedGateway(config, url);
    gateways.set(key, opened);
    return opened;
  }

  async function play(test_case: PipelineCase, index: number): Promise<{ happened: Happened; token: string }> {
    const gateway = await gatewayFor(test_case);
    const { user = `case-${index}@example.com`, group, team, project } = test_case.caller;
    const more = { ...(team && { team }), ...(project && { project }) };
    const token = await gateway.newToken({ user, group, name: `case ${index}`, ...more });
    upstream.requests.length = 0;
    upstream.script = upstreamScript(test_case.upstream);
    const seen = gateway.records.length;
    const client = await send(test_case, path, gateway.url, token, upstream);
    const record = gateway.records[seen];
    if (record !== undefined) await until('every stage has finished', () => record.finished);
    // A hold ends in the transaction that writes the ledger row.
    await nothingHeld(gateway.database);
    const trace = await traces(gateway, record, test_case.expect.audit !== undefined);
    const happened = {
      ...client,
      calls: [...upstream.requests],
      upstream_body: upstreamBody(test_case.upstream),
      ...trace,
    };
    return { happened, token };
  }

  return {
    async run(index) {
      const test_case = test.cases[index]!;
      const refuses = test_case.upstream.fails === 'refuse';
      if (refuses) await upstream.pause();
      try {
        const { happened, token } = await play(test_case, index);
        const found = [...mismatches(test_case, happened), ...brokenPromises(happened, token)];
        if (found.length > 0) throw explain(test, index, found, happened);
      } finally {
        if (refuses) await upstream.resume();
      }
    },
    async close() {
      await upstream.close();
      for (const gateway of gateways.values()) await (await gateway).close();
      await drop();
    },
  };
}

/** What a request left behind in the gateway and its database. */
async function traces(
  { database }: WatchedGateway,
  record: RequestRecord | undefined,
  audited: boolean,
): Promise<Pick<Happened, 'facts' | 'ran' | 'ledger' | 'audit'>> {
  if (record === undefined) return { facts: {}, ran: new Set(), ledger: [], audit: undefined };
  const { request_id, ran, facts } = record;
  const rows = await ledgerRows(database);
  // Records are written a little later, many at once: only who asks for one waits for it.
  const row = audited && ran.has('audit') ? await auditRecord(database, request_id) : undefined;
  return {
    facts,
    ran,
    ledger: rows.filter((candidate) => candidate.request_id === request_id) as unknown as Happened['ledger'],
    audit: row?.record as Happened['audit'],
  };
}
