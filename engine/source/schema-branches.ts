import { type Node, nodeAt } from './node.ts';
import { alternativeKeys } from './schema-wording.ts';
import type { SchemaError } from './validate.ts';

/**
 * The errors that count where a schema has alternatives. Of alternatives by key it is that none of the keys is there; of
 * alternatives by value those of the one that was meant: a list, where a list stands there.
 */
export function withoutOtherBranches(errors: readonly SchemaError[], root: Node): SchemaError[] {
  const alternatives = errors.filter(({ keyword }) => keyword === 'anyOf');
  const by_value = alternatives.filter((error) => alternativeKeys(error).length === 0);
  const others = alternatives.flatMap((error) => {
    if (!by_value.includes(error)) return [`${error.schemaPath}/`];
    const branches = (error.parentSchema?.anyOf ?? []) as readonly { readonly type?: string }[];
    const is_list = nodeAt(root, error.instancePath).kind === 'list';
    const meant = Math.max(
      branches.findIndex(({ type }) => (type === 'array') === is_list),
      0,
    );
    return branches.flatMap((_, i) => (i === meant ? [] : [`${error.schemaPath}/${i}/`]));
  });
  return errors.filter(
    (error) => !by_value.includes(error) && !others.some((branch) => error.schemaPath.startsWith(branch)),
  );
}
