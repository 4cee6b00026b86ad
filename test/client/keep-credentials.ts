/** Puts credentials into the file of a backend. */
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { dirname } from 'node:path';
import type { Backend } from './scripted-gateway.ts';

/** The moment tests begin at. */
export const NOW = '2027-01-31T12:00:00Z';

/** Credentials of an hour of which so much is left. */
export function credentialsFor(left_seconds: number, more: object = {}): object {
  return {
    access_token: 'access-0',
    expires_at: new Date(Date.parse(NOW) + left_seconds * 1000).toISOString(),
    lifetime_seconds: 3600,
    refresh_token: 'refresh-0',
    email: 'alice@example.com',
    ...more,
  };
}

/** Writes a credentials file. */
export function keep(backend: Backend, gateways: Readonly<Record<string, object>>, mode = 0o600): void {
  mkdirSync(dirname(backend.path), { recursive: true, mode: 0o700 });
  writeFileSync(backend.path, JSON.stringify({ version: 1, gateways }), { mode });
}

/** The file's entry for each gateway. */
export function kept(backend: Backend): Record<string, Record<string, unknown>> {
  return JSON.parse(readFileSync(backend.path, 'utf8')).gateways;
}
