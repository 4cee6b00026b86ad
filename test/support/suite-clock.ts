import { readFileSync } from 'node:fs';
import { pathToFileURL } from 'node:url';

/** When tests begin, unless `test/run.ts --date` is given: in the middle of a week, a month and a day. */
export const BEGINNING = '2026-11-25T10:00:00Z';

const NAME = 'APPSCLI_TEST_CLOCK_MS';
const SCRIPT = `${import.meta.dirname}/clock.js`;

/** How far the clock of the tests is ahead of the machine's, in milliseconds. */
export const ahead_ms = (): number => Number(process.env[NAME] ?? 0);

/**
 * What a process needs so that its clock, and those of the processes it starts, begin at a moment now; nothing
 * inside a run, which has a clock.
 */
export function clockEnvironment(beginning: string): NodeJS.ProcessEnv {
  if (process.env[NAME] !== undefined) return {};
  const { href } = pathToFileURL(SCRIPT);
  const options = [process.env.NODE_OPTIONS, `--import=${href}`].filter(Boolean).join(' ');
  return { [NAME]: String(Date.parse(beginning) - Date.now()), NODE_OPTIONS: options };
}

/** A script that gives a page in a browser the clock of the tests. */
export function pageClock(): string {
  const env = JSON.stringify({ [NAME]: String(ahead_ms()) });
  return `{ const process = { env: ${env} };\n${readFileSync(SCRIPT, 'utf8')}}`;
}

/** An environment without the clock of the tests, for programs that run a database of their own, which has the machine's. */
export function onMachineClock(env: NodeJS.ProcessEnv): NodeJS.ProcessEnv {
  return { ...env, [NAME]: '0' };
}

/** Before PostgreSQL's own schema, and after the gateway's. */
export const SEARCH_PATH = '"$user", public, suite_clock, pg_catalog';

/** SQL that gives a database the clock of the tests, where `SEARCH_PATH` is its search_path. */
export function databaseClock(): string {
  const functions = ['now', 'transaction_timestamp', 'statement_timestamp', 'clock_timestamp'].map(
    (
      name,
    ) => `create function suite_clock.${name}() returns timestamptz language sql ${name === 'clock_timestamp' ? 'volatile' : 'stable'} parallel safe
      as $$ select pg_catalog.${name}() + interval '${ahead_ms()} milliseconds' $$;`,
  );
  return `create schema suite_clock; ${functions.join('\n')} grant usage on schema suite_clock to public;`;
}
