/** What stands where the name of a variable is expected. */
export type VariableText =
  | { readonly kind: 'name' | 'reference'; readonly name: string }
  | { readonly kind: 'key'; readonly key: string }
  | { readonly kind: 'empty' };

/** What stands where a key is expected: a key that can be used, or what somebody wrote in its place. */
export type KeyText =
  | { readonly kind: 'key' | 'padded'; readonly key: string }
  | { readonly kind: 'reference'; readonly name: string }
  | { readonly kind: 'placeholder' | 'empty' };

const VARIABLE = /^[A-Za-z_][A-Za-z0-9_]*$/;
const REFERENCE = /^\$(?:env:)?\{?([A-Za-z_][A-Za-z0-9_]*)\}?$/;
const BEARER = /^bearer\s+/i;
const PLACEHOLDER = /^(?:<.*>|(?:your|my|the)[-_ ]?(?:api[-_ ]?)?(?:key|token).*|x{3,}|\.{3,}|…|changeme|todo)$/i;

/** What the name of a variable turns out to be. A variable that is set is always one. */
export function readVariableText(text: string, env: NodeJS.ProcessEnv): VariableText {
  const trimmed = text.trim();
  if (trimmed === '' || PLACEHOLDER.test(trimmed)) return { kind: 'empty' };
  if (env[trimmed] !== undefined) return { kind: 'name', name: trimmed };
  const reference = REFERENCE.exec(trimmed)?.[1];
  if (reference !== undefined) return { kind: 'reference', name: reference };
  const key = trimmed.replace(BEARER, '');
  if (!VARIABLE.test(key)) return { kind: 'key', key };
  const is_like_a_name = key === key.toUpperCase() || !/\d/.test(key);
  return !is_like_a_name && looksLikeKey(key) ? { kind: 'key', key } : { kind: 'name', name: trimmed };
}

/** What a key turns out to be: a text in capitals that names a variable is none, and neither is `$NAME`. */
export function readKeyText(text: string): KeyText {
  const trimmed = text.trim();
  if (trimmed === '') return { kind: 'empty' };
  if (PLACEHOLDER.test(trimmed)) return { kind: 'placeholder' };
  const reference = REFERENCE.exec(trimmed)?.[1];
  if (reference !== undefined) return { kind: 'reference', name: reference };
  if (/^[A-Z][A-Z0-9]*(?:_[A-Z0-9]+)*_(?:KEY|TOKEN)$/.test(trimmed)) return { kind: 'reference', name: trimmed };
  const key = trimmed.replace(BEARER, '');
  return { kind: key === text ? 'key' : 'padded', key };
}

/** The key that a value of a file is, or is meant to be. */
export function keyIn(value: unknown): string | undefined {
  const text = typeof value === 'string' ? readKeyText(value) : undefined;
  return text !== undefined && 'key' in text ? text.key : undefined;
}

const BEGINNING = /^(?:gw|sk|pk|xai|key)[-_](?=.*\d)[A-Za-z0-9_-]{8,}$/i;
const WITHOUT_WORDS = /^(?=.*\d)(?=.*[a-z])[A-Za-z0-9_=+]{32,}$/;

/** Whether a text can be nothing but a key, wherever it stands; identifiers of models are none. */
export function isKeyAnywhere(text: string): boolean {
  const key = text.trim().replace(BEARER, '');
  return BEGINNING.test(key) || WITHOUT_WORDS.test(key);
}

/** Whether a text looks like a credential: long, with letters and digits, and not like a sentence, an address or a name. */
function looksLikeKey(text: string): boolean {
  if (/^(?:gw|sk|pk|xai|key)[-_][A-Za-z0-9_-]{8,}$/i.test(text)) return true;
  return /^[A-Za-z0-9_\-.=+/]{24,}$/.test(text) && /\d/.test(text) && /[a-z]/.test(text);
}
