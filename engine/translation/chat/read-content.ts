import type { Json } from '../adapter.ts';
import type { CacheTtl, DocumentPart, ImagePart, RefusalPart, TextPart } from '../conversation.ts';
import type { Notes } from '../notes.ts';
import { invalid, isAbsent, nameAt, noteOthers, objectAt, optional, present, textAt } from '../read-json.ts';

/** What a content part can be in a conversation. */
export type ContentPart = TextPart | ImagePart | DocumentPart | RefusalPart;

const CACHE_FIELDS = ['type', 'cache_control', 'prompt_cache_breakpoint'];
const TEXT_FIELDS = new Set([...CACHE_FIELDS, 'text']);
const REFUSAL_FIELDS = new Set([...CACHE_FIELDS, 'refusal']);
const IMAGE_FIELDS = new Set([...CACHE_FIELDS, 'image_url']);
const FILE_FIELDS = new Set([...CACHE_FIELDS, 'file']);

/** Lifetime that an object of the request asks for in a mark of its own, in either form that clients use. */
export function cacheMark(object: Json, param: string, notes: Notes): { readonly cache?: CacheTtl } {
  const control = optional(object, 'cache_control', objectAt, `${param}.`);
  if (control !== undefined) return { cache: control.ttl === '1h' ? '1h' : '5m' };
  const breakpoint = optional(object, 'prompt_cache_breakpoint', objectAt, `${param}.`);
  if (breakpoint === undefined) return {};
  // Its lifetimes are others than the two there are here.
  if (!isAbsent(breakpoint.ttl)) notes.note('prompt_cache_options');
  return { cache: breakpoint.ttl === '12h' ? '1h' : '5m' };
}

/** Reads the content of a message: a text, or a list of parts. Raises invalid_request and not_translatable. */
export function readContent(content: unknown, param: string, notes: Notes): ContentPart[] {
  if (isAbsent(content)) return [];
  if (typeof content === 'string') return [{ kind: 'text', text: content }];
  if (!Array.isArray(content)) throw invalid(param, 'must be a string or an array of content parts');
  return content.map((part, index) => readPart(objectAt(part, `${param}.${index}`), `${param}.${index}`, notes));
}

/** Reads content that can only be text. Raises invalid_request. */
export function readTexts(content: unknown, param: string, notes: Notes): TextPart[] {
  return readContent(content, param, notes).map((part, index) => {
    if (part.kind !== 'text') throw invalid(`${param}.${index}.type`, 'must be text in a message of this role');
    return part;
  });
}

function readPart(part: Json, param: string, notes: Notes): ContentPart {
  const mark = cacheMark(part, param, notes);
  switch (part.type) {
    case 'text':
      noteOthers(part, TEXT_FIELDS, notes);
      return { kind: 'text', text: textAt(part.text, `${param}.text`), ...mark };
    case 'refusal':
      noteOthers(part, REFUSAL_FIELDS, notes);
      return { kind: 'refusal', text: textAt(part.refusal, `${param}.refusal`) };
    case 'image_url':
      noteOthers(part, IMAGE_FIELDS, notes);
      return { ...readImage(part.image_url, `${param}.image_url`, notes), ...mark };
    case 'file':
      noteOthers(part, FILE_FIELDS, notes);
      return { ...readFile(objectAt(part.file, `${param}.file`), `${param}.file`, notes), ...mark };
    case 'input_audio':
      return notes.refuse('audio', param);
    default:
      throw invalid(`${param}.type`, 'must be text, image_url, file, input_audio or refusal');
  }
}

const IMAGE_URL_FIELDS = new Set(['url', 'detail']);

function readImage(value: unknown, param: string, notes: Notes): ImagePart {
  // Some clients give the URL itself.
  if (typeof value === 'string') return { kind: 'image', source: readImageUrl(value, param) };
  const image = objectAt(value, param);
  noteOthers(image, IMAGE_URL_FIELDS, notes);
  const source = readImageUrl(nameAt(image.url, `${param}.url`), `${param}.url`);
  const detail = optional(image, 'detail', textAt, `${param}.`);
  return { kind: 'image', source, ...(detail !== undefined && detail !== 'auto' && { detail }) };
}

function readImageUrl(url: string, param: string): ImagePart['source'] {
  if (/^https?:\/\//i.test(url)) return { kind: 'url', url };
  const data = readDataUrl(url);
  if (data === undefined)
    throw invalid(param, 'must be an http or https URL, or a data: URL with a media type and base64');
  return { kind: 'base64', ...data };
}

/** Media type and base64 text of a data: URL; `undefined` for anything else. */
function readDataUrl(url: string): { readonly media_type: string; readonly data: string } | undefined {
  const comma = url.indexOf(',');
  if (comma === -1 || comma > 300) return undefined;
  const head = /^data:([^;,\s]+)(?:;[^;,]*)*;base64$/i.exec(url.slice(0, comma));
  if (head === null) return undefined;
  return { media_type: head[1]!.toLowerCase(), data: url.slice(comma + 1) };
}

const FILE_OBJECT_FIELDS = new Set(['file_data', 'file_id', 'filename']);

function readFile(file: Json, param: string, notes: Notes): DocumentPart {
  noteOthers(file, FILE_OBJECT_FIELDS, notes);
  if (isAbsent(file.file_data)) {
    if (!isAbsent(file.file_id)) notes.refuse('file_reference', `${param}.file_id`);
    throw invalid(`${param}.file_data`, 'is required: a data: URL with the bytes of the file in base64');
  }
  const text = nameAt(file.file_data, `${param}.file_data`);
  const { media_type, data } = readDataUrl(text) ?? { media_type: 'application/pdf', data: text };
  if (data.startsWith('data:')) throw invalid(`${param}.file_data`, 'must be base64, or a data: URL with base64');
  const source: DocumentPart['source'] = media_type.startsWith('text/')
    ? { kind: 'text', text: Buffer.from(data, 'base64').toString('utf8') }
    : { kind: 'base64', media_type, data };
  return { kind: 'document', source, ...present({ name: optional(file, 'filename', textAt, `${param}.`) }) };
}
