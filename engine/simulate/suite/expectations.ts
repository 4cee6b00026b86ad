/** Compares what happened on a request with what its test expects. */

import type { Expectations, Json } from '../../load/tests/test-case.ts';
import { flatFacts } from '../../rules/fact-view.ts';
import { forwardingMismatches } from './expect-forwarding.ts';
import { headerMismatches, type Mismatch, missing, parsed, show } from './mismatch.ts';
import type { Played } from './played.ts';

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
