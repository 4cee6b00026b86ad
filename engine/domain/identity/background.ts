import type { Clock, Log } from '../../base/contract/services.ts';
import type { Every } from '../../base/kit/clock.ts';
import type { Database } from '../../base/store/database.ts';

/** What a task in the background runs with; `every` is absent outside tests. */
export interface Background {
  readonly database: Pick<Database, 'query'>;
  readonly clock: Clock;
  readonly log: Log;
  readonly every?: Every;
}
