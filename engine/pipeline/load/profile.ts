import { existsSync } from 'node:fs';
import { dirname, join, resolve } from 'node:path';
import type { Profile } from '../../base/contract/config.ts';
import { PACKAGE_ROOT } from '../../base/kit/package-root.ts';
import type { Findings } from '../../base/source/findings.ts';
import { childOf, itemsOf, type MapNode, type Node, textOf } from '../../base/source/node.ts';
import { PROFILE_SCHEMA } from '../../base/source/schemas.ts';
import { readSource } from '../../base/source/source.ts';
import { validate } from '../../base/source/validate.ts';
import type { AnnotationContext } from './annotations.ts';

/** Built-in profiles. */
export const BUILT_IN = {
  neutral: { header_prefix: 'vendor' },
  anthropic: { header_prefix: 'anthropic' },
} satisfies Record<string, Profile>;

/** The name of the profile that ships as a file, with the names of common coding clients. */
export const SHIPPED_PROFILE = 'shipped';

const SHIPPED_FILE = join(PACKAGE_ROOT, 'examples', 'profiles', 'vendor-names.yaml');

/** Absolute path of a profile file. @param name its path relative to `directory`, or `shipped` */
export function profileFile(name: string, directory: string): string {
  return name === SHIPPED_PROFILE ? SHIPPED_FILE : resolve(directory, name);
}

const NAMES = ['neutral', 'anthropic', SHIPPED_PROFILE];

/** Whether this is the name of a built-in profile. */
export function isBuiltIn(name: string): name is keyof typeof BUILT_IN {
  return Object.hasOwn(BUILT_IN, name);
}

/** Reads profiles. The default is the vendor's at the address, else the server's unless neutral; broken ones become neutral. */
export function loadProfiles(
  root: MapNode,
  gateway_file: string,
  context: Pick<AnnotationContext, 'findings' | 'environment'>,
) {
  const files = new Map<string, Profile>();
  const named = (node: Node | undefined) => profileNamed(node, gateway_file, files, context);
  const server: Profile = named(childOf(root, 'server', 'profile')) ?? BUILT_IN.neutral;
  const fallback = server === BUILT_IN.neutral ? undefined : server;
  const upstreams = itemsOf(childOf(root, 'upstreams')).map(
    (upstream) =>
      named(childOf(upstream, 'profile')) ?? profileOfAddress(textOf(childOf(upstream, 'base_url'))) ?? fallback,
  );
  const server_name = textOf(childOf(root, 'server', 'profile')) || 'neutral';
  return { server, server_name, upstreams, files: [...files.keys()] };
}

/** The profile of the vendor at an address: its own hosts, and cloud hosts with the vendor in the host name or path. */
function profileOfAddress(base_url: string | undefined): Profile | undefined {
  if (base_url === undefined || !URL.canParse(base_url)) return undefined;
  const { hostname, pathname } = new URL(base_url);
  const host = hostname.replace(/\.$/, '');
  const is_known =
    host === 'anthropic.com' ||
    host.endsWith('.anthropic.com') ||
    host.startsWith('aws-external-anthropic.') ||
    pathname.split('/').includes('anthropic');
  return is_known ? BUILT_IN.anthropic : undefined;
}

/** Hosts of providers that sign thinking blocks: the vendor of the Messages protocol, and the clouds that serve its models. */
const SIGNING_HOSTS = /(?:^|\.)(?:anthropic\.com|amazonaws\.com|googleapis\.com|azure\.com)$|^aws-external-anthropic\./;

/** Whether the provider at an address is known to verify the signatures of thinking blocks. */
export function checksSignatures(base_url: string): boolean {
  return URL.canParse(base_url) && SIGNING_HOSTS.test(new URL(base_url).hostname.replace(/\.$/, ''));
}

function profileNamed(
  node: Node | undefined,
  gateway_file: string,
  files: Map<string, Profile>,
  { findings, environment }: Pick<AnnotationContext, 'findings' | 'environment'>,
): Profile | undefined {
  const name = textOf(node);
  if (node === undefined || name === undefined || name === '') return undefined;
  if (isBuiltIn(name)) return BUILT_IN[name];
  const file = profileFile(name, dirname(gateway_file));
  if (!existsSync(file)) {
    const code = environment === 'required' ? 'C4021' : 'W7007';
    findings.report(code, node.mark, 'the profile does not exist', {
      expected: `${NAMES.join(', ')}, or a file at ${file}`,
    });
  }
  const known = files.get(file);
  const profile = known ?? (existsSync(file) ? readProfile(file, findings) : undefined) ?? BUILT_IN.neutral;
  files.set(file, profile);
  return profile;
}

/** Reads and checks a profile file; `undefined` after a finding. */
export function readProfile(file: string, findings: Findings): Profile | undefined {
  const source = readSource(file, findings);
  if (source === undefined) return undefined;
  const { ok, value } = validate(PROFILE_SCHEMA, source, dirname(file), findings);
  return ok ? (value as Profile) : undefined;
}
