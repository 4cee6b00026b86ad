/** Every failure of an upstream, by every client, streamed or not, with one, two and three upstreams: answer, attempts, money. */
import { after, before, describe, test } from 'node:test';
import { PROTOCOLS, type Protocol } from '../../../engine/contract/protocol.ts';
import type { ConfigSections } from '../../support/gateway.ts';
import { serves } from '../../support/model-provider/fault-server.ts';
import { type Case, others } from './cases.ts';
import { MIXTURES, type Mixture, ROWS, type Row } from './expected.ts';
import { openScene, type Scene } from './scene.ts';

/** A row with all its routes for one client. */
function casesOf({ play, is_alone = false, ...row }: Row, spoken: Protocol, stream: boolean): Case[] {
  const [next, last] = others(spoken);
  const failing = { play, speaks: spoken };
  const serving = { play: serves, speaks: spoken };
  const of = (name: string, upstreams: Case['upstreams'], expected: string): Case => ({
    name: `${name}, ${stream ? 'streamed' : 'whole'}`,
    spoken,
    stream,
    upstreams,
    expected,
    is_alone,
  });
  return [
    of('alone', [failing], row.one),
    of('first of two', [failing, serving], row.two),
    // Where nothing follows it makes no difference what would.
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

const WAYS = { stream: [true], document: [false], both: [true, false] } as const;

const groupsOf = (rows: readonly Row[]): Group[] =>
  rows.flatMap((row) =>
    PROTOCOLS.map((spoken) => ({
      name: `a ${spoken} client at an upstream that ${row.what}`,
      cases: WAYS[row.only ?? 'both'].flatMap((stream) => casesOf(row, spoken, stream)),
    })),
  );

const mixed = ({ what: name, plays, headers = [], expected }: Mixture): Case => ({
  name,
  spoken: 'messages',
  stream: false,
  upstreams: plays.map((play) => ({ play, speaks: 'messages' })),
  expected,
  headers,
  is_alone: true,
});

/** What is tested at once. */
interface Group {
  readonly name: string;
  readonly cases: readonly Case[];
}

const GROUPS: readonly Group[] = [
  ...groupsOf(ROWS.filter(({ takes_time = false }) => !takes_time)),
  ...MIXTURES.map((one) => ({ name: `in the end: ${one.what}`, cases: [mixed(one)] })),
];

/** Where limits count the worst, so does what upstreams may bill for what they did not serve. */
const BILLED = [
  {
    name: 'in money that limits count, where they count the worst',
    cases: ROWS.filter(({ two }) => /\?|not_sent/.test(two)).flatMap((row) =>
      casesOf(row, 'messages', row.only !== 'document').slice(0, 4),
    ),
  },
];

/** Longer than an answer takes on a busy machine. */
const SECONDS = 1.5;
const SHORT = {
  timeouts: { first_byte_seconds: SECONDS, unstreamed_first_byte_seconds: SECONDS, idle_seconds: SECONDS },
};

playAll('what comes of a failure', GROUPS);
describe('what comes', { concurrency: 2 }, () => {
  playAll('of a silence', groupsOf(ROWS.filter(({ takes_time }) => takes_time)), SHORT);
  playAll('of a failure under worst_case', BILLED, { ...SHORT, spend_limits: { reserve: 'worst_case' } });
});

function playAll(title: string, groups: readonly Group[], more: ConfigSections = {}): void {
  describe(title, { concurrency: 8 }, () => playGroups(groups, more));
}

function playGroups(groups: readonly Group[], more: ConfigSections): void {
  let scene: Scene;
  before(async () => {
    scene = await openScene(
      groups.flatMap(({ cases }) => cases),
      more,
    );
  });
  after(() => scene?.close());

  for (const { name, cases } of groups) {
    test(name, async () => {
      const wrong = await scene.play(cases);
      if (wrong.length > 0) throw new Error(wrong.join('\n\n'));
    });
  }
}
