import { listed } from '../kit/text/suggest.ts';
import { DEFINITIONS } from '../protocols/definitions.ts';

/** Paths that clients ask for below their base URL. */
const PATHS = Object.values(DEFINITIONS).map(({ path }) => path);
const ENDS = [...PATHS, '/v1/messages/count_tokens', '/v1/models'];

const BASE_URLS = 'The base URL of a Messages client is the root of the gateway, that of other clients ends in /v1.';

/** What to say about a path that nothing serves: the one that was meant, where a wrong base URL or a typing error shows. */
export function describeWrongPath(path: string, isServed: (path: string) => boolean): string {
  const typed = path
    .toLowerCase()
    .replace(/\/{2,}/g, '/')
    .replace(/\/$/, '');
  const meant = ENDS.find((end) => typed.endsWith(end.slice('/v1'.length)) && isServed(end));
  if (meant !== undefined) return `There is nothing at this path; did you mean ${meant}? ${BASE_URLS}`;
  const served = PATHS.filter(isServed);
  const where = served.length === 0 ? '' : ` Model requests go to POST ${listed(served)}.`;
  return `There is nothing at this path.${where}`;
}
