/** Commands with `--base-url`: at an admin API, as the user whose session token is their name. */
import assert from 'node:assert/strict';
import { StartError } from '../../engine/base/contract/start-error.ts';
import { keep } from '../client/keep-credentials.ts';
import { type Backend, createBackend } from '../client/scripted-gateway.ts';
import { cli, type Ended } from './support.ts';

/** A home whose user is signed in at a gateway for another hour. */
export function backendOf(who: string, base_url: string): Backend {
  const backend = createBackend();
  const expires_at = new Date(Date.now() + 3_600_000).toISOString();
  const credentials = { access_token: who, expires_at, lifetime_seconds: 3600, email: `${who}@example.com` };
  keep(backend, { [base_url]: credentials });
  return backend;
}

/** Runs commands at a gateway, as a user who signed in there. */
export function commandsOf(who: string, base_url: string): (...words: readonly string[]) => Promise<Ended> {
  const { env } = backendOf(who, base_url);
  return (...words) => cli([...words, '--base-url', base_url], { env });
}

/** The error a command must end with. */
export async function failure(command: Promise<unknown>): Promise<StartError> {
  const error = await command.then(
    () => assert.fail('it succeeded'),
    (reason) => reason,
  );
  assert.ok(error instanceof StartError, String(error?.stack));
  return error;
}

/** Asserts that no line is longer than a terminal is wide. */
export function assertNarrow(text: string, width = 80): void {
  for (const line of text.split('\n')) assert.ok(line.length <= width, line);
}
