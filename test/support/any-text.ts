import fc from 'fast-check';

const SURROGATES = 0xe000 - 0xd800;

/** Fast-check's own needs a second for a table of them all. */
const character = fc.nat({ max: 0x10ffff - SURROGATES }).map(
  (index) => String.fromCodePoint(index < 0xd800 ? index : index + SURROGATES),
  // It adds texts such as "__proto__" where it can take them apart.
  (text) => {
    if (typeof text !== 'string' || !/^[^\ud800-\udfff]$/u.test(text)) throw new TypeError('not one character');
    const code = text.codePointAt(0)!;
    return code < 0xd800 ? code : code - SURROGATES;
  },
);

/** Texts of any characters of Unicode. */
export function anyText(length: { minLength?: number; maxLength?: number } = {}): fc.Arbitrary<string> {
  return fc.string({ ...length, unit: character });
}

/** Addresses with any path, whose names and ports are as varied as those of fast-check, without its table. */
export const anyAddress: fc.Arbitrary<string> = fc
  .tuple(fc.webAuthority({ withPort: true }), fc.array(anyText({ maxLength: 8 }), { maxLength: 3 }))
  .map(([authority, names]) => `https://${authority}${names.map((name) => `/${encodeURIComponent(name)}`).join('')}`);
