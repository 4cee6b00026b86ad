import { useEffect, useRef } from 'react';
import { piecesOf } from './yaml.ts';

interface YamlLinesProps {
  /** What the lines are, for those who do not see where they stand. */
  readonly label: string;
  /** Those of the whole file. */
  readonly lines: readonly string[];
  /** Only these lines, counted from 1. */
  readonly from?: number;
  readonly to?: number;
  /** Lines that are meant, marked and brought into view. */
  readonly marked?: { readonly from: number; readonly to: number };
  /** Whether the first marked line is scrolled to. */
  readonly scrolls?: boolean;
}

/** Lines of YAML with their numbers. */
export function YamlLines({ label, lines, from = 1, to, marked, scrolls = false }: YamlLinesProps) {
  const cut = lines.slice(from - 1, to ?? lines.length);
  // A part of a file needs no room for where it stands.
  const indent = to === undefined ? 0 : /^ */.exec(cut[0] ?? '')![0].length;
  const shown = cut.map((line) => (line.slice(0, indent).trim() === '' ? line.slice(indent) : line));
  const first_marked = marked?.from;
  const target = useRef<HTMLSpanElement>(null);
  useEffect(() => {
    if (scrolls && first_marked !== undefined) target.current?.scrollIntoView({ block: 'center' });
  }, [scrolls, first_marked]);
  return (
    <pre className="config-yaml" role="region" aria-label={label} tabIndex={0}>
      <code>
        {shown.map((line, i) => {
          const number = from + i;
          const is_marked = marked !== undefined && number >= marked.from && number <= marked.to;
          return (
            <span
              key={number}
              ref={number === first_marked ? target : undefined}
              className={is_marked ? 'config-line marked' : 'config-line'}
            >
              <span className="config-number" aria-hidden="true">
                {number}
              </span>
              <YamlLine line={line} />
              {'\n'}
            </span>
          );
        })}
      </code>
    </pre>
  );
}

/** One line of YAML in colours. */
export function YamlLine({ line }: { readonly line: string }) {
  return (
    <span className="config-text">
      {piecesOf(line).map(({ kind, text }, i) =>
        kind === 'plain' ? (
          text
        ) : (
          // biome-ignore lint/suspicious/noArrayIndexKey: pieces of a line have no other name and never move.
          <span key={i} className={`config-yaml-${kind}`}>
            {text}
          </span>
        ),
      )}
    </span>
  );
}
