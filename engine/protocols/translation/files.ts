/**
 * Images and documents as chat completions and Responses have them: addresses, data: URLs and bare base64.
 * @module
 */

import { invalid } from '../read-json.ts';
import type { DocumentPart, Source } from './conversation.ts';
import type { Notes } from './notes.ts';

/** What a document without a name is called where a protocol wants one. */
export const DOCUMENT_NAME = 'document.pdf';

/** The longest head of a data: URL that is looked at. */
const DATA_HEAD_CHARS_MAX = 300;

/** Media type and base64 text of a data: URL; `undefined` for anything else. */
function readDataUrl(url: string): { readonly media_type: string; readonly data: string } | undefined {
  const comma = url.indexOf(',');
  if (comma === -1 || comma > DATA_HEAD_CHARS_MAX) return undefined;
  const head = /^data:([^;,\s]+)(?:;[^;,]*)*;base64$/i.exec(url.slice(0, comma));
  if (head === null) return undefined;
  return { media_type: head[1]!.toLowerCase(), data: url.slice(comma + 1) };
}

/** Reads an address or a data: URL. Raises invalid_request. */
export function readUrl(url: string, param: string): Source {
  if (/^https?:\/\//i.test(url)) return { kind: 'url', url };
  const data = readDataUrl(url);
  if (data === undefined) {
    throw invalid(param, 'must be an http or https URL, or a data: URL with a media type and base64');
  }
  return { kind: 'base64', ...data };
}

/**
 * Reads the bytes of a document: a data: URL, or bare base64, which is a PDF as the first files of these protocols were. Raises
 * invalid_request.
 */
export function readFileData(text: string, param: string): DocumentPart['source'] {
  const { media_type, data } = readDataUrl(text) ?? { media_type: 'application/pdf', data: text };
  if (data.startsWith('data:')) throw invalid(param, 'must be base64, or a data: URL with a media type and base64');
  if (!media_type.startsWith('text/')) return { kind: 'base64', media_type, data };
  return { kind: 'text', text: Buffer.from(data, 'base64').toString('utf8') };
}

/** The address of bytes, or the bytes as a data: URL. */
export function urlOf(source: Source): string {
  return source.kind === 'url' ? source.url : `data:${source.media_type};base64,${source.data}`;
}

/** A document of plain text as the text of a message: below a line with its name. */
export function documentText(text: string, name: string | undefined, notes: Notes): string {
  notes.note('text_document');
  return `Document: ${name ?? 'untitled'}\n\n${text}`;
}
