/**
 * Where a key is privileged, so that two parsers must agree on it: `anywhere`; in all objects except the messages of the prompt,
 * whose parts may be tools (`not in messages`); in the outermost object only (`top`).
 */
type Place = 'anywhere' | 'not in messages' | 'top';

/** The prompt, or user data, in which no key is privileged. */
type Content = 'prompt' | 'data';

/** A privileged key and its spellings. */
export interface KnownKey {
  readonly name: string;
  readonly also?: readonly string[];
  readonly decides?: Place;
  /** Content of its value in the outermost object and in others, for the exact spelling. */
  readonly holds?: { readonly top?: Content; readonly below?: Content };
}

/** The privileged keys of a kind of body, indexed for a scan of its bytes. */
export interface KeyNames {
  /** The known key for a plain ASCII key, by hash; a candidate only. */
  candidate(hash: number): (KnownKey & { readonly bytes: Buffer }) | undefined;
  /** The known key that a JSON string spells, with any escapes. */
  find(bytes: Buffer, start: number, end: number): KnownKey | undefined;
}
