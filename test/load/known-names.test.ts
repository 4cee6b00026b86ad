/** Unknown names, wherever gateway.yaml defines the known ones. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { load } from '../../engine/pipeline/load/index.ts';
import { stages } from '../../stages/index.ts';
import { GATEWAY, projectOfTest } from './support/project.ts';

/** What is said of a condition of a rule, in a configuration with groups, teams, models and upstreams. */
async function saidOf(condition: string): Promise<readonly string[]> {
  const { path } = projectOfTest({
    'gateway.yaml': `${GATEWAY.replace('    family: coder\n', '    family: coder\n    aliases: [best]\n')}
token_groups:
  - { name: engineering, models: ["*"] }
access:
  rules: [{ name: some, when: ${condition} }]
`,
  });
  const loaded = await load(path('gateway.yaml'), { stages, env: {}, environment: 'ignored' });
  return loaded.diagnostics
    .filter(({ code }) => code.startsWith('W720'))
    .map(({ code, message, help }) => `${code} ${message}; ${help}`);
}

for (const [what, condition, expected] of [
  ['a group', '{ in: [enginering, { var: principal.groups }] }', /^W7200 .*"enginering".*did you mean `engineering`/],
  ['a token group', '{ "===": [{ var: principal.token.group }, enginering] }', /^W7202 .*did you mean `engineering`/],
  ['a model', '{ "===": [{ var: request.model }, codr-1] }', /^W7202 .*"codr-1".*did you mean `coder-1`/],
  ['an alias in the place of an id', '{ "===": [{ var: request.model }, best] }', /^W7202 .*alias of coder-1/],
  ['a pattern of models', '{ glob: [{ var: request.model }, "codr-*"] }', /^W7202 no model matches "codr-\*"/],
  ['an upstream', '{ "===": [{ var: route.upstream }, mian] }', /^W7202 .*"mian".*did you mean `main`/],
  ['a role', '{ in: [admn, { var: principal.roles }] }', /^W7202 .*"admn".*did you mean `admin`/],
] as const) {
  test(`${what} that does not exist is reported, with a suggestion`, async () => {
    const said = await saidOf(condition);
    assert.equal(said.length, 1, said.join('\n'));
    assert.match(said[0]!, expected);
  });
}

test('names that exist are not reported', async () => {
  const groups = '{ in: [engineering, { var: principal.groups }] }';
  const model = '{ glob: [{ var: request.model }, "coder-*"] }';
  assert.deepEqual(await saidOf(`{ and: [${groups}, ${model}, { "===": [{ var: route.upstream }, main] }] }`), []);
});
