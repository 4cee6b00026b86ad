/** What queries in PromQL ask for, read by the grammar of Prometheus itself. */
import { parser } from '@prometheus-io/lezer-promql';

/** A selection of series in a query. */
export interface Selection {
  /** Name of the metric; empty for a selection without one. */
  readonly metric: string;
  /** Labels that decide which series are meant. */
  readonly matched: readonly string[];
  /** Labels that series are kept apart by, in any aggregation around it. */
  readonly grouped: readonly string[];
}

type Node = ReturnType<typeof parser.parse>['topNode'];

/** A query that Prometheus would not take. */
export class QueryError extends Error {}

function namesIn(node: Node, text: string): string[] {
  return node.getChildren('LabelName').map(({ from, to }) => text.slice(from, to));
}

function readSelection(node: Node, text: string, grouped: readonly string[]): Selection {
  const name = node.getChild('Identifier');
  const matchers = node.getChild('LabelMatchers')?.getChildren('UnquotedLabelMatcher') ?? [];
  return {
    metric: name === null ? '' : text.slice(name.from, name.to),
    matched: matchers.flatMap((matcher) => namesIn(matcher, text)),
    grouped,
  };
}

function collect(node: Node, text: string, grouped: readonly string[], found: Selection[]): void {
  if (node.type.isError) throw new QueryError(`no PromQL at character ${node.from}: ${text}`);
  if (node.name === 'VectorSelector') found.push(readSelection(node, text, grouped));
  const labels = node.getChild('AggregateModifier')?.getChild('GroupingLabels');
  const inner = labels ? [...grouped, ...namesIn(labels, text)] : grouped;
  for (let child = node.firstChild; child !== null; child = child.nextSibling) collect(child, text, inner, found);
}

/** Every selection of a query; throws a `QueryError` for what is none. */
export function selectionsOf(query: string): readonly Selection[] {
  const found: Selection[] = [];
  collect(parser.parse(query).topNode, query, [], found);
  return found;
}
