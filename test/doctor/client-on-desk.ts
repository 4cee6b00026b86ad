import assert from 'node:assert/strict';
import { join } from 'node:path';
import { type ClientNames, clientNames } from '../../engine/client-files/names.ts';
import { showDiff } from '../../engine/client-files/show-diff.ts';
import type { Verdict } from '../../engine/contract/checks.ts';
import type { Desk } from '../../engine/doctor/desk.ts';
import type { Diagnosis, Examination } from '../../engine/doctor/diagnosis.ts';
import { composeFixes } from '../../engine/doctor/fixes.ts';
import { readProfile } from '../../engine/load/profile.ts';
import { createFindings } from '../../engine/source/findings.ts';
import { deskWith, HOME, type PretendedDesk } from './support.ts';

/** The names of clients that most people have. */
export const VENDOR_NAMES: ClientNames = clientNames(
  readProfile(join(import.meta.dirname, '../../examples/profiles/vendor-names.yaml'), createFindings()),
);

/** What was found of a client on a desk. */
export interface Found extends Examination {
  /** Ids of what is not ok, with their verdicts, such as `failed build_cli.key`. */
  readonly faults: readonly string[];
  of(id: string): Diagnosis;
}

/** Examines a client on a desk that is nowhere but in a test. */
export function lookAt(examine: (desk: Desk) => Examination, given: PretendedDesk): Found {
  const examination = examine(deskWith(given));
  const { diagnoses } = examination;
  const is_fault = (verdict: Verdict) => verdict === 'failed' || verdict === 'warning';
  for (const { id, verdict, remedy } of diagnoses) {
    assert.match(id, /^[a-z_]+(?:\.[a-z_]+)+$/);
    assert.ok(!is_fault(verdict) || remedy !== undefined, `${id} says how to put it right`);
  }
  return {
    ...examination,
    faults: diagnoses.filter(({ verdict }) => is_fault(verdict)).map(({ verdict, id }) => `${verdict} ${id}`),
    of: (id) => {
      const found = diagnoses.filter((each) => each.id === id);
      const worst = found.find(({ verdict }) => is_fault(verdict)) ?? found[0];
      return worst ?? assert.fail(`there is no ${id} in ${diagnoses.map((each) => each.id).join(', ')}`);
    },
  };
}

/** A desk on which everything was put right that can be, and what was shown of that. */
export interface Mended {
  readonly files: Readonly<Record<string, string>>;
  readonly desk: PretendedDesk;
  readonly shown: string;
  /** Paths of files that only their owner may read from now on. */
  readonly secret: readonly string[];
  /** What is found afterwards. */
  readonly found: Found;
}

/** Puts right what can be, and looks again: what was mended must not be found a second time. */
export function mend(examine: (desk: Desk) => Examination, given: PretendedDesk): Mended {
  const mended = mendOnce(examine, given);
  assert.deepEqual(changesOf(mended.desk, mended.found), [], 'a second time nothing is left to mend');
  return mended;
}

/** Puts right whatever can be, however much is wrong, until nothing is left; no secret is ever shown. */
export function mendAll(
  examine: (desk: Desk) => Examination,
  given: PretendedDesk,
  secrets: readonly string[],
  rounds = 4,
): void {
  assert.ok(rounds > 0, 'mending comes to an end');
  const { shown, desk } = mendOnce(examine, given);
  assert.ok(!secrets.some((secret) => shown.includes(secret)), shown);
  if (shown !== '') mendAll(examine, desk, secrets, rounds - 1);
}

function changesOf(given: PretendedDesk, { diagnoses }: Examination) {
  const { changes, failures } = composeFixes(deskWith(given), diagnoses);
  assert.deepEqual(failures, []);
  return changes;
}

function mendOnce(examine: (desk: Desk) => Examination, given: PretendedDesk): Mended {
  const { diagnoses } = lookAt(examine, given);
  const { changes, hides, failures } = composeFixes(deskWith(given), diagnoses);
  assert.deepEqual(failures, []);
  const before = Object.entries(given.files ?? {}).map(([path, text]) => [path.replace(/^~/, HOME), text] as const);
  const changed = changes.flatMap(({ path, after }) => (after === undefined ? [] : [[path, after] as const]));
  const files = Object.fromEntries([...before, ...changed]);
  const secret = changes.flatMap(({ path, secret }) => (secret ? [path] : []));
  const rights = { ...given.rights, ...Object.fromEntries(secret.map((path) => [path, 0o600])) };
  const desk = { ...given, files, rights };
  const shown = changes.map((change) => showDiff(change, hides, false)).join('');
  return { files, secret, desk, shown, found: lookAt(examine, desk) };
}
