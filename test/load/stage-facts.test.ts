/** Facts of stages belong to the configuration that loads them. */
import assert from 'node:assert/strict';
import { writeFileSync } from 'node:fs';
import { test } from 'node:test';
import { load } from '../../engine/pipeline/load/index.ts';
import { stages } from '../../stages/index.ts';
import { GATEWAY, type Project, projectOfTest } from './support/project.ts';

const stage = (fact: string) => `import { defineStage } from 'appscli';
export default defineStage({
  name: 'count-words', version: 1, summary: 'Counts words.', needs: [],
  options: { type: 'object', additionalProperties: false, properties: {} },
  examples: [{ title: 'Count', yaml: '- stage: count-words' }],
  facts: { ${fact}: { type: 'integer', description: 'How many words.' } },
  create: () => ({ request(ctx) { ctx.setFact('${fact}', 3); } }),
});`;

/** A configuration whose guard looks at a fact of its stage. */
function projectOf({ has, asks, more = '', ...asked }: { has: string; asks?: string; more?: string; when?: string }) {
  const { when = `{ ">": [{ var: count-words.${asks} }, 5] }` } = asked;
  return projectOfTest({
    'gateway.yaml': `${GATEWAY}${more}stages: [./count-words.ts]
all_pipelines:
  insert:
    - after: read-body
      stages:
        - { stage: count-words }
        - { stage: reject, id: too-long, when: ${when}, options: { error: forbidden } }
`,
    'count-words.ts': stage(has),
  });
}

async function mistakesOf(project: Project): Promise<readonly string[]> {
  const { diagnostics } = await load(project.path('gateway.yaml'), { stages, env: {}, environment: 'ignored' });
  return diagnostics
    .filter(({ severity }) => severity === 'error')
    .map(({ code, message, help }) => [code, message, help].filter((part) => part !== undefined).join(' '));
}

test('two configurations loaded concurrently use the facts of their own versions of a stage', async () => {
  const pairs = ['some', 'many', 'all'].map((fact) => projectOf({ has: fact, asks: fact }));
  assert.deepEqual(await Promise.all(pairs.map(mistakesOf)), [[], [], []]);
});

test('a fact of an earlier configuration is unknown in the next, and a similar one suggested', async () => {
  assert.deepEqual(await mistakesOf(projectOf({ has: 'words', asks: 'words' })), []);
  const [mistake, ...others] = await mistakesOf(projectOf({ has: 'lines', asks: 'words' }));
  assert.match(mistake!, /^C5002 unknown fact `count-words\.words`/);
  assert.deepEqual(others, []);
  const [misspelt] = await mistakesOf(projectOf({ has: 'words', asks: 'wrods' }));
  assert.match(misspelt!, /did you mean `count-words\.words`\?$/);
});

test('a rule of gateway.yaml that is evaluated before the stage is reported at the first load', async () => {
  const more = `access:
  rules: [{ name: short, when: { ">": [{ var: count-words.words }, 5] } }]
`;
  const project = projectOf({ has: 'words', asks: 'words', more });
  const [first, again] = [await mistakesOf(project), await mistakesOf(project)];
  assert.match(first[0]!, /^C6003 the fact count-words\.words is not yet known/);
  assert.deepEqual(again, first);
});

test('a named rule of gateway.yaml may read a fact of a stage, for pipelines that use the rule', async () => {
  const more = 'rules: { long: { ">": [{ var: count-words.words }, 5] } }\n';
  assert.deepEqual(await mistakesOf(projectOf({ has: 'words', when: '{ rule: long }', more })), []);
});

test('a stage that cannot be loaded is the only finding, whatever reads its facts', async () => {
  const project = projectOf({ has: 'words', asks: 'words' });
  writeFileSync(project.path('count-words.ts'), 'export default 1;');
  const [mistake, ...others] = await mistakesOf(project);
  assert.match(mistake!, /^C4013 /);
  assert.deepEqual(others, []);
});
