import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { parse, stringify } from '@decimalturn/toml-patch';
import fc from 'fast-check';
import { BrokenFile, overlay, saysTheSame } from '../../engine/edge/client-files/broken-file.ts';
import { mergeToml } from '../../engine/edge/client-files/toml-text.ts';
import { times } from '../support/times.ts';

const VALUES = {
  top: 'T',
  models: { default: 'mine' },
  model: { mine: { model: 'coder-1', base_url: 'https://gw.example.com/v1', context_window: 500_000 } },
};

function comments(text: string): string[] {
  return text.split(/\r?\n/).filter((line) => /^\s*#/.test(line));
}

const ENTRY = ['model = "coder-1"', 'base_url = "https://gw.example.com/v1"', 'context_window = 500000'];

describe('a TOML file of a user', () => {
  test('that is empty gets the keys, tables apart from each other', () => {
    const text = ['top = "T"', '', '[models]', 'default = "mine"', '', '[model.mine]', ...ENTRY, ''].join('\n');
    assert.equal(mergeToml('', VALUES), text);
  });

  test('keeps every comment where it belongs, and every other line', () => {
    const before = `# about the file

# the look
[ui] # mine
theme = "dark" # not light

[model.mine]
# where it is
base_url = "old"   # moved
extra = 1

# about the servers
[[servers]]
name = "a"

# the end
`;
    assert.equal(
      mergeToml(before, VALUES),
      `# about the file

top = "T"

# the look
[ui] # mine
theme = "dark" # not light

[model.mine]
# where it is
base_url = "https://gw.example.com/v1"   # moved
extra = 1
model = "coder-1"
context_window = 500000

# about the servers
[[servers]]
name = "a"

# the end

[models]
default = "mine"
`,
    );
  });

  test('keeps Windows line breaks and a byte order mark, and may end without a line break', () => {
    const after = mergeToml('\uFEFF# hi\r\nfoo = 1\r\n\r\n[models]\r\ndefault = "old" # keep\r\n', VALUES);
    assert.ok(after.startsWith('\uFEFF# hi\r\nfoo = 1\r\ntop = "T"\r\n\r\n[models]\r\ndefault = "mine" # keep\r\n'));
    assert.doesNotMatch(after, /[^\r]\n/);
    assert.match(mergeToml('# hi\nfoo = 1', VALUES), /^# hi\nfoo = 1\ntop = "T"\n\n\[models\]\n/);
  });

  const forms: Readonly<Record<string, string>> = {
    'inline tables': 'models = { default = "x", other = 3 } # c\n[model]\nold = { model = "a" }\n',
    'an inline table around the entry': 'model = { mine = { model = "a" } }\n',
    'dotted keys': 'models.default = "x"\nmodel.mine.model = "z" # c\n# end\n',
    'quoted keys and headers': '[ "model" . \'mine\' ]\n"model" = \'old\'\n',
    'a header inside a text': 's = """\n[model.mine]\n# no comment\n"""\n[model.mine]\nmodel = "x"\n',
    'a header inside a list': 'a = [\n["model"],\n[1]\n]\n[models]\n',
    'lists of tables': '[[servers]]\nname = "a" # one\n[[servers]]\nname = "b"\n',
    'a table below the entry': '[model.mine.headers]\nx = "1"\n',
    'dates and large numbers':
      'd = 1979-05-27T07:32:00-08:00\nl = 07:32:00.5\nn = 9007199254740993\nf = 1.0\ni = inf\n',
    indentation: '[ui]\n\ttheme = "x"\n\n\t[model.mine]\n\t\tmodel = "y"\n',
    'keys of objects': '[model.constructor]\nmodel = "a"\n[toString]\nx = 1\n',
  };
  for (const [form, before] of Object.entries(forms)) {
    test(`may have ${form}`, () => {
      const after = mergeToml(before, VALUES);
      assert.ok(saysTheSame(parse(after), overlay(parse(before), VALUES)), after);
      assert.deepEqual(comments(after), comments(before));
      assert.equal(mergeToml(after, VALUES), after, 'a second time there is nothing to do');
    });
  }

  test('loses the keys that must go, with their comments and nothing else', () => {
    const before = '# a\n[m.x]\n# my key\napi_key = "s" # c\nmodel = "y"\n\n# other\n[z]\nq = 1\n';
    const after = mergeToml(before, { m: { x: { env_key: 'K' } } }, [
      ['m', 'x', 'api_key'],
      ['no', 'such'],
    ]);
    assert.equal(after, '# a\n[m.x]\nmodel = "y"\nenv_key = "K"\n\n# other\n[z]\nq = 1\n');
  });

  test('that is malformed is named with the line, without its text', () => {
    for (const [text, line] of [
      ['a = 1\nsecret = "hunter2\n', 2],
      ['[a]\nb = 1\n[a]\n', 3],
      ['a = 1\na = hunter2\n', 2],
      ['x = 1\n\0hunter2', 2],
    ] as const) {
      assert.throws(
        () => mergeToml(text, VALUES),
        (error) => error instanceof BrokenFile && error.line === line && !/hunter2/.test(error.message),
        text,
      );
    }
    const REASONS = {
      'x = [': 'Expected "]"',
      'a b = 1': 'Expected "="',
      'm = coder-1': 'a text needs quotes around it',
    };
    for (const [text, reason] of Object.entries(REASONS)) {
      assert.throws(
        () => mergeToml(text, VALUES),
        (error: Error) => error.message.startsWith(`invalid TOML: ${reason}`),
      );
    }
    assert.throws(() => mergeToml(`x = ${'['.repeat(100_000)}`, VALUES), BrokenFile);
  });

  test('is rejected at once for a key of thousands of parts, and not for a few or for dots in values', () => {
    for (const text of [`${'a . '.repeat(2000)}a = 1\n`, `[${'"a".'.repeat(400_000)}a]\n`]) {
      assert.throws(() => mergeToml(text, {}), /a dotted key of more than 32 parts/);
    }
    for (const text of [`${'a.'.repeat(20)}a = 1\n`, `x = "${'/v1. '.repeat(100)}"\n`]) {
      assert.equal(mergeToml(text, {}), text);
    }
  });

  test('with another type in place of a table is rejected', () => {
    for (const text of ['models = "x"\n', '[[models]]\n', 'model.mine = 3\n', 'model = []\n', '[top]\nx = 1\n']) {
      assert.throws(() => mergeToml(text, VALUES), BrokenFile, text);
    }
  });

  test('of any content keeps its values and gains the new keys', () => {
    const key = fc.oneof(fc.constantFrom('models', 'model', 'mine', 'default', 'top', 'a.b', 'ü', ' '), fc.string());
    const scalar = fc.oneof(fc.string({ unit: 'grapheme' }), fc.integer(), fc.boolean(), fc.double({ noNaN: true }));
    const { table } = fc.letrec<{ table: Record<string, unknown>; value: unknown }>((tie) => ({
      table: fc.dictionary(
        key.filter((name) => name !== '__proto__'),
        tie('value'),
        { maxKeys: 4 },
      ),
      value: fc.oneof({ maxDepth: 3 }, scalar, fc.array(scalar, { maxLength: 3 }), tie('table')),
    }));
    fc.assert(
      fc.property(table, (content) => {
        const before = stringify(content);
        let wanted: Record<string, unknown>;
        try {
          wanted = overlay(parse(before), VALUES);
        } catch (error) {
          assert.ok(error instanceof BrokenFile);
          assert.throws(() => mergeToml(before, VALUES), BrokenFile);
          return;
        }
        const after = mergeToml(before, VALUES);
        assert.ok(saysTheSame(parse(after), wanted), after);
        assert.equal(mergeToml(after, VALUES), after);
      }),
      { numRuns: times(50) },
    );
  });
});
