import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { ERRORS } from '../../../engine/base/contract/errors.ts';
import { FACTS } from '../../../engine/base/contract/facts.ts';
import { ATTEMPT_REASONS, DROP_REASONS } from '../../../engine/base/contract/forwarding.ts';
import { OPERATORS } from '../../../engine/base/rules/operators.ts';
import { DIAGNOSTICS } from '../../../engine/base/source/diagnostics/codes.ts';
import { METRICS } from '../../../engine/domain/telemetry/catalogue/metrics.ts';
import { ATTRIBUTES, EVENTS, SPANS } from '../../../engine/domain/telemetry/catalogue/spans.ts';
import { FAILOVER_TABLE } from '../../../engine/domain/upstreams/failover-table.ts';
import { explain } from '../../../engine/edge/cli/explain/explain.ts';
import { entriesOf, KINDS } from '../../../engine/edge/cli/explain/reference.ts';
import { stages } from '../../../stages/index.ts';
import { createProject, GATEWAY } from '../../load/support/project.ts';
import { cli, collectingContext } from '../support.ts';

async function explained(words: readonly string[], more: object = {}): Promise<string> {
  const { context, data, info } = collectingContext();
  const [word, name] = words;
  const nowhere = { config: 'no-such-gateway.yaml', config_named: false };
  assert.equal(await explain(context, { ...nowhere, word, name, ...more } as never), 0);
  return data() + info();
}

describe('explains a word by its reference entry', () => {
  const CASES: readonly (readonly [words: string, ...says: RegExp[]])[] = [
    ['C2003', /^Diagnostics: C2003\n/, /expected|fragment/],
    ['stage check-budget', /^Stages: check-budget\n/, /Type +full or nothing/, /- stage: check-budget\n/],
    ['check-budget', /^Stages: check-budget\n/],
    ['request.cache.ttl', /none, 5m, 1h/, /read-body/],
    ['operator ===', /\{ "===": \[a, b\] \}/],
    ['spend_limit_exceeded', /429/, /billing_error/, /insufficient_quota/, /check-budget/],
    ['field service_tier', /^Privileged fields: service_tier\n/, /Passes anyway +auto/],
    ['header Set-Cookie', /cookies for the gateway's host/],
    ['spend_limits.rules[].limit_usd', /^gateway\.yaml: spend_limits\.rules\[\]\.limit_usd\n/],
    ['routing.rules', /Keys: .*name.*upstream/s],
    ['failover overloaded', /answered/, /Status 503 or 529/],
    ['failover 529', /^Failover: overloaded\n/],
    ['gateway_requests_total', /^Telemetry: gateway_requests_total\n/, /gateway\.requests/],
    ['translation unknown_field', /It is left out/],
  ];
  for (const [words, ...says] of CASES) {
    test(words, async () => {
      const text = await explained(words.split(' '));
      for (const pattern of says) assert.match(text, pattern);
      assert.ok(Array.isArray(JSON.parse(await explained(words.split(' '), { json: true }))));
    });
  }

  test('covers every word of every kind, no wider than a terminal except for file contents', async () => {
    const all = {
      code: Object.keys(DIAGNOSTICS),
      stage: stages.map(({ name }) => name),
      fact: Object.keys(FACTS),
      operator: Object.keys(OPERATORS),
      error: Object.keys(ERRORS),
      failover: [FAILOVER_TABLE, ATTEMPT_REASONS, DROP_REASONS].flatMap((table) => Object.keys(table)),
      telemetry: [SPANS, EVENTS, ATTRIBUTES, METRICS].flatMap((known) => Object.keys(known)),
    };
    for (const [kind, names] of Object.entries(all)) {
      const known = new Set(entriesOf(KINDS[kind]!).map(({ word }) => word));
      assert.deepEqual(
        names.filter((name) => !known.has(name)),
        [],
        kind,
      );
    }
    // What is rendered in 80 columns is not indented out of them; only lines of YAML are longer as they are.
    for (const line of (await explained(['C3001'])).split('\n')) assert.ok(line.length <= 80, line);
    for (const kind of ['failover', 'telemetry', 'fact', 'error', 'header', 'field', 'key', 'translation']) {
      for (const line of (await explained([kind])).split('\n'))
        assert.ok(line.length <= 80 || line.startsWith('  '), line);
    }
  });
});

test('an unknown word is a usage error with a suggestion, else with the list', async () => {
  const CASES: readonly (readonly [words: string, message: RegExp])[] = [
    ['C2030', /no code C2030; did you mean `C2003`\?/],
    ['stage forwrd', /no stage forwrd; did you mean `forward`\?/],
    ['request.modle', /request\.modle; did you mean `request\.model`\?/],
    ['agent-of-nobody', /no pipeline, file or term agent-of-nobody/],
    ['failover overlodaed', /no failover overlodaed; did you mean `overloaded`\?/],
    ['flower forward', /unknown kind flower; expected code, stage, /],
    ['header x-unlisted', /no header x-unlisted; /],
    ['request.json', /there is no file request\.json; for a key of this name: appscli explain key request\.json/],
  ];
  for (const [words, message] of CASES) {
    await assert.rejects(explained(words.split(' ')), { name: 'StartError', exit_code: 64, message });
  }
  assert.match((await cli(['explain', ''])).stderr, /^appscli: .*Expected a text that is not empty\./);
  const { exit_code, stdout, stderr } = await cli(['explain', 'C9999']);
  assert.deepEqual([exit_code, stdout], [64, '']);
  assert.match(stderr, /^appscli: there is no code C9999; .*\n$/);
});

describe('beside a configuration', () => {
  const withFiles = (files: Readonly<Record<string, string>>) => ({
    ...{ config: createProject(files).path('gateway.yaml'), config_named: true },
  });

  test('explains a code and a key at their finding', async () => {
    const broken = withFiles({
      'gateway.yaml': `${GATEWAY}stages: [broken.ts]\n`,
      'broken.ts': 'throw new Error("x");',
    });
    assert.match(await explained(['C4012'], broken), /^Diagnostics: C4012\n/);
    assert.match(await explained(['spend_limits.rules'], broken), /^gateway\.yaml: spend_limits\.rules\n/);
  });

  test('a configuration is no body of a request, and a pipeline has precedence over a key of its name, which is mentioned', async () => {
    const whole = withFiles({ 'gateway.yaml': GATEWAY });
    await assert.rejects(explained([whole.config], whole), {
      exit_code: 64,
      message: /not a request file \(JSON\); see appscli check .*gateway\.yaml/,
    });
    assert.match(await explained(['models'], whole), /^models, version \d+: [\s\S]*appscli explain key models\n$/);
  });
});
