/**
 * Calls of tools that the provider has taught its models and the client runs, such as shells: other protocols call them like any
 * other tool.
 * @module
 */

import { isAbsent, isObject, jsonTextAt, objectAt } from '../read-json.ts';
import type { Json } from '../translation/adapter.ts';
import type { ImagePart, ToolCallPart, ToolResultPart } from '../translation/conversation.ts';
import { readUrl } from '../translation/files.ts';

/** The name of the tool, and the field with what it was told. */
const CALLS: ReadonlyMap<unknown, readonly [name: string, told: string]> = new Map([
  ['local_shell_call', ['local_shell', 'action']],
  ['shell_call', ['shell', 'action']],
  ['apply_patch_call', ['apply_patch', 'operation']],
  ['computer_call', ['computer', 'action']],
]);

const RESULTS: ReadonlySet<unknown> = new Set([...CALLS.keys()].map((type) => `${type}_output`));

/** By what an item names its call: one of these items has no `call_id`, but the identifier of the call's item. */
function namesOf({ call_id, id }: Json): readonly string[] {
  return [call_id, id].filter((name) => typeof name === 'string' && name !== '') as string[];
}

const isResult = ({ type }: Json): boolean => typeof type === 'string' && type.endsWith('_output');

/** The calls and results of one input that belong together. */
export class ClientCalls {
  /** Identifiers of calls, by all their names, that have a result. */
  readonly #answered = new Map<string, string>();

  constructor(items: readonly unknown[]) {
    const results = new Set(items.flatMap((item) => (isObject(item) && isResult(item) ? namesOf(item) : [])));
    for (const item of items) {
      if (!isObject(item) || !CALLS.has(item.type)) continue;
      const names = namesOf(item);
      if (names.some((name) => results.has(name))) for (const name of names) this.#answered.set(name, names[0]!);
    }
  }

  /** The call that an item is; `undefined` for other items, and for calls without a result. Raises invalid_request. */
  callOf(item: Json, param: string): ToolCallPart | undefined {
    const [name, told] = CALLS.get(item.type) ?? [];
    const id = this.#idOf(item);
    if (name === undefined || id === undefined) return undefined;
    const at = `${param}.${told}`;
    // A computer can be told several actions at once, or none.
    const what = name === 'computer' && isAbsent(item.action) ? { actions: item.actions } : objectAt(item[told!], at);
    return { kind: 'tool_call', id, name, arguments: jsonTextAt(what, at) };
  }

  /** The result that an item is; `undefined` for other items, and for results of no call. Raises invalid_request. */
  resultOf(item: Json, param: string): ToolResultPart | undefined {
    const call_id = RESULTS.has(item.type) ? this.#idOf(item) : undefined;
    if (call_id === undefined) return undefined;
    return {
      kind: 'tool_result',
      call_id,
      parts: partsOf(item.output, `${param}.output`),
      is_error: item.status === 'failed',
    };
  }

  #idOf(item: Json): string | undefined {
    return namesOf(item)
      .map((name) => this.#answered.get(name))
      .find((id) => id !== undefined);
  }
}

function partsOf(output: unknown, param: string): ToolResultPart['parts'] {
  if (output === undefined || output === null || output === '') return [];
  if (typeof output === 'string') return [{ kind: 'text', text: output }];
  if (isObject(output) && typeof output.image_url === 'string')
    return [{ kind: 'image', source: readUrl(output.image_url, `${param}.image_url`) } satisfies ImagePart];
  return [{ kind: 'text', text: jsonTextAt(output, param) }];
}
