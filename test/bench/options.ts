import { parseArgs } from 'node:util';

/** The parts of the bench, in the order in which they are shown. */
export const PARTS = ['0.5k', '100k', '1m', 'streams'] as const;
export type Part = (typeof PARTS)[number];

/** Another gateway that already runs. */
export interface Peer {
  readonly url: string;
  readonly token: string;
  readonly pid?: number;
}

function refuse(problem: string): never {
  console.error(problem);
  process.exit(64);
}

const numberOf = (option: string, text: string) =>
  /^\d+$/.test(text) ? Number(text) : refuse(`${option} ${text}: a number is needed`);

function partsOf(text: string): Part[] {
  const wanted = text.split(',').map((part) => part.trim());
  const unknown = wanted.find((part) => !PARTS.includes(part as Part));
  if (unknown !== undefined) refuse(`--only ${unknown}: there is no such part; choose from ${PARTS.join(', ')}`);
  return PARTS.filter((part) => wanted.includes(part));
}

/** Each `--peer` goes with the `--token` and the `--peer-pid` at the same place. */
function peersOf(urls: readonly string[], tokens: readonly string[], pids: readonly string[]): Peer[] {
  if (tokens.length !== urls.length) refuse(`${urls.length} times --peer needs as many times --token`);
  if (pids.length > urls.length) refuse('there are more --peer-pid than --peer');
  return urls.map((url, at) => ({
    url,
    token: tokens[at]!,
    ...(pids[at] === undefined ? {} : { pid: numberOf('--peer-pid', pids[at]) }),
  }));
}

/** Reads the command line; ends the program where it makes no sense. */
export function readOptions() {
  const { values } = parseArgs({
    options: {
      quick: { type: 'boolean', default: false },
      only: { type: 'string' },
      profile: { type: 'boolean', default: false },
      json: { type: 'string', default: 'bench-results.json' },
      against: { type: 'string' },
      peer: { type: 'string', multiple: true, default: [] },
      token: { type: 'string', multiple: true, default: [] },
      'peer-pid': { type: 'string', multiple: true, default: [] },
      'upstream-port': { type: 'string', default: '0' },
    },
  });
  const { against, quick, profile, json } = values;
  if (against !== undefined && (profile || values.peer.length > 0))
    refuse('--against goes with no --profile and no --peer');
  return {
    quick,
    profile,
    json,
    against,
    parts: partsOf(values.only ?? (against === undefined ? PARTS.join(',') : '0.5k,100k')),
    peers: peersOf(values.peer, values.token, values['peer-pid']),
    upstream_port: numberOf('--upstream-port', values['upstream-port']),
  };
}
