import { parseArgs } from 'node:util';

/** The parts of the bench, in the order in which they are shown. */
export const PARTS = ['0.5k', '100k', '1m', 'streams'] as const;
export type Part = (typeof PARTS)[number];

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
    },
  });
  const { against, quick, json } = values;
  return {
    quick,
    json,
    against,
    parts: partsOf(values.only ?? (against === undefined ? PARTS.join(',') : '0.5k,100k')),
  };
}
