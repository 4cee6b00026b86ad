import { FACTS, type FactPath } from './facts.ts';

/** Facts the engine itself writes before the first stage or after the last; no stage may declare them in `writes`. */
export const ENGINE_FACTS: readonly FactPath[] = (Object.keys(FACTS) as FactPath[]).filter(
  (path) =>
    /^request\.(id|method|path|protocol|received_at|region|agent|client\.|session_id)/.test(path) ||
    path.startsWith('outcome.') ||
    path.startsWith('error.'),
);

/** Facts that are always present, before the first stage runs. */
export const INITIAL_FACTS: readonly FactPath[] = [
  'request.id',
  'request.method',
  'request.path',
  'request.protocol',
  'request.received_at',
  'request.client.address',
];
