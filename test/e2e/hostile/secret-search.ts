import assert from 'node:assert/strict';

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

/** Looks for secrets in texts, added in any order. */
export function createSecretSearch() {
  const secrets: { readonly what: string; readonly forms: readonly string[] }[] = [];
  const places: { readonly place: string; readonly text: string }[] = [];
  return {
    /** Names a secret. */
    plant(what: string, secret: string | null | undefined) {
      assert.ok(secret && secret.length >= 8, `there is ${what} to look for`);
      secrets.push({ what, forms: formsOf(secret) });
    },
    /** Adds a text that must contain none of them. */
    look: (place: string, text: string) => void places.push({ place, text }),
    planted: () => secrets.length,
    found: () =>
      secrets.flatMap(({ what, forms }) =>
        places.flatMap(({ place, text }) => (forms.some((form) => text.includes(form)) ? [{ what, place }] : [])),
      ),
  };
}
