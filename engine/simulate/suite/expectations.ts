/** Compares what happened on a request with what its test expects. */

import type { ChargedAttempt } from '../../contract/money.ts';
import type { Expectations, HeaderWishes, Json, Sight } from '../../load/tests/test-case.ts';
import { flatFacts } from '../../rules/fact-view.ts';
import type { Call, Played } from './played.ts';

/** Something that is not as expected. */
export interface Mismatch {
  /** JSON pointer of the expectation below its step; empty for what must hold always. */
  readonly pointer: string;
  readonly expected: string;
  readonly found: string;
}

type Headers = Readonly<Record<string, string | string[] | undefined>>;

/** A value as it is shown to people. */
function show(value: unknown): string {
  return value === undefined ? 'nothing' : JSON.stringify(value);
}

function isMapping(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

/** What of `wanted` is not in `found`. Mappings may hold more than wanted, lists may not. */
function missing(wanted: Json | undefined, found: unknown, pointer: string): Mismatch[] {
  if (Array.isArray(wanted) && Array.isArray(found) && wanted.length === found.length) {
    return wanted.flatMap((item, i) => missing(item, found[i], `${pointer}/${i}`));
  }
  if (isMapping(wanted) && isMapping(found)) {
    return Object.entries(wanted).flatMap(([key, value]) =>
      missing(
        value as Json,
        Object.hasOwn(found, key) ? found[key] : undefined,
        `${pointer}/${key.replaceAll('~', '~0').replaceAll('/', '~1')}`,
      ),
    );
  }
  if (!Array.isArray(wanted) && !isMapping(wanted) && Object.is(wanted, found)) return [];
  return [{ pointer, expected: show(wanted), found: show(found) }];
}

/** Headers that are not as wished for. */
function headerMismatches(wanted: HeaderWishes = {}, found: Headers, pointer: string): Mismatch[] {
  return Object.entries(wanted).flatMap(([name, value]) => missing(value, found[name] ?? null, `${pointer}/${name}`));
}

/** A body as JSON; `undefined` for anything else. */
function parsed(body: Buffer): unknown {
  try {
    return JSON.parse(body.toString());
  } catch {
    return undefined;
  }
}

function eventNames(body: Buffer): string[] {
  const events = body.toString().split(/(?:\r\n|\n|\r(?!\n)){2}/);
  const said = events.filter((event) => /^data:/m.test(event));
  return said.map((event) => /^event: ?(.*)$/m.exec(event)?.[1] ?? 'message');
}

function bodyMismatches(expect: Expectations, body: Buffer, upstream_body: Buffer): Mismatch[] {
  const text = body.toString();
  const found = show(text);
  const held = (part: string, i: number, key: string, wanted: boolean): Mismatch[] => {
    if (text.includes(part) === wanted) return [];
    const expected = `a body ${wanted ? 'with' : 'without'} ${show(part)}`;
    return [{ pointer: `/${key}/${i}`, expected, found }];
  };
  return [
    ...(expect.json === undefined ? [] : missing(expect.json, parsed(body) ?? text, '/json')),
    ...(expect.events === undefined ? [] : missing(expect.events, eventNames(body), '/events')),
    ...(expect.contains ?? []).flatMap((part, i) => held(part, i, 'contains', true)),
    ...(expect.lacks ?? []).flatMap((part, i) => held(part, i, 'lacks', false)),
    ...(expect.unchanged && !body.equals(upstream_body)
      ? [{ pointer: '/unchanged', expected: show(upstream_body.toString()), found }]
      : []),
  ];
}

function responseMismatches(expect: Expectations, { response, upstream_body }: Played): Mismatch[] {
  const about = ['status', 'headers', 'json', 'contains', 'lacks', 'unchanged', 'events'] as const;
  if (response === undefined) {
    const first = about.find((key) => expect[key] !== undefined);
    return first === undefined ? [] : [{ pointer: `/${first}`, expected: 'a response', found: 'none' }];
  }
  return [
    ...(expect.status === undefined ? [] : missing(expect.status, response.status, '/status')),
    ...headerMismatches(expect.headers, response.headers, '/headers'),
    ...bodyMismatches(expect, response.body, upstream_body),
  ];
}

function factMismatches(expect: Expectations, played: Played): Mismatch[] {
  const facts = new Map(flatFacts(played.facts));
  const { error, shadow } = expect;
  return [
    ...(error === undefined ? [] : missing(error, facts.get('outcome.error') ?? null, '/error')),
    ...(shadow === undefined ? [] : missing(shadow, facts.get('outcome.shadow') ?? [], '/shadow')),
    ...Object.entries(expect.facts ?? {}).flatMap(([path, value]) =>
      missing(value, facts.get(path) ?? null, `/facts/${path}`),
    ),
  ];
}

function recordMismatches(expect: Expectations, { ledger, audit }: Played): Mismatch[] {
  const record = (list: readonly unknown[], wanted: Json | undefined, pointer: string, what: string): Mismatch[] => {
    if (wanted === undefined) return [];
    if (list.length === 1) return missing(wanted, list[0], pointer);
    return [{ pointer, expected: `one ${what}`, found: list.length === 0 ? 'none' : String(list.length) }];
  };
  return [
    ...record(ledger, expect.ledger, '/ledger', 'ledger row'),
    ...record(audit, expect.audit, '/audit', 'audit record'),
  ];
}

function unwantedEvents({ never = [] }: Expectations, { calls, ledger, audit, refused }: Played): Mismatch[] {
  const happened = {
    upstream_call: calls.map(({ upstream, method, url }) => `${method} ${url} to ${upstream}`),
    ledger_row: ledger.map(({ cost_nano_usd }) => `a row of ${cost_nano_usd} nano-USD`),
    audit_record: audit.map(({ status }) => `a record with status ${status}`),
    network_call: refused.map(({ destination, stage }) => `${stage} to ${destination}`),
  };
  return never.flatMap((event, i) => {
    const found = happened[event];
    return found.length === 0 ? [] : [{ pointer: `/never/${i}`, expected: `no ${event}`, found: found.join(', ') }];
  });
}

function stageMismatches({ runs = [], skips = [] }: Expectations, { trace }: Played): Mismatch[] {
  const ran = (trace?.stages ?? []).filter((stage) => stage.ran).map(({ entry }) => entry.id);
  const found = ran.length === 0 ? 'no stage ran' : `these ran: ${ran.join(', ')}`;
  return [
    ...runs.flatMap((id, i) => (ran.includes(id) ? [] : [{ pointer: `/runs/${i}`, expected: `${id} runs`, found }])),
    ...skips.flatMap((id, i) =>
      ran.includes(id) ? [{ pointer: `/skips/${i}`, expected: `${id} does not run`, found }] : [],
    ),
  ];
}

/** What must hold for every request, whatever its test says. */
function alwaysMismatches({ ended, broken_promises, unscripted }: Played): Mismatch[] {
  const expected = 'what holds for every request';
  const end = { pointer: '', expected: 'the request comes to an end', found: 'nothing happens any more' };
  const said = 'every upstream that is asked is among those under `upstreams`';
  return [
    ...(ended ? [] : [end]),
    ...[...new Set(unscripted)].map((name) => ({ pointer: '', expected: said, found: `${name} was asked` })),
    ...broken_promises.map((found) => ({ pointer: '', expected, found })),
  ];
}

function sightMismatches({ path, headers, json, unchanged }: Sight, call: Call, sent: Buffer, at: string): Mismatch[] {
  return [
    ...(path === undefined ? [] : missing(path, call.url, `${at}/path`)),
    ...headerMismatches(headers, call.headers, `${at}/headers`),
    ...(json === undefined ? [] : missing(json, parsed(call.body), `${at}/json`)),
    ...(unchanged && !call.body.equals(sent)
      ? [{ pointer: `${at}/unchanged`, expected: show(sent.toString()), found: show(call.body.toString()) }]
      : []),
  ];
}

/** What the upstream that was asked last sees: it is the one whose answer counts. */
function lastMismatches({ upstream }: Expectations, { calls, sent_body }: Played): Mismatch[] {
  if (upstream === undefined) return [];
  const call = calls.at(-1);
  if (call === undefined) return [{ pointer: '/upstream', expected: 'a request to an upstream', found: 'none' }];
  return [
    ...(upstream.name === undefined ? [] : missing(upstream.name, call.upstream, '/upstream/name')),
    ...sightMismatches(upstream, call, sent_body, '/upstream'),
  ];
}

/** What each upstream sees: one request, several in order, or none. */
function eachMismatches({ upstreams = {} }: Expectations, { calls, sent_body }: Played): Mismatch[] {
  return Object.entries(upstreams).flatMap(([name, wanted]) => {
    const pointer = `/upstreams/${name.replaceAll('~', '~0').replaceAll('/', '~1')}`;
    const sights = [wanted ?? []].flat() as Sight[];
    const seen = calls.filter(({ upstream }) => upstream === name);
    if (seen.length !== sights.length) {
      const expected = `${sights.length || 'no'} request${sights.length > 1 ? 's' : ''} to ${name}`;
      return [{ pointer, expected, found: String(seen.length) }];
    }
    return sights.flatMap((sight, i) =>
      sightMismatches(sight, seen[i]!, sent_body, Array.isArray(wanted) ? `${pointer}/${i}` : pointer),
    );
  });
}

/** What became of each attempt, with its money where there is a ledger row. */
function chargedAttempts({ attempts, ledger }: Played): readonly object[] {
  const [row] = ledger;
  const charged = row?.attempts as readonly ChargedAttempt[] | null | undefined;
  // The row of a lone attempt that was answered tells all about it.
  const lone = row === undefined || charged ? undefined : { cost_nano_usd: row.cost_nano_usd };
  return attempts.map((attempt, i) => ({ ...attempt, ...lone, ...charged?.[i] }));
}

/** Every attempt in order, each with as much as is said of it. */
function attemptMismatches({ attempts: wanted }: Expectations, played: Played): Mismatch[] {
  if (wanted === undefined) return [];
  const { attempts } = played;
  if (wanted.length === attempts.length) return missing(wanted, chargedAttempts(played), '/attempts');
  const told = attempts.map(({ upstream, outcome, reason }) => `${upstream} ${outcome} ${reason}`);
  const found = told.length === 0 ? 'none' : `${told.length}: ${told.join(', ')}`;
  return [
    { pointer: '/attempts', expected: `${wanted.length} ${wanted.length === 1 ? 'attempt' : 'attempts'}`, found },
  ];
}

/** Reasons by upstream; `undefined` where none was dropped. */
function reasonsIn(dropped: readonly string[] | undefined): Record<string, string> | undefined {
  return dropped && Object.fromEntries(dropped.map((text) => text.split(': ', 2) as [string, string]));
}

function routeMismatches({ candidates, dropped }: Expectations, played: Played): Mismatch[] {
  const facts = new Map(flatFacts(played.facts));
  // A route that has one upstream has nothing to choose.
  const known = facts.get('route.candidates') ?? (facts.has('route.upstream') ? [facts.get('route.upstream')] : []);
  const reasons = reasonsIn(facts.get('route.dropped') as readonly string[] | undefined);
  return [
    ...(candidates === undefined ? [] : missing(candidates, known, '/candidates')),
    ...(dropped === undefined ? [] : missing(dropped as Json, reasons ?? null, '/dropped')),
  ];
}

/** Everything about upstreams that is not as expected. */
function forwardingMismatches(expect: Expectations, played: Played): Mismatch[] {
  return [
    ...lastMismatches(expect, played),
    ...eachMismatches(expect, played),
    ...attemptMismatches(expect, played),
    ...routeMismatches(expect, played),
  ];
}

/** Everything that is not as expected. */
export function mismatches(expect: Expectations, played: Played): Mismatch[] {
  return [
    ...alwaysMismatches(played),
    ...responseMismatches(expect, played),
    ...forwardingMismatches(expect, played),
    ...factMismatches(expect, played),
    ...stageMismatches(expect, played),
    ...recordMismatches(expect, played),
    ...unwantedEvents(expect, played),
  ];
}
