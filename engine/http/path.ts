/** The path of a request target as received, without its query; never decoded or normalised, so that it means one thing. */
export function pathOf(url: string): string {
  const query = url.indexOf('?');
  return query < 0 ? url : url.slice(0, query);
}
