/** The week that the demo begins with has something to see on each of its days, whenever the demo starts. */
import assert from 'node:assert/strict';
import { after, test } from 'node:test';
import { planWeek } from '../../examples/demo/week/plan.ts';

const HOUR = 3_600_000;
const DAY = 24 * HOUR;
const HOURS = [0.02, 6, 9, 14.5, 22, 23.99];
const DEEDS = ['limit-bob', 'limit-gus', 'revoke-old-laptop', 'rotate-dora', 'grant-gus', 'drain', 'resume'];
/** Mondays, each of a week with the end of a month, a year or February in it, or of days with 23 and 25 hours. */
const WEEKS: Readonly<Record<string, readonly string[]>> = {
  UTC: ['2026-11-23', '2026-12-28', '2027-02-22', '2028-02-28'],
  'Europe/Berlin': ['2026-03-30', '2026-10-26'],
  'Pacific/Auckland': ['2027-04-05', '2026-09-28'],
};

const { TZ } = process.env;
after(() => {
  process.env.TZ = TZ;
});

function assertFull(now: number): void {
  const { begins, moments } = planWeek(now);
  const asked = moments.flatMap(({ kind, at }) => (kind === 'ask' ? at : []));
  assert.ok(asked.length > 400 && asked.length < 700, `${asked.length} requests`);
  assert.ok(begins < asked[0]! && asked.at(-1)! < now);
  const isThere = (from: number, to: number) => asked.some((at) => from <= at && at < to);
  for (let end = now; end > begins; end -= DAY) assert.ok(isThere(end - DAY, end), `${end - now} ms from the end`);
  const day = new Date(begins);
  for (let from = day.setHours(24, 0, 0, 0); ; ) {
    const to = day.setDate(day.getDate() + 1);
    if (to > now) break;
    assert.ok(isThere(from, to), new Date(from).toString());
    from = to;
  }
  const found = moments.flatMap((moment) => (moment.kind === 'deed' ? moment.deed : []));
  assert.deepEqual(found, DEEDS);
}

for (const [zone, mondays] of Object.entries(WEEKS)) {
  test(`no day is empty and everything happens, from whatever weekday and hour the week is counted in ${zone}`, () => {
    process.env.TZ = zone;
    for (const monday of mondays) {
      for (let weekday = 0; weekday < 7; weekday++) {
        for (const hour of HOURS) assertFull(new Date(`${monday}T00:00`).getTime() + weekday * DAY + hour * HOUR);
      }
    }
  });
}
