/** Faulty stages of the operator's own: each does harm in its own way, and none of it reaches further than it may. */
import assert from 'node:assert/strict';
import { readFile } from 'node:fs/promises';
import { describe, test } from 'node:test';
import { projectOfTest } from '../../load/support/project.ts';
import { until } from '../../support/until.ts';
import { type Response, send } from '../support/client.ts';
import { useGateway } from '../support/use-gateway.ts';

/** The request names the stage that misbehaves, and how. */
const FAULTY = `
import { inspect } from 'node:util';
import { defineStage, StageError } from 'appscli';

const later = () => new Promise((resolve) => { globalThis.letGo = () => { resolve(); globalThis.letGo = undefined; }; });

export default defineStage({
  name: 'faulty', version: 1, summary: 'Does what the request says.',
  options: { type: 'object', additionalProperties: false, properties: { as: { type: 'string', description: 'Its name.' } } },
  examples: [], writes: ['principal.roles'], raises: ['forbidden'], needs: ['raw-body'],
  create: ({ as }, services) => ({
    request(ctx) {
      const [who, fault] = (ctx.headers['x-fault'] ?? '').split(' ');
      if (who !== as) return undefined;
      switch (fault) {
        case 'throws': throw new Error('thrown on purpose');
        case 'throws-text': throw 'the text of a prompt';
        case 'throws-null': throw null;
        case 'rejects': return Promise.reject(new Error('thrown on purpose'));
        case 'hangs': return new Promise(() => {});
        case 'hangs-behind-a-thenable': return { then(resolve) { resolve(new Promise(() => {})); } };
        case 'writes-undeclared': return ctx.set('principal.id', 'root');
        case 'writes-engine-fact': return ctx.set('request.id', 'mine');
        case 'writes-twice': ctx.set('principal.roles', ['a']); return ctx.set('principal.roles', ['b']);
        case 'writes-wrong-kind': return ctx.set('principal.roles', 'admin');
        case 'reads-undeclared': ctx.get('principal.email'); return undefined;
        case 'peeks': ctx.peek('principal.email'); return undefined;
        case 'takes-over': ctx.replaceFacts({ 'principal.id': 'somebody' }); return undefined;
        case 'hides': ctx.stage = undefined; return undefined;
        case 'looks-through': throw new Error('sees ' + inspect([ctx, Object.getPrototypeOf(ctx), Object.getOwnPropertyNames(ctx), 'peek' in ctx], { depth: 9 }));
        case 'puts-bytes': return ctx.readBody().then((body) => { body.restore({ bytes: Buffer.from('mine') }, true); });
        case 'changes-headers': ctx.headers['x-fault'] = 'changed'; return undefined;
        case 'changes-facts': services.facts(ctx).request.path = '/elsewhere'; return undefined;
        case 'returns-response': return new Response('hello');
        case 'answers': return { kind: 'answer', status: 200, headers: {}, body: 'mine' };
        case 'uses-call': ctx.call.res.end('mine'); return undefined;
        case 'uses-ledger': return services.ledger.release('x');
        case 'rewrites': return ctx.readBody().then((body) => { body.rewrite('model', 'other'); });
        case 'converts': ctx.convertResponse(() => undefined); return undefined;
        case 'raises-undeclared': throw new StageError('model_not_found', 'No.');
        case 'raises-bad-header': throw new StageError('forbidden', 'No.', { headers: { 'x-a': 'b\\r\\nc: d' } });
        case 'raises-what-the-engine-would': throw new StageError('stage_failed', 'Words of its own.', { status: 200 });
        case 'raises-framing-header': throw new StageError('forbidden', 'No.', { headers: { 'Content-Length': '3' } });
        case 'raises-success': throw new StageError('forbidden', 'No.', { status: 200 });
        case 'raises-no-text': { const error = new StageError('forbidden', 'No.'); error.message = { a: 1n }; throw error; }
        case 'raises-odd-details': throw new StageError('forbidden', 'No.', { details: { a: 1n } });
        case 'raises-a-trap': throw new Proxy({}, { getPrototypeOf() { throw new Error('a trap'); } });
        case 'refuses': throw new StageError('forbidden', 'Not today.', { details: { day: 1 } });
        case 'changes-bytes': return ctx.readBody().then((body) => { body.bytes.fill(0); });
        case 'changes-what-it-wrote': { const roles = ['a']; ctx.set('principal.roles', roles); roles.push('admin'); return undefined; }
        case 'writes-late': return later().then(() => { ctx.set('principal.roles', ['late']); });
        case 'throws-late': return later().then(() => { throw new Error('thrown late'); });
        case 'writes-after-its-hook': void later().then(() => ctx.set('principal.roles', ['late'])).catch((e) => services.log.warn({}, 'too late: ' + e.message)); return undefined;
        case 'throws-in-finish': ctx.state = 'finish'; return undefined;
        case 'hangs-in-finish': ctx.state = 'hang'; return undefined;
      }
    },
    finish(ctx) {
      if (ctx.state === 'finish') throw new Error('thrown on purpose');
      if (ctx.state === 'hang') return new Promise(() => {});
    },
  }),
});
`;

/** Responds with what it sees, after other stages have run. */
const ECHO = `
import { answerJson, defineStage } from 'appscli';
export default defineStage({
  name: 'echo', version: 1, summary: 'Answers with what it sees.',
  options: { type: 'object', additionalProperties: false, properties: {} }, examples: [],
  reads: ['request.path'], readsIfSet: ['principal.roles'], needs: ['respond', 'raw-body'], terminal: true,
  create: () => ({
    async request(ctx) {
      const body = await ctx.readBody();
      return answerJson(200, { roles: ctx.get('principal.roles'), path: ctx.get('request.path'), body: body.bytes.toString() });
    },
  }),
});
`;

/** Short time limits are for faults that exceed any. */
const stageOf = (who: string, limit: string) =>
  `- { stage: faulty, id: ${who}, ${limit} options: { as: ${who} }, when: { "===": [{ var: request.client.name }, ${who}] } }`;
const LITTLE = 'timeout_seconds: 0.05,';

const PIPELINE = `
pipeline: echo
version: 1
summary: Answers whatever comes, past faulty stages.
match: { methods: [POST], paths: [/echo, /handled], protocol: messages }
stages:
  ${stageOf('strict', '')}
  ${stageOf('hasty-strict', LITTLE)}
  ${stageOf('lenient', 'fail_closed: false,')}
  ${stageOf('hasty-lenient', `fail_closed: false, ${LITTLE}`)}
  - stage: echo
on_error:
  - errors: [stage_failed]
    when: { "===": [{ var: request.path }, /handled] }
    stage: reject
    options: { error: overloaded, message: Try again. }
finally:
  - { stage: audit, options: { table: false, json_lines: AUDIT } }
`;

const project = projectOfTest({ 'faulty.js': FAULTY, 'echo.js': ECHO });
const AUDIT = project.path('audit.jsonl');
const pipelines = projectOfTest({ 'echo.yaml': PIPELINE.replace('AUDIT', AUDIT) }).directory;
const { gateway } = useGateway({ pipelines, stages: [project.path('faulty.js'), project.path('echo.js')] });

type Who = 'strict' | 'lenient' | 'hasty-strict' | 'hasty-lenient';

function misbehave(who: Who, fault: string, path = '/echo'): Promise<Response> {
  const headers = ['x-fault', `${who} ${fault}`, 'user-agent', `${who}/1`];
  return send(gateway.url, { path, headers, body: '{"model":"m"}' });
}

/** Log records of failures of one request's stage. */
function failures(response: Response): Record<string, unknown>[] {
  const id = response.headers['x-gateway-request-id'];
  const records = gateway.logs.map((line) => JSON.parse(line) as Record<string, unknown>);
  return records.filter((record) => record.request_id === id && String(record.text).startsWith('a stage failed'));
}

const FAULTS: Readonly<Record<string, RegExp>> = {
  throws: /thrown on purpose/,
  'throws-text': /it threw a value of type string, not an Error/,
  'throws-null': /it threw null/,
  rejects: /thrown on purpose/,
  hangs: /did not finish within 0\.05 seconds/,
  'hangs-behind-a-thenable': /did not finish within 0\.05 seconds/,
  'writes-undeclared': /"principal\.id" is not declared in "writes"/,
  'writes-engine-fact': /"request\.id" is not declared in "writes"/,
  'writes-twice': /"principal\.roles" was already written/,
  'writes-wrong-kind': /"principal\.roles" must be of the kind strings/,
  'reads-undeclared': /"principal\.email" is not declared/,
  peeks: /ctx\.peek is not a function/,
  'takes-over': /ctx\.replaceFacts is not a function/,
  hides: /trap returned falsish for property 'stage'/,
  'looks-through': /sees \[ \{\}, \[Object: null prototype\] \{\}, \[\], false \]/,
  'puts-bytes': /body\.restore is not a function/,
  'changes-headers': /read only/,
  'changes-facts': /read only/,
  'returns-response': /must return a response, a relay or nothing/,
  answers: /answering needs the capability "respond"/,
  'uses-call': /call needs the capability "network"/,
  'uses-ledger': /services\.ledger needs the capability "database"/,
  rewrites: /rewriting the body needs the capability "rewrite-body"/,
  converts: /converting the response needs the capability "convert-response"/,
  'raises-undeclared': /./,
  'raises-what-the-engine-would': /Words of its own/,
  // Errors that it declares and that cannot be sent.
  'raises-bad-header': /Invalid character in header/,
  'raises-framing-header': /only the gateway may set the header content-length/,
  'raises-success': /the status must be a whole number from 400 to 599/,
  'raises-no-text': /the message of an error must be a string/,
  'raises-odd-details': /BigInt/,
  'raises-a-trap': /a trap/,
};

describe('a stage that fails', () => {
  for (const [fault, reason] of Object.entries(FAULTS)) {
    test(`${fault}: the request fails, and response and log name the stage`, async () => {
      const who = fault.startsWith('hangs') ? 'hasty-strict' : 'strict';
      const response = await misbehave(who, fault);
      assert.equal(response.status, 500);
      const { error } = response.json();
      assert.equal(error.stage, who);
      assert.match(error.message, /^The stage "[a-z-]+" (failed on this request|did not finish within 0\.05 seconds)/);
      const [failure, ...more] = failures(response);
      assert.deepEqual(more, []);
      assert.equal(failure?.stage, who);
      assert.equal(failure?.pipeline, 'echo');
      assert.match(String(failure?.error), reason);
    });

    test(`${fault}: the request continues without a stage that is not fail_closed`, async () => {
      const who = fault.startsWith('hangs') ? 'hasty-lenient' : 'lenient';
      const response = await misbehave(who, fault);
      assert.equal(response.status, 200, response.text);
      assert.equal(response.json().body, '{"model":"m"}');
      const [failure, ...more] = failures(response);
      assert.deepEqual(more, []);
      assert.equal(failure?.stage, who);
      assert.match(String(failure?.error), reason);
    });
  }

  test('repeats no text it threw', async () => {
    await misbehave('strict', 'throws-text');
    assert.ok(!gateway.logs.join('\n').includes('the text of a prompt'));
  });

  test('is named in the audit record', async () => {
    const response = await misbehave('strict', 'throws');
    const id = String(response.headers['x-gateway-request-id']);
    const lines = () => readFile(AUDIT, 'utf8').catch(() => '');
    await until('the audit record is there', async () => (await lines()).includes(id));
    const record = (await lines()).split('\n').find((line) => line.includes(id))!;
    assert.equal(JSON.parse(record).stage, 'strict');
    assert.equal(JSON.parse(record).error, 'stage_failed');
  });

  test('can be handled by an on_error clause', async () => {
    const response = await misbehave('strict', 'throws', '/handled');
    assert.equal(response.status, 503);
    assert.equal(response.json().error.message, 'Try again.');
  });

  test('in its finish hook changes no response', async () => {
    for (const fault of ['throws-in-finish', 'hangs-in-finish']) {
      const response = await misbehave('hasty-strict', fault);
      assert.equal(response.status, 200);
      await until('the failure is in the log', async () => failures(response).length === 1);
      assert.equal(failures(response)[0]?.text, 'a stage failed in its finish hook');
    }
  });
});

describe('a stage that works', () => {
  test('rejects a request with a declared error, also when it is not fail_closed', async () => {
    for (const who of ['strict', 'lenient'] as const) {
      const response = await misbehave(who, 'refuses');
      assert.equal(response.status, 403);
      assert.equal(response.json().error.message, 'Not today.');
      assert.deepEqual(failures(response), []);
    }
  });

  test('changes neither the bytes of the body nor a fact after it was written', async () => {
    const bytes = await misbehave('strict', 'changes-bytes');
    assert.equal(bytes.json().body, '{"model":"m"}');
    const fact = await misbehave('strict', 'changes-what-it-wrote');
    assert.deepEqual(fact.json().roles, ['a']);
  });
});

describe('a stage that runs past its time limit', () => {
  const letGo = () => {
    const resume = (globalThis as { letGo?: () => void }).letGo;
    assert.ok(resume, 'the stage is not waiting');
    resume();
  };
  const lateFailure = (response: Response, reason: RegExp) =>
    until('the late failure is in the log', async () =>
      failures(response).some(({ error }) => reason.test(String(error))),
    );

  test('writes no fact any more', async () => {
    const response = await misbehave('hasty-lenient', 'writes-late');
    assert.deepEqual(response.json(), { path: '/echo', body: '{"model":"m"}' });
    letGo();
    await lateFailure(response, /its context can no longer be used/);
    assert.ok(failures(response).every(({ stage }) => stage === 'hasty-lenient'));
  });

  test('throws into the log, under its own name', async () => {
    const response = await misbehave('hasty-strict', 'throws-late');
    assert.equal(response.status, 500);
    letGo();
    await lateFailure(response, /thrown late/);
    assert.ok(failures(response).every(({ stage }) => stage === 'hasty-strict'));
  });

  test('cannot use the context of a hook that is over', async () => {
    const response = await misbehave('strict', 'writes-after-its-hook');
    assert.equal(response.status, 200);
    letGo();
    await until('the stage has tried', async () =>
      gateway.logs.some((line) => line.includes('too late: the hook has ended')),
    );
  });
});
