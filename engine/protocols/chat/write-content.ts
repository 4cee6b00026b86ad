import type { DocumentPart, ImagePart, TextPart } from '../translation/conversation.ts';
import { DOCUMENT_NAME, documentText, urlOf } from '../translation/files.ts';
import type { Notes } from '../translation/notes.ts';

/** Content of a message: one text as it is, anything else as a list of parts. `param` names the path for a refusal. */
export function writeContent(
  parts: readonly (TextPart | ImagePart | DocumentPart)[],
  param: string,
  notes: Notes,
): string | unknown[] {
  const [first] = parts;
  if (first === undefined) return '';
  const written = parts.map((part) => writePart(part, param, notes));
  return first.kind === 'text' && parts.length === 1 ? first.text : written;
}

/** Writes one part. Raises not_translatable for a document that is only a URL. */
export function writePart(part: TextPart | ImagePart | DocumentPart, param: string, notes: Notes): unknown {
  if (part.cache !== undefined) notes.note('part_cache');
  switch (part.kind) {
    case 'text':
      return { type: 'text', text: part.text };
    case 'image':
      return {
        type: 'image_url',
        image_url: { url: urlOf(part.source), ...(part.detail !== undefined && { detail: part.detail }) },
      };
    case 'document':
      return writeDocument(part, param, notes);
  }
}

function writeDocument({ source, name }: DocumentPart, param: string, notes: Notes): unknown {
  if (source.kind === 'url') return notes.refuse('document_url', param);
  if (source.kind === 'text') return { type: 'text', text: documentText(source.text, name, notes) };
  return { type: 'file', file: { filename: name ?? DOCUMENT_NAME, file_data: urlOf(source) } };
}
