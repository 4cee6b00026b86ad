import { formatNetworkError } from '../../../kit/net/format-network-error.ts';
import { printableLine } from '../../../kit/text/printable.ts';
import type { Diagnosis } from '../../diagnosis.ts';
import { sizeText } from '../sizes.ts';
import { announceBody } from './announce-body.ts';
import type { PublicGiven } from './public-url.ts';

/** Default of widespread proxies. */
const USUAL_LIMIT_BYTES = 1024 * 1024;
const NAME_MAX = 40;

/** Whether proxies let requests through that are as large as the gateway itself takes; no byte of them is sent. */
export async function examineLargeBodies({ host, root_url, where }: PublicGiven): Promise<Diagnosis[]> {
  const { config, timeout_seconds: seconds } = host;
  const { body_bytes } = config.server.limits;
  const base = { id: 'public_url.body_size', title: 'large requests', where };
  try {
    const whole = await announceBody(root_url, { bytes: body_bytes, seconds });
    if (whole.kind === 'taken') {
      return [
        {
          ...base,
          verdict: 'ok',
          found: `requests of ${sizeText(body_bytes)} (server.limits.body_bytes) are let through`,
        },
      ];
    }
    if (whole.kind === 'unclear') {
      const why = whole.status === undefined ? 'no answer in time' : `status ${whole.status}`;
      return [
        {
          ...base,
          verdict: 'skipped',
          found: `whether requests of ${sizeText(body_bytes)} are let through can't be told (${why})`,
        },
      ];
    }
    const small = await announceBody(root_url, { bytes: USUAL_LIMIT_BYTES + 1, seconds });
    const who = whole.server === undefined ? 'a proxy on the way' : printableLine(whole.server).slice(0, NAME_MAX);
    const even = small.kind === 'too_large' ? `; even those above ${sizeText(USUAL_LIMIT_BYTES)} are` : '';
    const found = `requests of ${sizeText(body_bytes)} are refused by ${who} (status 413)${even}`;
    const remedy = `let it take what the gateway takes (nginx: client_max_body_size ${Math.ceil(body_bytes / USUAL_LIMIT_BYTES)}m): long sessions and pictures need it`;
    return [{ ...base, verdict: small.kind === 'too_large' ? 'failed' : 'warning', found, remedy }];
  } catch (error) {
    const found = `can't be told: ${formatNetworkError(error, seconds)}`;
    return [{ ...base, verdict: 'skipped', found }];
  }
}
