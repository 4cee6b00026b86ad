import { childOf, itemsOf, type Node, type SourcePosition, toValue } from '../../source/node.ts';
import type { Policy } from '../../source/spec.ts';
import { mergeAll } from './merge.ts';

/** One setting of somebody, and which of their policies it is from. */
export interface SettingOrigin {
  /** Keys that lead to it, the outermost first. */
  readonly path: readonly string[];
  /** The whole value, or one item of a list that several policies have items in. */
  readonly value: unknown;
  readonly is_item: boolean;
  readonly policy: string;
  readonly position: Pick<SourcePosition, 'file' | 'line'>;
  /** Policies whose value it replaced, the first at the bottom. */
  readonly replaces: readonly string[];
}

/** Where every setting of policies that are laid over each other is from; the first policy is at the bottom. */
export function settingOrigins(policies: readonly Policy[]): SettingOrigin[] {
  const [first] = policies;
  if (first === undefined) return [];
  const merged = mergeAll(
    policies.map(({ settings }) => settings),
    first.settings.mark,
  );
  return originsBelow(merged, [], policies);
}

function originsBelow(node: Node, path: readonly string[], policies: readonly Policy[]): SettingOrigin[] {
  if (node.kind === 'map' && (node.entries.length > 0 || path.length === 0)) {
    return node.entries.flatMap(({ key, value }) => originsBelow(value, [...path, key], policies));
  }
  const at = (policy: Policy) => childOf(policy.settings, ...path);
  const whole = policies.find((policy) => at(policy) === node);
  if (whole !== undefined || node.kind !== 'list') {
    const last = whole ?? policies.findLast((policy) => at(policy) !== undefined)!;
    const below = policies.slice(0, policies.indexOf(last)).filter((policy) => at(policy) !== undefined);
    return [origin(node, path, last, below, false)];
  }
  return node.items.map((item) => {
    const policy = policies.find((each) => itemsOf(at(each)).includes(item))!;
    return origin(item, path, policy, [], true);
  });
}

function origin(
  node: Node,
  path: readonly string[],
  { name }: Policy,
  below: readonly Policy[],
  is_item: boolean,
): SettingOrigin {
  const { file, line } = node.mark;
  const replaces = below.map((policy) => policy.name);
  return { path, value: toValue(node), is_item, policy: name, position: { file, line }, replaces };
}
