import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { afterEach, describe, test } from 'node:test';
import { formatDay, formatMoment, formatTimestamp, titleInZone } from '../../engine/edge/cli/output.ts';

const { TZ } = process.env;

describe('times for users', () => {
  afterEach(() => {
    if (TZ === undefined) delete process.env.TZ;
    else process.env.TZ = TZ;
  });

  const MOMENT = new Date('2027-01-31T23:30:05.123Z');
  const all = (zone: string) => {
    process.env.TZ = zone;
    return [formatDay(MOMENT), formatMoment(MOMENT), formatTimestamp(MOMENT), titleInZone('SEEN')];
  };

  test('are in the time zone that TZ names, and name it', () => {
    assert.deepEqual(all('Europe/Berlin'), [
      '2027-02-01',
      '2027-02-01 00:30 Europe/Berlin',
      '2027-02-01T00:30:05.123+01:00',
      'SEEN (GMT+1)',
    ]);
    assert.deepEqual(all('America/St_Johns'), [
      '2027-01-31',
      '2027-01-31 20:00 America/St_Johns',
      '2027-01-31T20:00:05.123-03:30',
      'SEEN (GMT-3:30)',
    ]);
    assert.equal(all('Asia/Kolkata').at(-1), 'SEEN (GMT+5:30)');
    assert.deepEqual(all('UTC'), ['2027-01-31', '2027-01-31 23:30 UTC', '2027-01-31T23:30:05.123Z', 'SEEN (UTC)']);
  });
});

describe('the width of lines', () => {
  const TERMINAL = new URL('../../engine/edge/cli/terminal.ts', import.meta.url).href;

  test('is unlimited for tables without a terminal, and COLUMNS has precedence', () => {
    // In a process of its own, which has no terminal.
    const script = `import { processTerminal } from '${TERMINAL}';
      const widths = [{}, { COLUMNS: '120' }, { COLUMNS: 'wide' }].map(processTerminal);
      console.log(JSON.stringify(widths.map(({ columns, table_columns }) => [columns, String(table_columns)])));`;
    const printed = execFileSync(process.execPath, ['--input-type=module', '-e', script], { encoding: 'utf8' });
    assert.deepEqual(JSON.parse(printed), [
      [80, 'Infinity'],
      [120, '120'],
      [80, 'Infinity'],
    ]);
  });
});
