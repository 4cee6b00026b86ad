/**
 * Every failure of an upstream at a gateway: response, attempts, money. One route, client and mode for each, in turn;
 * `test/upstreams/attempts/attempts.test.ts` has all of them, and so has the deep tier.
 */
import { describe, test } from 'node:test';
import { PROTOCOLS } from '../../../engine/base/contract/protocol.ts';
import type { ConfigSections } from '../../support/gateway.ts';
import { IS_DEEP } from '../../support/times.ts';
import { use } from '../../support/use.ts';
import { allCasesOf, type Case, casesOf, mixed, WAYS } from '../../upstreams/attempts/cases.ts';
import { MIXTURES, ROWS, type Row } from '../../upstreams/attempts/expected.ts';
import { openScene } from './scene.ts';

/** The case of a row that is its turn: neighbours differ in everything. */
function caseOf(row: Row): Case {
  const turn = ROWS.indexOf(row);
  const ways = WAYS[row.only ?? 'both'];
  const cases = casesOf(row, PROTOCOLS[(turn + Math.floor(turn / 6)) % 3]!, ways[turn % ways.length]!);
  return cases[turn % cases.length]!;
}

const groupsOf = (rows: readonly Row[]) => rows.map((row) => (IS_DEEP ? allCasesOf(row) : [caseOf(row)]));

const quick = ROWS.filter(({ takes_time = false }) => !takes_time);
const slow = ROWS.filter(({ takes_time = false }) => takes_time);

playAll('what comes of a failure', [...groupsOf(quick), ...MIXTURES.map((one) => [mixed(one)])]);
playAll('what comes of a silence', groupsOf(slow));
// Where limits count the worst case, they include possible bills of attempts that did not serve.
playAll('what comes of a failure under worst_case', groupsOf(quick.filter(({ two }) => /\?|not_sent/.test(two))), {
  spend_limits: { reserve: 'worst_case' },
});

function playAll(title: string, groups: readonly (readonly Case[])[], more: ConfigSections = {}): void {
  // Slow cases move the clock.
  const concurrency = title.includes('silence') ? 1 : 8;
  describe(title, { concurrency }, () => {
    const scene = use(() => openScene(groups.flat(), more));

    for (const cases of groups) {
      test(`${cases[0]!.what}: ${cases.map(({ name }) => name).join('; ')}`, async () => {
        const wrong = await scene.play(cases);
        if (wrong.length > 0) throw new Error(wrong.join('\n\n'));
      });
    }
  });
}
