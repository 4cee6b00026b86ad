/** A user of the demo's identity provider. */
export interface DemoPerson {
  readonly sub: string;
  readonly name: string;
  readonly email: string;
  readonly groups: readonly string[];
  /** A short description; gateway.yaml decides what the groups mean. */
  readonly is: string;
}

/** The users of the demo's identity provider. */
export const PEOPLE: readonly DemoPerson[] = [
  {
    sub: 'alice',
    name: 'Alice Ames',
    email: 'alice@example.com',
    groups: ['engineering', 'platform-admins'],
    is: 'an engineer who also administers the gateway',
  },
  { sub: 'bob', name: 'Bob Brown', email: 'bob@example.com', groups: ['interns'], is: 'an intern' },
  { sub: 'carol', name: 'Carol Cole', email: 'carol@example.com', groups: ['guests'], is: 'a guest of the company' },
];
