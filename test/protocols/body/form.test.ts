/** Forms are read strictly: ambiguous ones are rejected. */
import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import fc from 'fast-check';
import { StageError } from '../../../engine/base/contract/errors.ts';
import { readForm } from '../../../engine/domain/protocols/body/other-body.ts';

const TYPE = 'multipart/form-data; boundary=edge';
const part = (head: string, content: string) => `--edge\r\n${head}\r\n\r\n${content}\r\n`;
const field = (name: string, content: string) => part(`Content-Disposition: form-data; name="${name}"`, content);
const read = (text: string, type = TYPE) => readForm(type, Buffer.from(text, 'latin1'));
const refuses = (text: string, what: RegExp, type?: string) =>
  assert.throws(
    () => read(text, type),
    (error) => error instanceof StageError && error.code === 'invalid_request' && what.test(error.message),
  );

describe('a form', () => {
  it('has its fields and files, byte for byte', () => {
    const head = 'Content-Type: audio/wav\r\nContent-Disposition: form-data; name="file"; filename="a \\b.wav"';
    const parts = read(`${field('model', 'm-1')}${part(head, 'RIFF\r\n--edg\r\n\0\xff')}--edge--\r\n`);
    const found = parts.map(({ name, is_file, content }) => [name, is_file, content.toString('latin1')]);
    assert.deepEqual(found, [
      ['model', false, 'm-1'],
      ['file', true, 'RIFF\r\n--edg\r\n\0\xff'],
    ]);
  });

  it('includes files with only the extended form of a name', () => {
    const head = `Content-Disposition: form-data; name="file"; filename*=UTF-8''a.jsonl`;
    assert.equal(read(`${part(head, '{}')}--edge--`)[0]?.is_file, true);
  });

  it('may be empty, and end without a line break', () => {
    assert.deepEqual(read('--edge--'), []);
    assert.equal(read(`${field('a', '')}--edge--`)[0]?.content.length, 0);
  });

  const DISPOSITION = 'Content-Disposition: form-data';
  const NAMED = `${DISPOSITION}; name="a"`;
  const QUOTED = 'Content-Transfer-Encoding: quoted-printable';
  const INNER = field('model', 'big').slice(6);
  for (const [what, text, why, type] of [
    ['no boundary', '', /one boundary/, 'multipart/form-data'],
    ['two boundaries', '--edge--', /one boundary/, `${TYPE}; boundary=other`],
    ['a charset', '--edge--', /one boundary/, `${TYPE}; charset=utf-7`],
    ['a text before it', `x${field('a', 'b')}--edge--`, /begin with its boundary/, undefined],
    ['a text behind it', `${field('a', 'b')}--edge--\r\nmore`, /follows its last boundary/, undefined],
    ['no end', field('a', 'b'), /last boundary is missing|followed by a line break/, undefined],
    ['bare line feeds', '--edge\nContent-Disposition: form-data; name="a"\n\nb\n--edge--', /line break/, undefined],
    ['a name without quotes', part('Content-Disposition: form-data; name=a', 'b'), /quoted name/, undefined],
    ['a name with an escape', part('Content-Disposition: form-data; name="a\\"b"', 'c'), /quoted name/, undefined],
    ['two names', part('Content-Disposition: form-data; name="a"; name="model"', 'c'), /quoted name/, undefined],
    ['an extended name', part("Content-Disposition: form-data; name*=utf-8''model", 'c'), /quoted name/, undefined],
    ['a folded header', part(`${DISPOSITION};\r\n name="a"`, 'c'), /quoted name|unexpected header/, undefined],
    ['two dispositions', part(`${NAMED}\r\n${DISPOSITION}; name="b"`, 'c'), /unexpected header/, undefined],
    ['a boundary behind a bare line feed', field('a', `b\n--edge\n${INNER}`), /line of a part/, undefined],
    ['a boundary behind a bare carriage return', field('a', 'b\r--edge\rc'), /line of a part/, undefined],
    ['an encoding that some servers decode', part(`${NAMED}\r\n${QUOTED}`, 'b=22'), /unexpected header/, undefined],
    ['no headers', part('', 'c'), /no end|quoted name/, undefined],
  ] as const) {
    const is_whole = text.endsWith('--') || text === '' || what === 'a text behind it' || what === 'no end';
    it(`with ${what} is rejected`, () => refuses(is_whole ? text : `${text}--edge--`, why, type));
  }

  it('of a thousand and one parts is rejected', () => {
    refuses(`${field('a', '').repeat(1001)}--edge--`, /more than 1000 parts/);
  });

  it('is read back as written, with any content, and never hangs or throws anything else', () => {
    const content = fc.uint8Array({ maxLength: 200 }).map((bytes) => Buffer.from(bytes).toString('latin1'));
    const name = fc.stringMatching(/^[a-z_[\]]{1,20}$/);
    const sent = fc.array(
      fc.tuple(
        name,
        content.filter((text) => !text.includes('--edge')),
      ),
    );
    fc.assert(
      fc.property(sent, (fields) => {
        const text = `${fields.map(([key, value]) => field(key, value)).join('')}--edge--\r\n`;
        const found = read(text).map((one) => [one.name, one.content.toString('latin1')]);
        assert.deepEqual(found, fields);
      }),
    );
    const pieces = ['--edge', '\r\n', '--', `${DISPOSITION}; name="`, '"', 'model', ':', '\0', 'é'];
    const piece = fc.constantFrom(...pieces);
    fc.assert(
      fc.property(fc.array(piece, { maxLength: 30 }), (pieces) => {
        try {
          read(pieces.join(''));
        } catch (error) {
          assert.ok(error instanceof StageError);
        }
      }),
    );
  });
});
