/** Names of one model: providers list an id with a date, and take it without one or with another ending. */

const DATE = /[-@](?:20\d{6}|20\d{2}-\d{2}-\d{2})$/;
const ENDING = /-(?:latest|0)$/;

/** An id without what tells one name of a model from another: its date, `-latest`, or the `-0` of a first version. */
export function plainName(id: string): string {
  return id.replace(DATE, '').replace(ENDING, '');
}

/** Ids and globs for all names of the model that an id means, itself the first; a glob stays as it is. */
export function namesMeant(id: string): readonly string[] {
  if (id.includes('*')) return [id];
  const plain = plainName(id);
  return [...new Set([id, plain, `${plain}-0`, `${plain}-latest`, `${plain}-20*`, `${plain}@20*`])];
}
