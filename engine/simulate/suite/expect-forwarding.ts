/** Compares which upstreams were asked for a request, with what and how often, with what its test expects. */
import type { ChargedAttempt } from '../../contract/money.ts';
import type { Expectations, Json, Sight } from '../../load/tests/test-case.ts';
import { flatFacts } from '../../rules/fact-view.ts';
import { headerMismatches, type Mismatch, missing, parsed, show } from './mismatch.ts';
import type { Call, Played } from './played.ts';

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
export function forwardingMismatches(expect: Expectations, played: Played): Mismatch[] {
  return [
    ...lastMismatches(expect, played),
    ...eachMismatches(expect, played),
    ...attemptMismatches(expect, played),
    ...routeMismatches(expect, played),
  ];
}
