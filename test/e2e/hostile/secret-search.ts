import assert from 'node:assert/strict';
import { stdSerializers } from 'pino';
import type { Log } from '../../../engine/api.ts';

/** A secret where none may be. */
export interface Leak {
  readonly what: string;
  readonly place: string;
}

/** Looks for secrets in texts, added in any order. */
export interface SecretSearch {
  /** Names a secret. */
  plant(what: string, secret: string | null | undefined): void;
  /** Adds a text that must contain none of them. */
  look(place: string, text: string): void;
  /** How many secrets there are to look for. */
  planted(): number;
  found(): Leak[];
}

/** The spellings of a secret: plain, in a form, encoded, decoded, without its dash. */
function formsOf(secret: string): string[] {
  const bytes = Buffer.from(secret.replace(/^gwr?_/, ''), 'base64url');
  const is_random = secret.length >= 32 && /^[\w-]+$/.test(secret);
  const decoded = is_random ? [bytes.toString('hex'), bytes.toString('latin1')] : [];
  // Its last characters depend on the next ones.
  const encoded = Buffer.from(secret).toString('base64url').slice(0, -3);
  return [...new Set([secret, encodeURIComponent(secret), encoded, secret.replace('-', ''), ...decoded])];
}

/** Rows of a table as text: binary values as hexadecimal digits and as characters. */
export function rowsAsText(rows: readonly unknown[]): string {
  return JSON.stringify(rows, (_key, value) => {
    if (value?.type !== 'Buffer' || !Array.isArray(value.data)) return value;
    const bytes = Buffer.from(value.data);
    return `${bytes.toString('hex')} ${bytes.toString('latin1')}`;
  });
}

/** A log that keeps records as the real one would write them if it blanked nothing out. */
export function recordingLog(records: string[]): Log {
  const at = (level: string) => (fields: object, text: string) => {
    const err = 'err' in fields && fields.err instanceof Error ? stdSerializers.err(fields.err) : undefined;
    records.push(JSON.stringify({ level, text, ...fields, ...(err && { err }) }));
  };
  return { debug: at('debug'), info: at('info'), warn: at('warn'), error: at('error') };
}

/** A search with nothing to look for yet. */
export function createSecretSearch(): SecretSearch {
  const secrets: { readonly what: string; readonly forms: readonly string[] }[] = [];
  const places: { readonly place: string; readonly text: string }[] = [];
  return {
    plant(what, secret) {
      assert.ok(secret && secret.length >= 8, `there is ${what} to look for`);
      secrets.push({ what, forms: formsOf(secret) });
    },
    look: (place, text) => void places.push({ place, text }),
    planted: () => secrets.length,
    found: () =>
      secrets.flatMap(({ what, forms }) =>
        places.flatMap(({ place, text }) => (forms.some((form) => text.includes(form)) ? [{ what, place }] : [])),
      ),
  };
}
