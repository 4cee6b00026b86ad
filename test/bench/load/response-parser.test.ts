import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import { times } from '../../support/times.ts';
import { ResponseParser } from './response-parser.ts';

interface Sent {
  readonly status: number;
  readonly body: string;
  readonly chunked: boolean;
}

/** A response as bytes; a chunked body goes in chunks of up to seven bytes. */
function encode({ status, body, chunked }: Sent): string {
  if (!chunked) return `HTTP/1.1 ${status} OK\r\nContent-Length: ${body.length}\r\n\r\n${body}`;
  const chunks = (body.match(/[\s\S]{1,7}/g) ?? []).map((part) => `${part.length.toString(16)}\r\n${part}\r\n`);
  return `HTTP/1.1 ${status} OK\r\ntransfer-encoding: chunked\r\n\r\n${chunks.join('')}0\r\n\r\n`;
}

test('responses are read the same however their bytes are cut', () => {
  const body = fc.stringMatching(/^[a-z\r\n]{0,40}$/);
  const response = fc.record({ status: fc.integer({ min: 200, max: 599 }), body, chunked: fc.boolean() });
  const cuts = fc.array(fc.nat({ max: 400 }), { maxLength: 30 });
  fc.assert(
    fc.property(fc.array(response, { minLength: 1, maxLength: 4 }), cuts, (sent, places) => {
      const seen: { status: number; body: string; ended: boolean }[] = [];
      const parser = new ResponseParser({
        onHead: (status) => seen.push({ status, body: '', ended: false }),
        onBody: (bytes) => {
          seen.at(-1)!.body += bytes.toString('latin1');
        },
        onEnd: () => {
          seen.at(-1)!.ended = true;
        },
      });
      const bytes = Buffer.from(sent.map(encode).join(''));
      const at = [0, ...places.filter((place) => place < bytes.length).sort((a, b) => a - b), bytes.length];
      for (const [index, end] of at.slice(1).entries()) parser.push(bytes.subarray(at[index], end));
      assert.deepEqual(
        seen,
        sent.map(({ status, body }) => ({ status, body, ended: true })),
      );
    }),
    { numRuns: times(500) },
  );
});
