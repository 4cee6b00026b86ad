/** The effects of a new configuration on callers. */
import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import type { PricesConfig, PricingConfig } from '../../../engine/base/contract/config.ts';
import { diffPrices } from '../../../engine/edge/simulate/diff/index.ts';
import { stageConfig } from '../../../engine/edge/simulate/stage-harness.ts';
import { BASE, diffTo, replace } from './support.ts';

const OWN = (errors: string, more = '') => `pipeline: mine
version: 1
summary: Of our own.
match: { methods: [POST], paths: [/own], protocol: messages }
stages:
  - stage: authenticate
  - stage: reject
    options: { error: forbidden, message: No. }
on_error:
  - { id: kind, errors: ${errors}, stage: reject, options: { error: forbidden } }
finally:
  - stage: audit
${more}`;
const WITH_OWN = { base: `${BASE}pipelines: mine\n`, base_files: { 'mine/mine.yaml': OWN('[forbidden]') } };
const SEVERAL = replace('upstream: spare }', 'upstreams: [spare, main] }')(BASE);
const BLIND = '{ name: blind, when: { "!": { var: model.supports.images } }, upstream: spare }';
const research = '  group research for coder-1, coder-2';
const rule = (more: string) => `access:\n  rules:\n    - { name: no-interns, models: [coder-*], ${more} }\n`;
const INTERNS = 'when: { in: [interns, { var: principal.groups }] }';
const ALIASED = 'aliases: [{ name: best, groups: [research] }],';
const add = (text: string) => (base: string) => base + text;
const newRule = (more: string) =>
  replace('rules:\n', `rules:\n    - { name: new, group: interns, upstream: ${more} }\n`);

/** A change, and its report. */
const CASES: readonly (readonly [
  what: string,
  change: (base: string) => string,
  diffTo: readonly string[],
  more?: Parameters<typeof diffTo>[1],
])[] = [
  [
    'only looks',
    (text) =>
      `# a comment\n${text.replace('{ name: interns, families: [mini] }', '{ families: [mini], name: interns }')}`,
    [],
  ],
  [
    'models that groups gain and lose',
    replace('families: [mini]', 'models: [coder-2]'),
    ['Models', '  group interns: loses mini-1; gains coder-2'],
  ],
  [
    'a section `models` that goes: what the upstreams list is served instead',
    replace(/^models:\n(?: .*\n)+/m, ''),
    [
      'Models',
      '  group engineers: loses coder-1, coder-2, mini-1; gains what the upstreams list',
      '  group research: loses coder-1, coder-2',
      '  group interns: loses mini-1',
    ],
  ],
  [
    'groups that come and go',
    replace('name: interns', 'name: students'),
    [
      'Models',
      '  group interns: is gone: its tokens can use no model any more',
      '  group students: is new, with mini-1',
    ],
  ],
  [
    'groups and models whose requests go elsewhere',
    replace('group: research, models: ["coder-*"]', 'group: interns'),
    ['Routes', `${research}: spare -> main`, '  group interns for mini-1: main -> spare'],
  ],
  ['further upstreams of a route', () => SEVERAL, ['Routes', `${research}: spare -> spare, then main`]],
  [
    'another order of upstreams',
    replace('[spare, main]', '[main, spare]'),
    ['Routes', `${research}: spare, then main -> main, then spare`],
    { base: SEVERAL },
  ],
  [
    'other shares of upstreams',
    replace('[spare, main]', '[{ upstream: spare, weight: 3 }, main]'),
    ['Routes', `${research}: spare, then main -> spare (75 %) or main`, '    (25 %)'],
    { base: SEVERAL },
  ],
  [
    'what happens to a prompt cache of an hour, by rule',
    replace('upstream: spare }', 'upstream: spare, on_unsupported_cache: refuse }'),
    ['Routes', `${research}: spare -> spare (on_unsupported_cache:`, '    refuse)'],
  ],
  [
    'attempts',
    replace('  rules:\n', '  attempts: { max: 2, unconfirmed: false }\n  rules:\n'),
    ['Other settings', '  routing.attempts.max: 4 -> 2', '  routing.attempts.unconfirmed: true -> false'],
  ],
  [
    'breakers and pools',
    replace('region: us }', 'region: us, cache_pool: ws, breaker: { failures: 3 }, commit_after: first_content }'),
    [
      ...['Upstreams', '  main: commit_after first_event -> first_content'],
      ...['    breaker.failures 5 -> 3', '    cache_pool nothing -> ws'],
    ],
  ],
  [
    'an address, and nothing that follows from it',
    replace('https://api.example.com', 'https://models.example.com'),
    ['Upstreams', '  main: base_url https://api.example.com -> https://models.example.com'],
  ],
  ['a rule that leads where requests went anyway', newRule('main'), []],
  ['a rule in shadow mode', newRule('spare, mode: shadow'), []],
  [
    'prices and upstreams',
    (text) => text.replace('{ input: 1, output: 5 }', '{ input: 1, output: 6 }').replace('region: eu', 'region: uk'),
    ['Prices and sizes', '  mini-1: pricing.output 5 -> 6', '', 'Upstreams', '  spare: region eu -> uk'],
  ],
  [
    'what clients may call a model, and what it can do',
    replace(
      'id: coder-2, family: coder',
      'id: coder-2, family: coder, aliases: [latest], supports: { images: false, thinking: budget }',
    ),
    [
      ...['Other settings', '  models.coder-2.aliases: [] -> ["latest"]'],
      ...['  models.coder-2.supports.images: true -> false', '  models.coder-2.supports.thinking: adaptive -> budget'],
    ],
  ],
  [
    'what an upstream speaks',
    replace('name: spare', 'name: spare, type: compat, protocols: [chat], supports: { stream_usage: false }'),
    [
      ...['Upstreams', '  spare: type vendor -> compat', '    supports.count_tokens true -> false'],
      ...['    supports.stream_usage true -> false', '    protocols ["messages"] -> ["chat"]'],
    ],
  ],
  [
    'the errors that a clause answers',
    add('# other errors\n'),
    ['Pipelines', '  mine: kind (mine.yaml:10) answers: forbidden -> forbidden, stage_failed'],
    { ...WITH_OWN, files: { 'mine/mine.yaml': OWN('[forbidden, stage_failed]') } },
  ],
  [
    'an option of a stage, and no others',
    add('# other options\n'),
    ['Pipelines', '  mine: reject (mine.yaml:7) options.message: No. -> Never.'],
    { ...WITH_OWN, files: { 'mine/mine.yaml': OWN('[forbidden]').replace('message: No.', 'message: Never.') } },
  ],
  [
    'a pipeline whose path another takes over',
    add('# another name\n'),
    ['Pipelines', '  mine: is gone: POST /own is served by other', '  other: is new: serves POST /own'],
    { ...WITH_OWN, files: { 'mine/other.yaml': OWN('[forbidden]').replace('pipeline: mine', 'pipeline: other') } },
  ],
  [
    'a pipeline that is gone',
    add('# none\n'),
    ['Pipelines', '  mine: is gone: POST /own is no longer served'],
    { ...WITH_OWN, files: { 'mine/README': '' } },
  ],
  [
    'access rules, by the callers they reject',
    add(rule(`${INTERNS}, mode: shadow`)),
    [
      ...['Access rules', '  no-interns: is new: would reject, in shadow mode, when request.model matches'],
      '    "coder-*" and principal.groups has "interns"',
    ],
  ],
  [
    'groups that gain an alias',
    replace('groups: [research] }]', 'groups: [research, engineers] }]'),
    ['Other settings', '  models.coder-2.alias.best.groups: ["research"] -> ["research","engineers"]'],
    { base: BASE.replace('{ id: coder-2,', `{ id: coder-2, ${ALIASED}`) },
  ],
  [
    'windows in another time zone, which are counted anew',
    replace('spend_limits:\n', 'spend_limits:\n  time_zone: Europe/Berlin\n'),
    [
      ...['Other settings', '  spend_limits.time_zone: UTC -> Europe/Berlin'],
      '    days, weeks and months are counted anew: what was spent is forgotten',
    ],
  ],
];

describe('reports the difference between two configurations', () => {
  for (const [what, change, lines, more] of CASES) {
    it(what, async () => assert.deepEqual(await diffTo(change, more), lines));
  }

  it('conditions, when caller and model alone do not decide', async () => {
    const large = 'group: research, when: { ">": [{ var: request.body_bytes }, 1000] }';
    const lines = await diffTo(replace('group: research, models: ["coder-*"]', large));
    assert.deepEqual(lines.slice(0, 3), ['Routes', `${research}: goes elsewhere`, '    before: spare']);
    assert.match(lines[3]!, /^ {4}after: spare when .*request\.body_bytes.*1000; otherwise main$/);
    assert.equal(lines.length, 4);
  });

  it('pipelines: stages that are added, removed, moved, or treat requests differently', async () => {
    const pipeline = `pipeline: messages
version: 2
summary: Refuses large requests.
match: { methods: [POST], paths: [/v1/messages], protocol: messages }
stages:
  - stage: authenticate
  - stage: read-body
  - stage: reject
    id: refuse-large
    when: { ">": [{ var: request.body_bytes }, 1000] }
    options: { error: invalid_request, message: Too large. }
  - stage: resolve-route
  - stage: check-budget
    options: { charge: nothing }
  - stage: meter-usage
  - stage: translate
  - stage: forward
finally:
  - stage: audit
`;
    const lines = await diffTo(add('pipelines: mine\n'), { files: { 'mine/messages.yaml': pipeline } });
    assert.equal(lines[0], 'Pipelines');
    assert.match(lines[1]!, /^ {2}messages: refuse-large \(messages\.yaml:8\) is new, before resolve-route, runs/);
    const others = lines.slice(2).join(' ').replaceAll(/ +/g, ' ');
    assert.match(others, /check-budget \(messages\.yaml:13\) options\.charge: full -> nothing$/);
  });

  it('stages of all pipelines once, with the place they are written at', async () => {
    const all_pipelines = `all_pipelines:
  insert:
    - before: check-budget
      pipelines: [model-requests]
      stages:
        - { stage: reject, id: no-streams, when: { var: request.stream }, options: { error: forbidden } }
`;
    const lines = await diffTo(add(all_pipelines));
    assert.match(
      lines.join(' ').replaceAll(/ +/g, ' '),
      /^Pipelines messages, chat-completions, responses: no-streams \(gateway\.yaml:\d+\) is new, before check-budget, runs when request\.stream$/,
    );
  });

  it('requests rerouted because of a changed property of a model', async () => {
    const base = BASE.replace('  rules:\n', `  rules:\n    - ${BLIND}\n`);
    const blind = replace('id: mini-1, family: mini', 'id: mini-1, family: mini, supports: { images: false }');
    const lines = await diffTo(blind, { base });
    assert.deepEqual(lines.slice(0, 2), ['Routes', '  groups engineers, interns for mini-1: main -> spare']);
  });

  it('nothing for a copy elsewhere, although options name files by their place', async () => {
    const stage = `export default { kind: 'stage', name: 'note', version: 1, summary: 'Notes.', place: 'finally',
      options: { type: 'object', additionalProperties: false, properties: { file: { type: 'string', 'x-path': 'file', description: 'Where.' } } },
      examples: [{ title: 'Note', yaml: '- stage: note' }], reads: [], readsIfSet: [], writes: [], raises: [], needs: [],
      below: [], terminal: false, create: () => ({ finally() {} }) };`;
    const files = {
      'note.js': stage,
      'mine/note.txt': '',
      'package.json': '{ "type": "module" }',
      'mine/mine.yaml': OWN('[forbidden]', '  - stage: note\n    options: { file: ./note.txt }\n'),
    };
    const base = `${BASE}pipelines: mine\nstages: [./note.js]\n`;
    assert.deepEqual(await diffTo(add('# a copy\n'), { base, base_files: files, files }), []);
  });

  it('every setting of limits that begin, in lines of their own', async () => {
    const [without] = BASE.split('spend_limits:\n');
    const lines = await diffTo(add(BASE.slice(without!.length)), { base: without! });
    assert.deepEqual(lines.slice(0, 3), [
      ...['Limits', '  defaults.user_daily_usd: is new: 50 USD per user and day'],
      '  defaults.team_monthly_usd: is new: 2000 USD per team and month',
    ]);
    assert.ok(lines.includes('  spend_limits.reserve: nothing -> worst_case'), lines.join('\n'));
    // Windows were those of UTC before as well.
    assert.ok(!lines.some((line) => line.includes('time_zone') || line.length > 80), lines.join('\n'));
  });
});

describe('access rules', () => {
  it('are reported when enforced, when their message changes, and when removed', async () => {
    const base = BASE + rule(`${INTERNS}, mode: shadow`);
    const enforced = await diffTo(replace('mode: shadow', 'message: Ask Bob.'), { base });
    assert.match(
      enforced.join(' ').replaceAll(/\s+/g, ' '),
      /^Access rules no-interns: would reject, in shadow mode, .* "interns" -> rejects .* "interns" message for clients: .* -> Ask Bob\.$/,
    );
    const gone = await diffTo(() => BASE, { base });
    assert.match(gone.join(' '), /no-interns: is gone: would reject, in shadow mode, when/);
  });
});

function changes(before: PricingConfig | undefined, after: PricingConfig | undefined): string[] {
  const { pricing: _, ...model } = stageConfig().models[0]!;
  const priced = (pricing: typeof before) => stageConfig({ models: [{ ...model, ...(pricing && { pricing }) }] });
  return diffPrices(priced(before), priced(after)).flatMap(({ change, details = [] }) => [change, ...details]);
}

const FLAT = { input: 3, output: 15 };

describe('the prices of a model in two configurations', () => {
  it('is reported for tokens of a long context and for tools', () => {
    const long_context = { above_input_tokens: 200_000, input: 6, output: 22 };
    const before = { ...FLAT, long_context, server_tools: { a: 1 } };
    const after = { ...FLAT, long_context: { ...long_context, input: 7 }, server_tools: { b: 2 } };
    assert.deepEqual(changes(before, before), []);
    assert.deepEqual(changes(before, { ...after, cache_read: 0.3 }), [
      'pricing.cache_read derived -> 0.3',
      'pricing.long_context.input 6 -> 7',
      'pricing.server_tools.a 1 -> nothing',
      'pricing.server_tools.b nothing -> 2',
    ]);
  });

  it('is reported when a model leaves its price to the section prices', () => {
    assert.deepEqual(changes(undefined, undefined), []);
    const [change = ''] = changes(FLAT, undefined);
    assert.match(change, /^pricing \{.*"input":3,"output":15\} -> the price of the section prices or the catalogue$/);
  });

  it('is reported entry by entry for the section prices, in words', () => {
    const row = { models: ['coder-*'], from: '2027-01-01', pricing: FLAT, multiplier: 1 };
    const cheap = { models: ['coder-1', 'coder-2'], upstream: 'spare', until: '2027-02-01', multiplier: 0.85 };
    const tools = { models: ['x'], pricing: { ...FLAT, server_tools: { search: 10 } }, multiplier: 1 };
    const withPrices = (prices: PricesConfig | undefined) => stageConfig({ ...(prices && { prices }) });
    const diffOf = (before: PricesConfig | undefined, after: PricesConfig | undefined) =>
      diffPrices(withPrices(before), withPrices(after)).map(({ subject, change }) => `${subject} ${change}`);
    const ofRows = (before: PricesConfig['rows'], after: PricesConfig['rows']) =>
      diffOf({ rows: before }, { rows: after }).join();
    const input = (usd: number) => ({ ...row, pricing: { ...FLAT, input: usd } });
    const of_coders = 'prices rows: coder-* from 2027-01-01.pricing.input';
    assert.equal(ofRows([row, cheap], [input(4), cheap]), `${of_coders} 3 -> 4`);
    assert.deepEqual(diffOf(undefined, { unknown_model: { input: 15, output: 75 }, rows: [cheap, tools] }), [
      'prices unknown_model nothing -> {"input":15,"output":75}',
      'prices rows: coder-1, coder-2 at spare until 2027-02-01 nothing -> {"pricing":"that of the model","multiplier":0.85}',
      'prices rows: x nothing -> {"pricing":{"input":3,"output":15,"server_tools":{"search":10}},"multiplier":1}',
    ]);
    const reordered = 'prices.rows other order; the first entry that matches applies';
    assert.equal(ofRows([row, cheap], [cheap, row]), reordered);
    assert.equal(ofRows([row], [row]), '');
    // Of two entries for the same the first applies, whatever the other is.
    assert.equal(ofRows([row, cheap, input(27)], [row, cheap]), '');
    assert.equal(ofRows([row, cheap, row], [input(27), cheap, row]), `${of_coders} 3 -> 27`);
  });
});
