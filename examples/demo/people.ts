/** Somebody the demo's identity provider knows. */
export interface DemoPerson {
  readonly sub: string;
  readonly name: string;
  readonly email: string;
  readonly groups: readonly string[];
  /** Who that is, in a few words; what the gateway makes of the groups is up to gateway.yaml. */
  readonly is: string;
}

/** Everybody the demo's identity provider knows. */
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
