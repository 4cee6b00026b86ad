/** A field name (RFC 9110 section 5.1). */
const NAME = /^[!#$%&'*+.^_`|~0-9A-Za-z-]+$/;
/** Visible ASCII characters, with spaces only between them. */
const VALUE = /^[\x21-\x7e](?:[\x20-\x7e]*[\x21-\x7e])?$/;

/** Headers that say how a message is framed and what it is: HTTP itself and the gateway say that. */
const OWN: ReadonlySet<string> = new Set([
  'connection',
  'content-encoding',
  'content-length',
  'content-type',
  'host',
  'keep-alive',
  'te',
  'trailer',
  'transfer-encoding',
  'upgrade',
]);

/**
 * Headers as the variables of OpenTelemetry have them: `name=value`, several apart by commas, values percent-encoded where
 * need be. Lines of `name: value` are understood too. Raises Error, which never repeats a value.
 */
export function parseHeaderList(text: string): Readonly<Record<string, string>> {
  const headers: Record<string, string> = {};
  const as_lines = /^\s*[\w-]+\s*:/.test(text);
  for (const [index, part] of text.split(as_lines ? /\r?\n/ : ',').entries()) {
    if (part.trim() === '') continue;
    const at = part.indexOf(as_lines ? ':' : '=');
    const name = part.slice(0, Math.max(at, 0)).trim().toLowerCase();
    const value = as_lines ? part.slice(at + 1).trim() : decoded(part.slice(at + 1).trim());
    if (at < 0 || !NAME.test(name)) {
      throw new Error(`entry ${index + 1} is not a header: expected name=value, several apart by commas`);
    }
    if (value === undefined || !VALUE.test(value)) {
      throw new Error(`the value of the header ${name} holds characters that no header can have`);
    }
    if (OWN.has(name)) throw new Error(`the header ${name} is the gateway's own to set`);
    headers[name] = value;
  }
  return headers;
}

/** A sign of percent that begins no encoding stands for itself. */
function decoded(value: string): string | undefined {
  try {
    return decodeURIComponent(value.replace(/%(?![0-9a-f]{2})/gi, '%25'));
  } catch {
    return undefined;
  }
}
