import { parseArgs } from 'node:util';
import type { BodyName } from './bodies.ts';

/** The parts of the bench, in the order in which they are shown. */
export const PARTS = ['0.5k', '100k', '1m', 'streams', 'long-streams'] as const;
export type Part = (typeof PARTS)[number];
export type StreamPart = Exclude<Part, BodyName>;

/** Whether a part is one of streams. */
export const isOfStreams = (part: Part): part is StreamPart => part.endsWith('streams');

function refuse(problem: string): never {
  console.error(problem);
  process.exit(64);
}

function partsOf(text: string): Part[] {
  const wanted = text.split(',').map((part) => part.trim());
  const unknown = wanted.find((part) => !PARTS.includes(part as Part));
  if (unknown !== undefined) refuse(`--only ${unknown}: there is no such part; choose from ${PARTS.join(', ')}`);
  return PARTS.filter((part) => wanted.includes(part));
}

/** Reads the command line; ends the program where it makes no sense. */
export function readOptions() {
  const { values } = parseArgs({
    options: {
      quick: { type: 'boolean', default: false },
      only: { type: 'string' },
      json: { type: 'string', default: 'bench-results.json' },
      against: { type: 'string' },
      database: { type: 'boolean', default: false },
    },
  });
  const { only, ...others } = values;
  if (others.database && others.against !== undefined) refuse('--database reports one gateway; leave --against out');
  return { ...others, parts: partsOf(only ?? (others.against === undefined ? PARTS.join(',') : '0.5k,100k')) };
}
