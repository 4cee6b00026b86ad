import { StageError } from '../contract/errors.ts';
import { closest, listed } from '../kit/text/suggest.ts';
import { DEFINITIONS } from '../protocols/definitions.ts';
import type { Plan } from '../run/plan.ts';

type Served = Pick<Plan, 'pipelinesAt'>;

/** Paths that clients ask for below their base URL. */
const PATHS = Object.values(DEFINITIONS).map(({ path }) => path);
const ENDS = [...PATHS, '/v1/messages/count_tokens', '/v1/models'];

/** Paths of APIs that clients know and no shipped pipeline serves. */
const OTHER_APIS = [
  ...['/v1/embeddings', '/v1/files', '/v1/batches', '/v1/messages/batches'],
  ...['/v1/images/generations', '/v1/images/edits', '/v1/images/variations'],
  ...['/v1/audio/transcriptions', '/v1/audio/translations', '/v1/audio/speech'],
  ...['/v1/moderations', '/v1/completions', '/v1/uploads', '/v1/vector_stores', '/v1/fine_tuning/jobs', '/v1/realtime'],
];

const BASE_URLS = 'The base URL of a Messages client is the root of the gateway, that of other clients ends in /v1.';

/** Why no pipeline takes a request: there is none at its path, or none there for its method. */
export function whyUnserved(plan: Served, path: string, method: string): StageError {
  const methods = plan.pipelinesAt(path);
  if (methods === undefined) {
    const isServed = (other: string) => plan.pipelinesAt(other) !== undefined;
    return new StageError('path_not_found', describeWrongPath(path, isServed));
  }
  const allow = [...methods.keys()].join(', ');
  const problem = `This path takes ${allow}, not ${method}.`;
  return new StageError('method_not_allowed', problem, { headers: { allow } });
}

/** What to say about a path that nothing serves: the one that was meant, where a wrong base URL or a typing error shows. */
function describeWrongPath(path: string, isServed: (path: string) => boolean): string {
  const typed = path
    .toLowerCase()
    .replace(/\/{2,}/g, '/')
    .replace(/\/$/, '');
  const ends = [...ENDS, ...OTHER_APIS];
  const meant =
    ends.find((end) => typed.endsWith(end.slice('/v1'.length)) && isServed(end)) ??
    closest(typed, ends.filter(isServed));
  if (meant !== undefined) return `There is nothing at this path; did you mean ${meant}? ${BASE_URLS}`;
  const served = PATHS.filter(isServed);
  const where = served.length === 0 ? '' : ` Model requests go to POST ${listed(served)}.`;
  const is_known = OTHER_APIS.some((api) => typed === api || typed.startsWith(`${api}/`));
  if (!is_known) return `There is nothing at this path.${where}`;
  return `This gateway does not serve this API; an administrator can add a pipeline for it, with the stage route-to.${where}`;
}
