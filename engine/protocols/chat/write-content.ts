import type { DocumentPart, ImagePart, TextPart } from '../translation/conversation.ts';
import { DOCUMENT_NAME, documentText, takenImage, urlOf } from '../translation/files.ts';
import type { Notes } from '../translation/notes.ts';

/** A part of a message as it is written. */
export interface ContentPart {
  readonly type: 'text' | 'image_url' | 'file';
  readonly [field: string]: unknown;
}

/** Parts as the content of a message: one text as it is, anything else as a list. */
export function joinedContent(parts: readonly ContentPart[]): string | readonly ContentPart[] {
  const [first] = parts;
  if (first === undefined) return '';
  return parts.length === 1 && typeof first.text === 'string' ? first.text : parts;
}

/** Writes one part. Raises not_translatable for a document that is only a URL. */
export function writePart(part: TextPart | ImagePart | DocumentPart, param: string, notes: Notes): ContentPart {
  if (part.cache !== undefined) notes.note('part_cache');
  switch (part.kind) {
    case 'text':
      return { type: 'text', text: part.text };
    case 'image': {
      const taken = takenImage(part, 'chat', notes);
      if (taken.kind === 'text') return { type: 'text', text: taken.text };
      return {
        type: 'image_url',
        image_url: { url: urlOf(taken.source), ...(taken.detail !== undefined && { detail: taken.detail }) },
      };
    }
    case 'document':
      return writeDocument(part, param, notes);
  }
}

function writeDocument({ source, name }: DocumentPart, param: string, notes: Notes): ContentPart {
  if (source.kind === 'url') return notes.refuse('document_url', param);
  if (source.kind === 'text') return { type: 'text', text: documentText(source.text, name, notes) };
  return { type: 'file', file: { filename: name ?? DOCUMENT_NAME, file_data: urlOf(source) } };
}
