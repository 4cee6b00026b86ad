// biome-ignore-all lint/suspicious/noTemplateCurlyInString: placeholders of fragments look like this
import { didYouMean } from '../kit/text/suggest.ts';
import { keyName } from './describe.ts';
import type { Findings } from './findings.ts';
import { type MapNode, type Node, type ScalarNode, scalarsOf } from './node.ts';

const PLACEHOLDER = /^\$\{\{\s*([A-Za-z_][\w-]*)\s*\}\}$/;

/** A placeholder as it is written in a fragment. */
export const placeholder = (name: string): string => `\${{ ${name} }}`;

/** Names of the placeholders in a text. */
export function placeholdersIn(text: string): string[] {
  return [...text.matchAll(/\$\{\{\s*([A-Za-z_][\w-]*)/g)].map((match) => match[1] ?? '');
}

const holdsPlaceholder = (node: ScalarNode): boolean => typeof node.value === 'string' && node.value.includes('${{');

/** Reports placeholders in a file that is no fragment. */
export function refusePlaceholders(root: MapNode, findings: Findings): void {
  for (const scalar of scalarsOf(root)) {
    if (!holdsPlaceholder(scalar)) continue;
    findings.report('C2007', scalar.mark, 'placeholders exist in fragments only', { help: 'write the value' });
  }
}

/** A copy of a fragment's node with every placeholder replaced by the parameter's value. */
export function substitute(node: Node, values: ReadonlyMap<string, Node>, findings: Findings): Node {
  if (node.kind === 'list') return { ...node, items: node.items.map((item) => substitute(item, values, findings)) };
  if (node.kind === 'map') {
    const entries = node.entries.map((entry) => {
      if (entry.key.includes('${{')) {
        findings.report('C2005', entry.key_mark, 'a key cannot be a placeholder', { help: 'write the key' });
      }
      return { ...entry, value: substitute(entry.value, values, findings) };
    });
    return { ...node, entries };
  }
  return holdsPlaceholder(node) ? replacement(node, values, findings) : node;
}

function replacement(node: ScalarNode, values: ReadonlyMap<string, Node>, findings: Findings): Node {
  const name = PLACEHOLDER.exec(String(node.value))?.[1];
  if (name === undefined) {
    const closed = String(node.value).includes('}}');
    findings.report('C2005', node.mark, 'a placeholder stands for a whole value, not for a part of one', {
      expected: '${{ name }} and nothing else',
      help: closed ? 'make the whole text a parameter' : 'close it with }}',
    });
    return node;
  }
  const value = values.get(name);
  if (value !== undefined) return value;
  findings.report('C2006', node.mark, `the fragment declares no parameter ${keyName(name)}`, {
    help: didYouMean(name, values.keys(), 'declare it under `parameters:`'),
  });
  return node;
}
