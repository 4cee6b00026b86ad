/** Images and documents: addresses, data: URLs and bare base64, and the names of their media types. @module */
import { type JsonBounds, JsonScan } from '../../../base/kit/json/scan.ts';
import { invalid, isObject } from '../read-json.ts';
import type { DocumentPart, ImagePart, Json, Source, TextPart } from './conversation.ts';
import type { Notes } from './rules.ts';

/** Name of a document without one, where a protocol requires it. */
export const DOCUMENT_NAME = 'document.pdf';

/** A media type that upstreams know, with the signature of its files in base64, and its other names. */
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

/** The registered name of a media type: by the bytes, as upstreams reject others, else as declared. */
function mediaTypeOf(declared_type: string, data: string): string {
  const detected = MEDIA_TYPES.find(([, begins]) => begins.test(data))?.[0];
  if (detected !== undefined) return detected;
  const plain = declared_type.split(';', 1)[0]!.trim().toLowerCase();
  return TYPE_OF_NAME.get(plain) ?? plain;
}

/** Bytes in base64, with the registered name of their media type. */
export function bytesOf(media_type: string, data: string): Extract<Source, { kind: 'base64' }> {
  return { kind: 'base64', media_type: mediaTypeOf(media_type, data), data };
}

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

const IMAGES = ['image/jpeg', 'image/png', 'image/gif', 'image/webp'];

/** An image as upstreams accept it; one of another type becomes a text, noted. */
export function takenImage(image: ImagePart, notes: Notes): ImagePart | TextPart {
  const { source, cache } = image;
  if (source.kind === 'url' || IMAGES.includes(source.media_type)) return image;
  notes.note('image_type');
  const type = /^[a-z0-9.+/-]{1,60}$/.test(source.media_type) ? ` (${source.media_type})` : '';
  const text = `[An image was here. Its type${type} cannot be read.]`;
  return { kind: 'text', text, ...(cache !== undefined && { cache }) };
}

const DATA_HEAD_CHARS_MAX = 300;

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

/** Reads a document: a data: URL, or bare base64, which is a PDF. Raises invalid_request. */
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

/** Bound on messages, parts and tools of a request: each blocks the event loop for microseconds. */
const PIECES_MAX = 100_000;

/** Bounds of all call arguments that are JSON in a string. */
const ARGUMENTS: JsonBounds = { depth: 128, values: 100_000 };

const LISTS = ['system', 'messages', 'input', 'tools'] as const;

/**
 * Rejects a request with too many pieces to translate without blocking. Schemas and arguments are objects and don't count;
 * arguments in a string do, because no bound on the body counted them. Raises not_translatable.
 */
export function refuseTooMany(body: Json, notes: Notes): void {
  let pieces = 0;
  let values = 0;
  for (const key of LISTS) {
    const lists = [body[key]];
    while (lists.length > 0) {
      const list = lists.pop();
      if (!Array.isArray(list)) continue;
      pieces += list.length;
      if (pieces > PIECES_MAX) notes.reject('too_many_pieces', key);
      for (const piece of list) {
        if (!isObject(piece)) continue;
        for (const field in piece) lists.push(piece[field]);
        values += valuesOf(piece.arguments) + valuesOf(isObject(piece.function) ? piece.function.arguments : undefined);
        if (values > ARGUMENTS.values) notes.reject('too_many_pieces', key);
      }
    }
  }
}

function valuesOf(args: unknown): number {
  if (typeof args !== 'string') return 0;
  const scan = new JsonScan(Buffer.from(args), ARGUMENTS);
  scan.step(Infinity);
  return scan.fault?.kind === 'values' ? Infinity : scan.values;
}
