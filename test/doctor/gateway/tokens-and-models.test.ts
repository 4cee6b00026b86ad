import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { diagnose, faultsOf, listen, type StandIn, standIn, TOKEN } from './support.ts';

const at = async (input?: StandIn) => `http://127.0.0.1:${await listen(standIn(input))}`;

const sessionToken = (exp: number) =>
  `eyJhbGciOiJIUzI1NiJ9.${Buffer.from(JSON.stringify({ sub: 'ada', exp })).toString('base64url')}.c2lnbmF0dXJl`;

describe('a token', () => {
  const refusals: readonly (readonly [code: string, token: string, found: RegExp, remedy: RegExp])[] = [
    ['credential_expired', TOKEN, /^the token has expired$/, /create a new token/],
    ['credential_revoked', TOKEN, /^the token was revoked or suspended$/, /new token/],
    ['credential_missing', TOKEN, /the token did not arrive/, /forward the authorization header/],
    ['credential_invalid', TOKEN, /does not know the token/, /from this gateway/],
    [
      'credential_expired',
      sessionToken(1_700_000_000),
      /^the sign-in has expired, on 2023-11-14/,
      /^sign in again: appscli login --base-url http:/,
    ],
    ['whatever', sessionToken(1_700_000_000), /^the sign-in has expired/, /appscli login/],
    ['credential_revoked', sessionToken(4_000_000_000), /^the token was revoked$/, /appscli login/],
    ['whatever', sessionToken(4_000_000_000), /does not know the token/, /appscli login/],
  ];
  for (const [code, token, found, remedy] of refusals) {
    test(`rejected with ${code} is reported as such: ${found.source}`, async () => {
      const root_url = await at({ accepts: [], code });
      const { of, diagnoses } = await diagnose(root_url, { connections: [{ token }] });
      assert.deepEqual(faultsOf(diagnoses), ['token']);
      assert.match(of('token').found, found);
      assert.match(of('token').remedy!, remedy);
      assert.ok(!JSON.stringify(diagnoses).includes(token));
    });
  }

  test('that is valid but may not list models is reported as such', async () => {
    const { of } = await diagnose(await at({ accepts: [], status: 403 }));
    assert.match(of('token').found, /does not let it list models/);
  });

  test('that is malformed is reported before it is sent', async () => {
    const asked: string[] = [];
    const root_url = `http://127.0.0.1:${await listen((req, res) => {
      asked.push(String(req.headers.authorization));
      res.end();
    })}`;
    for (const token of ['gw_secret-part\n', 'Bearer gw_secret-part', 'gw_sécret-part']) {
      const { of, diagnoses } = await diagnose(root_url, { connections: [{ token }] });
      assert.equal(of('token').verdict, 'failed', token);
      assert.ok(!JSON.stringify(diagnoses).includes('secret-part'));
    }
    assert.deepEqual(asked, []);
  });
});

describe('a model', () => {
  test('denied by its token group is reported with the allowed ones', async () => {
    const models = [{ id: 'coder-1' }, { id: 'coder-2' }];
    const { of } = await diagnose(await at({ models }), { connections: [{ model: 'planner-9' }] });
    assert.equal(of('model').verdict, 'failed');
    assert.match(of('model').found, /no model "planner-9" for this token: its token group does not allow it/);
    assert.match(of('model').remedy!, /^This token may use coder-1 and coder-2\. For another model ask/);
  });

  test('of each tier is looked for, too', async () => {
    const models = [
      { id: 'coder-1', context_window: 200_000 },
      { id: 'small-1', context_window: 100_000 },
    ];
    const connection = { model: 'coder-1', more_models: ['small-1', 'planner-9'], context_window: 200_000 };
    const { diagnoses } = await diagnose(await at({ models }), { connections: [connection] });
    const reported = diagnoses.filter(({ id }) => id === 'gateway.model' || id === 'gateway.context_window');
    assert.deepEqual(
      reported.map(({ id, verdict }) => `${verdict} ${id}`),
      ['ok gateway.model', 'ok gateway.context_window', 'ok gateway.model', 'failed gateway.model'],
    );
  });

  test('is reported with the intended one, as missing from an empty list, or found by a wildcard', async () => {
    const of = async (model: string, input?: StandIn) =>
      (await diagnose(await at(input), { connections: [{ model }] })).of('model');
    assert.match((await of('codr-1')).remedy!, /did you mean `coder-1`\?/);
    const none = await of('coder-1', { models: [] });
    assert.equal(none.verdict, 'failed');
    assert.match(none.found, /this token may use no model/);
    assert.equal((await of('coder/large', { models: [{ id: 'coder/*' }] })).verdict, 'ok');
  });

  test('has a window that the files lack, keep or exceed', async () => {
    const root_url = await at();
    const windows: number[] = [];
    const fixWindow = (tokens: number) => {
      windows.push(tokens);
      return { fixes: [] };
    };
    for (const context_window of [undefined, 100_000, 500_000]) {
      const { of } = await diagnose(root_url, {
        connections: [{ client: 'build-cli', model: 'coder-1', more_models: ['coder-1'], context_window, fixWindow }],
      });
      const { verdict, remedy = '', fixes } = of('context_window');
      assert.equal(fixes === undefined, context_window === 100_000);
      if (context_window !== 500_000) continue;
      assert.equal(verdict, 'failed');
      assert.match(remedy, /context window of the client to 200000, and its compaction limit to 190000/);
    }
    assert.deepEqual(windows, [200_000, 200_000]);
  });
});
