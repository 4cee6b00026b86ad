import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import type { CheckResult } from '../../../engine/base/contract/checks.ts';
import { printable } from '../../../engine/base/kit/text/printable.ts';
import { openReport, type ReportOptions } from '../../../engine/edge/cli/report.ts';
import { collectingTerminal } from '../support.ts';

const OK: CheckResult = {
  id: 'models.list',
  title: 'the list of models',
  verdict: 'ok',
  found: '3 models',
  came: 'status 200',
  expected: 'a list in JSON',
  duration_ms: 12,
};
const FAILED: CheckResult = {
  id: 'messages.stream',
  title: 'streams arrive as they are made',
  verdict: 'failed',
  found: 'all 14 events came at once, at the end of an answer that took its time',
  sent: 'POST /v1/messages with stream: true',
  came: 'status 200, text/event-stream, 14 events in 1 piece',
  expected: 'event and data lines one by one, as the model writes them',
  remedy: 'something on the way buffers: where it is nginx, set proxy_buffering off for /v1/ and reload it',
  details: ['first byte after 4.1 s'],
  duration_ms: 4200,
};
const WARNING: CheckResult = {
  ...OK,
  id: 'address',
  title: 'the address',
  verdict: 'warning',
  found: 'it ends in /v1',
  remedy: 'leave /v1 off',
};
const SKIPPED: CheckResult = { ...OK, id: 'limits', title: 'limits', verdict: 'skipped', found: 'no token for it' };

function reported(results: readonly CheckResult[], options: ReportOptions = {}, color = false) {
  const { terminal, data, info } = collectingTerminal();
  const shown: string[] = [];
  const colored = { ...terminal, data_color: color, data: (text: string) => void shown.push(text) };
  const context = { terminal: color ? colored : terminal, env: {}, stages: async () => [] };
  const report = openReport(context, options, { command: 'selfcheck' });
  for (const result of results) report.add(result);
  const exit_code = report.end({ base_url: 'https://gw.example.com', model: null });
  return { exit_code, data: color ? shown.join('') : data(), info: info() };
}

describe('a report of checks', () => {
  it('shows users one line for a pass, and for a failure what travelled, what was expected and the remedy', () => {
    const { data, info } = reported([OK, FAILED, SKIPPED]);
    assert.equal(
      data,
      `ok       the list of models: 3 models
failed   streams arrive as they are made: all 14 events came at once, at the end
         of an answer that took its time (4.2 s)
         sent      POST /v1/messages with stream: true
         came      status 200, text/event-stream, 14 events in 1 piece
         expected  event and data lines one by one, as the model writes them
         note      first byte after 4.1 s
         help      something on the way buffers: where it is nginx, set
                   proxy_buffering off for /v1/ and reload it
         check     messages.stream
skipped  limits: no token for it
`,
    );
    assert.match(info, /^\n1 ok, 1 failed, 1 skipped in 0\.\d s\n$/);
  });

  it('reports everything on request, colours only the verdict, and exits with 1 for a failure or, with --strict, a warning', () => {
    assert.match(reported([OK], { verbose: true }).data, /came {6}status 200\n {9}expected {2}a list in JSON\n/);
    assert.ok(reported([FAILED], {}, true).data.startsWith('\x1b[31mfailed   \x1b[0mstreams arrive'));
    assert.ok(!reported([FAILED]).data.includes('\x1b'));
    assert.equal(reported([OK, SKIPPED, WARNING]).exit_code, 0);
    assert.equal(reported([OK, SKIPPED, WARNING], { strict: true }).exit_code, 1);
    assert.equal(reported([OK, FAILED]).exit_code, 1);
  });

  it("limits a server's text to one line, to a length, and without terminal escapes", () => {
    const hostile = `\x1b]0;title\x07<a&"'>\n\ud800 ${'x '.repeat(5000)}`;
    const result = { ...FAILED, found: hostile, came: hostile, details: Array.from({ length: 1000 }, () => hostile) };
    const { data } = reported([result]);
    assert.equal(printable(data), data);
    assert.ok(!data.includes('\t'));
    assert.ok(data.length < 40_000, `${data.length} characters`);
    assert.ok(data.split('\n').every((line) => line.length <= 80));
    const { checks } = JSON.parse(reported([result], { json: true }).data);
    assert.equal(checks[0].details.length, 20);
  });
});
