import { fieldRule } from '../../protocols/body/field-rules.ts';
import { quote } from '../../source/describe.ts';
import { looksSecret } from '../../source/diagnostics/secrets.ts';
import type { Findings } from '../../source/findings.ts';
import { childOf, entriesOf, type Node, textOf } from '../../source/node.ts';
import { decisionOf } from '../../upstreams/decisive-headers.ts';
import { whyNotFixed } from '../../upstreams/fixed-headers.ts';
import { secretEntryOf } from './link-keys.ts';

/** Names of headers that hold secrets. */
const SECRET_NAME =
  /(?:^|-)(?:api-?key|key|token|secret|password|passwd|auth|authorization|credentials?|cookie|jwt|signature)$/;

/** Names after which nobody needs another credential for an upstream. */
export function namesCredential(upstream: Node): boolean {
  return entriesOf(childOf(upstream, 'headers')).some(
    ({ value }) => textOf(secretEntryOf(value, 'value_env')?.value) !== undefined,
  );
}

/** Finds fixed headers of an upstream that cannot be set for every request, and secrets among them that are written out. */
export function linkHeaders(upstream: Node, findings: Findings): void {
  for (const { key, key_mark, value } of entriesOf(childOf(upstream, 'headers'))) {
    const refused = whyNotFixed(key);
    const text = textOf(value);
    const is_secret = text !== undefined && (SECRET_NAME.test(key) || isCookie(key) || looksSecret(text));
    if (is_secret) findings.hide(value);
    if (refused !== undefined) {
      const message = `the header ${quote(key)} cannot be set for an upstream: ${refused.why}`;
      findings.report('C4080', key_mark, message, { help: refused.help });
    } else if (is_secret) {
      findings.report(
        'C4081',
        value.mark,
        `the header ${quote(key)} holds a secret, which does not belong into the file`,
        {
          expected: 'the name of an environment variable with the value',
          help: `write \`${key}: { value_env: ${variableFor(key)} }\` and put the value into the environment`,
        },
      );
    }
  }
}

/** Names of query parameters that hold secrets, which servers and proxies write into their logs. */
const SECRET_PARAMETER =
  /^code$|(?:^|[-_.])(?:(?:api)?key|token|secret|password|passwd|pwd|auth|authorization|credentials?|jwt|sig|signature)$/i;

/** Finds query parameters of an upstream that decide what limits and bills have to know, and secrets among them. */
export function linkQuery(upstream: Node, findings: Findings): void {
  for (const { key, key_mark, value } of entriesOf(childOf(upstream, 'query'))) {
    const decides = fieldRule(key, true)?.decides;
    const text = textOf(value);
    if (text !== undefined && (SECRET_PARAMETER.test(key) || looksSecret(text))) {
      findings.hide(value);
      findings.report('C4081', value.mark, `the query parameter ${quote(key)} holds a secret`, {
        expected: 'a parameter that may be seen in logs, such as api-version',
        help: 'name the variable of a key with api_key_env or auth_token_env, or in headers with value_env',
      });
    } else if (decides === 'model' || decides === 'price') {
      const message = `the query parameter ${quote(key)} cannot be set for an upstream: it decides over the ${decides}, and limits and bills would not know`;
      const help = 'say in `models` and `prices` what is asked for and what it costs';
      findings.report('C4080', key_mark, message, { help });
    }
  }
}

/** Cookies and keys of accounts are credentials whatever they are called. */
function isCookie(key: string): boolean {
  return key === 'cookie2' || (decisionOf(key) === 'account' && /key|cookie/.test(key));
}

function variableFor(key: string): string {
  return key.toUpperCase().replaceAll('-', '_');
}
