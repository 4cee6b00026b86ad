import type { DocumentPart, ImagePart, TextPart } from '../conversation.ts';
import type { Notes } from '../notes.ts';

/** The name of a document that has none. */
const DOCUMENT_NAME = 'document.pdf';

/** Content of a message: one text as it is, anything else as a list of parts. `param` names the place for a refusal. */
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
        image_url: { url: imageUrl(part), ...(part.detail !== undefined && { detail: part.detail }) },
      };
    case 'document':
      return writeDocument(part, param, notes);
  }
}

function imageUrl({ source }: ImagePart): string {
  return source.kind === 'url' ? source.url : `data:${source.media_type};base64,${source.data}`;
}

function writeDocument({ source, name }: DocumentPart, param: string, notes: Notes): unknown {
  if (source.kind === 'url') return notes.refuse('document_url', param);
  if (source.kind === 'text') {
    notes.note('text_document');
    return { type: 'text', text: `Document: ${name ?? 'untitled'}\n\n${source.text}` };
  }
  const file_data = `data:${source.media_type};base64,${source.data}`;
  return { type: 'file', file: { filename: name ?? DOCUMENT_NAME, file_data } };
}
