/** Names of tests by their file below `test/`. A test inside a group is named `group > test`. */
export type ShownBy = Readonly<Record<string, readonly string[]>>;

/** What comes later, and may therefore be missing. */
export type Area = 'telemetry' | 'console' | 'self-check';

/** One thing that is asked of the gateway and can be checked. */
export interface Requirement {
  /** Stable, readable, its parts apart by dots. */
  readonly id: string;
  /** What is asked, in a sentence without its full stop. */
  readonly asked: string;
  /** `no` is for a requirement that does not hold: a test refuses it, so that it is not forgotten. */
  readonly works: 'yes' | 'later' | 'no';
  /** What shows it; empty unless it works. */
  readonly shown_by: ShownBy;
  /** Why it is for later, or what is missing. */
  readonly reason?: string;
  readonly area?: Area;
}

/** Requirements about one thing. */
export interface Section {
  readonly title: string;
  readonly requirements: readonly Requirement[];
}

/** A requirement that holds. */
export function yes(id: string, asked: string, shown_by: ShownBy): Requirement {
  return { id, asked, works: 'yes', shown_by };
}

/** A requirement that is for later. */
export function later(id: string, asked: string, area: Area, reason: string): Requirement {
  return { id, asked, works: 'later', shown_by: {}, area, reason };
}
