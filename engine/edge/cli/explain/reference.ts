/** Index of the generated reference (`schemas/generated/reference/*.md`): terms are headings and rows of tables. */
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { PACKAGE_ROOT } from '../../../base/kit/package-root.ts';
import { apart, formatList, paragraph, WIDTH } from '../output.ts';

/** Pages of the reference by kind of term. */
export const KINDS: Readonly<Record<string, readonly string[]>> = {
  code: ['diagnostics'],
  stage: ['stages'],
  fact: ['facts'],
  operator: ['operators'],
  error: ['errors'],
  header: ['headers', 'privileged-fields'],
  field: ['privileged-fields'],
  key: ['gateway', 'pipeline', 'policy'],
  failover: ['failover'],
  telemetry: ['telemetry'],
  translation: ['translation'],
};

/** A part of a page. */
export type Block =
  | {
      readonly kind: 'table';
      readonly titles: readonly string[];
      readonly rows: readonly (readonly string[])[];
      readonly is_contents: boolean;
    }
  | { readonly kind: 'code' | 'text'; readonly text: string }
  | { readonly kind: 'heading'; readonly text: string; readonly level: number };

/** An entry of the reference. */
export interface Entry {
  readonly page: string;
  readonly word: string;
  /** Whether the term is unambiguous; keys and common words may also be names of pipelines. */
  readonly is_plain: boolean;
  readonly blocks: readonly Block[];
  readonly below: readonly string[];
}

const NAMING = ['In Prometheus', 'Name'];
const ALWAYS_PLAIN = ['diagnostics', 'stages', 'operators', 'errors', 'headers'];

/** Reads a page as blocks. */
export function readPage(name: string): readonly Block[] {
  const text = readFileSync(join(PACKAGE_ROOT, 'schemas', 'generated', 'reference', `${name}.md`), 'utf8');
  const parts: string[] = [''];
  let in_code = false;
  for (const line of text.split('\n')) {
    if (line.startsWith('```')) in_code = !in_code;
    if (line === '' && !in_code) parts.push('');
    else parts.push(`${parts.pop()}${line}\n`);
  }
  return parts.flatMap((part) => (part === '' || part.startsWith('<!--') ? [] : [blockOf(part.trimEnd())]));
}

function blockOf(part: string): Block {
  const [, marks, heading] = /^(#+) (.+)$/.exec(part) ?? [];
  if (heading !== undefined) return { kind: 'heading', text: plain(heading), level: marks!.length };
  if (part.startsWith('```')) return { kind: 'code', text: part.replace(/^```\w*\n/, '').replace(/\n?```$/, '') };
  if (!part.startsWith('| ')) return { kind: 'text', text: plain(part) };
  const [titles = [], , ...rows] = part.split('\n').map((line) => line.slice(2, -2).split(/ +\| /).map(plain));
  return { kind: 'table', titles, rows, is_contents: /\n\| \[[^\]]+\]\(#/.test(part) };
}

/** Markdown as plain text. A cell that contains only names loses its backticks. */
function plain(text: string): string {
  const shown = text
    .trim()
    .replaceAll(/\[([^\]]+)\]\([^)]*\)/g, '$1')
    .replaceAll('**', '')
    .replaceAll('&lt;', '<')
    .replaceAll(/\\([*|])/g, '$1');
  return /^(?:`[^`]+`(?:, |$))+$/.test(shown) ? shown.replaceAll('`', '') : shown.replace(/^`` (.+) ``$/, '$1');
}

/** All entries of some pages. */
export function entriesOf(pages: readonly string[]): readonly Entry[] {
  return pages.flatMap((page) => {
    const [title, ...blocks] = readPage(page) as [Block & { readonly text: string }, ...Block[]];
    const about = (word: string, of: readonly Block[], below: readonly string[] = []): Entry => {
      const is_plain = ALWAYS_PLAIN.includes(page) || (/[._]/.test(word) && ['facts', 'telemetry'].includes(page));
      return { page: title.text, word, is_plain, blocks: of, below };
    };
    return blocks.flatMap((block, i) => {
      if (block.kind === 'heading') return / /.test(block.text) ? [] : [about(block.text, sectionAt(blocks, i))];
      if (block.kind !== 'table' || block.is_contents) return [];
      const names = block.rows.map((row) => row[0]!);
      return block.rows.flatMap((row) => {
        const more = NAMING.map((column) => row[block.titles.indexOf(column)] ?? '');
        const words = [...row[0]!.split(', '), ...more].filter((word) => /^[^ ]+$/.test(word));
        return words.map((word) => about(word, [{ ...block, rows: [row] }], keysBelow(word, names)));
      });
    });
  });
}

function sectionAt(blocks: readonly Block[], at: number): readonly Block[] {
  const { level } = blocks[at] as Block & { readonly level: number };
  const end = blocks.findIndex((block, i) => i > at && block.kind === 'heading' && block.level <= level);
  return blocks.slice(at + 1, end === -1 ? undefined : end);
}

function keysBelow(key: string, keys: readonly string[]): string[] {
  return keys.flatMap((other) => {
    const rest = other.startsWith(key) ? /^(?:\[\])?\.([^.]+)$/.exec(other.slice(key.length))?.[1] : undefined;
    return rest === undefined ? [] : [rest.replace('[]', '')];
  });
}

const bare = (word: string) => word.replaceAll(/\[\d*\]/g, '').toLowerCase();

/** Entries that match a text: exactly, by a `*` prefix, or else by the end of their path. */
export function findEntries(entries: readonly Entry[], text: string): readonly Entry[] {
  const wanted = bare(text);
  const isNamed = (word: string) =>
    bare(word) === wanted || (/[\w-]\*$/.test(word) && wanted.startsWith(bare(word).slice(0, -1)));
  const found = entries.filter(({ word }) => isNamed(word));
  return found.length > 0 ? found : entries.filter(({ word }) => bare(word).endsWith(`.${wanted}`));
}

export function mentioning(entries: readonly Entry[], text: string): readonly Entry[] {
  const word = new RegExp(`(?<![\\w-])${text.replaceAll(/\W/g, '\\$&')}(?![\\w-])`);
  return entries.filter(
    ({ blocks: [block] }) => block?.kind === 'table' && block.rows[0]!.some((cell) => word.test(cell)),
  );
}

export function describeBlocks(blocks: readonly Block[]): string[] {
  return apart(blocks.map(describeBlock));
}

function describeBlock(block: Block): string[] {
  if (block.kind === 'heading') return [block.text];
  if (block.kind === 'code') {
    const lines = block.text.split('\n');
    // Code is never wrapped, so that it can be copied; indent it only if it still fits.
    const indent = lines.every(({ length }) => length + 2 <= WIDTH) ? '  ' : '';
    return lines.map((line) => `${indent}${line}`.trimEnd());
  }
  if (block.kind !== 'table') {
    return block.text.split('\n').flatMap((line) => paragraph(line, '', line.startsWith('- ') ? '  ' : ''));
  }
  const { titles, rows } = block;
  const listed = formatList(titles, rows, WIDTH);
  if (listed.every((line) => line.length <= WIDTH)) return listed;
  const label_width = Math.min(20, Math.max(...titles.map((title) => title.length)) + 2);
  const records = rows.map((row) =>
    titles.flatMap((title, column) =>
      row[column] === '' ? [] : paragraph(row[column]!, `${title} `.padEnd(label_width), ' '.repeat(label_width)),
    ),
  );
  return apart(records);
}

export function describeEntries(entries: readonly Entry[]): string[] {
  const alike = Map.groupBy(entries, ({ blocks }) => JSON.stringify(blocks));
  const described = [...alike.values()].map(([entry]) => {
    const { page, word, blocks, below } = entry!;
    const keys = below.length === 0 ? [] : paragraph(`Keys: ${below.join(', ')}.`);
    return [`${page}: ${word}`, '', ...describeBlocks(blocks), ...keys];
  });
  return apart(described);
}

export function entriesData(entries: readonly Entry[]): object[] {
  return entries.map(({ page, word, blocks, below }) => ({
    page,
    word,
    says: blocks.flatMap((block): unknown[] =>
      block.kind === 'table'
        ? block.rows.map((row) => Object.fromEntries(block.titles.map((title, i) => [title, row[i]])))
        : [block.text],
    ),
    below,
  }));
}
