import {
  flagAt,
  invalid,
  isAbsent,
  isObject,
  jsonTextAt,
  kindOf,
  listAt,
  nameAt,
  noteOthers,
  objectAt,
  optional,
  textAt,
} from '../read-json.ts';
import type { Json } from '../translation/adapter.ts';
import type { CacheTtl, DocumentPart, ImagePart, Part, ReasoningPart, TextPart } from '../translation/conversation.ts';
import { bytesOf, filePart } from '../translation/files.ts';
import type { Notes } from '../translation/notes.ts';
import { proofFromText } from '../translation/proof.ts';

type Role = 'user' | 'assistant' | 'system';

/** Reads one content block; several parts where the vocabulary has no word for it as a whole, none where it is left out. */
type BlockReader = (block: Json, path: string, notes: Notes) => readonly Part[];

interface BlockKind {
  readonly roles: readonly Role[];
  /** Fields it may have beside `type`. */
  readonly fields: ReadonlySet<string>;
  readonly read: BlockReader;
}

const kind = (roles: readonly Role[], fields: readonly string[], read: BlockReader): BlockKind => ({
  roles,
  fields: new Set(['type', ...fields]),
  read,
});

const USER: readonly Role[] = ['user'];
const ASSISTANT: readonly Role[] = ['assistant'];
const ALL: readonly Role[] = ['user', 'assistant', 'system'];

const ofProvider: BlockReader = (_block, _place, notes) => {
  notes.note('provider_tool_history');
  return [];
};

/** Blocks that only the provider that made them can read; their fields don't matter. */
const PROVIDER_BLOCK = /^(server_tool_use|mcp_tool_use|mcp_tool_listing|fallback|[a-z_]+_tool_result)$/;

const BLOCKS: ReadonlyMap<string, BlockKind> = new Map([
  ['text', kind(ALL, ['text', 'cache_control', 'citations'], readText)],
  ['image', kind(USER, ['source', 'cache_control', 'transformations'], readImage)],
  ['document', kind(USER, ['source', 'cache_control', 'citations', 'context', 'title'], readDocument)],
  ['search_result', kind(USER, ['content', 'source', 'title', 'cache_control', 'citations'], readSearchResult)],
  ['thinking', kind(ASSISTANT, ['thinking', 'signature'], readThinking)],
  ['redacted_thinking', kind(ASSISTANT, ['data'], readRedacted)],
  ['tool_use', kind(ASSISTANT, ['id', 'name', 'input', 'cache_control', 'caller', 'toolset_name'], readToolUse)],
  ['tool_result', kind(USER, ['tool_use_id', 'content', 'is_error', 'cache_control', 'toolset_name'], readToolResult)],
  [
    'container_upload',
    kind(USER, ['file_id', 'cache_control'], (_block, path, notes) =>
      notes.refuse('file_reference', `${path}.file_id`),
    ),
  ],
  ['tool_addition', kind(ALL, ['tool', 'cache_control'], readToolChange)],
  ['tool_removal', kind(ALL, ['tool', 'cache_control'], readToolChange)],
  [
    'compaction',
    kind(
      ['user', 'assistant'],
      ['content', 'encrypted_content', 'signature', 'tool_changes', 'cache_control'],
      readCompaction,
    ),
  ],
]);

/** What may stand in a document made of blocks; no documents, so that nothing nests. */
const DOCUMENT_BLOCKS: ReadonlyMap<string, BlockKind> = new Map(
  ['text', 'image'].map((type) => [type, BLOCKS.get(type)!] as const),
);

/** What may stand in a result beside the blocks of a message. */
const RESULT_BLOCKS: ReadonlyMap<string, BlockKind> = new Map([
  ...['text', 'image', 'document', 'search_result'].map((type) => [type, BLOCKS.get(type)!] as const),
  ['tool_reference', kind(USER, ['tool_name', 'cache_control'], readToolReference)],
  ['browser_state', kind(USER, ['tabs', 'state_changes', 'cache_control'], readBrowserState)],
]);

/** Content of a message: a text or blocks. Raises invalid_request, and not_translatable by a rule. */
export function readContent(content: unknown, role: Role, path: string, notes: Notes): Part[] {
  if (typeof content === 'string') return content === '' ? [] : [{ kind: 'text', text: content }];
  if (!Array.isArray(content)) {
    throw invalid(path, `must be a string or an array of content blocks, not ${kindOf(content)}`);
  }
  return content.flatMap((block, index) => readBlock(block, BLOCKS, role, `${path}.${index}`, notes));
}

function readBlock(
  value: unknown,
  kinds: ReadonlyMap<string, BlockKind>,
  role: Role,
  path: string,
  notes: Notes,
): readonly Part[] {
  const block = objectAt(value, path);
  const type = nameAt(block.type, `${path}.type`);
  const known = kinds.get(type);
  if (known === undefined) {
    if (PROVIDER_BLOCK.test(type)) return ofProvider(block, path, notes);
    notes.note('unknown_block');
    return [];
  }
  if (!known.roles.includes(role)) {
    throw invalid(`${path}.type`, `a block of type ${type} cannot stand in a message of the role ${role}`);
  }
  noteOthers(block, known.fields, notes);
  return known.read(block, path, notes);
}

/** The lifetime that a cache_control asks for. Raises invalid_request. */
export function readCache(holder: Json, path: string, notes: Notes): { cache?: CacheTtl } {
  const control = optional(holder, 'cache_control', objectAt, path === '' ? '' : `${path}.`);
  if (control === undefined) return {};
  noteOthers(control, CACHE_FIELDS, notes);
  const { ttl } = control;
  if (!isAbsent(ttl) && ttl !== '5m' && ttl !== '1h') {
    throw invalid(`${path}${path && '.'}cache_control.ttl`, 'must be 5m or 1h');
  }
  return { cache: ttl === '1h' ? '1h' : '5m' };
}

const CACHE_FIELDS: ReadonlySet<string> = new Set(['type', 'ttl']);

function readText(block: Json, path: string, notes: Notes): readonly TextPart[] {
  const text = textAt(block.text, `${path}.text`);
  if (Array.isArray(block.citations) && block.citations.length > 0) notes.note('request_citations');
  return text === '' ? [] : [{ kind: 'text', text, ...readCache(block, path, notes) }];
}

const SOURCE_FIELDS: ReadonlySet<string> = new Set(['type', 'media_type', 'data', 'url']);

/** Bytes and addresses. Raises invalid_request, and not_translatable for files that live at the provider. */
function readSource(source: Json, path: string, notes: Notes): ImagePart['source'] | undefined {
  noteOthers(source, SOURCE_FIELDS, notes);
  switch (textAt(source.type, `${path}.type`)) {
    case 'base64':
      return bytesOf(nameAt(source.media_type, `${path}.media_type`), textAt(source.data, `${path}.data`));
    case 'url':
      return { kind: 'url', url: nameAt(source.url, `${path}.url`) };
    case 'file':
      return notes.refuse('file_reference', `${path}.file_id`);
    default:
      return undefined;
  }
}

function readImage(block: Json, path: string, notes: Notes): readonly (ImagePart | DocumentPart)[] {
  const source = readSource(objectAt(block.source, `${path}.source`), `${path}.source`, notes);
  if (source === undefined) throw invalid(`${path}.source.type`, 'must be base64, url or file');
  if (isObject(block.transformations) && Object.keys(block.transformations).length > 0)
    notes.note('image_transformations');
  return [filePart({ kind: 'image', source, ...readCache(block, path, notes) })];
}

function readDocument(block: Json, path: string, notes: Notes): readonly Part[] {
  const at = `${path}.source`;
  const name = optional(block, 'title', textAt, `${path}.`);
  const context = optional(block, 'context', textAt, `${path}.`);
  if (isObject(block.citations) && block.citations.enabled === true) notes.note('request_citations');
  const about: TextPart[] = [];
  if (context !== undefined && context !== '') {
    notes.note('document_context');
    about.push({ kind: 'text', text: context });
  }
  const more = { ...(name && { name }), ...readCache(block, path, notes) };
  const source = objectAt(block.source, at);
  if (source.type === 'content') return [...about, ...readContentDocument(source, at, more, notes)];
  const made =
    source.type === 'text'
      ? ({ kind: 'text', text: textAt(source.data, `${at}.data`) } as const)
      : readSource(source, at, notes);
  if (made === undefined) throw invalid(`${at}.type`, 'must be base64, text, content, url or file');
  return [...about, filePart({ kind: 'document', source: made, ...more })];
}

function readContentDocument(
  source: Json,
  at: string,
  more: Pick<DocumentPart, 'name' | 'cache'>,
  notes: Notes,
): readonly Part[] {
  notes.note('document_content');
  const parts = readParts(source.content, DOCUMENT_BLOCKS, `${at}.content`, notes);
  if (!parts.every((part) => part.kind === 'text')) return parts;
  const text = parts.map((part) => part.text).join('\n\n');
  return [{ kind: 'document', source: { kind: 'text', text }, ...more }];
}

function readParts(
  content: unknown,
  kinds: ReadonlyMap<string, BlockKind>,
  path: string,
  notes: Notes,
): readonly (TextPart | ImagePart | DocumentPart)[] {
  if (isAbsent(content)) return [];
  if (typeof content === 'string') return content === '' ? [] : [{ kind: 'text', text: content }];
  const parts = listAt(content, path).flatMap((block, index) =>
    readBlock(block, kinds, 'user', `${path}.${index}`, notes),
  );
  return parts as (TextPart | ImagePart | DocumentPart)[];
}

function readSearchResult(block: Json, path: string, notes: Notes): readonly Part[] {
  notes.note('search_result');
  const title = textAt(block.title, `${path}.title`);
  const source = textAt(block.source, `${path}.source`);
  const said = listAt(block.content, `${path}.content`).map((part, index) => {
    const at = `${path}.content.${index}`;
    return textAt(objectAt(part, at).text, `${at}.text`);
  });
  return [{ kind: 'text', text: [`${title}\n${source}`, ...said].join('\n\n'), ...readCache(block, path, notes) }];
}

function proofOf(text: string, kind: 'signature' | 'encrypted'): Pick<ReasoningPart, 'proof'> {
  const proof = proofFromText(text, { protocol: 'messages', kind });
  return proof === undefined ? {} : { proof };
}

function readThinking(block: Json, path: string): readonly ReasoningPart[] {
  const text = textAt(block.thinking, `${path}.thinking`);
  const signature = optional(block, 'signature', textAt, `${path}.`) ?? '';
  return text === '' && signature === '' ? [] : [{ kind: 'reasoning', text, ...proofOf(signature, 'signature') }];
}

function readRedacted(block: Json, path: string): readonly ReasoningPart[] {
  const data = nameAt(block.data, `${path}.data`);
  return [{ kind: 'reasoning', text: '', ...proofOf(data, 'encrypted') }];
}

function noteOrigin({ caller, toolset_name }: Json, notes: Notes): void {
  const direct = !isObject(caller) || caller.type === 'direct';
  if (!direct || !isAbsent(toolset_name)) notes.note('tool_call_origin');
}

function readToolUse(block: Json, path: string, notes: Notes): readonly Part[] {
  noteOrigin(block, notes);
  const id = nameAt(block.id, `${path}.id`);
  const name = nameAt(block.name, `${path}.name`);
  const input = objectAt(block.input, `${path}.input`);
  return [
    { kind: 'tool_call', id, name, arguments: jsonTextAt(input, `${path}.input`), ...readCache(block, path, notes) },
  ];
}

function readToolResult(block: Json, path: string, notes: Notes): readonly Part[] {
  noteOrigin(block, notes);
  const call_id = nameAt(block.tool_use_id, `${path}.tool_use_id`);
  const parts = readParts(block.content, RESULT_BLOCKS, `${path}.content`, notes);
  const is_error = optional(block, 'is_error', flagAt, `${path}.`) ?? false;
  return [{ kind: 'tool_result', call_id, parts, is_error, ...readCache(block, path, notes) }];
}

function readToolReference(block: Json, path: string, notes: Notes): readonly Part[] {
  notes.note('tool_reference');
  return [
    {
      kind: 'text',
      text: `Tool: ${nameAt(block.tool_name, `${path}.tool_name`)}`,
      ...readCache(block, path, notes),
    },
  ];
}

/** The tools that are added are read with the others. */
function readToolChange(_block: Json, _place: string, notes: Notes): readonly Part[] {
  notes.note('tool_changes');
  return [];
}

function readBrowserState({ tabs, state_changes, ...rest }: Json, path: string, notes: Notes): readonly Part[] {
  notes.note('browser_state');
  const text = jsonTextAt(
    { tabs: listAt(tabs, `${path}.tabs`), ...(!isAbsent(state_changes) && { state_changes }) },
    path,
  );
  return [{ kind: 'text', text, ...readCache(rest, path, notes) }];
}

function readCompaction(block: Json, path: string, notes: Notes): readonly Part[] {
  notes.note('compaction_block');
  const text = optional(block, 'content', textAt, `${path}.`) ?? '';
  return text === '' ? [] : [{ kind: 'text', text, ...readCache(block, path, notes) }];
}
