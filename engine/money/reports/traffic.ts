import { type AttemptOutcome, FAILOVER_TABLE, type FailoverRow } from '../../upstreams/failover-table.ts';
