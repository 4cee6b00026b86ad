import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import type { Diagnostic } from '../../../engine/base/source/diagnostics/diagnostic.ts';
import { renderDiagnostics } from '../../../engine/base/source/diagnostics/render.ts';

const diagnostic: Diagnostic = {
  code: 'C3001',
  severity: 'error',
  message: 'unknown key `lissten`',
  file: '/project/gateway.yaml',
  line: 2,
  column: 3,
  length: 7,
  pointer: '/server/lissten',
  expected: 'listen, public_url',
  help: 'did you mean `listen`?',
};
const sources = new Map([['/project/gateway.yaml', 'server:\n  lissten: 127.0.0.1:8080\n']]);
const options = { color: false, sources, cwd: '/project' } as const;

describe('text', () => {
  test('has colours only on request', () => {
    const esc = String.fromCharCode(27);
    assert.ok(!renderDiagnostics([diagnostic], { ...options, format: 'text' }).includes(esc));
    assert.ok(renderDiagnostics([diagnostic], { ...options, format: 'text', color: true }).includes(`${esc}[31;1m`));
  });

  test('shows the marked part of a long line within 80 columns', () => {
    const line = `rules: [${'{ upstream: main }, '.repeat(20)}{ upstrm: main }]`;
    const column = line.indexOf('upstrm') + 1;
    const long: Diagnostic = { ...diagnostic, line: 1, column, length: 6 };
    const of_line = new Map([['/project/gateway.yaml', line]]);
    const text = renderDiagnostics([long], { ...options, format: 'text', sources: of_line });
    const [shown = '', carets = ''] = text.split('\n').slice(3);
    assert.ok(text.split('\n').every((row) => row.length <= 80));
    assert.equal(shown.slice(carets.indexOf('^'), carets.lastIndexOf('^') + 1), 'upstrm');
  });

  test('hides what looks like a secret even if it is not declared one', () => {
    const secrets = new Map([['/project/gateway.yaml', 'api_key: hunter2\n  lissten: x # sk-planted-key\n']]);
    const text = renderDiagnostics([diagnostic], { ...options, format: 'text', sources: secrets });
    assert.doesNotMatch(text, /hunter2|planted/);
  });
});

test('github is one escaped workflow command per finding', () => {
  const odd: Diagnostic = { ...diagnostic, file: '/project/a,b:c.yaml', message: '100% wrong' };
  assert.equal(
    renderDiagnostics([odd], { ...options, format: 'github' }),
    '::error file=a%2Cb%3Ac.yaml,line=2,col=3,endColumn=10,title=C3001 Unknown key::' +
      '100%25 wrong%0Aexpected: listen, public_url%0Ahelp: did you mean `listen`?\n',
  );
});

describe('200 equal findings', () => {
  const alike = Array.from({ length: 200 }, (_, index): Diagnostic => ({ ...diagnostic, line: index + 1 }));
  const other: Diagnostic = { ...diagnostic, message: 'another' };
  const render = (format: 'text' | 'json' | 'github') => renderDiagnostics([...alike, other], { ...options, format });

  test('are reported once to users and to code hosts, with the first places', () => {
    const rest = 'gateway.yaml:4:3, gateway.yaml:5:3, gateway.yaml:6:3 and 194 more';
    const text = render('text').replace(/\s+/g, ' ');
    assert.ok(text.includes(`also at: gateway.yaml:2:3, gateway.yaml:3:3, ${rest}`), text);
    assert.equal(text.split('error[').length - 1, 2);
    const commands = render('github').trim().split('\n');
    assert.equal(commands.length, 2);
    assert.ok(commands[0]?.endsWith(`%0Aalso at: gateway.yaml:2:3, gateway.yaml:3:3, ${rest}`), commands[0]);
    assert.doesNotMatch(commands[1]!, /also at/);
  });

  test('is there 200 times for programs', () => {
    const { errors, diagnostics } = JSON.parse(render('json'));
    assert.equal(errors, 201);
    const found = diagnostics.slice(0, 200).map(({ line }: Diagnostic) => line);
    assert.deepEqual(
      found,
      alike.map(({ line }) => line),
    );
  });
});
