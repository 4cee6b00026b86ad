const TOKEN_SHAPES = [
  /\b(?:sk|pk|rk|gw[rs]?|ghp|gho|ghs|glpat|xox[a-z]|hf|npm|whsec)[-_][\w-]{2,}/gi,
  /\bgithub_pat_\w+/gi,
  /\bAKIA[0-9A-Z]{12,}/g,
  /\beyJ[\w-]{6,}(?:\.[\w-]+){0,2}/g,
];

const URL_CREDENTIALS = /(:\/\/)([^\s@'"]+)(?=@)/g;

/** `key: value` where the key's name suggests a secret, except `{ value_env: NAME }`, which `ENV_KEY_VALUE` covers. */
const SECRET_KEY_VALUE =
  /(["']?\b(?:api_?key|auth_?token|access_?token|client_?secret|signing_?key|secret(?:_?key)?|password|passwd|token|key|authorization|bearer|dsn)["']?\s*:\s+)(?!\{\s*value_env\s*:)([^\s,}#][^,}#]*)/gi;

/** `key_env: value`; the value is masked unless it can be the name of a variable. */
const ENV_KEY_VALUE = /(\b\w+_env["']?\s*:\s+)([^\s,}#][^,}]*)/g;

const SECRET_KEY =
  /(?:^|[_-])(?:api[_-]?key|auth_?token|access_?token|client_?secret|signing_?key|private_?key|authorization|secret|password|passwd|credentials?|token|dsn)$/i;

/** Whether the name of a key suggests a secret value; no key of the configuration has such a name. */
export function isSecretKey(key: string): boolean {
  return SECRET_KEY.test(key);
}

const stars = (text: string): string => '*'.repeat(text.length);

const blank = (text: string): string => stars(text.trimEnd()).padEnd(text.length);

/** Whether an underscore-free part of a name looks random: long, with letters and digits mixed. */
function isRandomPart(part: string): boolean {
  if (part.length < 16) return false;
  return /\d/.test(part) && /[a-z]/i.test(part) && !/^[a-z]+\d{1,4}$/i.test(part);
}

/** Whether a text looks like a credential, not like a name or number. */
export function looksSecret(text: string): boolean {
  if (TOKEN_SHAPES.some((shape) => text.search(shape) >= 0)) return true;
  if (text.search(URL_CREDENTIALS) >= 0) return true;
  return text.split(/[^A-Za-z0-9]/).some(isRandomPart);
}

/** Whether a text can be the name of an environment variable, and does not look like a credential. */
export function isEnvironmentName(text: string): boolean {
  return /^[A-Za-z_][A-Za-z0-9_]*$/.test(text) && text.length <= 64 && !looksSecret(text);
}

/** Masks likely secrets in one line of a configuration file; the length stays the same. */
export function hideSecrets(line: string): string {
  let hidden = line
    .replace(SECRET_KEY_VALUE, (_, key: string, value: string) => key + blank(value))
    .replace(ENV_KEY_VALUE, (whole, key: string, value: string) => {
      const name = value.replace(/\s*(#.*)?$/, '').replace(/^(["'])(.*)\1$/, '$2');
      return name === '' || isEnvironmentName(name) ? whole : key + blank(value);
    })
    .replace(URL_CREDENTIALS, (_, slashes: string, credentials: string) => slashes + stars(credentials));
  for (const shape of TOKEN_SHAPES) hidden = hidden.replace(shape, stars);
  return hidden.replace(/[A-Za-z0-9]{16,}/g, (part) => (isRandomPart(part) ? stars(part) : part));
}

/** Masks ranges (offsets, start and end) of a text, and other likely secrets. Line breaks stay. */
export function hideRanges(text: string, ranges: readonly (readonly [number, number])[]): string {
  const pieces: string[] = [];
  let done = 0;
  for (const [start, end] of ranges.toSorted(([one], [other]) => one - other)) {
    const from = Math.max(start, done);
    if (end <= from) continue;
    pieces.push(text.slice(done, from), text.slice(from, end).replace(/[^\r\n]/g, '*'));
    done = end;
  }
  pieces.push(text.slice(done));
  return pieces.join('').split('\n').map(hideSecrets).join('\n');
}
