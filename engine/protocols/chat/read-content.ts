import { invalid, isAbsent, nameAt, noteOthers, objectAt, optional, present, textAt } from '../read-json.ts';
import type { Json } from '../translation/adapter.ts';
import type { CacheTtl, DocumentPart, ImagePart, RefusalPart, TextPart } from '../translation/conversation.ts';
import { readBreakpoint } from '../translation/features/prompt-cache.ts';
import { filePart, readFileData, readUrl } from '../translation/files.ts';
import type { Notes } from '../translation/notes.ts';

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
  return readBreakpoint(object, param, notes);
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

function readImage(value: unknown, param: string, notes: Notes): ImagePart | DocumentPart {
  // Some clients give the URL itself.
  if (typeof value === 'string') return filePart({ kind: 'image', source: readUrl(value, param) });
  const image = objectAt(value, param);
  noteOthers(image, IMAGE_URL_FIELDS, notes);
  const source = readUrl(nameAt(image.url, `${param}.url`), `${param}.url`);
  const detail = optional(image, 'detail', textAt, `${param}.`);
  return filePart({ kind: 'image', source, ...(detail !== undefined && detail !== 'auto' && { detail }) });
}

const FILE_OBJECT_FIELDS = new Set(['file_data', 'file_id', 'filename']);

function readFile(file: Json, param: string, notes: Notes): ImagePart | DocumentPart {
  noteOthers(file, FILE_OBJECT_FIELDS, notes);
  if (isAbsent(file.file_data)) {
    if (!isAbsent(file.file_id)) notes.refuse('file_reference', `${param}.file_id`);
    throw invalid(`${param}.file_data`, 'is required: a data: URL with the bytes of the file in base64');
  }
  const path = `${param}.file_data`;
  const source = readFileData(nameAt(file.file_data, path), path);
  return filePart({ kind: 'document', source, ...present({ name: optional(file, 'filename', textAt, `${param}.`) }) });
}
