/** Compares a simulated request with the expectations of its test. */

import type { ChargedAttempt } from '../../../base/contract/money.ts';
import { isFields } from '../../../base/kit/json/fields.ts';
import { flatFacts } from '../../../base/rules/fact-view.ts';
import type { Expectations, HeaderValues, UpstreamExpectation } from '../../../pipeline/load/tests/test-case.ts';
import type { Call, Played } from './play.ts';

/** An unmet expectation. */
export interface Mismatch {
  /** JSON pointer of the expectation below its step; empty for an invariant. */
  readonly pointer: string;
  readonly expected: string;
  readonly found: string;
}

type Headers = Readonly<Record<string, string | string[] | undefined>>;

function show(value: unknown): string {
  return value === undefined ? 'nothing' : JSON.stringify(value);
}

const escaped = (key: string): string => key.replaceAll('~', '~0').replaceAll('/', '~1');

const unless = (holds: boolean | undefined, pointer: string, expected: string, found: string): Mismatch[] =>
  holds ? [] : [{ pointer, expected, found }];

/** The parts of `wanted` that `found` lacks. Mappings may have more members than wanted, lists may not. */
function missing(wanted: unknown, found: unknown, pointer: string): Mismatch[] {
  if (wanted === undefined) return [];
  if (Array.isArray(wanted) && Array.isArray(found) && wanted.length === found.length) {
    return wanted.flatMap((item, i) => missing(item, found[i], `${pointer}/${i}`));
  }
  if (isFields(wanted) && isFields(found)) {
    return Object.entries(wanted).flatMap(([key, value]) =>
      missing(value, Object.hasOwn(found, key) ? found[key] : undefined, `${pointer}/${escaped(key)}`),
    );
  }
  const is_same = !Array.isArray(wanted) && !isFields(wanted) && Object.is(wanted, found);
  return unless(is_same, pointer, show(wanted), show(found));
}

function headerMismatches(wanted: HeaderValues = {}, found: Headers, pointer: string): Mismatch[] {
  return Object.entries(wanted).flatMap(([name, value]) => missing(value, found[name] ?? null, `${pointer}/${name}`));
}

/** A body as JSON; `undefined` for anything else. */
export function parsed(body: Buffer): unknown {
  try {
    return JSON.parse(body.toString());
  } catch {
    return undefined;
  }
}

function eventNames(body: Buffer): string[] {
  const events = body.toString().split(/(?:\r\n|\n|\r(?!\n)){2}/);
  const with_data = events.filter((event) => /^data:/m.test(event));
  return with_data.map((event) => /^event: ?(.*)$/m.exec(event)?.[1] ?? 'message');
}

const ABOUT_RESPONSES = ['status', 'headers', 'json', 'contains', 'lacks', 'unchanged', 'events'] as const;

function responseMismatches(expect: Expectations, { response, upstream_body }: Played): Mismatch[] {
  if (response === undefined) {
    const first = ABOUT_RESPONSES.find((key) => expect[key] !== undefined);
    return unless(first === undefined, `/${first}`, 'a response', 'none');
  }
  const { status, headers, body } = response;
  const text = body.toString();
  const parts = (key: 'contains' | 'lacks', word: string) =>
    (expect[key] ?? []).flatMap((part, i) =>
      unless(text.includes(part) === (key === 'contains'), `/${key}/${i}`, `a body ${word} ${show(part)}`, show(text)),
    );
  return [
    ...missing(expect.status, status, '/status'),
    ...headerMismatches(expect.headers, headers, '/headers'),
    ...missing(expect.json, parsed(body) ?? text, '/json'),
    ...missing(expect.events, eventNames(body), '/events'),
    ...parts('contains', 'with'),
    ...parts('lacks', 'without'),
    ...unless(
      !expect.unchanged || body.equals(upstream_body),
      '/unchanged',
      show(upstream_body.toString()),
      show(text),
    ),
  ];
}

function factMismatches({ error, shadow, facts: wanted = {} }: Expectations, played: Played): Mismatch[] {
  const facts = new Map(flatFacts(played.facts));
  return [
    ...missing(error, facts.get('outcome.error') ?? null, '/error'),
    ...missing(shadow, facts.get('outcome.shadow') ?? [], '/shadow'),
    ...Object.entries(wanted).flatMap(([path, value]) => missing(value, facts.get(path) ?? null, `/facts/${path}`)),
  ];
}

function recordMismatches(expect: Expectations, { ledger, audit }: Played): Mismatch[] {
  const record = (list: readonly unknown[], wanted: unknown, pointer: string, what: string): Mismatch[] => {
    if (wanted === undefined || list.length === 1) return missing(wanted, list[0], pointer);
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
  return never.flatMap((event, i) =>
    unless(happened[event].length === 0, `/never/${i}`, `no ${event}`, happened[event].join(', ')),
  );
}

function stageMismatches({ runs = [], skips = [] }: Expectations, { trace }: Played): Mismatch[] {
  const ran = (trace?.stages ?? []).filter((stage) => stage.ran).map(({ entry }) => entry.id);
  const found = ran.length === 0 ? 'no stage ran' : `these ran: ${ran.join(', ')}`;
  return [
    ...runs.flatMap((id, i) => unless(ran.includes(id), `/runs/${i}`, `${id} runs`, found)),
    ...skips.flatMap((id, i) => unless(!ran.includes(id), `/skips/${i}`, `${id} does not run`, found)),
  ];
}

function alwaysMismatches({ ended, broken_promises, unscripted }: Played): Mismatch[] {
  const expected_text = 'every upstream that gets a request is among those under `upstreams`';
  return [
    ...unless(ended, '', 'the request comes to an end', 'nothing happens any more'),
    ...[...new Set(unscripted)].map((name) => ({
      pointer: '',
      expected: expected_text,
      found: `${name} got a request`,
    })),
    ...broken_promises.map((found) => ({ pointer: '', expected: 'the invariants of every request', found })),
  ];
}

function sightMismatches(
  { path, headers, json, unchanged }: UpstreamExpectation,
  call: Call,
  sent: Buffer,
  at: string,
): Mismatch[] {
  const is_as_sent = !unchanged || call.body.equals(sent);
  return [
    ...missing(path, call.url, `${at}/path`),
    ...headerMismatches(headers, call.headers, `${at}/headers`),
    ...missing(json, parsed(call.body), `${at}/json`),
    ...unless(is_as_sent, `${at}/unchanged`, show(sent.toString()), show(call.body.toString())),
  ];
}

/** Requests at upstreams: at the last one, and at each that is named. */
function callMismatches({ upstream, upstreams = {} }: Expectations, { calls, sent_body }: Played): Mismatch[] {
  const last = calls.at(-1);
  const of_last = upstream && [
    ...unless(last !== undefined, '/upstream', 'a request to an upstream', 'none'),
    ...(last === undefined ? [] : missing(upstream.name, last.upstream, '/upstream/name')),
    ...(last === undefined ? [] : sightMismatches(upstream, last, sent_body, '/upstream')),
  ];
  const of_each = Object.entries(upstreams).flatMap(([name, wanted]) => {
    const pointer = `/upstreams/${escaped(name)}`;
    const sights = [wanted ?? []].flat() as UpstreamExpectation[];
    const seen = calls.filter((call) => call.upstream === name);
    if (seen.length !== sights.length) {
      const expected = `${sights.length || 'no'} request${sights.length > 1 ? 's' : ''} to ${name}`;
      return [{ pointer, expected, found: String(seen.length) }];
    }
    return sights.flatMap((sight, i) =>
      sightMismatches(sight, seen[i]!, sent_body, Array.isArray(wanted) ? `${pointer}/${i}` : pointer),
    );
  });
  return [...(of_last ?? []), ...of_each];
}

/** The attempts, with their costs if there is a ledger row. */
function chargedAttempts({ attempts, ledger }: Played): readonly object[] {
  const [row] = ledger;
  const charged = row?.attempts as readonly ChargedAttempt[] | null | undefined;
  // The ledger row of a single successful attempt has its cost.
  const lone = row === undefined || charged ? undefined : { cost_nano_usd: row.cost_nano_usd };
  return attempts.map((attempt, i) => ({ ...attempt, ...lone, ...charged?.[i] }));
}

function attemptMismatches({ attempts: wanted }: Expectations, played: Played): Mismatch[] {
  const { attempts } = played;
  if (wanted === undefined || wanted.length === attempts.length) {
    return missing(wanted, chargedAttempts(played), '/attempts');
  }
  const described = attempts.map(({ upstream, outcome, reason }) => `${upstream} ${outcome} ${reason}`);
  const found = described.length === 0 ? 'none' : `${described.length}: ${described.join(', ')}`;
  const expected = `${wanted.length} ${wanted.length === 1 ? 'attempt' : 'attempts'}`;
  return [{ pointer: '/attempts', expected, found }];
}

function routeMismatches({ candidates, dropped }: Expectations, played: Played): Mismatch[] {
  const facts = new Map(flatFacts(played.facts));
  // A route with one upstream has no candidates.
  const known = facts.get('route.candidates') ?? (facts.has('route.upstream') ? [facts.get('route.upstream')] : []);
  const reasons = facts.get('route.dropped') as readonly string[] | undefined;
  const by_upstream = reasons && Object.fromEntries(reasons.map((text) => text.split(': ', 2) as [string, string]));
  return [...missing(candidates, known, '/candidates'), ...missing(dropped, by_upstream ?? null, '/dropped')];
}

const KINDS = [
  (_: Expectations, played: Played) => alwaysMismatches(played),
  ...[responseMismatches, callMismatches, attemptMismatches, routeMismatches],
  ...[factMismatches, stageMismatches, recordMismatches, unwantedEvents],
];

/** All unmet expectations. */
export function mismatches(expect: Expectations, played: Played): Mismatch[] {
  return KINDS.flatMap((kind) => kind(expect, played));
}
