import { matchesGlob } from '../../../base/kit/glob.ts';
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
import {
  itemsAt,
  reportExclusive,
  reportExclusiveSecrets,
  reportTwins,
  secretEntryOf,
  textsAt,
  type Written,
} from './link-keys.ts';

const CLAIM_KEYS = ['groups_claim', 'email_claim', 'team_claim', 'project_claim'];

/** Checks what must fit together for sign-in; tolerates values that validation already refused. */
export function linkAuth(root: MapNode, findings: Findings): void {
  const auth = childOf(root, 'auth');
  const oidc = childOf(auth, 'oidc');
  for (const section of ['team', 'project']) reportTwins(section, itemsAt(auth, `${section}s`), 'name', findings);
  if (oidc === undefined) {
    reportUnused(root, auth, findings);
    return;
  }
  for (const issuer of textsAt(oidc, 'issuer_url')) checkIssuer(issuer, oidc, findings);
  for (const url of textsAt(root, 'server.public_url')) checkPublicUrl(url, root, findings);
  checkCredential(oidc, findings);
  checkKeys(childOf(auth, 'session'), findings);
  checkScopes(childOf(oidc, 'scopes'), findings);
  checkVerification(oidc, findings);
  for (const key of CLAIM_KEYS) for (const claim of textsAt(oidc, key)) checkClaim(key, claim, findings);
  const groups = groupsNamed(root, auth, oidc);
  for (const node of groups) checkGroupName(node, findings);
  reportForgotten(groups, keptGroups(root), findings, childOf(oidc, 'keep_groups'));
}

/** What is said about people who sign in, where nobody can. */
function reportUnused(root: MapNode, auth: Node | undefined, findings: Findings): void {
  const members = itemsAt(root, 'token_groups').flatMap((group) => entryOf(group, 'members') ?? []);
  for (const { key, key_mark } of [...entriesOf(auth), ...members]) {
    findings.report('W7050', key_mark, `${keyName(key)} has no effect: nobody can sign in without \`auth.oidc\``, {
      help: 'name the identity provider under `auth.oidc`, or remove the key',
    });
  }
}

/** Providers where anybody makes an account. */
const PUBLIC_ISSUERS = /^https:\/\/accounts\.google\.com\/?$/i;

/** What is wrong with the URL of an issuer, and what to do about it. */
function issuerProblem(url: string): readonly [problem: string, help: string] | undefined {
  const document = /\/?\.well-known\/[\w-]+\/?$/.exec(url);
  if (document !== null)
    return [
      'it is that of a document of the issuer',
      `write ${url.slice(0, document.index)}, or with a slash at the end if the document says so under "issuer"`,
    ];
  if (/\/(?:authorize|token|userinfo|device_authorization|introspect|revoke)\/?$/.test(url))
    return [
      'it is that of an endpoint of the issuer',
      'write the text that its discovery document (.well-known/openid-configuration) has as "issuer"',
    ];
  if (/^https:\/\/login\.microsoftonline\.com\/(?:common|organizations|consumers)\b/i.test(url))
    return [
      'it stands for many issuers',
      'write https://login.microsoftonline.com/TENANT/v2.0 with the id of your tenant',
    ];
  if (/^http:/i.test(url) && URL.canParse(url) && !isLoopbackUrl(url))
    return [
      'an issuer is reached by https',
      `write ${url.replace(/^http:/i, 'https:')}; http will do for a provider on this machine only`,
    ];
  return undefined;
}

function checkIssuer({ text: url, mark }: Written, oidc: Node, findings: Findings): void {
  const [problem, help] = issuerProblem(url) ?? [];
  if (problem !== undefined) findings.report('C4010', mark, `the URL cannot be used: ${problem}`, { help });
  if (!PUBLIC_ISSUERS.test(url)) return;
  if (['allowed_groups', 'allowed_email_domains'].some((key) => entryOf(oidc, key) !== undefined)) return;
  findings.report('W7054', mark, 'anybody with an account at this provider may sign in', {
    help: 'list the domains of your company under `allowed_email_domains`',
  });
}

function checkPublicUrl({ text: url, mark }: Written, root: MapNode, findings: Findings): void {
  if (isLoopbackUrl(url)) {
    const listen = textOf(childOf(root, 'server', 'listen')) ?? '';
    if (parseListenAddress(listen) === undefined || isLoopbackUrl(`http://${listen}`)) return;
    findings.report('W7056', mark, 'people on other machines are sent to their own to sign in', {
      help: 'write the address at which their browsers and terminals reach this gateway',
    });
  } else if (/^http:/i.test(url)) {
    findings.report('W7051', mark, 'clients refuse to sign in at an http address of another machine', {
      help: `serve the gateway at ${url.replace(/^http:/i, 'https:')}: with \`server.tls\`, or behind a proxy that has a certificate`,
    });
  }
}

function checkCredential(oidc: Node, findings: Findings): void {
  const private_key = secretEntryOf(oidc, 'private_key_env');
  reportExclusiveSecrets(oidc, ['client_secret_env', 'private_key_env'], findings);
  if (private_key !== undefined) reportExclusive(oidc, ['token_endpoint_auth_method', private_key.key], findings);
  const id = entryOf(oidc, 'private_key_id');
  if (id === undefined || private_key !== undefined) return;
  findings.report('W7050', id.key_mark, '`private_key_id` has no effect: there is no `private_key_env`', {
    help: 'name what holds the key with `private_key_env` or `private_key_file`, or remove the key',
  });
}

/** A signing key that is also listed as a former one was meant to be replaced, and has not been. */
function checkKeys(session: Node | undefined, findings: Findings): void {
  const keys = [
    secretEntryOf(session, 'signing_key_env')?.value,
    ...itemsAt(session, 'previous_signing_keys').map((item) => secretEntryOf(item, 'key_env')?.value),
  ];
  keys.forEach((node, index) => {
    const first = keys.findIndex((other) => other !== undefined && textOf(other) === textOf(node));
    if (node === undefined || textOf(node) === undefined || first === index) return;
    const why = keys[0] !== undefined && first === 0 ? 'it is the signing key itself' : 'it is listed already';
    findings.report('W7050', node.mark, `this previous key has no effect: ${why}`, {
      help: 'name the variable or file that holds the key which was used before',
    });
  });
}

function checkScopes(node: Node | undefined, findings: Findings): void {
  const scopes = itemsOf(node).flatMap((item) => textOf(item) ?? []);
  // A scope with spaces is several, and the mistake is told already.
  if (node === undefined || scopes.length === 0 || scopes.some((scope) => /^openid$|\s/.test(scope))) return;
  const others = scopes.flatMap((scope) => scope.split(',')).filter((scope) => !/^(?:openid)?$/i.test(scope));
  findings.report('C4030', node.mark, 'the scope openid is missing', {
    help: `write [${['openid', ...others].join(', ')}]`,
  });
}

function checkVerification(oidc: Node, findings: Findings): void {
  const has_domains = itemsAt(oidc, 'allowed_email_domains').length > 0;
  for (const { text, mark } of textsAt(oidc, 'email_verification')) {
    if (text === 'ignored' && !has_domains) {
      findings.report('C4023', mark, 'addresses that nobody verified are only taken at domains that are named', {
        expected: '`allowed_email_domains` beside it',
        help: 'list the domains of your company under `allowed_email_domains`, or remove the key',
      });
    }
    if (text !== 'if_stated' || !has_domains) continue;
    findings.report('W7052', mark, 'an address that nobody verified is enough for an allowed domain', {
      help: 'remove the key, unless only your administrators set addresses at the provider',
    });
  }
}

function checkClaim(key: string, { text: claim, mark }: Written, findings: Findings): void {
  if (claim.startsWith('/')) {
    const problem = pointerProblem(claim);
    if (problem === undefined) return;
    const message = `the value of ${keyName(key)} has the wrong form`;
    findings.report('C3006', mark, message, { expected: `a JSON pointer, ${problem}` });
  } else if (/^(?:\$\.|#\/)?[\w-]+(?:[./][\w-]+)+$/.test(claim)) {
    findings.report('W7053', mark, `${quote(claim)} is the name of one claim, not a path`, {
      help: `if a claim inside another one is meant: /${claim.replace(/^[$#][./]/, '').replaceAll('.', '/')}`,
    });
  }
}

function pointerProblem(pointer: string): string | undefined {
  if (/~(?![01])/.test(pointer)) return 'in which ~ is written ~0 and a slash inside a name ~1';
  if (/\/(?:\/|$)/.test(pointer)) return 'with a name after every slash, such as /realm_access/roles';
  return undefined;
}

/** Where groups of the identity provider are named. */
function groupsNamed(root: MapNode, auth: Node | undefined, oidc: Node): readonly Node[] {
  return [
    ...itemsAt(oidc, 'allowed_groups'),
    ...itemsAt(auth, 'admin_groups'),
    ...['teams', 'projects'].flatMap((key) => itemsAt(auth, key)).flatMap((item) => itemsAt(item, 'groups')),
    ...itemsAt(root, 'token_groups').flatMap((group) => itemsAt(group, 'members')),
  ];
}

/** Reports the name of a group that somebody took for a glob. */
export function checkGroupName(node: Node, findings: Findings): void {
  const group = textOf(node);
  if (group === undefined || !group.includes('*')) return;
  findings.report('W7055', node.mark, `only a group called exactly ${quote(group)} fits: here * stands for itself`, {
    help: 'name every group that is meant',
  });
}

/** The globs of groups that are kept at sign-in; none when all are. */
export const keptGroups = (root: MapNode): readonly string[] =>
  textsAt(root, 'auth.oidc.keep_groups.*').map(({ text }) => text);

/** Whether a group is kept at sign-in. */
export const isKept = (kept: readonly string[], group: string): boolean =>
  kept.length === 0 || kept.some((glob) => matchesGlob(glob, group));

/** Why a group that `keep_groups` drops is named in vain, and what to do about it. */
export const FORGOTTEN = {
  why: '`keep_groups` forgets it at sign-in',
  help: 'add it, or a glob that matches it, to `auth.oidc.keep_groups`',
} as const;

/**
 * Reports groups that the configuration goes by although `keep_groups` drops them at sign-in.
 * @param keep_groups where that list stands: what drops several groups was itself not meant so.
 */
export function reportForgotten(
  groups: readonly Node[],
  kept: readonly string[],
  findings: Findings,
  keep_groups?: Node,
): void {
  const forgotten = groups.filter((node) => textOf(node) !== undefined && !isKept(kept, textOf(node)!));
  const names = [...new Set(forgotten.map((node) => textOf(node)!))];
  if (keep_groups !== undefined && names.length > 1) {
    const message = `\`keep_groups\` forgets groups that this file goes by: ${names.join(', ')}`;
    findings.report('W7050', keep_groups.mark, message, { help: 'add them, or globs that match them' });
    return;
  }
  for (const node of forgotten)
    findings.report('W7050', node.mark, `the group ${quote(textOf(node)!)} has no effect: ${FORGOTTEN.why}`, {
      help: FORGOTTEN.help,
    });
}
