import type { AnswerOf } from '../../api/client.ts';

/** A change as the list has it. */
export type Change = AnswerOf<'listChanges'>['changes'][number];

/** What can be done, for people. */
export const ACTIONS: Readonly<Record<Change['action'], string>> = {
  'token.create': 'Access token made',
  'token.rotate': 'Access token replaced',
  'token.revoke': 'Access token revoked',
  'token.move': 'Access token moved',
  'session.end': 'Session ended',
  'person.deprovision': 'Person deprovisioned',
  'person.suspend': 'Person suspended',
  'person.rebind': 'Address given to an account',
  'limit.set': 'Limit set',
  'limit.clear': 'Limit cleared',
  'limit.grant': 'Grant given',
  'limit.revoke': 'Grant taken back',
  'service_token.create': 'Service token made',
  'service_token.rotate': 'Service token replaced',
  'service_token.revoke': 'Service token revoked',
  'upstream.drain': 'Upstream drained',
  'upstream.resume': 'Upstream resumed',
  'ledger.reprice': 'Ledger priced anew',
};

/** One field of what was changed: its value before and after, where there was one. */
export interface ChangedField {
  readonly name: string;
  readonly before: string | undefined;
  readonly after: string | undefined;
}

/** What a change tells of each field, those of after it last. */
export function fieldsOf({ before, after }: Change): readonly ChangedField[] {
  const [was, is] = [before ?? {}, after ?? {}] as readonly Readonly<Record<string, unknown>>[];
  const names = [...new Set([...Object.keys(was!), ...Object.keys(is!)])];
  return names.map((name) => ({
    name: name.replaceAll('_', ' '),
    before: shown(was![name]),
    after: shown(is![name]),
  }));
}

function shown(value: unknown): string | undefined {
  if (value === undefined) return undefined;
  if (value === null) return 'none';
  return typeof value === 'string' ? value : JSON.stringify(value);
}

/** The person a change is about, by their address; `undefined` where it names none. */
export function personIn({ action, subject, before, after }: Change): string | undefined {
  const said = [before?.user, after?.user].find((user) => typeof user === 'string');
  if (typeof said === 'string') return said;
  if (action.startsWith('person.')) return subject;
  const limited = [before?.to, after?.to, action.startsWith('limit.') ? subject : undefined].find(
    (text): text is string => typeof text === 'string',
  );
  return limited === undefined ? undefined : /^user (\S+@\S+)/.exec(limited)?.[1];
}
