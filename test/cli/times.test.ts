import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { describe, test } from 'node:test';

const TIMES = new URL('../../engine/cli/times.ts', import.meta.url).href;
const TERMINAL = new URL('../../engine/cli/terminal.ts', import.meta.url).href;

/** What an expression comes to in a process of its own, which has an environment and no terminal. */
function evaluate(module: string, expression: string, env: Record<string, string>): unknown {
  const script = `import * as m from '${module}'; console.log(JSON.stringify(${expression}));`;
  const out = execFileSync(process.execPath, ['--input-type=module', '-e', script], { env, encoding: 'utf8' });
  return JSON.parse(out);
}

describe('times for people', () => {
  const MOMENT = "new Date('2027-01-31T23:30:05.123Z')";
  const all = `[m.formatDay(${MOMENT}), m.formatMoment(${MOMENT}), m.formatTimestamp(${MOMENT})]`;

  test('are in the time zone that TZ names, and name it', () => {
    assert.deepEqual(evaluate(TIMES, all, { TZ: 'Europe/Berlin' }), [
      '2027-02-01',
      '2027-02-01 00:30 Europe/Berlin',
      '2027-02-01T00:30:05.123+01:00',
    ]);
    assert.deepEqual(evaluate(TIMES, all, { TZ: 'America/St_Johns' }), [
      '2027-01-31',
      '2027-01-31 20:00 America/St_Johns',
      '2027-01-31T20:00:05.123-03:30',
    ]);
    assert.deepEqual(evaluate(TIMES, all, { TZ: 'UTC' }), [
      '2027-01-31',
      '2027-01-31 23:30 UTC',
      '2027-01-31T23:30:05.123Z',
    ]);
    const title = "m.titleInZone('SEEN')";
    assert.equal(evaluate(TIMES, title, { TZ: 'Asia/Kolkata' }), 'SEEN (GMT+5:30)');
    assert.equal(evaluate(TIMES, title, { TZ: 'UTC' }), 'SEEN (UTC)');
  });
});

describe('the width of lines', () => {
  const widths = '(({ columns, table_columns }) => [columns, String(table_columns)])(m.processTerminal(process.env))';

  test('has no end for tables where no terminal is there, and COLUMNS has the last word', () => {
    assert.deepEqual(evaluate(TERMINAL, widths, {}), [80, 'Infinity']);
    assert.deepEqual(evaluate(TERMINAL, widths, { COLUMNS: '120' }), [120, '120']);
    assert.deepEqual(evaluate(TERMINAL, widths, { COLUMNS: 'wide' }), [80, 'Infinity']);
  });
});
