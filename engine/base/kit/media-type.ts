/** A parameter of a media type: a name, and a value that may be quoted (RFC 9110 section 5.6.6). */
const PARAMETER = /;\s*([^=;\s]*)\s*(?:=\s*("(?:[^"\\]|\\.)*"|[^;]*))?/g;

/** The media type of a Content-Type header in lower case, without parameters; empty without the header. */
export function mediaType(content_type: string | undefined): string {
  if (content_type === undefined) return '';
  const end = content_type.indexOf(';');
  return (end < 0 ? content_type : content_type.slice(0, end)).trim().toLowerCase();
}

export function isEventStream(content_type: string | undefined): boolean {
  return mediaType(content_type) === 'text/event-stream';
}

/** Whether a Content-Type header is a JSON type: `application/json`, `text/json`, or `+json` (WHATWG MIME sniffing, 4.6). */
export function isJson(content_type: string | undefined): boolean {
  return /^(?:(?:application|text)\/json|[\w.!#$&^-]+\/[\w.!#$&^-]+\+json)$/.test(mediaType(content_type));
}

/** Whether a Content-Encoding header means no encoding. */
export function isPlain(content_encoding: string | undefined): boolean {
  return content_encoding === undefined || /^\s*(?:identity)?\s*$/i.test(content_encoding);
}

/** Why a Content-Type is not JSON in UTF-8 (RFC 8259 section 8.1); an upstream might apply another charset. */
export function jsonTypeProblem(content_type: string | undefined): 'type' | 'charset' | undefined {
  if (content_type === undefined || content_type === 'application/json') return undefined;
  if (!isJson(content_type)) return 'type';
  let charsets = 0;
  for (const [, name = '', value = ''] of content_type.matchAll(PARAMETER)) {
    if (!name.toLowerCase().startsWith('charset')) continue;
    const charset = value.trim().replace(/^"(.*)"$/, '$1');
    if (++charsets > 1 || name.length !== 'charset'.length || !/^utf-?8$/i.test(charset)) return 'charset';
  }
  return undefined;
}
