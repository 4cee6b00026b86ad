/** `explain` of keys of configuration files, without and with a configuration. */
import assert from 'node:assert/strict';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, describe, it } from 'node:test';
import { fileURLToPath } from 'node:url';
import { parse } from 'yaml';
import { configurationKeys } from '../../../engine/cli/explain/configuration-keys.ts';
import { keyExample } from '../../../engine/cli/explain/key-example.ts';
import { cli } from '../support.ts';

let directory: string;
before(async () => {
  directory = await mkdtemp(join(tmpdir(), 'appscli-explain-key-'));
});
after(() => rm(directory, { recursive: true, force: true }));

const explain = (...words: string[]) => cli(['explain', ...words], { cwd: directory });

async function told(...words: string[]): Promise<string> {
  const { stdout, stderr, exit_code } = await explain(...words);
  assert.equal(exit_code, 0, stderr);
  for (const line of stdout.split('\n')) assert.ok(line.length <= 80, line);
  return stdout;
}

describe('explain of a key', () => {
  it('tells what it is, its default and what is below it, with an example where it stands', async () => {
    assert.equal(
      await told('everywhere'),
      `key everywhere of gateway.yaml

Stages of all pipelines, so that no client and no later pipeline is left out.

  is           mapping
  default      none: it may be left out
  keys below   insert, finally

Example

  everywhere:
    insert:
      - after: read-body
        stages:
          - stage: fail
            id: no-streams
            when: { var: request.stream }
            options: { error: not_supported }
`,
    );
    assert.match(await told('limit_usd'), /^key spend_limits\.rules\[\]\.limit_usd of gateway\.yaml\n/);
    for (const text of ['upstreams[].base_url', 'upstreams.base_url', 'upstreams[0].base_url', 'base_url']) {
      assert.match(
        await told(text),
        /^key upstreams\[\]\.base_url of gateway\.yaml\n[\s\S]+\n {2}default +none: it is required\n[\s\S]+ {2}upstreams:\n {4}- base_url: https:/,
      );
    }
    assert.match(await told('spend_limits.on_exceeded'), /\n {2}is +deny\n {2}default +deny\n/);
  });

  it('knows keys of every kind of file, and below names of one’s own', async () => {
    for (const [text, title] of [
      ['models[].upstream_ids.main', 'models[].upstream_ids.* of gateway.yaml'],
      ['insert.stages.when', 'insert[].stages[].when of an extension of pipelines'],
      ['match.email_domains', 'match.email_domains of a policy'],
      ['header_prefix', 'header_prefix of a profile'],
      ['cases.upstream', 'cases[].upstream of a test'],
      ['parameters', 'parameters of a fragment'],
      ['on_error.errors', 'on_error[].errors of a pipeline'],
    ] as const) {
      assert.equal((await told('key', text)).split('\n')[0], `key ${title}`);
    }
  });

  it('lists all places of a name that stands in several, each with what it is there', async () => {
    const text = await told('pricing.input');
    assert.equal(
      text,
      `key pricing.input, in 2 places

  models[].pricing.input of gateway.yaml
  prices.rows[].pricing.input of gateway.yaml
    number, from 0 up to 1000000, required
    Input that is not cached.

With an example: appscli explain key models[].pricing.input
`,
    );
    const { stdout } = await explain('pricing.input', '--json');
    assert.deepEqual(
      JSON.parse(stdout).map(({ key, required }: { key: string; required: boolean }) => [key, required]),
      [
        ['models[].pricing.input', true],
        ['prices.rows[].pricing.input', true],
      ],
    );
  });

  it('takes what people call a key elsewhere, and says what was meant', async () => {
    const refused: readonly [words: string[], message: RegExp][] = [
      [['spend_limit.rules'], /nothing called spend_limit\.rules .*did you mean `spend_limits\.rules`\?/],
      [['key', 'limit_usdd'], /there is no key limit_usdd; did you mean `limit_usd`\?/],
      [['key', 'xyzzy'], /there is no key xyzzy; write it as it stands in its file, such as limit_usd/],
      [['agent'], /nothing called agent .*did you mean `request\.agent`\?/],
      [['fact'], /which fact\? Give its name: appscli explain fact principal\.groups/],
      [['stage'], /which stage\? Give its name: appscli explain stage forward/],
      [['key'], /which key\? Give its name: appscli explain key spend_limits\.rules/],
      [['xyzzy'], /nothing called xyzzy .*it knows codes \(C2004\), stages, facts, operators, errors, and keys/],
    ];
    for (const [words, message] of refused) {
      const { exit_code, stderr, stdout } = await explain(...words);
      assert.deepEqual([exit_code, stdout], [64, ''], stderr);
      assert.match(stderr, message);
    }
  });

  it('works beside a configuration with mistakes, and leaves pipelines and stages their names', async () => {
    const file = join(directory, 'broken.yaml');
    await writeFile(file, 'server: [\n');
    for (const words of [['limit_usd'], ['key', 'limit_usd']]) {
      const { stdout, exit_code } = await explain(...words, '--config', file);
      assert.equal(exit_code, 0);
      assert.match(stdout, /^key spend_limits\.rules\[\]\.limit_usd/);
    }
    const demo = fileURLToPath(new URL('../../../examples/demo/gateway.yaml', import.meta.url));
    assert.match(
      await told('models', '--config', demo),
      /^models, version [\s\S]+\n\nOf the key: appscli explain key models\n$/,
    );
    // Only tests have a key of this name.
    assert.doesNotMatch(await told('audit'), /explain key/);
  });
});

it('every key has an example that is YAML, with the key in its place', () => {
  for (const { path, schema } of configurationKeys()) {
    const text = keyExample(path, schema).join('\n');
    let value = parse(text);
    for (const step of path.split('.')) {
      const inner = value[step.replace('[]', '').replace('*', 'name-of-yours')];
      assert.notEqual(inner, undefined, text);
      value = step.endsWith('[]') && Array.isArray(inner) ? inner[0] : inner;
    }
  }
});
