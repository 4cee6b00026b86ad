/**
 * Images and documents: addresses, data: URLs and bare base64, and the names of their media types.
 * @module
 */

import type { Protocol } from '../../contract/protocol.ts';
import { invalid } from '../read-json.ts';
import { ACCEPTED } from './accepted.ts';
import type { DocumentPart, ImagePart, Source, TextPart } from './conversation.ts';
import type { Notes } from './notes.ts';

/** What a document without a name is called where a protocol wants one. */
export const DOCUMENT_NAME = 'document.pdf';

/** A media type that upstreams know, with other names for it, and how its files begin, in base64. */
const MEDIA_TYPES: readonly (readonly [type: string, begins: RegExp, names: readonly string[]])[] = [
  ['image/jpeg', /^\/9j\//, ['image/jpg', 'image/pjpeg', 'image/jpe', 'image/jfif', 'image/x-jpeg', 'image/x-jpg']],
  ['image/png', /^iVBORw0KGg/, ['image/x-png', 'image/vnd.mozilla.apng', 'image/apng']],
  ['image/gif', /^R0lGOD/, ['image/x-gif']],
  ['image/webp', /^UklGR.{6}XRUJQ/, ['image/x-webp']],
  [
    'application/pdf',
    /^JVBERi0/,
    ['application/x-pdf', 'application/acrobat', 'application/vnd.pdf', 'text/pdf', 'text/x-pdf'],
  ],
];

const TYPE_OF_NAME: ReadonlyMap<string, string> = new Map(
  MEDIA_TYPES.flatMap(([type, , names]) => names.map((name) => [name, type] as const)),
);

/**
 * The name by which upstreams know a media type: that of the bytes, where they tell, as upstreams refuse any other; else the one that
 * is given, in lower case, without parameters, and by its registered name.
 */
function mediaTypeOf(given: string, data: string): string {
  const told = MEDIA_TYPES.find(([, begins]) => begins.test(data))?.[0];
  if (told !== undefined) return told;
  const plain = given.split(';', 1)[0]!.trim().toLowerCase();
  return TYPE_OF_NAME.get(plain) ?? plain;
}

/** Bytes in base64, by the name of their type that upstreams know. */
export function bytesOf(media_type: string, data: string): Extract<Source, { kind: 'base64' }> {
  return { kind: 'base64', media_type: mediaTypeOf(media_type, data), data };
}

/** A file as what its bytes are, whichever of both the client says: an image or a document. */
export function filePart(part: ImagePart | DocumentPart): ImagePart | DocumentPart {
  const { source, cache } = part;
  if (source.kind !== 'base64') return part;
  const mark = cache === undefined ? {} : { cache };
  if (part.kind === 'image') return source.media_type === PDF ? { kind: 'document', source, ...mark } : part;
  if (source.media_type.startsWith('image/')) return { kind: 'image', source, ...mark };
  if (!source.media_type.startsWith('text/')) return part;
  return { ...part, source: { kind: 'text', text: Buffer.from(source.data, 'base64').toString('utf8') } };
}

const PDF = 'application/pdf';

/** An image as upstreams of this protocol take it; one of another type becomes a text that says so, noted. */
export function takenImage(image: ImagePart, to: Protocol, notes: Notes): ImagePart | TextPart {
  const { source, cache } = image;
  if (source.kind === 'url' || ACCEPTED[to].images.includes(source.media_type)) return image;
  notes.note('image_type');
  const type = /^[a-z0-9.+/-]{1,60}$/.test(source.media_type) ? ` (${source.media_type})` : '';
  const text = `[An image was here. Its type${type} cannot be read.]`;
  return { kind: 'text', text, ...(cache !== undefined && { cache }) };
}

/** The longest head of a data: URL that is looked at. */
const DATA_HEAD_CHARS_MAX = 300;

/** The bytes of a data: URL; `undefined` for anything else. */
function readDataUrl(url: string): Extract<Source, { kind: 'base64' }> | undefined {
  const comma = url.indexOf(',');
  if (comma === -1 || comma > DATA_HEAD_CHARS_MAX) return undefined;
  const head = /^data:([^;,\s]*)(?:;[^;,]*)*;base64$/i.exec(url.slice(0, comma));
  if (head === null) return undefined;
  return bytesOf(head[1]!, url.slice(comma + 1));
}

/** Reads an address or a data: URL. Raises invalid_request. */
export function readUrl(url: string, param: string): Source {
  if (/^https?:\/\//i.test(url)) return { kind: 'url', url };
  const data = readDataUrl(url);
  if (data === undefined) {
    throw invalid(param, 'must be an http or https URL, or a data: URL with a media type and base64');
  }
  return data;
}

/**
 * Reads the bytes of a document: a data: URL, or bare base64, which is a PDF as the first files of these protocols were. Raises
 * invalid_request.
 */
export function readFileData(text: string, param: string): DocumentPart['source'] {
  const bytes = readDataUrl(text) ?? bytesOf(PDF, text);
  if (bytes.data.startsWith('data:'))
    throw invalid(param, 'must be base64, or a data: URL with a media type and base64');
  return bytes;
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
