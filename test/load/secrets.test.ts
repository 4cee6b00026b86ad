import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import fc from 'fast-check';
import { renderDiagnostics } from '../../engine/base/source/diagnostics/render.ts';
import { load } from '../../engine/pipeline/load/index.ts';
import { times } from '../support/times.ts';
import { GATEWAY, projectOfTest, SHIPPED } from './support/project.ts';
import { stages } from './support/stages.ts';

/** All output of a check about a gateway.yaml, in every format, required and not. */
async function everythingSaid(gateway: string): Promise<string> {
  const project = projectOfTest({ 'gateway.yaml': gateway });
  const said: string[] = [];
  for (const environment of ['required', 'ignored'] as const) {
    const options = { stages, env: {}, environment, shipped_pipelines: SHIPPED };
    const { diagnostics, sources } = await load(project.path('gateway.yaml'), options);
    for (const format of ['text', 'json', 'github'] as const) {
      said.push(renderDiagnostics(diagnostics, { format, color: false, sources }));
    }
  }
  return said.join('');
}

/** Ways to write a secret into the file; in each, SECRET stands for it. */
const PLACES = [
  '    api_key_env: SECRET',
  '    api_key_env: "SECRET"',
  '    api_key: SECRET',
  '    api_key_file: SECRET',
  '    api_key_file: "SECRET"',
  '    api_key_env: |\n      SECRET\n      second',
  '    api_key_env: [SECRET]',
  '    api_key_env: { value: SECRET }',
  '    base_url: https://user:SECRET@api.example.com',
  '    headers: { authorization: SECRET }',
  '    supports: { token: SECRET, count_tokens: true }',
];

const SECRETS = ['sk-planted-0123', 'gw_planted0123', 'hunter2-hunter2', 'pl4nted-w0rd/w0rd'];

describe('a secret that was written into the file is never repeated', () => {
  for (const place of PLACES) {
    test(`in${place.replaceAll('\n', ' ').replace(/ +/g, ' ')}`, async () => {
      for (const secret of SECRETS) {
        const said = await everythingSaid(
          GATEWAY.replace('    api_key_env: UPSTREAM_KEY', place.replace('SECRET', secret)),
        );
        assert.notEqual(said, '');
        assert.ok(!said.includes(secret), said);
      }
    });
  }

  for (const written of [
    ': |\n      S',
    ': |\n      a\n      b\n      S',
    ': |2-\n      S',
    ': &name !!str |\n      S',
    ':\n    S',
  ]) {
    test(`below a key that the parser reads as something else, in ${JSON.stringify(written)}`, async () => {
      const value = written.replace('S', 'hunter2/hunter2');
      const damaged = GATEWAY.replace('    api_key_env: UPSTREAM_KEY', `    !api_key_env${value}\n      second`);
      const said = await everythingSaid(damaged);
      assert.match(said, /C1007/);
      assert.ok(!said.includes('hunter2'), said);
    });
  }

  test('whatever else is wrong in the file', async () => {
    const damage = fc.constantFrom('', '\t', ' ', '"', "'", '{', '[', ': ', '- ', '&a ', '*', '!', '<<: ', '%', 'x');
    await fc.assert(
      fc.asyncProperty(
        fc.constantFrom(...PLACES),
        fc.constantFrom(...SECRETS),
        fc.nat(18),
        fc.nat(30),
        damage,
        async (place, secret, row, column, inserted) => {
          const lines = GATEWAY.replace('    api_key_env: UPSTREAM_KEY', place.replace('SECRET', secret)).split('\n');
          const at = row % lines.length;
          const line = lines[at] ?? '';
          // The secret itself stays in one piece: half a secret is another text.
          if (line.includes(secret)) return;
          lines[at] = line.slice(0, column) + inserted + line.slice(column);
          const said = await everythingSaid(lines.join('\n'));
          assert.ok(!said.includes(secret), said);
        },
      ),
      { numRuns: times(20) },
    );
  });
});

describe('a secret in a file beside the key for a variable', () => {
  const KEY = '    api_key_env: UPSTREAM_KEY';
  const PAIRS: Readonly<Record<string, readonly [written: string, said: RegExp]>> = {
    'both at once': [`${KEY}\n    api_key_file: ./key`, /`api_key_file` and `api_key_env` exclude each other/],
    'with another kind of credential': [
      '    api_key_file: ./key\n    auth_token_file: ./token',
      /`auth_token_file` and `api_key_file` exclude each other/,
    ],
    'a file that is not there': [
      '    api_key_file: ./key',
      /the file does not exist[\s\S]*`api_key_file`: write the secret/,
    ],
    'a directory': ['    api_key_file: ./', /this is a directory/],
    'a name that may be the secret': ['    api_key_file: hunter2', /there is no such file/],
  };
  for (const [what, [written, said]] of Object.entries(PAIRS)) {
    test(what, async () => assert.match(await everythingSaid(GATEWAY.replace(KEY, written)), said));
  }
});
