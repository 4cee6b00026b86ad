import assert from 'node:assert/strict';
import { readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, test } from 'node:test';
import { checkChanged } from './changed-configuration.ts';

const DIRECTORY = join(import.meta.dirname, 'check');
const DASHES = '-'.repeat(80);

/** Values that stand for secrets in the inputs; none may ever appear in an expected text. */
const PLANTED = /hunter2|sk-planted|gw_planted|p4ssw0rd|wJalrXUtnFEMI/;

describe('a mistake in a real configuration gives one finding', () => {
  for (const name of readdirSync(DIRECTORY).filter((file) => file.endsWith('.txt'))) {
    test(name.replace(/\.txt$/, '').replaceAll('-', ' '), async () => {
      const path = join(DIRECTORY, name);
      const [input = '', expected] = readFileSync(path, 'utf8').split(`${DASHES}\n`);
      const actual = await checkChanged(input);
      if (process.env.UPDATE_GOLDEN === '1') writeFileSync(path, `${input}${DASHES}\n${actual}`);
      else assert.equal(actual, expected);
      const codes = [...actual.matchAll(/^(?:error|warning)\[(\w+)\]/gm)].map((match) => match[1]);
      assert.deepEqual(codes, [name.slice(0, 5)]);
      assert.doesNotMatch(actual, PLANTED);
    });
  }
});
