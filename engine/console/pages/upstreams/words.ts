import type { AnswerOf } from '../../api/client.ts';
import type { Tone } from '../../parts/badge.tsx';

/** An upstream as the page shows it. */
export type Upstream = AnswerOf<'listUpstreams'>['upstreams'][number];
/** What went to one. */
export type Traffic = AnswerOf<'getUpstreamTraffic'>['upstreams'][number];
/** What kept requests from one for a while. */
export type Trouble = AnswerOf<'listUpstreamTroubles'>['troubles'][number];

/** What a state is called, how bad it is, and what it means for requests. */
export const STATES: Readonly<Record<Upstream['state'], { word: string; tone: Tone; means: string }>> = {
  closed: { word: 'As it should be', tone: 'good', means: 'Requests pass.' },
  open: { word: 'Breaker open', tone: 'alarm', means: 'It failed too often and is left out' },
  half_open: { word: 'Being tried', tone: 'warn', means: 'One request at a time tries whether it serves again' },
  limited: { word: 'Limited', tone: 'warn', means: 'It answered 429: the account has no room there' },
  credential: { word: 'Credential refused', tone: 'alarm', means: 'It refused the credential of the gateway' },
  model_missing: { word: 'Model missing', tone: 'warn', means: 'It does not have this model' },
  drained: { word: 'Drained', tone: 'info', means: 'It gets no new requests' },
  unknown: { word: 'Unknown', tone: 'plain', means: 'Nothing is known of it here' },
};

/** What kept requests away, in words. */
export const TROUBLES: Readonly<Record<Trouble['kind'], string>> = {
  open: 'Failed too often',
  unreachable: 'No connection',
  credential: 'Credential refused',
  limited: 'Limited (429)',
};

const SECOND = 1000;
const UNITS = [
  ['d', 86_400 * SECOND],
  ['h', 3600 * SECOND],
  ['min', 60 * SECOND],
  ['s', SECOND],
] as const;

/** How long something lasted, in its two largest units, such as `2 min 5 s`. */
export function duration(ms: number): string {
  if (ms < SECOND) return `${Math.round(ms)} ms`;
  const at = UNITS.findIndex(([, size]) => ms >= size);
  const [unit, size] = UNITS[at]!;
  const next = UNITS[at + 1];
  const whole = Math.floor(ms / size);
  const rest = next === undefined ? 0 : Math.floor((ms % size) / next[1]);
  return rest === 0 ? `${whole} ${unit}` : `${whole} ${unit} ${rest} ${next![0]}`;
}
