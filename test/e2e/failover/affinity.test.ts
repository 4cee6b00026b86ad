/** Sessions stay where their prompts are kept, at every replica, and move only when they must. */
import assert from 'node:assert/strict';
import { readFile, writeFile } from 'node:fs/promises';
import { after, before, test } from 'node:test';
import { bootGateway, type TestGateway } from '../../support/gateway.ts';
import { answers, type Play, serves } from '../../support/model-provider/fault-server.ts';
import { bearer, messagesBody, send } from '../support/client.ts';
import { nameOf, openSeveral, type Several } from './several.ts';

const SESSIONS = 60;
const TURNS = 10;

let several: Several;
let other: TestGateway;

before(async () => {
  const route = ['a', 'b', 'c'].map((upstream) => ({ upstream, weight: 1 }));
  several = await openSeveral({ count: 3, route, upstreams: { breaker: { mode: 'off' } } });
  const { gateway } = several;
  // Another replica: the same configuration and database, and nothing of what the first one remembers.
  const config = JSON.parse(await readFile(gateway.config_file, 'utf8'));
  other = await bootGateway({
    upstream_url: several.faults[0]!.url('a'),
    config,
    database_url: gateway.env.TEST_DATABASE_URL!,
  });
});
after(async () => {
  await other?.close();
  await several?.close();
});

const sessionsOf = (name: string) => Array.from({ length: SESSIONS }, (_, index) => `${name}-${index}`);

/** Where a session's next turn is served, and the text that says by whom. */
async function turn(session: string, url: string): Promise<string> {
  const headers = bearer(several.gateway.token, ['x-claude-code-session-id', session]);
  const got = await send(url, { headers, body: messagesBody() });
  assert.equal(got.status, 200, got.text);
  return got.json().content[0].text;
}

async function places(sessions: readonly string[], url: string): Promise<Map<string, string>> {
  const found = await Promise.all(sessions.map(async (session) => [session, await turn(session, url)] as const));
  return new Map(found);
}

/** How many turns of sessions are not served where the one before was. */
async function countMoves(name: string, urls: readonly string[]): Promise<number> {
  const sessions = sessionsOf(name);
  let before_that = await places(sessions, urls[0]!);
  let moves = 0;
  for (let i = 1; i < TURNS; i++) {
    const now = await places(sessions, urls[i % urls.length]!);
    for (const session of sessions) if (now.get(session) !== before_that.get(session)) moves++;
    before_that = now;
  }
  return moves;
}

test('all turns of a session are served at one upstream, whichever replica they come to', async () => {
  assert.equal(await countMoves('replicas', [several.gateway.url, other.url]), 0);
});

test('a session moves once for a failure and does not come back, so that 95 of 100 turns stay where its cache is', async () => {
  let count = 0;
  let failures = 0;
  const failsAtTimes: Play = (call) => {
    if (++count % 50 !== 0) return serves(call);
    failures++;
    return answers(500)(call);
  };
  for (const [index, server] of several.faults.entries()) server.plays.set(nameOf(index), failsAtTimes);
  const moves = await countMoves('failing', [several.gateway.url]).finally(() => several.forget());
  assert.ok(failures > 5 && moves > 0 && moves <= failures, `${moves} moves for ${failures} failures`);
  assert.ok(moves <= 0.05 * SESSIONS * TURNS, `${moves} moves`);
});

test('when one of three goes only its own sessions move, and they are shared by the others', async () => {
  const { gateway } = several;
  const sessions = sessionsOf('moving');
  const was = await places(sessions, gateway.url);
  const config = JSON.parse(await readFile(gateway.config_file, 'utf8'));
  const route = ['b', 'c'].map((upstream) => ({ upstream, weight: 1 }));
  await writeFile(gateway.config_file, JSON.stringify({ ...config, routing: { default_upstreams: route } }));
  await gateway.reload();
  const is = await places(sessions, gateway.url).finally(async () => {
    await writeFile(gateway.config_file, JSON.stringify(config));
    await gateway.reload();
  });
  const moved = sessions.filter((session) => was.get(session) !== is.get(session));
  assert.deepEqual(new Set(moved.map((session) => was.get(session))), new Set(['Served by a.']));
  assert.ok(moved.length > SESSIONS / 6 && moved.length < SESSIONS / 2, `${moved.length} of ${SESSIONS} moved`);
  assert.equal(new Set(moved.map((session) => is.get(session))).size, 2);
});
