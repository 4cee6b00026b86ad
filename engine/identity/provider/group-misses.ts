import type { OidcConfig } from '../../contract/config.ts';
import { editDistance } from '../../kit/text/suggest.ts';
import { groupNames } from './claim-values.ts';
import { lookUpClaim } from './claims.ts';
import type { Claims } from './provider.ts';

/** The groups somebody came with beside those that are let in, and what may be behind the difference. */
export interface GroupMisses {
  /** As the provider lists them, the likeliest first, at most 20. */
  readonly came: readonly string[];
  readonly expected: readonly string[];
  /** Sentences for an administrator, the likeliest first. No value of a claim is in them but names of groups. */
  readonly hints: readonly string[];
}

const MAX_SHOWN = 20;
const MAX_HINTS = 3;
/** Whoever signs in waits for it. */
const MAX_COMPARED = 200;
const MAX_EXPECTED = 50;
const MAX_COMPARABLE = 300;
const MAX_CHARS = 100;
/** What identifiers look like: of Microsoft Entra ID, and of providers that number. */
const IDENTIFIER = /^(?:[0-9a-f]{8}-(?:[0-9a-f]{4}-){3}[0-9a-f]{12}|\d+)$/i;
const MAX_DEPTH = 4;

/** Compares the groups of somebody who was refused with those that are let in. */
export function groupMisses(claims: Claims, oidc: OidcConfig): GroupMisses {
  const { groups_claim } = oidc;
  const value = lookUpClaim(claims, groups_claim);
  const listed = [...new Set(groupNames(value) ?? [])].filter((name) => name !== '').slice(0, MAX_COMPARED);
  const allowed_groups = (oidc.allowed_groups ?? []).slice(0, MAX_EXPECTED);
  const misses = listed.flatMap((group) =>
    allowed_groups.flatMap((expected) => {
      const how = likeness(group, expected);
      return how === undefined
        ? []
        : [{ group, ...how, hint: `${short(group)} came, and ${short(expected)} is expected: ${how.why}` }];
    }),
  );
  misses.sort((a, b) => a.rank - b.rank);
  const close = [...new Set(misses.map(({ group }) => group))];
  const came = [...close, ...listed.filter((group) => !close.includes(group))];
  const hints = [
    ...inOneText(value, allowed_groups),
    ...new Set(misses.map(({ hint }) => hint)),
    ...otherwise(claims, oidc, listed),
  ];
  return {
    came: came.slice(0, MAX_SHOWN).map(short),
    expected: allowed_groups.slice(0, MAX_SHOWN).map(short),
    hints: hints.slice(0, MAX_HINTS),
  };
}

/** How a group is like the one that is expected: 1 is the likeliest. */
function likeness(group: string, expected: string): { readonly rank: number; readonly why: string } | undefined {
  if (group === expected) return { rank: 0, why: 'auth.oidc.keep_groups leaves it out; name it there' };
  if (lastOf(group) === lastOf(expected)) {
    const why = group.includes('/')
      ? 'the provider sends the full path; write it so in gateway.yaml, or let it send names alone (in Keycloak, switch "Full group path" off)'
      : 'the provider sends the name alone; write it so in gateway.yaml';
    return { rank: 1, why };
  }
  if (group.toLowerCase() === expected.toLowerCase()) return { rank: 2, why: 'capitals count' };
  if (group.length > MAX_COMPARABLE) return undefined;
  if (plain(group) === plain(expected))
    return { rank: 3, why: 'names must match to the letter, spaces and dashes too' };
  if (group.split(/[/,=@:\\ ]+/).some((part) => part.toLowerCase() === lastOf(expected).toLowerCase())) {
    return { rank: 4, why: 'the provider writes more around the name; write all of it in gateway.yaml' };
  }
  const longest = Math.max(group.length, expected.length);
  const comparable = longest > 4 && longest <= MAX_CHARS && Math.abs(group.length - expected.length) <= 2;
  const close = comparable && editDistance(plain(group), plain(expected)) <= (longest > 8 ? 2 : 1);
  return close ? { rank: 5, why: 'is one of them mistyped?' } : undefined;
}

/** What may be wrong where no name of a group is like one that is expected. */
function otherwise(claims: Claims, oidc: OidcConfig, listed: readonly string[]): string[] {
  const { groups_claim, allowed_groups = [] } = oidc;
  const elsewhere = pointersTo(claims, new Set(allowed_groups)).filter(
    (pointer) => pointer !== groups_claim && pointer !== `/${groups_claim}`,
  );
  const ids =
    listed.length > 0 &&
    listed.every((group) => IDENTIFIER.test(group)) &&
    !allowed_groups.some((group) => IDENTIFIER.test(group));
  const names = Object.keys(claims).slice(0, MAX_SHOWN).map(short).join(', ');
  return [
    ...elsewhere.map(
      (pointer) =>
        `the claim ${short(pointer)} lists one that is expected: if that is where groups are, set auth.oidc.groups_claim to ${short(pointer)}`,
    ),
    ...(ids
      ? [
          'the provider sends identifiers of groups, and gateway.yaml has names: write the identifiers, or let it send names',
        ]
      : []),
    ...(listed.length === 0 && elsewhere.length === 0
      ? [
          `no group came in the claim ${short(groups_claim)} (auth.oidc.groups_claim): the account is in none, or the provider does not send them; the claims that came are ${names}`,
        ]
      : []),
  ];
}

/** JSON pointers of the lists, and of the objects with keys, that name a wanted group: roles are sent so, for one. */
function pointersTo(value: unknown, wanted: ReadonlySet<string>, pointer = '', depth = 0): string[] {
  if (typeof value !== 'object' || value === null || depth > MAX_DEPTH) return [];
  if (Array.isArray(value)) return value.some((item) => wanted.has(item)) ? [pointer] : [];
  return Object.entries(value).flatMap(([key, inner]) =>
    pointersTo(inner, wanted, `${pointer}/${key.replaceAll('~', '~0').replaceAll('/', '~1')}`, depth + 1),
  );
}

/** A text is one name, whatever is in it: people may choose what their groups are called. */
function inOneText(value: unknown, expected: readonly string[]): string[] {
  if (typeof value !== 'string' || expected.includes(value)) return [];
  const parts = value.slice(0, MAX_CHARS * MAX_COMPARABLE).split(/[\s,;[\]"]+/);
  const among = expected.find((name) => parts.includes(name));
  if (among === undefined) return [];
  return [`one text came with ${short(among)} in it, and a text is one name: let the provider send a list`];
}

const lastOf = (group: string) => group.slice(group.lastIndexOf('/') + 1);
const plain = (group: string) => group.toLowerCase().replace(/[^\p{L}\p{N}]+/gu, '');
const short = (text: string) => (text.length <= MAX_CHARS ? text : `${text.slice(0, MAX_CHARS)}...`);
