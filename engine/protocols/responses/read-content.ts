import { invalid, isAbsent, listAt, nameAt, objectAt, optional, textAt } from '../read-json.ts';
import type { Json } from '../translation/adapter.ts';
import type { DocumentPart, ImagePart, RefusalPart, TextPart } from '../translation/conversation.ts';
import { readBreakpoint } from '../translation/features/prompt-cache.ts';
import { filePart, readFileData, readUrl } from '../translation/files.ts';
import type { Notes } from '../translation/notes.ts';

/** What messages and results of tools consist of. */
export type ContentPart = TextPart | ImagePart | DocumentPart | RefusalPart;

/** Reads `content` of a message or `output` of a result: a text or a list of parts. Raises invalid_request and not_translatable. */
export function readContent(value: unknown, param: string, notes: Notes): ContentPart[] {
  if (typeof value === 'string') return value === '' ? [] : [{ kind: 'text', text: value }];
  if (!Array.isArray(value)) throw invalid(param, 'must be a string or an array of content parts');
  return listAt(value, param).map((part, index) => {
    const path = `${param}.${index}`;
    return readPart(objectAt(part, path), path, notes);
  });
}

function readPart(part: Json, param: string, notes: Notes): ContentPart {
  switch (part.type) {
    case 'input_text':
    case 'output_text':
    case 'text':
      if (Array.isArray(part.annotations) && part.annotations.length > 0) notes.note('annotations');
      return { kind: 'text', text: textAt(part.text, `${param}.text`), ...readBreakpoint(part, param, notes) };
    case 'refusal':
      return { kind: 'refusal', text: textAt(part.refusal, `${param}.refusal`) };
    case 'input_image':
      return readImage(part, param, notes);
    case 'input_file':
      return readFile(part, param, notes);
    case 'input_audio':
      return notes.refuse('audio', param);
    default:
      throw invalid(`${param}.type`, 'must be input_text, input_image, input_file, output_text or refusal');
  }
}

function readImage(part: Json, param: string, notes: Notes): ImagePart | DocumentPart {
  if (!isAbsent(part.file_id)) notes.refuse('file_reference', `${param}.file_id`);
  const detail = optional(part, 'detail', textAt, `${param}.`);
  return filePart({
    kind: 'image',
    source: readUrl(nameAt(part.image_url, `${param}.image_url`), `${param}.image_url`),
    ...(detail !== undefined && detail !== 'auto' && { detail }),
    ...readBreakpoint(part, param, notes),
  });
}

function readFile(part: Json, param: string, notes: Notes): ImagePart | DocumentPart {
  if (!isAbsent(part.file_id)) notes.refuse('file_reference', `${param}.file_id`);
  if (!isAbsent(part.detail) && part.detail !== 'auto') notes.note('file_detail');
  const name = optional(part, 'filename', textAt, `${param}.`);
  const url = optional(part, 'file_url', nameAt, `${param}.`);
  const data = optional(part, 'file_data', nameAt, `${param}.`);
  if (url === undefined && data === undefined) throw invalid(param, 'must have file_data or file_url');
  return filePart({
    kind: 'document',
    source: url === undefined ? readFileData(data!, `${param}.file_data`) : readUrl(url, `${param}.file_url`),
    ...(name !== undefined && { name }),
    ...readBreakpoint(part, param, notes),
  });
}
