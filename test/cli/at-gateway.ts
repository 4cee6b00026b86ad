/** Commands with `--base-url`: at an admin API, as the user whose session token is their name. */
import assert from 'node:assert/strict';
import { StartError } from '../../engine/base/contract/start-error.ts';
import { type Backend, createBackend, keep } from '../client/scripted-gateway.ts';
import { cli, type Ended } from './support.ts';

export function backendOf(who: string, base_url: string): Backend {
  const backend = createBackend();
  const expires_at = new Date(Date.now() + 3_600_000).toISOString();
  const credentials = { access_token: who, expires_at, lifetime_seconds: 3600, email: `${who}@example.com` };
  keep(backend, { [base_url]: credentials });
  return backend;
}

export function commandsOf(who: string, base_url: string): (...words: readonly string[]) => Promise<Ended> {
  const { env } = backendOf(who, base_url);
  return (...words) => cli([...words, '--base-url', base_url], { env });
}

export async function failure(command: Promise<unknown>): Promise<StartError> {
  const error = await command.then(
    () => assert.fail('it succeeded'),
    (reason) => reason,
  );
  assert.ok(error instanceof StartError, String(error?.stack));
  return error;
}

/** Command lines that must fail in one line, with exit code 64 by default. */
export async function assertRefused(
  run: (...words: readonly string[]) => Promise<Ended>,
  wrong: readonly (readonly [words: string | readonly string[], message: RegExp, exit_code?: number])[],
): Promise<void> {
  for (const [line, message, exit_code = 64] of wrong) {
    const words = typeof line === 'string' ? line.split(' ').filter(Boolean) : line;
    const ended = await run(...words);
    assert.deepEqual([ended.exit_code, ended.stdout], [exit_code, ''], `${words.join(' ')}: ${ended.stderr}`);
    assert.match(ended.stderr, message);
    assert.match(ended.stderr, /^appscli: [^\n]+\n$/);
  }
}

export function assertNarrow(text: string, width = 80): void {
  for (const line of text.split('\n')) assert.ok(line.length <= width, line);
}
