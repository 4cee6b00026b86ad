import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import fc from 'fast-check';
import * as secrets from '../../../engine/base/source/diagnostics/secrets.ts';

const { hideRanges, hideSecrets, isEnvironmentName, looksSecret } = secrets;

test('names of environment variables are distinguished from credentials', () => {
  for (const name of ['UPSTREAM_KEY', 'DATABASE_URL', 'my_key', '_X', 'OIDC_CLIENT_SECRET_2', 'AWS_EU_CENTRAL_1_KEY']) {
    assert.equal(isEnvironmentName(name), true, name);
  }
  for (const secret of [
    ...['sk-abc', 'sk_live_4eC39HqLyjWDarjtT1zdp7dc', 'gw_A1b2C3d4', 'ghp_16C7e42F292c6912E7710c838347Ae178B4a'],
    ...['AKIAIOSFODNN7EXAMPLE', 'eyJhbGciOiJIUzI1NiJ9', 'postgres://user:pw@host/db', 'two words', 'dash-ed', ''],
    ...['wJalrXUtnFEMIK7MDENGbPxRfiCYEXAMPLEKEY', '9b2c4d6e8f0a1b3c5d7e9f', 'X'.repeat(80)],
  ])
    assert.equal(isEnvironmentName(secret), false, secret);
});

test('ordinary configuration values do not look secret', () => {
  for (const value of ['coder-1', 'https://api.example.com/v1', '127.0.0.1:8080', 'gateway.yaml', '33554432'])
    assert.equal(looksSecret(value), false, value);
  assert.equal(looksSecret('team budget of 2027'), false);
});

describe('a line of configuration loses its secrets and keeps its length', () => {
  const cases: readonly [line: string, hidden: string][] = [
    ['  api_key: hunter2', '  api_key: *******'],
    ['  api_key: hunter2 # comment', '  api_key: ******* # comment'],
    ['{ password: hunter2, name: main }', '{ password: *******, name: main }'],
    ['  api_key_env: UPSTREAM_KEY', '  api_key_env: UPSTREAM_KEY'],
    ['  api_key_env: hunter-2', '  api_key_env: ********'],
    ['  base_url: https://gw:hunter2@api.example.com', '  base_url: https://**********@api.example.com'],
    ['  # was sk-abcdef before', '  # was ********* before'],
    ['  max_output_tokens: 64000', '  max_output_tokens: 64000'],
    ['  token_groups: [all]', '  token_groups: [all]'],
    ['  x-token: { value_env: ROUTER_TOKEN }', '  x-token: { value_env: ROUTER_TOKEN }'],
    ['  x-token: { value_env: hunter-2 }', '  x-token: { value_env: ******** }'],
    ['  x-token: { env: hunter2 }', '  x-token: ************** }'],
  ];
  for (const [line, hidden] of cases) test(line, () => assert.equal(hideSecrets(line), hidden));

  test('whatever the line', () => {
    fc.assert(
      fc.property(fc.string({ maxLength: 60 }), (line) => {
        const hidden = hideSecrets(line);
        assert.equal(hidden.length, line.length);
        assert.equal(hideSecrets(hidden).length, line.length);
      }),
    );
  });
});

test('ranges are blanked out across lines, and line breaks stay', () => {
  assert.equal(hideRanges('a: |\n  one\n  two\nb: 1\n', [[3, 16]]), 'a: *\n*****\n*****\nb: 1\n');
});
