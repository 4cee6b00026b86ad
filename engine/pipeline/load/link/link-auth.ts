import { isLoopbackUrl, parseListenAddress } from '../../../base/kit/net/addresses.ts';
import type { Findings } from '../../../base/source/findings.ts';
import {
  childOf,
  entriesOf,
  entryOf,
  itemsOf,
  keyName,
  type MapNode,
  type Node,
  quote,
  textOf,
} from '../../../base/source/node.ts';
import { itemsAt, reportExclusive, reportExclusiveSecrets, secretEntryOf, textsAt, type Written } from './link-keys.ts';

const CLAIM_KEYS = ['groups_claim', 'email_claim', 'team_claim', 'project_claim'];

/** Checks `auth` beyond its schema; tolerates values that validation rejected. */
export function linkAuth(root: MapNode, findings: Findings): void {
  const auth = childOf(root, 'auth');
  const oidc = childOf(auth, 'oidc');
  if (oidc === undefined) {
    reportUnused(root, auth, findings);
    return;
  }
  for (const issuer of textsAt(oidc, 'issuer_url')) checkIssuer(issuer, oidc, findings);
  for (const url of textsAt(root, 'server.public_url')) checkPublicUrl(url, root, findings);
  const private_key = secretEntryOf(oidc, 'private_key_env');
  reportExclusiveSecrets(oidc, ['client_secret_env', 'private_key_env'], findings);
  if (private_key !== undefined) reportExclusive(oidc, ['token_endpoint_auth_method', private_key.key], findings);
  checkScopes(childOf(oidc, 'scopes'), findings);
  checkVerification(oidc, findings);
  for (const key of CLAIM_KEYS) for (const claim of textsAt(oidc, key)) checkClaim(key, claim, findings);
  for (const path of GROUPS) for (const { node } of textsAt(root, path)) checkGroupName(node, findings);
}

function reportUnused(root: MapNode, auth: Node | undefined, findings: Findings): void {
  const members = itemsAt(root, 'token_groups').flatMap((group) => entryOf(group, 'members') ?? []);
  for (const { key, key_mark } of [...entriesOf(auth), ...members]) {
    findings.report('W7050', key_mark, `${keyName(key)} has no effect: there is no sign-in without \`auth.oidc\``, {
      help: 'configure the identity provider under `auth.oidc`, or remove the key',
    });
  }
}

/** Providers with public registration. */
const PUBLIC_ISSUERS = /^https:\/\/accounts\.google\.com\/?$/i;

function issuerProblem(url: string): readonly [problem: string, help: string] | undefined {
  if (/\/(?:\.well-known\/.+|authorize|token|userinfo|device_authorization|introspect|revoke)\/?$/.test(url))
    return [
      'it is the URL of a document or an endpoint, not of the issuer',
      'write the "issuer" of the discovery document (.well-known/openid-configuration)',
    ];
  if (/^https:\/\/login\.microsoftonline\.com\/(?:common|organizations|consumers)\b/i.test(url))
    return ['many issuers share it', 'write https://login.microsoftonline.com/TENANT/v2.0 with the id of your tenant'];
  if (/^http:/i.test(url) && URL.canParse(url) && !isLoopbackUrl(url))
    return [
      'an issuer must use https',
      `write ${url.replace(/^http:/i, 'https:')}; http is allowed only for a provider on this machine`,
    ];
  return undefined;
}

function checkIssuer({ text: url, mark }: Written, oidc: Node, findings: Findings): void {
  const [problem, help] = issuerProblem(url) ?? [];
  if (problem !== undefined) findings.report('C4010', mark, `the URL cannot be used: ${problem}`, { help });
  if (!PUBLIC_ISSUERS.test(url)) return;
  if (['allowed_groups', 'allowed_email_domains'].some((key) => entryOf(oidc, key) !== undefined)) return;
  findings.report('W7054', mark, 'anyone with an account at this provider can sign in', {
    help: 'list the domains of your company under `allowed_email_domains`',
  });
}

function checkPublicUrl({ text: url, mark }: Written, root: MapNode, findings: Findings): void {
  if (isLoopbackUrl(url)) {
    const listen = textOf(childOf(root, 'server', 'listen')) ?? '';
    if (parseListenAddress(listen) === undefined || isLoopbackUrl(`http://${listen}`)) return;
    findings.report('W7056', mark, 'sign-in redirects browsers on other machines to themselves', {
      help: 'write the address at which users reach this gateway',
    });
  } else if (/^http:/i.test(url)) {
    findings.report('W7051', mark, 'sign-in needs https, except on loopback', {
      help: `serve the gateway at ${url.replace(/^http:/i, 'https:')}: with \`server.tls\`, or behind a proxy with a certificate`,
    });
  }
}

function checkScopes(node: Node | undefined, findings: Findings): void {
  const scopes = itemsOf(node).flatMap((item) => textOf(item) ?? []);
  // Validation has reported a scope with spaces, which is several.
  if (node === undefined || scopes.length === 0 || scopes.some((scope) => /^openid$|\s/.test(scope))) return;
  findings.report('C4030', node.mark, 'the scope openid is missing', {
    help: 'add it: write [openid, ...]',
  });
}

function checkVerification(oidc: Node, findings: Findings): void {
  const has_domains = itemsAt(oidc, 'allowed_email_domains').length > 0;
  for (const { text, mark } of textsAt(oidc, 'email_verification')) {
    if (text === 'ignored' && !has_domains) {
      findings.report('C4023', mark, 'unverified e-mail addresses are accepted only for listed domains', {
        expected: '`allowed_email_domains` beside it',
        help: 'list the domains of your company under `allowed_email_domains`, or remove the key',
      });
    }
    if (text !== 'if_stated' || !has_domains) continue;
    findings.report('W7052', mark, 'an unverified e-mail address is accepted for an allowed domain', {
      help: 'remove the key, unless only administrators can set e-mail addresses at the provider',
    });
  }
}

function checkClaim(key: string, { text: claim, mark }: Written, findings: Findings): void {
  if (claim.startsWith('/')) {
    if (!/~(?![01])|\/(?:\/|$)/.test(claim)) return;
    findings.report('C3006', mark, `the value of ${keyName(key)} has the wrong form`, {
      expected:
        'a JSON pointer with a name after every slash, such as /realm_access/roles; in names, ~ is ~0 and / is ~1',
    });
  } else if (/^(?:\$\.|#\/)?[\w-]+(?:[./][\w-]+)+$/.test(claim)) {
    findings.report('W7053', mark, `${quote(claim)} is read as the name of one claim, not as a path`, {
      help: `for a nested claim write /${claim.replace(/^[$#][./]/, '').replaceAll('.', '/')}`,
    });
  }
}

/** Groups of the identity provider, outside of conditions and of `limit_usd_by_group`. */
export const GROUPS = [
  'auth.oidc.allowed_groups.*',
  'auth.admin_groups.*',
  'auth.teams.*.groups.*',
  'auth.projects.*.groups.*',
  'token_groups.*.members.*',
];

/** Reports a glob where only the name of a group is allowed. */
export function checkGroupName(node: Node, findings: Findings): void {
  const group = textOf(node);
  if (group === undefined || !group.includes('*')) return;
  const message = `globs do not work here: this matches only a group named exactly ${quote(group)}`;
  findings.report('W7055', node.mark, message, { help: 'list the groups' });
}
