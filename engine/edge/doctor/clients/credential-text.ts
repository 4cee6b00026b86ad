/** Classification of a text in a field for a variable name. */
type VariableText =
  | { readonly kind: 'name' | 'reference'; readonly name: string }
  | { readonly kind: 'key'; readonly key: string }
  | { readonly kind: 'empty' };

/** Classification of a text in a field for a key: a usable key, or a common mistake. */
type KeyText =
  | { readonly kind: 'key' | 'padded'; readonly key: string }
  | { readonly kind: 'reference'; readonly name: string }
  | { readonly kind: 'placeholder' | 'empty' };

const VARIABLE = /^[A-Za-z_][A-Za-z0-9_]*$/;
const REFERENCE = /^\$(?:env:)?\{?([A-Za-z_][A-Za-z0-9_]*)\}?$/;
const BEARER = /^bearer\s+/i;
const PLACEHOLDER = /^(?:<.*>|(?:your|my|the)[-_ ]?(?:api[-_ ]?)?(?:key|token).*|x{3,}|\.{3,}|…|changeme|todo)$/i;

/** Classifies the value of a variable-name field. The name of a set variable is always a name. */
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

/** Classifies the value of a key field. A variable name in capitals and `$NAME` count as references. */
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

/** The key in a configured value, without a `Bearer` prefix or white space; `undefined` if there is none. */
export function keyIn(value: unknown): string | undefined {
  const text = typeof value === 'string' ? readKeyText(value) : undefined;
  return text !== undefined && 'key' in text ? text.key : undefined;
}

const BEGINNING = /^(?:gw|sk|pk|xai|key)[-_](?=.*\d)[A-Za-z0-9_-]{8,}$/i;
const WITHOUT_WORDS = /^(?=.*\d)(?=.*[a-z])[A-Za-z0-9_=+]{32,}$/;

/** Whether a text is unmistakably a key in any context. Model ids do not match. */
export function isKeyAnywhere(text: string): boolean {
  const key = text.trim().replace(BEARER, '');
  return BEGINNING.test(key) || WITHOUT_WORDS.test(key);
}

/** Whether a text resembles a credential: long, with letters and digits, unlike a sentence, address or name. */
function looksLikeKey(text: string): boolean {
  if (/^(?:gw|sk|pk|xai|key)[-_][A-Za-z0-9_-]{8,}$/i.test(text)) return true;
  return /^[A-Za-z0-9_\-.=+/]{24,}$/.test(text) && /\d/.test(text) && /[a-z]/.test(text);
}
