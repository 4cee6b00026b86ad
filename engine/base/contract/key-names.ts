/**
 * Where a key decides, so that two parsers must not be able to disagree on it: `anywhere`; in all objects but the messages
 * of the prompt themselves, whose parts may be tools (`not in messages`); in the outermost object only (`top`).
 */
type Place = 'anywhere' | 'not in messages' | 'top';

/** The prompt, or somebody's data, in which no key matters. */
type Held = 'prompt' | 'data';

/** A key that matters, and how it is spelt. */
export interface KnownKey {
  readonly name: string;
  /** Other spellings that are as good. */
  readonly also?: readonly string[];
  readonly decides?: Place;
  /** What its value is, in the outermost object and in others, where it is spelt exactly so. */
  readonly holds?: { readonly top?: Held; readonly below?: Held };
}

/** The keys that matter in a kind of body, ready to be found while bytes are scanned. */
export interface KeyNames {
  /** The known key that a key of plain ASCII may spell, by its hash. */
  candidate(hash: number): (KnownKey & { readonly bytes: Buffer }) | undefined;
  /** The known key that the inside of a JSON string spells, however it spells it. */
  find(bytes: Buffer, start: number, end: number): KnownKey | undefined;
}
