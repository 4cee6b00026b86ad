import { existsSync } from 'node:fs';
import { dirname, resolve } from 'node:path';
import type { Profile } from '../config.ts';
import type { AnnotationContext } from './annotations.ts';
import { quote } from './describe.ts';
import type { Findings } from './findings.ts';
import { childOf, type MapNode, textOf } from './node.ts';
import { PROFILE_SCHEMA } from './schemas.ts';
import { readSource } from './source.ts';
import { validate } from './validate.ts';

/** What `server.profile` stands for. */
export interface LoadedProfile {
  readonly profile: Profile;
  /** Absolute; absent for the profile that is built in. */
  readonly file?: string;
}

/** Names that are nobody's. */
const NEUTRAL: Profile = { header_prefix: 'vendor' };

/** Reads and checks the profile that a gateway.yaml names. After a finding it is the neutral one. */
export function loadProfile(
  root: MapNode,
  gateway_file: string,
  { findings, environment }: Pick<AnnotationContext, 'findings' | 'environment'>,
): LoadedProfile {
  const node = childOf(childOf(root, 'server'), 'profile');
  const name = textOf(node);
  if (node === undefined || name === undefined || name === '' || name === 'neutral') return { profile: NEUTRAL };
  const file = resolve(dirname(gateway_file), name);
  if (!existsSync(file)) {
    const meant = /\.ya?ml$/.test(name) ? {} : { help: `${quote(name)} is taken for a file; built in is only neutral` };
    const code = environment === 'required' ? 'C4021' : 'W7007';
    findings.report(code, node.mark, 'the profile does not exist', {
      expected: `neutral, or a file at ${file}`,
      ...meant,
    });
    return { profile: NEUTRAL, file };
  }
  return { profile: readProfile(file, findings) ?? NEUTRAL, file };
}

/** Reads and checks a profile file; `undefined` after a finding. */
export function readProfile(file: string, findings: Findings): Profile | undefined {
  const source = readSource(file, findings);
  if (source === undefined) return undefined;
  const { ok, value } = validate(PROFILE_SCHEMA, source, dirname(file), findings);
  return ok ? (value as Profile) : undefined;
}
