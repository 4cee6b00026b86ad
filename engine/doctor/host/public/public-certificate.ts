import { formatNetworkError } from '../../../kit/net/format-network-error.ts';
import type { Diagnosis } from '../../diagnosis.ts';
import { judgeValidity, lookAtCertificate, type ShownCertificate } from '../tls-look.ts';
import type { PublicGiven } from './public-url.ts';

/** Whether the certificate that users are shown is valid, and believed here; only then anything is sent there. */
export async function examinePublicCertificate({
  host,
  root_url,
  where,
}: PublicGiven): Promise<{ readonly diagnoses: readonly Diagnosis[]; readonly is_believed: boolean }> {
  const base = { id: 'public_url.certificate', title: 'certificate of the public URL', where };
  const { timeout_seconds: seconds, machine } = host;
  if (!root_url.startsWith('https:')) return { diagnoses: [], is_believed: true };
  const told = (said: Pick<Diagnosis, 'verdict' | 'found' | 'remedy'>, is_believed = false) => ({
    diagnoses: [{ ...base, ...said }],
    is_believed,
  });
  try {
    const shown = await lookAtCertificate(root_url, { seconds });
    const validity = judgeValidity(shown, machine.now(), 'have it renewed where TLS ends');
    if (shown.problem === undefined) return told(validity, true);
    if (validity.verdict === 'failed') return told(validity);
    return told(judgeProblem(shown, shown.problem, new URL(root_url).hostname));
  } catch (error) {
    const reason = formatNetworkError(error, seconds);
    // That nothing answers at all is said by the check after this one.
    if (!/TLS/.test(reason)) return { diagnoses: [], is_believed: true };
    const remedy = 'let TLS end at this port, or write the address that has it as server.public_url';
    return told({ verdict: 'failed', found: reason, remedy });
  }
}

const AUTHORITY =
  'give its certificate to every client (NODE_EXTRA_CA_CERTS, SSL_CERT_FILE), and to this command with NODE_EXTRA_CA_CERTS to look further';

function judgeProblem(
  { issuer, lacks_intermediate }: ShownCertificate,
  problem: string,
  hostname: string,
): Pick<Diagnosis, 'verdict' | 'found' | 'remedy'> {
  if (/ALTNAME/.test(problem)) {
    return {
      verdict: 'failed',
      found: `it is for another host than ${hostname}`,
      remedy: `have one made for ${hostname} where TLS ends, or does the name lead to another server?`,
    };
  }
  if (lacks_intermediate) {
    return {
      verdict: 'warning',
      found: `it is not believed here: ${issuer}, who signed it, is neither known nor sent along`,
      remedy: `serve the whole chain where TLS ends, its own certificate first (fullchain.pem); if that is an authority of your own, ${AUTHORITY}`,
    };
  }
  return {
    verdict: 'warning',
    found: `it is not believed here (${problem}): it is signed by ${issuer}`,
    remedy: `if that is an authority of your own, ${AUTHORITY}; clients who do not know it can't connect`,
  };
}
