/** One event of a feed. */
export interface FeedEvent {
  /** Grows; a reader that was cut off goes on after it. */
  readonly id: number;
  readonly event: string;
  readonly data: object;
}

/** What an operation answers with that goes on (`text/event-stream`). */
export interface LiveFeed {
  /** Begins; resolves to what stops it. Raises OperationError where there are too many. */
  open(reader: { send(event: FeedEvent): void; end(): void }): Promise<() => void>;
}
