import { fieldsOf } from './fields.ts';

/** Types of tools that say nothing beside the name. */
const PLAIN: ReadonlySet<unknown> = new Set(['function', 'custom', undefined, null]);

/** Where the definition of a tool may keep its name, in any of the protocols. */
const AROUND_NAME = ['function', 'custom'] as const;

/** Longest name that is told; providers allow less. */
const NAME_LENGTH_MAX = 128;

/** What tools are called, and the types of those that are not plain functions, each once, in any of the protocols. */
export function toolNames(tools: readonly unknown[]): readonly string[] {
  const names = new Set<string>();
  const add = (name: unknown) => {
    if (typeof name === 'string' && name !== '') names.add(name.slice(0, NAME_LENGTH_MAX));
  };
  for (const tool of tools) {
    const fields = fieldsOf(tool);
    add(fields.name);
    for (const key of AROUND_NAME) add(fieldsOf(fields[key]).name);
    if (!PLAIN.has(fields.type)) add(fields.type);
  }
  return [...names];
}
