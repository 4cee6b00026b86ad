import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import fc from 'fast-check';
import { JsonScan } from '../../../engine/base/kit/json/scan.ts';
import { TEXT_BYTES_MAX, withShortTexts } from '../../../engine/base/kit/json/short-texts.ts';
import { anyText } from '../../support/any-text.ts';
import { times } from '../../support/times.ts';

function shortened(text: string): unknown {
  const scan = new JsonScan(Buffer.from(text), { depth: 128, values: 500_000 }, { text_bytes: TEXT_BYTES_MAX });
  while (!scan.step(1000));
  assert.equal(scan.fault, undefined);
  return JSON.parse(withShortTexts(scan));
}

/** Whether a value is another one but for what is missing at the ends of its long texts. */
function isShortOf(short: unknown, whole: unknown, depth = 0): boolean {
  if (typeof whole === 'string' && depth > 1 && short !== whole) {
    const cut = 6 * whole.length > TEXT_BYTES_MAX;
    return cut && typeof short === 'string' && short.endsWith('…') && whole.startsWith(short.slice(0, -1));
  }
  if (typeof whole !== 'object' || whole === null) return Object.is(short, whole);
  const keys = Object.keys(whole);
  assert.deepEqual(Object.keys(short as object), keys);
  return keys.every((key) => isShortOf((short as never)[key], (whole as never)[key], depth + 1));
}

/** Texts with escapes, characters of several bytes and halves of pairs, long enough to be cut. */
const long = fc
  .tuple(anyText({ maxLength: 40 }), fc.integer({ min: 0, max: 60 }))
  .map(([unit, times]) => unit.repeat(times));

describe('a body with short texts', () => {
  it('is the same but for the ends of long texts, wherever they are cut', () => {
    fc.assert(
      fc.property(
        fc.object({ values: [long, fc.integer(), fc.boolean()], maxDepth: 4 }),
        fc.boolean(),
        (value, ascii) => {
          const json = JSON.stringify(value);
          const text = ascii
            ? json.replace(/[\u0080-\uffff]/g, (c) => `\\u${c.charCodeAt(0).toString(16).padStart(4, '0')}`)
            : json.toWellFormed();
          assert.ok(isShortOf(shortened(text), JSON.parse(text)));
        },
      ),
      { numRuns: times(100) },
    );
  });

  it('keeps members of the outermost object, keys and texts up to the bound whole', () => {
    const key = 'k'.repeat(2000);
    const edge = 'x'.repeat(TEXT_BYTES_MAX - 2);
    const value = { top: 'y'.repeat(2000), inner: { [key]: edge, more: `${edge}x` } };
    const short = shortened(JSON.stringify(value)) as typeof value;
    assert.equal(short.top, value.top);
    assert.equal(short.inner[key], edge);
    assert.match(short.inner.more!, /^x{128}…$/);
  });
});
