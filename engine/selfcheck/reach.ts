import { isTimeout } from './no-answer.ts';
import { NotAsked } from './not-asked.ts';
import type { Subject } from './subject.ts';

/** No connection came about, or none that is safe to send a token over. */
const NO_CONNECTION =
  /^(?:ECONNREFUSED|ENOTFOUND|EAI_|EHOSTUNREACH|ENETUNREACH|ETIMEDOUT|EPROTO|CERT_|ERR_TLS|ERR_SSL|DEPTH_ZERO|ERR_PROXY_|SELF_SIGNED|UNABLE_TO_)/;

const ROOT_SECONDS = 5;

/** Whether an error of the first request means that there is nothing to check, and not only one request that gets no answer. */
export async function isUnreachable(error: unknown, subject: Pick<Subject, 'ask'>): Promise<boolean> {
  if (error instanceof NotAsked || NO_CONNECTION.test((error as { code?: string } | null)?.code ?? '')) return true;
  if (!isTimeout(error)) return false;
  try {
    await subject.ask({ path: '/', token: null, seconds: ROOT_SECONDS });
    return false;
  } catch (second) {
    return (
      second instanceof NotAsked || isTimeout(second) || NO_CONNECTION.test((second as { code?: string }).code ?? '')
    );
  }
}
