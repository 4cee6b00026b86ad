/** Statuses of responses without a body (Fetch standard, null body status). */
const BODILESS: ReadonlySet<number> = new Set([204, 205, 304]);

/** Makes a Fetch `Response` of a response that was read completely. */
export function wholeResponse(
  status: number,
  headers: Readonly<Record<string, string | readonly string[] | undefined>>,
  body: Buffer,
): Response {
  const kept = new Headers();
  for (const [name, value] of Object.entries(headers)) {
    for (const one of [value ?? []].flat()) kept.append(name, one);
  }
  return new Response(body.length === 0 || BODILESS.has(status) ? null : Buffer.from(body), { status, headers: kept });
}
