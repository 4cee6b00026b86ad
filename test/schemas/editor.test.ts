// biome-ignore-all lint/suspicious/noTemplateCurlyInString: placeholders of fragments look like this
/** The schemas for editors accept what the loader accepts, and underline what is a slip of the pen. */
import assert from 'node:assert/strict';
import { readdirSync, readFileSync } from 'node:fs';
import { join, relative } from 'node:path';
import { describe, test } from 'node:test';
import { Ajv, type ValidateFunction } from 'ajv';
import fc from 'fast-check';
import { parse } from 'yaml';
import type { JsonSchema } from '../../engine/api.ts';
import { ANNOTATIONS } from '../../engine/base/source/validate.ts';
import { stages } from '../../stages/index.ts';
import { BASE, type GoldenCase, readGoldens } from '../golden/cases.ts';
import { filesOf } from '../golden/small-configuration.ts';
import { conditions } from '../rules/support/conditions.ts';

const ROOT = join(import.meta.dirname, '..', '..');
const KINDS = ['gateway', 'pipeline', 'fragment', 'policy', 'profile', 'pipeline-test'] as const;
type Kind = (typeof KINDS)[number];

const ajv = new Ajv({ strict: false, allErrors: true });

/** Where editors find a schema. */
function placeOf(kind: Kind | 'shared'): string {
  return join('schemas/generated', `${kind}.schema.json`);
}

function readSchema(kind: Kind | 'shared'): JsonSchema {
  return JSON.parse(readFileSync(join(ROOT, placeOf(kind)), 'utf8')) as JsonSchema;
}

// Files refer to each other by name, as they stand in one folder.
for (const name of ['shared', 'pipeline', 'gateway'] as const) ajv.addSchema(readSchema(name), `${name}.schema.json`);
const validators = Object.fromEntries(
  KINDS.map((kind) => [kind, ajv.getSchema(`${kind}.schema.json`) ?? ajv.compile(readSchema(kind))]),
) as Record<Kind, ValidateFunction>;

/** Where a text breaks its schema, and why; empty when it does not. */
function problems(kind: Kind, text: string): string[] {
  return problemsOf(kind, parse(text));
}

function problemsOf(kind: Kind, value: unknown): string[] {
  const validate = validators[kind];
  return validate(value) ? [] : (validate.errors ?? []).map((error) => `${error.instancePath} ${error.message}`);
}

function kindOf(name: string, text: string): Kind {
  if (name.endsWith('.test.yaml')) return 'pipeline-test';
  if (/^fragment:/m.test(text)) return 'fragment';
  if (/^policy:/m.test(text)) return 'policy';
  if (/^header_prefix:/m.test(text)) return 'profile';
  return /^(?:pipeline|extends):/m.test(text) ? 'pipeline' : 'gateway';
}

function filesBelow(directory: string, ending: string): string[] {
  return readdirSync(join(ROOT, directory), { recursive: true, encoding: 'utf8' })
    .filter((name) => name.endsWith(ending) && !/node_modules|\.appscli/.test(name))
    .map((name) => join(directory, name));
}

const read = (path: string) => readFileSync(join(ROOT, path), 'utf8');
/** The configuration files of an input; without a name it is gateway.yaml. */
function configurationsOf({ input }: GoldenCase): { readonly kind: Kind; readonly text: string }[] {
  const files = filesOf(input).filter(({ name }) => name.endsWith('.yaml'));
  return files.map(({ name, text }) => ({ kind: kindOf(name, text), text }));
}

const casesOf = (code: RegExp) =>
  readGoldens()
    .flatMap((file) => (code.test(file.code) ? file.cases : []))
    .filter(({ input }) => !input.startsWith(BASE));

/** Files of a collector, of Prometheus and of Grafana, which have schemas of their own. */
const OF_OTHERS = /^examples\/observability\/(?!gateway\.)/;

const shipped = [
  ...filesBelow('pipelines', '.yaml'),
  ...filesBelow('examples', '.yaml').filter((path) => !OF_OTHERS.test(path)),
  ...filesBelow('engine', '.yaml'),
];

describe('accepts the shipped files', () => {
  for (const path of shipped) {
    test(`${path}, which names its schema`, () => {
      const text = read(path);
      const kind = kindOf(path, text);
      assert.deepEqual(problems(kind, text), []);
      const [, named] = /^# yaml-language-server: \$schema=(\S+)$/m.exec(text) ?? [];
      assert.equal(named && relative(ROOT, join(ROOT, path, '..', named)), placeOf(kind));
    });
  }

  test('every gateway.yaml and pipeline in a README', () => {
    const documents = [
      'README.md',
      'CONTRIBUTING.md',
      ...['examples', 'pipelines', 'stages'].flatMap((directory) => filesBelow(directory, '.md')),
    ];
    const blocks = documents.flatMap((path) =>
      [...read(path).matchAll(/^```yaml\n(.*?)^```$/gms)].map(([, block]) => ({ path, block: block! })),
    );
    const whole = blocks.filter(({ block }) => /^(?:server|pipeline|extends|fragment):/m.test(block));
    assert.ok(whole.length >= 2);
    for (const { path, block } of whole) {
      const kind = /^cases:/m.test(block) ? 'pipeline-test' : kindOf(path, block);
      assert.deepEqual(problems(kind, block), [], `${path}:\n${block}`);
    }
  });

  test('every configuration of the golden files without findings', () => {
    for (const golden of casesOf(/none/)) {
      for (const { kind, text } of configurationsOf(golden)) assert.deepEqual(problems(kind, text), [], golden.name);
    }
  });
});

function pipelineWith(lines: string): string {
  return `
pipeline: mine
version: 1
summary: Does something.
match: { methods: [POST], paths: [/mine], protocol: messages }
${lines}`;
}

const entry = (yaml: string) => pipelineWith(`stages:\n${yaml.replace(/^/gm, '  ')}`);
const guarded = (condition: string) => entry(`- stage: forward\n  when: ${condition}`);

describe('every example of the definitions is accepted', () => {
  for (const { name, place, examples } of stages) {
    for (const { title, yaml } of examples) {
      test(`${name}: ${title}`, () => {
        const observed = pipelineWith(`stages:\n  - stage: forward\nfinally:\n${yaml.replace(/^/gm, '  ')}`);
        assert.deepEqual(problems('pipeline', place === 'finally' ? observed : entry(yaml)), []);
      });
    }
  }
});

const GATEWAY = `
server: { listen: 127.0.0.1:8080, public_url: https://gateway.example.com }
upstreams: [{ name: main, base_url: https://api.example.com, api_key_env: UPSTREAM_KEY }]
routing: { default_upstream: main }
`;

const routed = (condition: string) =>
  GATEWAY.replace('main }\n', `main, rules: [{ upstream: main, when: ${condition} }] }\n`);

const fragment = (stages: string) => `fragment: a\nversion: 1\nsummary: A.\nstages: [{ ${stages} }]`;
const testOf = (expect: string, gateway = '{}') =>
  `pipeline: a\ngateway: ${gateway}\ncases: [{ name: A, request: {}, expect: { ${expect} } }]`;
/** Texts by the kind of their file and by what they show. */
type Texts = Readonly<Partial<Record<Kind, Readonly<Record<string, string>>>>>;

function forEach(texts: Texts, check: (found: readonly string[]) => void): void {
  for (const [kind, rows] of Object.entries(texts))
    for (const [title, text] of Object.entries(rows)) test(title, () => check(problems(kind as Kind, text)));
}

describe('accepts everything that the loader accepts', () => {
  const reject = '{ stage: reject, when: { var: request.stream }, options: { error: forbidden } }';
  const accepted: Texts = {
    pipeline: {
      'a stage of the operator': entry('- stage: siem\n  options: { anything: [1] }'),
      'a warning that is meant': `${entry('- stage: forward')}\nallow: { W7008: It comes with the next change. }`,
      'an extension': `extends: model-requests\nremove: [translate]\ninsert: [{ after: read-body, stages: [${reject}] }]`,
      'a fact of a stage': guarded('{ ">": [{ var: count-addresses.found }, 50] }'),
    },
    gateway: {
      'stages of all pipelines': `${GATEWAY}all_pipelines: { insert: [{ after: read-body, stages: [{ use: fragments/a }] }], finally: [{ stage: audit }] }`,
      'a header that is a fact': routed('{ "===": [{ var: request.headers.x-project }, search] }'),
    },
    fragment: {
      'a placeholder for any value': fragment('stage: "${{ which }}", when: "${{ guard }}", options: "${{ all }}"'),
      'a placeholder for an option': fragment(
        'stage: reject, options: { error: "${{ code }}", status: "${{ status }}" }',
      ),
      'a placeholder for an operand': fragment(
        'stage: reject, when: { "<": [{ var: request.max_tokens }, "${{ max }}"] }, options: { error: forbidden }',
      ),
    },
    'pipeline-test': {
      'a part of gateway.yaml in a test': testOf(
        'status: 200',
        '{ spend_limits: { defaults: { user_daily_usd: 1 } } }',
      ),
    },
  };
  forEach(accepted, (found) => assert.deepEqual(found, []));
});

describe('rejects a typo', () => {
  const plain = entry('- stage: forward');
  const refused: Texts = {
    pipeline: {
      'a key': pipelineWith('stagse: []'),
      'an option in an extension':
        'extends: messages\nreplace: [{ id: a, stage: reject, options: { eror: forbidden } }]',
      'a fact seen from inside a list': guarded('{ some: [{ var: principal.groups }, { var: request.stream }] }'),
      'a text for a guard': guarded('request.stream'),
      'an option': entry('- stage: reject\n  options: { error: forbidden, mesage: No. }'),
      'options that are missing': entry('- stage: reject'),
      'an error code': entry('- stage: reject\n  options: { error: forbiden }'),
      'an error code of a clause': `${plain}\non_error: [{ errors: [spend_limit], stage: reject, options: { error: forbidden } }]`,
      'the code of a warning': `${plain}\nallow: { W9999: Because. }`,
      'a stage in the wrong list': `${plain}\nfinally: [{ stage: authenticate }]`,
      'a stage and a fragment at once': entry('- stage: forward\n  use: fragments/a'),
    },
    gateway: {
      'an option in a stage of all pipelines': `${GATEWAY}all_pipelines: { finally: [{ stage: audit, options: { a: 1 } }] }`,
      'a section': `${GATEWAY}spend_limit: {}`,
      'a fact that is not known to routing rules': routed('{ var: usage.output_tokens }'),
      'a URL without scheme': GATEWAY.replace('https://api', 'api'),
      'a variable with a dollar sign': GATEWAY.replace('UPSTREAM_KEY', '$UPSTREAM_KEY'),
    },
    'pipeline-test': {
      'a fact of a test': testOf('facts: { request.modle: a }'),
      'a section of gateway.yaml in a test': testOf('status: 200', '{ spend_limit: {} }'),
    },
    fragment: { 'an option in a fragment': fragment('stage: reject, options: { eror: forbidden }') },
  };
  forEach(refused, (found) => assert.notDeepEqual(found, []));
});

/** Every expression in a condition, outermost first. */
function expressionsIn(logic: unknown): Record<string, unknown>[] {
  if (Array.isArray(logic)) return logic.flatMap(expressionsIn);
  if (typeof logic !== 'object' || logic === null) return [];
  return [logic as Record<string, unknown>, ...Object.values(logic).flatMap(expressionsIn)];
}

/** Makes a mistake in an expression: another operator, a second one, or another fact. */
const slips: readonly ((expression: Record<string, unknown>, operator: string) => void)[] = [
  (expression, operator) => {
    expression[`${operator}x`] = expression[operator];
    delete expression[operator];
  },
  (expression, operator) => {
    expression[operator === 'and' ? 'or' : 'and'] = [true];
  },
  (expression, operator) => {
    expression[operator] = operator === 'var' ? `${expression.var}x` : [];
  },
];

/** A pipeline with this guard, as a value. */
function withGuard(when: unknown): unknown {
  return { ...(parse(entry('- stage: forward')) as object), stages: [{ stage: 'forward', when }] };
}

describe('conditions', () => {
  test('of any operators are accepted', () => {
    fc.assert(
      fc.property(conditions, (logic) => {
        assert.deepEqual(problemsOf('pipeline', withGuard(logic)), []);
      }),
    );
  });

  test('with one typo anywhere in them are rejected', () => {
    fc.assert(
      fc.property(conditions, fc.nat(), fc.constantFrom(...slips), (logic, at, slip) => {
        const broken = structuredClone(logic);
        const expressions = expressionsIn(broken);
        const expression = expressions[at % expressions.length]!;
        slip(expression, Object.keys(expression)[0]!);
        assert.ok(problemsOf('pipeline', withGuard(broken)).length > 0);
      }),
    );
  });
});

describe('rejects a condition that the loader rejects for its operators or facts', () => {
  // What a named rule may read depends on where it is used, which no schema can express.
  const goldens = casesOf(/C500[1235]/).filter(
    ({ input, expected }) => !/\brules?:/.test(input) && !/which no operator can compare/.test(expected),
  );
  for (const golden of goldens) {
    test(golden.name, () => {
      const refused = configurationsOf(golden).filter(({ kind, text }) => problems(kind, text).length > 0);
      assert.equal(refused.length, 1);
    });
  }
});

test('no keyword of the loader is left in a schema for editors', () => {
  for (const keyword of [
    ...ANNOTATIONS,
    'x-also',
    'x-expected',
    'x-moved',
    'x-several',
    'x-empty',
    'x-unknown',
    'x-ref',
  ]) {
    for (const kind of [...KINDS, 'shared'] as const)
      assert.ok(!JSON.stringify(readSchema(kind)).includes(`"${keyword}":`), `${kind} ${keyword}`);
  }
});
