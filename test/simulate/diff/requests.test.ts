/** What requests of the past would have met, by records that a test writes. */
import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import type { FactRow } from '../../../engine/domain/audit/request-records.ts';
import { configHash } from '../../../engine/domain/telemetry/config-hash.ts';
import type { Usable } from '../../../engine/edge/simulate/diff/change.ts';
import { diffRequests } from '../../../engine/edge/simulate/diff/requests.ts';
import { BASE, loadText, replace } from './support.ts';

type Files = Readonly<Record<string, string>>;
type Fields = Readonly<Record<string, unknown>>;

function usable(files: Files): Promise<Usable> {
  const has_own = Object.keys(files).some((file) => file.startsWith('pipelines/'));
  return loadText({ ...files, 'gateway.yaml': `${files['gateway.yaml']}${has_own ? 'pipelines: pipelines\n' : ''}` });
}

const REQUEST = { method: 'POST', path: '/v1/messages', protocol: 'messages', model: 'coder-1', principal: 'p' };
const ANN = { ...REQUEST, user: 'ann@example.com', groups: ['engineers'], token_group: 'engineers' };

function row(fields: Fields): FactRow {
  const record = { ...ANN, ...fields };
  return { facts: JSON.stringify(record), person: record.user, is_known: true };
}

/** What is told of these requests, a line each, without the last lines, which say how many there were. */
async function shown(before: Files, after: Files, records: readonly Fields[]): Promise<string> {
  async function* read() {
    // Pages begin anew, as do people with the same facts.
    for (const fields of records) yield { rows: [row(fields), row(fields)], at: new Date(0) };
  }
  const [old, now] = [await usable(before), await usable(after)];
  const { changes, notes } = await diffRequests(old, now, { read, period: 'since then' });
  const lines = [...changes, ...notes.slice(0, -1)].map(({ subject, change, details = [] }) =>
    [`${subject}: ${change}`, ...details].join('\n  '),
  );
  return lines.join('\n');
}

const OF_ANN = '2 requests of ann@example.com';

const gateway = (change: (text: string) => string = (text) => text): Files => ({
  'gateway.yaml': change(BASE),
});

const extension = (entry: string): Files => ({
  'pipelines/own.yaml': `extends: messages\ninsert:\n  - before: check-budget\n    stages:\n      - ${entry}\n`,
});

const TOO_LARGE =
  '{ stage: reject, id: refuse-large, when: { ">": [{ var: request.body_bytes }, 1000] }, options: { error: invalid_request } }';

describe('requests of the past', () => {
  it('meet guards of stages, in force and in shadow mode', async () => {
    const records = [{ body_bytes: 2000 }, { body_bytes: 10 }];
    const extended = (entry: string) => ({ ...gateway(), ...extension(entry) });
    const refusing = extended(TOO_LARGE);
    const watching = extended(TOO_LARGE.replace('id:', 'mode: shadow, id:'));
    const stage = 'stage messages/refuse-large';
    const refused = `${stage}: rejects ${OF_ANN} (400 invalid_request)`;
    assert.equal(await shown(gateway(), refusing, records), refused);
    const served = `${stage}: no longer rejects ${OF_ANN}, which go to main as coder-1`;
    assert.equal(await shown(refusing, gateway(), records), served);
    assert.equal(await shown(gateway(), watching, records), `${stage}, in shadow mode: would reject ${OF_ANN}`);
    const with_status = extended(TOO_LARGE.replace('invalid_request', 'invalid_request, status: 422'));
    const otherwise = `${stage}: rejects ${OF_ANN} with (422 invalid_request) instead of (400 invalid_request)`;
    assert.equal(await shown(refusing, with_status, records), otherwise);
  });

  it('whose bodies were not read are as before, unless something above that decides otherwise', async () => {
    const by_region = '{ "===": [{ var: request.region }, eu] }';
    const early = extension(TOO_LARGE.replace('{ ">": [{ var: request.body_bytes }, 1000] }', by_region));
    const file = early['pipelines/own.yaml']!.replace('check-budget', 'read-body');
    const above = { ...gateway(), 'pipelines/own.yaml': file };
    const unread = { model: null, region: 'eu' };
    assert.equal(await shown(gateway(), gateway(), [unread]), '');
    assert.equal(await shown(above, above, [unread]), '');
    const unknown = `pipeline messages: unknown for ${OF_ANN}: their bodies were not read`;
    assert.equal(await shown(above, gateway(), [unread]), unknown);
  });

  it('meet what an alias means, and models that are gone', async () => {
    const before = gateway(replace('{ id: coder-1,', '{ id: coder-1, aliases: [latest],'));
    const after = gateway(replace('{ id: coder-2,', '{ id: coder-2, aliases: [latest],'));
    const records = [{ alias: 'latest' }, {}];
    assert.equal(await shown(before, after, records), `coder-1: ${OF_ANN} are served by coder-2 instead of coder-1`);
    assert.equal(await shown(before, gateway(), records), `model latest: rejects ${OF_ANN} (no such model)`);
    const moved = gateway(replace('families: [mini]', 'models: [coder-2]'));
    const intern = { model: 'mini-1', groups: ['interns'], token_group: 'interns' };
    const denied = `model mini-1: rejects ${OF_ANN} (the token group interns may not use mini-1)`;
    assert.equal(await shown(gateway(), moved, [intern]), denied);
    // What nobody has ever had a model for is as before, whatever clients call it.
    assert.equal(await shown(before, gateway(), [{ model: '\u001b[31m\n' }]), '');
  });

  it('meet routes, by who asks and how large a request is', async () => {
    const when = '{ ">": [{ var: request.body_bytes }, 1000] }';
    const large = replace('rules:', `rules:\n    - { name: large, when: ${when}, upstream: spare }`);
    const went = `coder-1: ${OF_ANN} go to spare instead of main`;
    assert.equal(await shown(gateway(), gateway(large), [{ body_bytes: 2000 }, {}]), went);
    const trial = gateway((text) => large(text).replace('upstream: spare }', 'upstream: spare, mode: shadow }'));
    const would = `routing rule large, in shadow mode: would send ${OF_ANN} to spare`;
    assert.equal(await shown(gateway(), trial, [{ body_bytes: 2000 }]), would);
    const research = { groups: ['research'], token_group: 'research', user: 'rob@example.com' };
    const others = gateway(replace('research-to-spare, group: research', 'x-to-spare, group: interns'));
    const came = 'coder-1: 2 requests of rob@example.com go to main instead of spare';
    assert.equal(await shown(gateway(), others, [research]), came);
  });

  it('meet access rules, as far as what these ask was recorded', async () => {
    const header = '{ "===": [{ var: request.headers.x-team }, red] }';
    const ruled = (more: string) =>
      gateway((text) => `${text}facts: { headers: [x-team] }\naccess: { rules: [${more}] }\n`);
    const none = ruled('');
    const enforced = ruled(`{ name: no-red, when: ${header} }`);
    const watched = ruled(`{ name: no-red, when: ${header}, mode: shadow }`);
    const red = { seen: { 'request.headers.x-team': 'red' } };
    assert.equal(await shown(none, enforced, [red]), `access rule no-red: rejects ${OF_ANN} (403 forbidden)`);
    const shadow = 'access rule no-red, in shadow mode';
    assert.equal(await shown(none, watched, [red]), `${shadow}: would reject ${OF_ANN}`);
    const missing = 'depends on request.headers.x-team, recorded only while a rule uses it';
    assert.equal(await shown(none, watched, [{}]), `${shadow}: unknown for ${OF_ANN}: ${missing}`);
    // What else is known may decide alone.
    const and = `{ and: [{ "===": [{ var: principal.project }, payments] }, ${header}] }`;
    assert.equal(await shown(none, ruled(`{ name: no-red, when: ${and} }`), [{}]), '');
    // A rule of the configuration of then would have had it recorded.
    const config = configHash((await usable(watched)).config);
    assert.equal(await shown(watched, enforced, [{ config }]), '');
  });

  it('meet pipelines that come and go, and those without a model', async () => {
    const own = `pipeline: own\nversion: 1\nsummary: Says no.\nmatch: { methods: [GET], paths: [/own], protocol: none }\nstages:\n  - stage: authenticate\n  - { stage: respond, options: { json: {} } }\nfinally:\n  - stage: audit\n`;
    const with_own = { ...gateway(), 'pipelines/own.yaml': own };
    const record = { method: 'GET', path: '/own', protocol: 'none', model: null };
    const gone = `pipelines: ${OF_ANN} reach no pipeline; before they get the response of stage own/respond`;
    assert.equal(await shown(with_own, gateway(), [record]), gone);
    assert.equal(await shown(with_own, with_own, [record]), '');
  });

  it('are not reported if they depend on unrecorded facts', async () => {
    const when = '{ in: [shell, { var: request.tools }] }';
    const entry = `{ stage: reject, id: no-shell, when: ${when}, options: { error: forbidden } }`;
    const guarded = { ...gateway(), ...extension(entry) };
    const seen = { seen: { 'request.tools': ['shell'] } };
    const refused = `stage messages/no-shell: rejects ${OF_ANN} (403 forbidden)`;
    assert.equal(await shown(gateway(), guarded, [seen]), refused);
    const missing = 'depends on request.tools, recorded only while a rule uses it';
    assert.equal(await shown(gateway(), guarded, [{}]), `stage messages/no-shell: unknown for ${OF_ANN}: ${missing}`);
  });

  it('names the five who have the most requests, and counts the others', async () => {
    const records = Array.from({ length: 7 }, (_, i) => ({ user: `u${i}@example.com`, body_bytes: 2000 }));
    const lines = await shown(gateway(), { ...gateway(), ...extension(TOO_LARGE) }, [...records, records[6]!]);
    assert.deepEqual(lines.split('\n'), [
      'stage messages/refuse-large: rejects 16 requests of 7 people (400 invalid_request)',
      '  u6@example.com 4, u0@example.com 2, u1@example.com 2, u2@example.com 2, u3@example.com 2 and 2 more',
    ]);
  });
});
