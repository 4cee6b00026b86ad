/** What tests may not do, because it makes them fail on another day, on a busy machine or beside other tests. */
import assert from 'node:assert/strict';
import { globSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, test } from 'node:test';

const ROOT = join(import.meta.dirname, '..');
const BY_HAND = /^test\/(?:measures|bench)\//;

interface Rule {
  readonly name: string;
  /** What is written instead. */
  readonly instead: string;
  readonly pattern: RegExp;
  /** Files the rule is about; those that are run by hand never are. */
  readonly files?: RegExp;
  /** Files that may, each with its reason. */
  readonly allowed?: Readonly<Record<string, string>>;
}

const RULES: readonly Rule[] = [
  {
    name: 'the wall time of something is not measured',
    instead: 'assert order, counters or states; what must be measured goes to test/measures',
    pattern: /performance\.now\(|process\.hrtime\(|Date\.now\(\) *- *\w*(?:start|began|before)/,
    files: /\.test\.ts$/,
  },
  {
    name: 'nothing is left to chance but by the seed of the run',
    instead: 'randomOf of test/support/random.ts',
    pattern: /Math\.random|randomInt\(|fc\.\w+\(.*\bseed: *\d|numRuns:.*\bseed: *\d/,
    allowed: { 'test/run.ts': 'draws the seed itself' },
  },
  {
    name: 'how often chance brings something is not counted',
    instead: '`examples` of fc.assert that bring it, and `>=` their number',
    pattern: /assert\.ok\(\w+ > .*`only \$\{/,
    allowed: { 'test/e2e/money/money-replicas.slow.test.ts': 'is about how much of a limit can be spent' },
  },
  {
    name: 'the day on which the clock of the tests begins is not written down: `--date` moves it',
    instead: 'a pattern of digits, or a clock of the test',
    pattern: /\b2026-11-2[56]/,
    files: /^test\/e2e\//,
    allowed: {
      'test/e2e/money/limits.test.ts': 'has a clock of its own',
    },
  },
  {
    name: 'nothing waits a fixed time',
    instead: '`until` a condition; something observable that comes later shows that something did not happen',
    pattern: /\bdelay\(\d|setTimeout\(\w+, *\d{2,}|setTimeout\(\w+, *\w+_MS\)/,
    files: /\.test\.ts$/,
  },
  {
    name: 'a time limit of the gateway that should not be reached is not so short that a busy machine reaches it',
    instead: 'the default; a limit that is meant to be reached has a name that says so, as in test/support/limits.ts',
    pattern:
      /\b(?:store_timeout|connect|first_byte|idle|request_silence|request_body|request_head|stage)_seconds: *0?\.?\d(?:\.\d+)?\b/,
    files: /^test\/e2e\//,
  },
  {
    name: 'no work is counted in a process that other files use, which would be slow for all of them',
    instead: 'a slow file',
    pattern: /support\/work\.ts'/,
    files: /(?<!\.slow)\.test\.ts$/,
  },
  {
    name: 'nothing listens on a port that another process may have',
    instead: 'listen on port 0; freePort of test/support reserves one where an address has to be known before',
    pattern: /\.listen\([1-9]\d*/,
  },
  {
    name: 'the time zone and telemetry of the process are left as they are',
    instead: 'a process of its own, or the argument of what is tested',
    pattern:
      /process\.env\.TZ *=|setGlobal(?:TracerProvider|MeterProvider|LoggerProvider|ContextManager|Propagator|Dispatcher)\(/,
    allowed: {
      'test/cli/times.test.ts': 'is about zones, and puts the one back that was there',
      'test/examples/demo-week.test.ts': 'is about zones, and puts the one back that was there',
    },
  },
];

const files = globSync('test/**/*.ts', { cwd: ROOT }).filter(
  (file) => !BY_HAND.test(file) && file !== 'test/suite.test.ts',
);

describe('in all tests', () => {
  for (const { name, instead, pattern, files: about = /./, allowed = {} } of RULES) {
    test(name, () => {
      const found = files
        .filter((file) => about.test(file) && !(file in allowed))
        .flatMap((file) => {
          const lines = readFileSync(join(ROOT, file), 'utf8').split('\n');
          return lines.flatMap((line, i) => (pattern.test(line) ? [`${file}:${i + 1}: ${line.trim()}`] : []));
        });
      assert.deepEqual(found, [], instead);
      const idle = Object.keys(allowed).filter((file) => !files.includes(file));
      assert.deepEqual(idle, [], 'the file no longer exists');
    });
  }
});
