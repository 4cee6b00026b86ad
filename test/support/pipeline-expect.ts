/** Compares what happened on a request with what a pipeline test expects. */
import type { HeaderWishes, Json, PipelineCase } from './pipeline-test-file.ts';
import type { Received } from './scripted-upstream.ts';

/** Everything that can be known about one request after it is over. */
export interface Happened {
  /** `undefined` when the client left before the head. */
  readonly response: { readonly status: number; readonly headers: Headers; readonly body: Buffer } | undefined;
  readonly sent_body: Buffer;
  readonly calls: readonly Received[];
  readonly upstream_body: Buffer;
  /** Nested facts. */
  readonly facts: unknown;
  readonly ran: ReadonlySet<string>;
  readonly ledger: readonly Readonly<Record<string, unknown>>[];
  /** Only fetched for a case that expects one. */
  readonly audit: Readonly<Record<string, unknown>> | undefined;
}

type Headers = Readonly<Record<string, string | string[] | undefined>>;

/** Something that is not as expected: where the expectation stands in the case, as a JSON pointer, and what is wrong. */
export interface Mismatch {
  readonly pointer: string;
  readonly problem: string;
}

function show(value: unknown): string {
  return value === undefined ? 'nothing' : JSON.stringify(value);
}

function isMapping(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

/** What of `wanted` is not in `found`. Mappings may hold more than wanted, lists may not. */
export function missing(wanted: Json | undefined, found: unknown, pointer: string): Mismatch[] {
  if (Array.isArray(wanted) && Array.isArray(found) && wanted.length === found.length) {
    return wanted.flatMap((item, i) => missing(item, found[i], `${pointer}/${i}`));
  }
  if (isMapping(wanted) && isMapping(found)) {
    return Object.entries(wanted).flatMap(([key, value]) =>
      missing(value as Json, found[key], `${pointer}/${key.replaceAll('~', '~0').replaceAll('/', '~1')}`),
    );
  }
  if (!Array.isArray(wanted) && !isMapping(wanted) && Object.is(wanted, found)) return [];
  return [{ pointer, problem: `expected ${show(wanted)}, found ${show(found)}` }];
}

function headerMismatches(wanted: HeaderWishes = {}, found: Headers, pointer: string): Mismatch[] {
  return Object.entries(wanted).flatMap(([name, value]) => missing(value, found[name] ?? null, `${pointer}/${name}`));
}

function factMismatches(wanted: { readonly [path: string]: Json } = {}, facts: unknown): Mismatch[] {
  return Object.entries(wanted).flatMap(([path, value]) => {
    const found = path.split('.').reduce<unknown>((node, key) => (isMapping(node) ? node[key] : undefined), facts);
    return missing(value, found ?? null, `/expect/facts/${path}`);
  });
}

function parsed(body: Buffer): unknown {
  try {
    return JSON.parse(body.toString());
  } catch {
    return undefined;
  }
}

function eventNames(body: Buffer): string[] {
  return [...body.toString().matchAll(/^event: ?(.*)$/gm)].map((match) => match[1]!);
}

function bodyMismatches(expect: PipelineCase['expect'], body: Buffer, upstream_body: Buffer): Mismatch[] {
  const text = body.toString();
  return [
    ...(expect.json === undefined ? [] : missing(expect.json, parsed(body) ?? text, '/expect/json')),
    ...(expect.events === undefined ? [] : missing(expect.events, eventNames(body), '/expect/events')),
    ...(expect.contains ?? []).flatMap((part, i) =>
      text.includes(part)
        ? []
        : [{ pointer: `/expect/contains/${i}`, problem: `the response does not hold ${show(part)}` }],
    ),
    ...(expect.lacks ?? []).flatMap((part, i) =>
      text.includes(part) ? [{ pointer: `/expect/lacks/${i}`, problem: `the response holds ${show(part)}` }] : [],
    ),
    ...(expect.unchanged && !body.equals(upstream_body)
      ? [{ pointer: '/expect/unchanged', problem: "the client did not get the upstream's bytes" }]
      : []),
  ];
}

function responseMismatches(expect: PipelineCase['expect'], happened: Happened): Mismatch[] {
  const { response } = happened;
  const wanted = ['status', 'headers', 'json', 'contains', 'lacks', 'unchanged', 'events'] as const;
  if (response === undefined) {
    const first = wanted.find((key) => expect[key] !== undefined);
    return first === undefined ? [] : [{ pointer: `/expect/${first}`, problem: 'the client got no response' }];
  }
  return [
    ...(expect.status === undefined ? [] : missing(expect.status, response.status, '/expect/status')),
    ...headerMismatches(expect.headers, response.headers, '/expect/headers'),
    ...bodyMismatches(expect, response.body, happened.upstream_body),
  ];
}

function upstreamMismatches(expect: PipelineCase['expect'], { calls, sent_body }: Happened): Mismatch[] {
  if (expect.upstream === undefined) return [];
  const { path, headers, json, unchanged } = expect.upstream;
  const pointer = '/expect/upstream';
  const [call] = calls;
  if (call === undefined || calls.length > 1)
    return [{ pointer, problem: `the upstream saw ${calls.length} requests` }];
  return [
    ...(path === undefined ? [] : missing(path, call.url, `${pointer}/path`)),
    ...headerMismatches(headers, call.headers, `${pointer}/headers`),
    ...(json === undefined ? [] : missing(json, parsed(call.body), `${pointer}/json`)),
    ...(unchanged && !call.body.equals(sent_body)
      ? [{ pointer: `${pointer}/unchanged`, problem: "the upstream did not get the client's bytes" }]
      : []),
  ];
}

function recordMismatches(expect: PipelineCase['expect'], { ledger, audit }: Happened): Mismatch[] {
  return [
    ...(expect.ledger === undefined
      ? []
      : ledger.length === 1
        ? missing(expect.ledger, ledger[0], '/expect/ledger')
        : [{ pointer: '/expect/ledger', problem: `the ledger has ${ledger.length} rows for the request` }]),
    ...(expect.audit === undefined ? [] : missing(expect.audit, audit, '/expect/audit')),
  ];
}

function forbiddenEvents(expect: PipelineCase['expect'], { calls, ledger, ran }: Happened): Mismatch[] {
  const happened = {
    upstream_call: calls.length > 0,
    ledger_row: ledger.length > 0,
    audit_record: ran.has('audit'),
  };
  return (expect.never ?? []).flatMap((event, i) =>
    happened[event] ? [{ pointer: `/expect/never/${i}`, problem: `it happened all the same: ${event}` }] : [],
  );
}

function stageMismatches({ runs = [], skips = [] }: PipelineCase['expect'], ran: Happened['ran']): Mismatch[] {
  return [
    ...runs.flatMap((stage, i) =>
      ran.has(stage) ? [] : [{ pointer: `/expect/runs/${i}`, problem: `the stage ${stage} did not run` }],
    ),
    ...skips.flatMap((stage, i) =>
      ran.has(stage) ? [{ pointer: `/expect/skips/${i}`, problem: `the stage ${stage} ran` }] : [],
    ),
  ];
}

/** Everything that is not as the case expects. */
export function mismatches({ expect }: PipelineCase, happened: Happened): Mismatch[] {
  return [
    ...responseMismatches(expect, happened),
    ...upstreamMismatches(expect, happened),
    ...factMismatches(expect.facts, happened.facts),
    ...stageMismatches(expect, happened.ran),
    ...recordMismatches(expect, happened),
    ...forbiddenEvents(expect, happened),
  ];
}
