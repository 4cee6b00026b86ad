/**
 * What it costs to find out who is calling: CPU time per verification of a session token that was not seen before, of the
 * same one again, and of an access token again. `node test/bench/verification.ts` prints a table; times in microseconds.
 * Fails when finding out again takes longer than the goal.
 * @module
 */
import type { BearerTokens } from '../../engine/api.ts';
import type { Person } from '../../engine/identity/provider/admit.ts';
import { createSessionTokens, type Revocations } from '../../engine/identity/sessions/session-tokens.ts';
import { createBearerTokens } from '../../engine/identity/tokens/bearer-tokens.ts';
import { systemClock } from '../../engine/kit/clock.ts';
import { openMemoryTokens } from '../../engine/simulate/memory/memory-tokens.ts';
import { authWith, configWith, secret } from '../identity/sessions/configuration.ts';
import { quietLog } from '../support/store.ts';

const TOKENS = 2000;
const ROUNDS = 7;
const GOAL_US = 15;

const revocations: Revocations = { has: () => false, onRevoked: () => () => {}, async catchUp() {}, async close() {} };

function person(groups: number): Person {
  return {
    issuer: 'https://id.example.com',
    subject: '7d0f1c52-5d1c-4d0f-9a43-3e4c0f6c7a11',
    email: 'alice@example.com',
    name: 'Alice Example',
    groups: Array.from({ length: groups }, (_, index) => `engineering-team-${index}`),
    team: 'search',
  };
}

/** Tokens of one kind; `open` gives a verification that has seen none of them. */
interface Case {
  readonly tokens: readonly string[];
  open(): BearerTokens;
}

const openAccess = () => openMemoryTokens({ clock: systemClock, log: quietLog, isAway: () => false });

async function sessionTokens(groups: number): Promise<Case> {
  const config = configWith(authWith({ session: { signing_key_env: 'SIGNING_KEY' } }));
  const create = () => createSessionTokens({ config, secret, clock: systemClock, revocations, log: quietLog });
  const { issue } = create();
  const issued = await Promise.all(
    Array.from({ length: TOKENS }, (_, index) => issue({ id: `ses_${index}`, person: person(groups) })),
  );
  return {
    tokens: issued.map(({ access_token }) => access_token),
    open: () => createBearerTokens(openAccess(), create()),
  };
}

function accessTokens(): Case {
  const access = openAccess();
  const tokens = Array.from({ length: TOKENS }, () => access.add({ user: 'alice@example.com', group: 'all' }));
  return { tokens, open: () => createBearerTokens(access, undefined) };
}

async function cpuPerToken(tokens: readonly string[], verify: (token: string) => unknown): Promise<number> {
  const start = process.cpuUsage();
  for (const token of tokens) {
    const verified = verify(token);
    if (verified instanceof Promise) await verified;
  }
  const { user, system } = process.cpuUsage(start);
  return (user + system) / tokens.length;
}

/** Least CPU time of one verification, in microseconds; the other rounds also measured the machine's other work. */
async function measure({ tokens, open }: Case): Promise<{ first: number; again: number }> {
  const first: number[] = [];
  const again: number[] = [];
  const many = Array.from({ length: 10 }, () => tokens).flat();
  for (let round = 0; round < ROUNDS; round++) {
    const { verify } = open();
    first.push(await cpuPerToken(tokens, verify));
    again.push(await cpuPerToken(many, verify));
  }
  return { first: Math.min(...first), again: Math.min(...again) };
}

const cases: readonly (readonly [name: string, what: Case, is_new_each_round: boolean])[] = [
  ['session token, 3 groups', await sessionTokens(3), true],
  ['session token, 200 groups', await sessionTokens(200), true],
  ['access token', accessTokens(), false],
];
console.log(`${'credential'.padEnd(28)}${'characters'.padStart(11)}${'first'.padStart(8)}${'again'.padStart(8)}`);
for (const [name, what, is_new_each_round] of cases) {
  const { first, again } = await measure(what);
  const shown_first = is_new_each_round ? first.toFixed(1) : '-';
  const cells = [String(what.tokens[0]!.length).padStart(11), shown_first.padStart(8), again.toFixed(1).padStart(8)];
  console.log(`${name.padEnd(28)}${cells.join('')}`);
  if (again > GOAL_US) process.exitCode = 1;
}
