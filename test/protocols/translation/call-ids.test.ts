import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import fc from 'fast-check';
import { decodeCallId, encodeCallId, shortCallId } from '../../../engine/protocols/translation/features/call-ids.ts';

const ids = fc.oneof(
  fc.string({ minLength: 1, maxLength: 200, unit: 'grapheme' }),
  fc.base64String({ minLength: 4, maxLength: 200 }).map((text) => `call_1__thought__${text}`),
  fc.base64String({ minLength: 4, maxLength: 60 }).map((text) => `gwid_${text}`),
);

describe('an identifier of a call', () => {
  it('is of few characters, and comes back as it was', () => {
    fc.assert(
      fc.property(ids, (id) => {
        assert.match(encodeCallId(id), /^[a-zA-Z0-9_-]+$/);
        assert.equal(decodeCallId(encodeCallId(id)), id);
        assert.match(encodeCallId(shortCallId(id)), /^[a-zA-Z0-9_-]{1,64}$/);
      }),
    );
  });

  it('stays as it is where every API takes it, and where a client made it up', () => {
    for (const id of ['call_1', 'toolu_01A-b', 'x'.repeat(64)]) {
      assert.equal(encodeCallId(id), id);
      assert.equal(shortCallId(id), id);
      assert.equal(decodeCallId(id), id);
    }
    for (const id of ['gwid_', 'gwid_*', 'gwid_YQ==', 'gwid_Y2FsbF8x']) assert.equal(decodeCallId(id), id);
  });
});
