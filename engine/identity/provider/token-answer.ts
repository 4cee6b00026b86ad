/**
 * An answer of the token endpoint as RFC 6749 section 5.2 has it: an error that says what it is counts, whatever content type
 * and challenge a provider or a proxy put on it. Every other answer stays as it came.
 */
export async function readTokenAnswer(response: Response): Promise<Response> {
  const { status } = response;
  if (status < 400 || status > 499) return response;
  const { error } = await jsonOf(response);
  if (typeof error !== 'string' || error === '') return response;
  return new Response(await response.text(), { status, headers: { 'content-type': 'application/json' } });
}

/** The refresh token in an answer of the token endpoint. */
export async function refreshTokenIn(response: Response): Promise<string | undefined> {
  const { refresh_token } = await jsonOf(response);
  return typeof refresh_token === 'string' && refresh_token !== '' ? refresh_token : undefined;
}

/** Whether an ID token fits none of the keys at hand, as after the provider took new ones. */
export function isAboutKeys(error: unknown): boolean {
  const { code, cause } = error as { code?: unknown; cause?: unknown };
  if (code === 'OAUTH_KEY_SELECTION_FAILED') return true;
  return cause instanceof Error && cause.message === 'JWT signature verification failed';
}

async function jsonOf(response: Response): Promise<Readonly<Record<string, unknown>>> {
  const body: unknown = await response
    .clone()
    .json()
    .catch(() => undefined);
  return typeof body === 'object' && body !== null ? (body as Record<string, unknown>) : {};
}
