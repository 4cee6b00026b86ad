import { invalid, isAbsent, isObject, listAt, nameAt, objectAt, optional, textAt } from '../read-json.ts';
import type { Json } from '../translation/adapter.ts';
import type { Tool, ToolChoice } from '../translation/conversation.ts';
import { FREE_TEXT_PARAMETERS, withGrammar } from '../translation/features/free-text.ts';
import { readSchema } from '../translation/features/tool-schemas.ts';
import type { Notes } from '../translation/notes.ts';

/** Kinds of tools that the client runs. */
const CLIENT_KINDS = ['function', 'custom', 'namespace'];

/** Fields of tools that other protocols cannot say. */
const LOST_OPTIONS = ['async', 'allowed_callers', 'defer_loading', 'output_schema'];

interface Entry {
  readonly tool: Tool;
  readonly namespace?: string;
  readonly search?: boolean;
}

const keyOf = (namespace: string | undefined, name: string): string => JSON.stringify([namespace ?? null, name]);

/**
 * The tools of a request under the names they have in the conversation: a plain name stays, one in a namespace is put
 * together with it. All tools are added before the first name is asked for.
 */
export class ToolBook {
  readonly #entries = new Map<string, Entry>();
  readonly #notes: Notes;
  #names: Map<string, string> | undefined;
  #has_provider_tools = false;

  constructor(notes: Notes) {
    this.#notes = notes;
  }

  /** Adds a list of tools of a body. Raises invalid_request. */
  addAll(value: unknown, param: string): void {
    for (const [index, tool] of listAt(value, param).entries())
      this.#add(objectAt(tool, `${param}.${index}`), `${param}.${index}`);
  }

  /** The tools, each with what its client needs to call it. Raises not_translatable where none of them can be called. */
  tools(): Tool[] {
    const tools = [...this.#entries].map(([key, { tool, namespace, search }]): Tool => {
      const name = this.#assigned().get(key)!;
      if (namespace === undefined && search !== true) return tool;
      return {
        ...tool,
        name,
        address: { name: tool.name, ...(namespace !== undefined && { namespace }), ...(search && { search }) },
      };
    });
    if (this.#has_provider_tools) {
      if (tools.length === 0) this.#notes.refuse('only_provider_tools', 'tools');
      this.#notes.note('provider_tool');
    }
    return tools;
  }

  /** The name of a tool in the conversation; for one that is not in the list, what it would be. */
  nameOf(namespace: string | undefined, name: string): string {
    const plain = namespace === undefined ? name : `${namespace}__${name}`;
    return this.#assigned().get(keyOf(namespace, name)) ?? plain;
  }

  /** The name of the client's search for tools, if it has one. */
  get search(): string | undefined {
    return this.#assigned().get(SEARCH_KEY);
  }

  #add(tool: Json, param: string) {
    if (tool.type === 'namespace') return this.#addNamespace(tool, param);
    if (tool.type === 'tool_search' && tool.execution === 'client') return this.#addSearch(tool, param);
    if (typeof tool.type !== 'string')
      throw invalid(`${param}.type`, `must be one of ${CLIENT_KINDS.join(', ')} or a tool of the provider`);
    if (!CLIENT_KINDS.includes(tool.type)) this.#has_provider_tools = true;
    else this.#put(keyOf(undefined, nameAt(tool.name, `${param}.name`)), { tool: readTool(tool, param, this.#notes) });
  }

  #addNamespace(group: Json, param: string): void {
    const namespace = nameAt(group.name, `${param}.name`);
    this.#notes.note('tool_namespace');
    for (const [index, value] of listAt(group.tools, `${param}.tools`).entries()) {
      const path = `${param}.tools.${index}`;
      const tool = readTool(objectAt(value, path), path, this.#notes);
      this.#put(keyOf(namespace, tool.name), { tool, namespace });
    }
  }

  #addSearch(tool: Json, param: string): void {
    this.#notes.note('tool_search');
    const description = optional(tool, 'description', textAt, `${param}.`);
    const parameters = readSchema(tool.parameters, `${param}.parameters`);
    this.#put(SEARCH_KEY, {
      tool: { name: 'tool_search', ...(description !== undefined && { description }), parameters },
      search: true,
    });
  }

  #put(key: string, entry: Entry): void {
    if (!this.#entries.has(key)) this.#entries.set(key, entry);
  }

  #assigned(): Map<string, string> {
    this.#names ??= assignNames(this.#entries);
    return this.#names;
  }
}

const SEARCH_KEY = 'tool_search';

/** Plain names come first: they stay as they are whatever stands before them. */
function assignNames(entries: ReadonlyMap<string, Entry>): Map<string, string> {
  const names = new Map<string, string>();
  const taken = new Set<string>();
  const isPlain = ({ namespace, search }: Entry) => namespace === undefined && search !== true;
  const take = (key: string, wanted: string) => {
    let name = wanted;
    for (let next = 2; taken.has(name); next++) name = `${wanted}_${next}`;
    taken.add(name);
    names.set(key, name);
  };
  for (const [key, entry] of entries) if (isPlain(entry)) take(key, entry.tool.name);
  for (const [key, entry] of entries) {
    if (!isPlain(entry))
      take(key, entry.namespace === undefined ? entry.tool.name : `${entry.namespace}__${entry.tool.name}`);
  }
  return names;
}

/** A tool of the client, under its own name. */
function readTool(tool: Json, param: string, notes: Notes): Tool {
  const name = nameAt(tool.name, `${param}.name`);
  const description = optional(tool, 'description', textAt, `${param}.`);
  if (LOST_OPTIONS.some((key) => !isAbsent(tool[key]) && tool[key] !== false)) notes.note('tool_options');
  if (tool.type === 'custom') return readCustomTool(tool, name, description, param, notes);
  if (tool.type !== 'function') throw invalid(`${param}.type`, 'must be function or custom');
  const parameters = readSchema(tool.parameters, `${param}.parameters`);
  return {
    name,
    ...(description !== undefined && { description }),
    parameters,
    ...(tool.strict === true && { strict: true }),
  };
}

function readCustomTool(tool: Json, name: string, description: string | undefined, param: string, notes: Notes): Tool {
  const format = optional(tool, 'format', objectAt, `${param}.`);
  const said = format?.type === 'grammar' ? withGrammar(description, format, `${param}.format`, notes) : description;
  return {
    name,
    ...(said !== undefined && { description: said }),
    parameters: FREE_TEXT_PARAMETERS,
    free_text: true,
  };
}

/** A choice of tools, with the tools it leaves. */
export interface Chosen {
  readonly tool_choice?: ToolChoice;
  readonly tools: readonly Tool[];
}

const SIMPLE: Readonly<Record<string, ToolChoice>> = {
  auto: { kind: 'auto' },
  none: { kind: 'none' },
  required: { kind: 'any' },
};

/** Reads `tool_choice`. Raises invalid_request and not_translatable. */
export function readToolChoice(value: unknown, tools: readonly Tool[], book: ToolBook, notes: Notes): Chosen {
  if (isAbsent(value)) return { tools };
  if (typeof value === 'string') {
    if (!Object.hasOwn(SIMPLE, value)) throw invalid('tool_choice', 'must be auto, none, required or an object');
    return { tool_choice: SIMPLE[value]!, tools };
  }
  const choice = objectAt(value, 'tool_choice');
  if (choice.type === 'allowed_tools') return readAllowed(choice, tools, book, notes);
  if (choice.type !== 'function' && choice.type !== 'custom') {
    textAt(choice.type, 'tool_choice.type');
    return notes.refuse('provider_tool_choice', 'tool_choice');
  }
  return { tool_choice: { kind: 'tool', name: namedBy(choice, 'tool_choice', book) }, tools };
}

function namedBy(choice: Json, param: string, book: ToolBook): string {
  const namespace = optional(choice, 'namespace', nameAt, `${param}.`);
  return book.nameOf(namespace, nameAt(choice.name, `${param}.name`));
}

function readAllowed(choice: Json, tools: readonly Tool[], book: ToolBook, notes: Notes): Chosen {
  notes.note('allowed_tools');
  const allowed = new Set<string>();
  for (const [index, value] of listAt(choice.tools, 'tool_choice.tools').entries()) {
    const param = `tool_choice.tools.${index}`;
    const tool = objectAt(value, param);
    if (tool.type === 'function' || tool.type === 'custom') allowed.add(namedBy(tool, param, book));
  }
  const left = tools.filter(({ name }) => allowed.has(name));
  if (choice.mode !== 'required') return { tool_choice: { kind: 'auto' }, tools: left };
  if (left.length === 0) return notes.refuse('provider_tool_choice', 'tool_choice');
  return { tool_choice: { kind: 'any' }, tools: left };
}

/** The tools that a search found, as its result tells them to the model. */
export function describeFound(value: unknown, book: ToolBook): string {
  const names = (Array.isArray(value) ? value : []).filter(isObject).flatMap((tool) => {
    if (typeof tool.name !== 'string') return [];
    if (tool.type !== 'namespace') return [book.nameOf(undefined, tool.name)];
    const inner = (Array.isArray(tool.tools) ? tool.tools : []).filter(isObject);
    return inner.flatMap(({ name }) => (typeof name === 'string' ? [book.nameOf(tool.name as string, name)] : []));
  });
  return names.length === 0 ? 'No tools were found.' : `These tools can be called now: ${names.join(', ')}`;
}
