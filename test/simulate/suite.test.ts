import assert from 'node:assert/strict';
import { connect, createServer } from 'node:net';
import { basename } from 'node:path';
import { describe, it } from 'node:test';
import { defineStage } from '../../engine/api.ts';
import { openPort } from '../support/net/own-port.ts';
import { holds, PIPELINE, problemsOf, REQUEST, runCases, suiteOf, testProject, UPSTREAM } from './support.ts';

describe('a case', () => {
  it("runs the operator's own rules, with upstreams by their names and base paths", () =>
    holds(`
  - name: by day
    ${REQUEST}
    ${UPSTREAM}
    expect: { status: 200, upstream: { name: main, path: /base/v1/messages }, facts: { route.rule: default } }
  - name: by night
    at: 2026-03-10T23:30:00Z
    ${REQUEST}
    ${UPSTREAM}
    expect: { status: 200, upstream: { name: spare, path: /v1/messages }, facts: { route.rule: night } }
`));

  it('has the address and region of its caller, which a request cannot forge', () =>
    holds(`
  - name: from the office
    caller: { address: 10.1.2.3 }
    ${REQUEST}
    ${UPSTREAM}
    expect: { facts: { request.client.address: 10.1.2.3, route.rule: office } }
  - name: a made-up address
    caller: { address: 203.0.113.9 }
    request: { headers: { x-forwarded-for: 10.1.2.3 }, json: { model: coder-1, max_tokens: 10, messages: [] } }
    ${UPSTREAM}
    expect: { facts: { request.client.address: 203.0.113.9, route.rule: default } }
  - name: a made-up region
    request: { headers: { x-region: eu }, json: { model: coder-1, max_tokens: 10, messages: [] } }
    ${UPSTREAM}
    expect: { facts: { request.region: null }, shadow: [] }
  - name: a region
    caller: { region: EU }
    ${REQUEST}
    ${UPSTREAM}
    expect: { facts: { request.region: eu, route.rule: default }, shadow: ["routing:eu"] }
`));

  it('shares budgets between its requests and with no other case, and passes time between them', () =>
    holds(`
  - name: spends the last cent
    caller: { group: contractors }
    spent: [{ scope: user, window: day, usd: 19.9999 }]
    request: { json: { model: coder-1, max_tokens: 1, messages: [] } }
    upstream: { json: { type: message, usage: { input_tokens: 33, output_tokens: 0 } } }
    expect: { status: 429 }
    then:
      - caller: { group: all }
        expect: { status: 200, ledger: { cost_nano_usd: 99000 } }
      - at: 2026-03-10T23:59:59Z
        caller: { group: contractors }
        expect: { status: 429, error: spend_limit_exceeded, json: { error: { message: Ask Bob. } } }
      - at: 2026-03-11T00:00:00Z
        caller: { group: contractors }
        expect: { status: 200, error: null }
  - name: starts with an untouched budget
    caller: { group: contractors }
    ${REQUEST}
    ${UPSTREAM}
    expect: { status: 200 }
`));

  it('supports events without a name, and data that is no JSON', () =>
    holds(`
  - name: a stream of chunks
    request: { json: { model: coder-1, max_tokens: 10, stream: true, messages: [] } }
    upstream: { events: [{ object: chunk }, "[DONE]", { type: named }] }
    expect: { status: 200, events: [message, message, named], contains: ['data: {"object":"chunk"}', "data: [DONE]"] }
`));
});

describe('a failing case', () => {
  it('reports place, expectation and result', async () => {
    const { results } = await runCases(`
  - name: wrong
    ${REQUEST}
    ${UPSTREAM}
    expect:
      status: 429
      error: spend_limit_exceeded
      headers:
        content-type: text/html
      json: { usage: { input_tokens: 2 }, "__proto__": {} }
      contains: [Bob]
      lacks: [usage]
      events: [ping]
      upstream: { name: spare, json: { model: coder-2 } }
      facts: { route.rule: night }
      shadow: ["routing:eu"]
      runs: [refuse-large]
      skips: [forward]
      ledger: { cost_nano_usd: 1 }
      audit: { status: 429 }
      never: [upstream_call, ledger_row, audit_record]
`);
    const problems = problemsOf(results[0]!);
    const response = '"{\\"type\\":\\"message\\",\\"usage\\":{\\"input_tokens\\":1,\\"output_tokens\\":1}}"';
    const ran = 'these ran: authenticate, read-body, resolve-route, check-budget, meter-usage, forward, audit';
    assert.deepEqual(problems, [
      '8 /status: expected 429, found 200',
      '11 /headers/content-type: expected "text/html", found "application/json"',
      '12 /json/usage/input_tokens: expected 2, found 1',
      '12 /json/__proto__: expected {}, found nothing',
      '15 /events: expected ["ping"], found []',
      `13 /contains/0: expected a body with "Bob", found ${response}`,
      `14 /lacks/0: expected a body without "usage", found ${response}`,
      '16 /upstream/name: expected "spare", found "main"',
      '16 /upstream/json/model: expected "coder-2", found "coder-1"',
      '9 /error: expected "spend_limit_exceeded", found null',
      '18 /shadow: expected ["routing:eu"], found []',
      '17 /facts/route.rule: expected "night", found "default"',
      `19 /runs/0: expected refuse-large runs, found ${ran}`,
      `20 /skips/0: expected forward does not run, found ${ran}`,
      '21 /ledger/cost_nano_usd: expected 1, found 18000',
      '22 /audit/status: expected 429, found 200',
      '23 /never/0: expected no upstream_call, found POST /base/v1/messages to main',
      '23 /never/1: expected no ledger_row, found a row of 18000 nano-USD',
      '23 /never/2: expected no audit_record, found a record with status 200',
    ]);
  });
});

type Odd = Parameters<typeof defineStage>[0];

const odd = (name: string, create: Odd['create'], more: Partial<Odd> = {}) => {
  const options = { type: 'object', additionalProperties: false, properties: {} } as const;
  return defineStage({ name, version: 1, summary: 'Does something odd.', options, examples: [], create, ...more });
};
const never = () => new Promise<never>(() => {});

const nothing = () => undefined;
const phone = odd(
  'phone-home',
  () => ({ request: () => fetch('https://home.example.com/hello').then(nothing, nothing) }),
  { needs: ['network'] },
);
const sleep = odd('sleep', () => ({ request: never }));
const stuck = odd('stuck', () => ({ request: nothing, close: never }));
const broken = odd('broken', () => {
  throw new Error('no disk');
});

/** Has the request prepared for two upstreams, the first of which a stage above rejects. */
const sender = odd(
  'sender',
  () => ({
    async request(ctx) {
      await Promise.resolve(ctx.prepareAttempt({ 'route.upstream': 'main' }, false)).catch(() => {});
      await ctx.prepareAttempt({ 'route.upstream': 'spare' }, true);
      return { kind: 'answer', status: 200, headers: { 'content-type': 'application/json' }, body: '{}' };
    },
  }),
  { needs: ['network', 'respond'], terminal: true },
);
const choosy = odd(
  'choosy',
  () => ({
    async attempt(ctx) {
      if (ctx.get('route.upstream') === 'main') throw new Error('not there');
      ctx.set('route.region', 'eu');
    },
  }),
  { readsIfSet: ['route.upstream'], writes: ['route.region'] },
);

const withStage = (stage: string) => ({
  'pipelines/messages.yaml': `
pipeline: messages
version: 2
summary: Does something odd first.
match: { methods: [POST], paths: [/v1/messages], protocol: messages }
stages: [{ stage: ${stage}, timeout_seconds: 3600 }, { stage: authenticate }, { stage: list-models }]
`,
});

describe('a stage of the operator', () => {
  const lists = `
  - name: lists
    ${REQUEST}
    expect: { status: 200, never: [network_call] }
`;

  it('reaches nothing outside, and the case gets the attempt', async () => {
    const { results } = await runCases(lists, withStage('phone-home'), [phone]);
    assert.deepEqual(results.flatMap(problemsOf), [
      '6 /never/0: expected no network_call, found phone-home to home.example.com:443',
    ]);
  });

  it('reaches nothing outside from an event, a timer, its end or in shadow mode either', async () => {
    await using server = await openPort(createServer((socket) => socket.destroy()));
    const { port } = server;
    const outcomes: Record<string, Promise<string>> = {};
    const call = (from: string): undefined => {
      const socket = connect(port, '127.0.0.1');
      outcomes[from] = new Promise((resolve) => {
        socket.on('connect', () => resolve('connected')).on('error', ({ message }) => resolve(message));
      });
    };
    const calls = odd(
      'calls',
      (_, { clock }) => ({
        request: () => void clock.after(0, () => call('timer')),
        event: () => call('event'),
        close: () => call('close'),
      }),
      { needs: ['network'] },
    );
    const watches = odd('watches', () => ({ rewrite: () => call('rewrite') }), { needs: ['rewrite-response'] });
    const cases = `
  - name: a stream
    request: { json: { model: coder-1, max_tokens: 10, stream: true, messages: [] } }
    upstream: { pause_seconds: 1, events: [{ type: ping }, { type: message_stop }] }
    expect: { status: 200 }
`;
    const both = '  - stage: calls\n  - { stage: watches, mode: shadow }\n';
    const pipeline = PIPELINE.replace('  - stage: forward', `${both}  - stage: forward`);
    const { suite } = await runCases(cases, { 'pipelines/messages.yaml': pipeline }, [calls, watches]);
    await suite.close();
    const refused = `connect ECONNREFUSED 127.0.0.1:${port}: tests have no network`;
    const found = Object.fromEntries(
      await Promise.all(Object.entries(outcomes).map(async ([from, outcome]) => [from, await outcome])),
    );
    assert.deepEqual(found, { timer: refused, event: refused, rewrite: refused, close: refused });
  });

  it('runs before each attempt, and its rejection is dropped when another is made', async () => {
    const pipeline = withStage('choosy')['pipelines/messages.yaml'].replace('stage: list-models', 'stage: sender');
    const { results } = await runCases(lists, { 'pipelines/messages.yaml': pipeline }, [choosy, sender]);
    assert.deepEqual(results.flatMap(problemsOf), []);
    const stage = results[0]!.played[0]!.trace!.stages.find(({ entry }) => entry.id === 'choosy')!;
    assert.equal(stage.raised, undefined);
    assert.deepEqual([...stage.wrote], [['route.region', 'eu']]);
  });

  it('that cannot be created fails the case, with the reason', async () => {
    const { results } = await runCases(lists, withStage('broken'), [broken]);
    assert.equal(results[0]!.problems.length, 1);
    assert.match(results[0]!.problems[0]!.found, /the stage "broken".* no disk/);
  });

  it('that never returns is abandoned', async () => {
    const endless = {
      'pipelines/messages.yaml': withStage('sleep')['pipelines/messages.yaml'].replace(/, timeout_seconds: 3600/, ''),
    };
    const { results } = await runCases(lists, endless, [sleep]);
    assert.match(problemsOf(results[0]!)[0]!, /expected the request comes to an end, found nothing happens any more/);
  });

  it('that hangs, or never closes, is abandoned after its time limit, which takes no time', async () => {
    const { results } = await runCases(lists, withStage('sleep'), [sleep]);
    assert.equal(results[0]!.played[0]!.response?.status, 500);
    assert.deepEqual((await runCases(lists, withStage('stuck'), [stuck])).results.flatMap(problemsOf), []);
  });
});

describe('coverage', () => {
  const BOTH = `
  - name: small
    ${REQUEST}
    ${UPSTREAM}
    expect: { status: 200 }
`;

  it('lists unseen branches, with their place', async () => {
    const { suite } = await runCases(BOTH);
    const unseen = suite.coverage.files().map(({ file, seen, total, points }) => ({
      file: file.replace(/.*\/(?=gateway|messages)/, ''),
      seen: `${seen} of ${total}`,
      points: points.flatMap(({ position, name, outcomes }) => {
        const never = [...outcomes].flatMap(([outcome, was_seen]) => (was_seen ? [] : outcome));
        return never.length === 0 ? [] : [`${position.line} ${name}: ${never.join(', ')}`];
      }),
    }));
    assert.deepEqual(unseen, [
      { file: 'messages.yaml', seen: '1 of 3', points: ['11 refuse-large: true', '20 ask-bob: entered'] },
      {
        file: 'gateway.yaml',
        seen: '3 of 8',
        points: [
          '11 night: matching',
          '12 eu: matching',
          '13 office: matching',
          '17 contractors: refusing, letting pass',
        ],
      },
    ]);
    assert.equal(suite.coverage.percent(), 36);
  });

  it('does not count rules that a test lays over the configuration', async () => {
    const rules = '{ routing: { rules: [{ name: mine, upstream: main }] } }';
    const { suite } = await runCases(`${BOTH}    gateway: ${rules}\n`);
    const gateway = suite.coverage.files().find(({ file }) => file.endsWith('gateway.yaml'));
    assert.equal(gateway?.points.map(({ name }) => name).join(), 'night,eu,office,contractors');
  });
});

describe('a mistake', () => {
  it('in a section that a case lays over the configuration is shown in the test file', async () => {
    const broken = '\n  - name: broken\n    gateway: { routing: { default_upstream: mian } }';
    const suite = await suiteOf(testProject(`${broken}\n    ${REQUEST}\n    expect: { status: 200 }\n`));
    const found = suite.diagnostics.map(
      ({ code, file, line, column }) => `${code} ${basename(file)} ${line}:${column}`,
    );
    assert.deepEqual([found, suite.files], [['C4004 messages.test.yaml 5:45'], []]);
  });

  it('in the configuration is shown once, however many tests it breaks', async () => {
    const cases = `\n  - name: one\n    ${REQUEST}\n    expect: { status: 200 }\n`;
    const more = { 'pipelines/messages.more.test.yaml': `pipeline: messages\ncases:${cases}` };
    const broken = { 'gateway.yaml': 'server: { listen: "127.0.0.1:8080" }\n' };
    const suite = await suiteOf(testProject(cases, { ...more, ...broken }));
    assert.equal(new Set(suite.diagnostics.map(({ message }) => message)).size, suite.diagnostics.length);
    assert.ok(suite.diagnostics.every(({ file }) => file.endsWith('gateway.yaml')));
    assert.equal(suite.found, 2);
  });
});
