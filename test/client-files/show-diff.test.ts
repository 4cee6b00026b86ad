import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { describe, test } from 'node:test';
import fc from 'fast-check';
import { shellLines, shellOf } from '../../engine/edge/client-files/shell-lines.ts';
import { showDiff, withoutCredentials } from '../../engine/edge/client-files/show-diff.ts';
import { times } from '../support/times.ts';

const TOKEN = 'gw_planted_token_1';

describe('the visible part of a change', () => {
  test('is a unified diff against the file that is there', () => {
    const draft = { path: '/home/a/config.toml', before: 'a = 1\nb = 2\n', after: 'a = 1\nb = 3\n', secret: false };
    assert.equal(
      showDiff(draft, undefined, false),
      '--- /home/a/config.toml\n+++ /home/a/config.toml\n@@ -1,2 +1,2 @@\n a = 1\n-b = 2\n+b = 3\n',
    );
    assert.match(showDiff({ ...draft, before: undefined }, undefined, false), /^--- \/dev\/null\n/);
    assert.ok(showDiff(draft, undefined, true).includes('\x1b[32m+b = 3\x1b[39m'));
  });

  test("contains no credential, neither the new one nor the user's", () => {
    const before = `api_key = "sk-planted-1" # c
"x-api-key" = 'sk-planted-2'
env = { ACME_API_KEY = "sk-planted-3", n = 1 }
experimental_bearer_token = """sk-planted-4"""
headers = "authorization: sk-planted-5"
{"VENDOR_AUTH_TOKEN": "sk-planted-\\"6", "apiKey":"sk-planted-7", "password" : "hunter2"}
headers = { "x-team" = "sk-planted-8", x = 'sk-planted-9' }
"headers": {
  "x-team": "sk-planted-10"
}
env_key = "KEPT"
model_auto_compact_token_limit = 475000
`;
    const after = `${before}x = "${TOKEN}"\n`;
    const shown = showDiff({ path: 'f', before, after, secret: true }, TOKEN, false) + withoutCredentials(after, TOKEN);
    assert.doesNotMatch(shown, /planted|hunter2/);
    assert.match(shown, /env_key = "KEPT"/);
    assert.match(shown, /token_limit = 475000/);
    assert.match(shown, /n = 1/);
  });

  test('has no value of a table of headers in it', () => {
    const before = '[a.headers]\nx-team = "sk-planted-1"\n"x-b" = "sk-planted-2"\n\n[b]\nc = "KEPT"\n';
    const shown = showDiff({ path: 'f', before, after: `${before}d = 1\n`, secret: false }, undefined, false);
    assert.doesNotMatch(shown + withoutCredentials(before, undefined), /planted/);
    assert.match(shown, /KEPT/);
  });

  test('moves no cursor', () => {
    const draft = { path: 'f', before: 'a\r\n', after: 'a\r\n\x1b[2J\u202e\r\n', secret: false };
    const shown = showDiff(draft, undefined, false);
    for (const char of ['\x1b', '\r', '\u202e']) assert.ok(!shown.includes(char));
  });
});

describe('a text that is always hidden', () => {
  test('is hidden once and literally, also where one is a part of another, unless it is short enough to be a part of words', () => {
    const hides = [TOKEN, `${TOKEN}-longer`, 'hidden'];
    assert.equal(withoutCredentials(`a ${TOKEN}-longer b ${TOKEN} c`, hides), 'a <hidden> b <hidden> c');
    fc.assert(
      fc.property(fc.string({ minLength: 6, unit: fc.constantFrom(...'\\^$.*+?()[]{}|/-a') }), (secret) => {
        assert.equal(withoutCredentials(`<${secret}> b`, [secret]), '<<hidden>> b');
      }),
      { numRuns: times(20) },
    );
    assert.equal(withoutCredentials('key = "x"\n"api_key": "x"', ['x', '']), 'key = "x"\n"api_key": "<hidden>"');
  });
});

describe('lines for a shell', () => {
  test("match each shell's syntax", () => {
    const input = { texts: { A: `it's \\ $x` }, copies: { B: 'C' } };
    assert.deepEqual(shellLines('sh', input), [`export A='it'\\''s \\ $x'`, 'export B="$C"']);
    assert.deepEqual(shellLines('fish', input), [`set -gx A 'it\\'s \\\\ $x'`, 'set -gx B "$C"']);
    assert.deepEqual(shellLines('powershell', input), [`$env:A = 'it''s \\ $x'`, '$env:B = $env:C']);
  });

  test('give a POSIX shell exactly the text, whatever it is', () => {
    fc.assert(
      fc.property(fc.string({ unit: fc.constantFrom("'", '"', '$', '`', '\\', ' ', '!', ';', 'a', 'ü') }), (text) => {
        const lines = shellLines('sh', { texts: { A: text }, copies: { B: 'A' } });
        const printed = execFileSync('/bin/sh', ['-c', `${lines.join('\n')}\nprintf '%s' "$B"`], { encoding: 'utf8' });
        assert.equal(printed, text);
      }),
      { numRuns: times(10) },
    );
  });

  test("are for the user's shell, as far as it is detectable", () => {
    assert.equal(shellOf({ SHELL: '/usr/bin/fish' }, 'linux'), 'fish');
    assert.equal(shellOf({ SHELL: '/bin/zsh' }, 'darwin'), 'sh');
    assert.equal(shellOf({}, 'win32'), 'powershell');
    assert.equal(shellOf({}, 'linux'), 'sh');
  });
});
