import { type Node, nodeAt, textOf } from './node.ts';
import { alternativeKeys } from './schema-wording.ts';
import type { SchemaError } from './validator.ts';

/**
 * The errors that count where a schema has alternatives. Of alternatives by key it is that none of the keys is there; of
 * alternatives by value those of the one that was meant: a list, where a list stands there, a mapping for a mapping, and
 * words where a text does.
 */
export function withoutOtherBranches(errors: readonly SchemaError[], root: Node): SchemaError[] {
  const alternatives = errors.filter(({ keyword }) => keyword === 'anyOf');
  const by_value = alternatives.filter((error) => alternativeKeys(error).length === 0);
  const others = alternatives.flatMap((error): OtherBranch[] => {
    const { instancePath: at, schemaPath } = error;
    if (!by_value.includes(error)) return [{ at, path: `${schemaPath}/` }];
    const branches = (error.parentSchema?.anyOf ?? []) as readonly Branch[];
    const meant = branchFor(nodeAt(root, at), branches);
    const kept = `${schemaPath}/${meant}/`;
    return branches.flatMap(({ $ref }, i) =>
      i === meant ? [] : [$ref === undefined ? { at, path: `${schemaPath}/${i}/` } : { at, kept }],
    );
  });
  return errors.filter((error) => !by_value.includes(error) && !others.some((branch) => isOf(branch, error)));
}

/** An alternative that was not meant. */
interface OtherBranch {
  /** The value there is a choice for. Items of one list come under the same schema, and each may mean another of its branches. */
  readonly at: string;
  /** How the paths of its errors begin; a definition has paths of its own. */
  readonly path?: string;
  /** How those of the branch that was meant begin. */
  readonly kept?: string;
}

/** What a definition says below the value may as well be about the items of the list that was meant. */
function isOf({ at, path, kept }: OtherBranch, { instancePath, schemaPath }: SchemaError): boolean {
  if (path === undefined) return instancePath === at && !schemaPath.startsWith(kept!);
  return schemaPath.startsWith(path) && `${instancePath}/`.startsWith(`${at}/`);
}

interface Branch {
  readonly $ref?: string;
  readonly type?: string;
  readonly enum?: readonly unknown[];
}

/** The place of the alternative that somebody who wrote this has meant. */
function branchFor(node: Node, branches: readonly Branch[]): number {
  const fitting = branches.filter(({ type }) => kindOf(type) === node.kind);
  const words = textOf(node) === undefined ? undefined : fitting.find((branch) => branch.enum !== undefined);
  return Math.max(branches.indexOf(words ?? fitting[0] ?? branches[0]!), 0);
}

/** What a value of a type of JSON Schema is in a file; what is no list or mapping, or has no type, is a scalar. */
function kindOf(type: string | undefined): Node['kind'] {
  return type === 'array' ? 'list' : type === 'object' ? 'map' : 'scalar';
}
