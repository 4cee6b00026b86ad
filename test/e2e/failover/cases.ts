/**
 * Cases of upstreams that fail: what they play, and what must come of it, read from `expected.ts`.
 * @module
 */
import { PROTOCOLS, type Protocol } from '../../../engine/contract/protocol.ts';
import type { Play } from '../../support/model-provider/fault-server.ts';

/** One request and what its upstreams do. */
export interface Case {
  readonly name: string;
  /** What the client speaks. */
  readonly spoken: Protocol;
  readonly stream: boolean;
  /** What each upstream plays and speaks, in order. */
  readonly upstreams: readonly { readonly play: Play | 'refuses'; readonly speaks: Protocol }[];
  /** As in `expected.ts`. */
  readonly expected: string;
  readonly headers?: readonly string[];
  /** Whether its upstreams are its own. */
  readonly is_alone?: boolean;
}

/** A case with the names it goes by. */
export interface Placed extends Case {
  readonly model: string;
  readonly names: readonly string[];
}

/** Names of the upstreams of a case, in `expected.ts`. */
export const LETTERS = 'abcdefgh';

/** Gives every case its names; what has the same upstreams has one route. */
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

/** What must come of a case. */
export interface Expectation {
  readonly attempts: readonly (Attempt & { readonly possibly: boolean })[];
  readonly status: number;
  readonly answer: 'theirs' | 'ours' | 'whole' | 'broken' | 'error';
}

/** What an upstream of each protocol answers that is overloaded. */
const OVERLOADED: Readonly<Record<Protocol, string>> = { messages: '529', chat: '503', responses: '503' };

/** Reads what `expected.ts` says of a case. */
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
  const [status, answer] = right.split(' ');
  return { attempts, status: Number(status), answer: answer as Expectation['answer'] };
}

/** The other two protocols, in the order in which they follow. */
export function others(spoken: Protocol): readonly [Protocol, Protocol] {
  const at = PROTOCOLS.indexOf(spoken);
  return [PROTOCOLS[(at + 1) % 3]!, PROTOCOLS[(at + 2) % 3]!];
}
