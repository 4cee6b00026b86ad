import { LRUCache } from 'lru-cache';
import type { Findings } from './findings.ts';
import type { MapNode } from './node.ts';
import { readText } from './read-text.ts';
import { parseSource } from './source.ts';

/**
 * Files without a mistake as they were last read. Most are the same at every reload, fragments are read once for each
 * pipeline, and parsing is more than half of what a reload computes.
 */
const parsed = new LRUCache<string, { readonly text: string; readonly root: MapNode }>({
  maxSize: 2_097_152,
  sizeCalculation: ({ text }) => text.length + 1,
});

/**
 * Reads and parses a configuration file; see `parseSource`.
 * @returns the top-level mapping, or `undefined` after reporting what is wrong.
 */
export function readSource(file: string, findings: Findings): MapNode | undefined {
  const text = readText(file, findings);
  if (text === undefined) return undefined;
  const known = parsed.get(file);
  if (known?.text === text) {
    findings.read(file, text);
    return known.root;
  }
  const root = parseSource(file, text, findings);
  if (root !== undefined) parsed.set(file, { text, root });
  return root;
}
