/** Cases of upstreams that fail: their script, and the expected outcome, read from `expected.ts`. */
import type { GatewayConfig } from '../../../engine/base/contract/config.ts';
import type { AttemptRecord } from '../../../engine/base/contract/forwarding.ts';
import { PROTOCOLS, type Protocol } from '../../../engine/base/contract/protocol.ts';
import { type Play, serves } from '../../support/model-provider/fault-server.ts';
import type { Mixture, Row } from './expected.ts';

/** One request and what its upstreams do. */
export interface Case {
  /** The script of its first upstream. */
  readonly what: string;
  /** Its route and request. */
  readonly name: string;
  /** The client's protocol. */
  readonly spoken: Protocol;
  readonly stream: boolean;
  /** Each upstream's script and protocol, in order. */
  readonly upstreams: readonly { readonly play: Play | 'refuses'; readonly speaks: Protocol }[];
  /** As in `expected.ts`. */
  readonly expected: string;
  readonly headers?: readonly string[];
  /** Whether its upstreams are its own. */
  readonly is_alone?: boolean;
  /** Whether it ends by a time limit. */
  readonly takes_time?: boolean;
  /** Whether upstreams are known to fail after a greeting. */
  readonly greets?: boolean;
  /** Settings that differ from the default ones. */
  readonly attempts?: Partial<GatewayConfig['routing']['attempts']>;
}

/** A case with its names. */
export interface Placed extends Case {
  readonly model: string;
  readonly names: readonly string[];
}

/** Names of the upstreams of a case, in `expected.ts`. */
export const LETTERS = 'abcdefgh';

/** Gives every case its names; cases with the same upstreams share a route. */
export function place(cases: readonly Case[]): Map<Case, Placed> {
  const routes: string[] = [];
  return new Map(
    cases.map((one, index) => {
      const names = one.upstreams.map(({ speaks }, at) => `${one.is_alone ? `own${index}` : speaks}-${LETTERS[at]}`);
      if (!routes.includes(names.join())) routes.push(names.join());
      return [one, { ...one, model: `r${routes.indexOf(names.join())}-${index}`, names }];
    }),
  );
}

/** An attempt as it was expected or found. */
export interface Attempt {
  readonly upstream: string;
  readonly outcome: string;
  readonly reason: string;
}

/** The expected outcome of a case. */
export interface Expectation {
  readonly attempts: readonly (Attempt & { readonly possibly: boolean })[];
  readonly status: number;
  readonly answer: 'theirs' | 'ours' | 'whole' | 'broken' | 'error';
}

/** The response of an overloaded upstream of each protocol. */
const OVERLOADED: Readonly<Record<Protocol, string>> = { messages: '529', chat: '503', responses: '503' };

/** Reads the entry of a case in `expected.ts`. */
export function read({ expected, names, upstreams }: Placed): Expectation {
  const [left = '', right = ''] = expected.split(' => ');
  const attempts = left.split(', ').map((text) => {
    const [letter = '', outcome = '', reason = ''] = text.split(' ');
    const at = LETTERS.indexOf(letter);
    return {
      upstream: names[at]!,
      outcome: outcome.replace('?', '').replace('overloaded', OVERLOADED[upstreams[at]!.speaks]),
      possibly: outcome.endsWith('?'),
      reason,
    };
  });
  const [status, response] = right.split(' ');
  return { attempts, status: Number(status), answer: response as Expectation['answer'] };
}

/** How an attempt ended, as `expected.ts` writes it. */
export const outcomeOf = ({ certainty, status }: Pick<AttemptRecord, 'certainty' | 'status'>) =>
  certainty === 'not_sent' ? 'not_sent' : certainty === 'possibly_accepted' ? 'unknown' : String(status);

/** Whether a row is about streams, about whole responses, or both. */
export const WAYS = { stream: [true], document: [false], both: [true, false] } as const;

/** A row with all its routes for one client: at upstreams of its protocol, then translated. */
export function casesOf(
  { what, play, is_alone = false, takes_time = false, ...row }: Row,
  spoken: Protocol,
  stream: boolean,
): Case[] {
  const at = PROTOCOLS.indexOf(spoken);
  const [next, last] = [PROTOCOLS[(at + 1) % 3]!, PROTOCOLS[(at + 2) % 3]!];
  const failing = { play, speaks: spoken };
  const serving = { play: serves, speaks: spoken };
  const of = (route: string, upstreams: Case['upstreams'], expected: string): Case => ({
    what,
    name: `${spoken}, ${stream ? 'streamed' : 'whole'}, ${route}`,
    spoken,
    stream,
    upstreams,
    expected,
    is_alone,
    takes_time,
  });
  return [
    of('alone', [failing], row.one),
    of('first of two', [failing, serving], row.two),
    // Without a next upstream it makes no difference which would follow.
    ...(row.all === row.one
      ? []
      : [
          of('first and second of three', [failing, failing, serving], row.three),
          of('all three', [failing, failing, failing], row.all),
        ]),
    of('alone, translated', [{ play, speaks: next }], row.one),
    of(
      'first of two, translated for each',
      [
        { play, speaks: next },
        { play: serves, speaks: last },
      ],
      row.two,
    ),
  ];
}

/** A row with all its routes for every client, streamed and not. */
export function allCasesOf(row: Row): Case[] {
  return PROTOCOLS.flatMap((spoken) => WAYS[row.only ?? 'both'].flatMap((stream) => casesOf(row, spoken, stream)));
}

/** The case of upstreams that fail in different ways. */
export const mixed = ({ what, plays, headers = [], expected }: Mixture): Case => ({
  what: `in the end: ${what}`,
  name: 'messages, whole',
  spoken: 'messages',
  stream: false,
  upstreams: plays.map((play) => ({ play, speaks: 'messages' })),
  expected,
  headers,
  is_alone: true,
});
