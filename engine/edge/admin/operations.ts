import { OperationError } from '../../base/contract/operation-error.ts';
import {
  type AdminChange,
  type ChangeFilter,
  changeInWords,
  countChanges,
  listChanges,
} from '../../domain/audit/admin-changes.ts';
import type { AdminOptions, Caller, OperationContext } from './calls.ts';
import { configOperations } from './config.ts';
import { checkInput, type DescribedOperation, type PeriodQuery, periodOf, type Sent } from './description.ts';
import { homeOperations } from './home.ts';
import { limitOperations } from './limits.ts';
import { listById, type PageBefore } from './lists.ts';
import { peopleOperations } from './people.ts';
import { policyOperations } from './policies.ts';
import { requestOperations } from './requests.ts';
import { tokenOperations } from './tokens.ts';
import { modelOperations, upstreamOperations } from './upstreams.ts';
import { usageOperations } from './usage.ts';

/** Filter of the list of changes. */
export type ChangesQuery = PeriodQuery & { readonly [Key in 'actor' | 'action' | 'subject']?: string };

function changeOperations({ config, database }: AdminOptions) {
  const viewOf = (change: AdminChange) => ({
    ...change,
    words: changeInWords(change, config.spend_limits?.time_zone ?? 'UTC'),
  });
  const filterOf = (query: ChangesQuery): ChangeFilter => {
    const { actor, action, subject } = query;
    return { actor, action, subject, ...periodOf(query, config) };
  };
  const list = listById({
    name: 'changes',
    titles: ['id', 'at', 'actor_kind', 'actor', 'action', 'subject', 'words', 'before', 'after'],
    row: ({ actor, ...change }: ReturnType<typeof viewOf>) => ({
      ...change,
      actor_kind: actor.kind,
      actor: actor.name,
    }),
    read: async (query: ChangesQuery, page) => {
      return (await listChanges(database, { ...filterOf(query), ...page })).map(viewOf);
    },
    count: (query, most) => countChanges(database, filterOf(query), most),
  });
  return {
    async listChanges(_: OperationContext, query: ChangesQuery & PageBefore) {
      const { entries, next } = await list.page(query);
      return { changes: entries, next };
    },

    exportChanges: (_: OperationContext, query: ChangesQuery) => list.lines(query),
    exportChangesCsv: (_: OperationContext, query: ChangesQuery) => list.csv(query),
  };
}

/** Every admin operation by its `operationId`. */
export function adminOperations(options: AdminOptions) {
  return {
    ...modelOperations(options),
    ...tokenOperations(options),
    ...peopleOperations(options),
    ...policyOperations(options),
    ...limitOperations(options),
    ...upstreamOperations(options),
    ...usageOperations(options),
    ...homeOperations(options),
    ...requestOperations(options),
    ...changeOperations(options),
    ...configOperations(options),
  };
}

export type AdminOperations = ReturnType<typeof adminOperations>;

/** A value after a JSON round trip. */
export type InJson<T> = T extends Date
  ? string
  : T extends readonly (infer Entry)[]
    ? readonly InJson<Entry>[]
    : T extends object
      ? { readonly [Key in keyof T]: InJson<T[Key]> }
      : T;

type Input<Name extends keyof AdminOperations> = Parameters<AdminOperations[Name]>[1];
type Answer<Name extends keyof AdminOperations> = InJson<Awaited<ReturnType<AdminOperations[Name]>>>;
/** Fields that the description has a default for. */
type Defaulted = 'limit' | 'ended' | 'tokens' | 'overlap_seconds' | 'order';
type MayLack<T> = {
  [Key in keyof T]-?: Key extends Defaulted ? Key : Record<never, never> extends Pick<T, Key> ? Key : never;
}[keyof T];
type CallerInput<T> = Omit<T, MayLack<T>> & { readonly [Key in MayLack<T>]?: T[Key] | undefined };

/** Runs an admin operation, locally or at a running gateway. Values are JSON. */
export type AdminApi = <Name extends keyof AdminOperations>(
  name: Name,
  input: CallerInput<Input<Name>>,
) => Promise<Answer<Name>>;

/** Runs an operation for an authorized caller. Raises OperationError, the errors of the store. */
export type RunOperation = (operation: DescribedOperation, caller: Caller, sent: Sent) => Promise<object>;

/** Makes the function that runs operations. */
export function createRunOperation(options: AdminOptions): RunOperation {
  const { database, clock } = options;
  const operations = adminOperations(options) as unknown as Readonly<
    Record<string, (context: OperationContext, input: object) => Promise<object>>
  >;
  return async (operation, caller, sent) => {
    const { actor, principal } = caller;
    const session_id = actor.kind === 'person' ? principal.token.id : undefined;
    const by = { database, clock, actor, ...(session_id !== undefined && { session_id }) };
    return operations[operation.name]!({ caller, by }, checkInput(operation, sent));
  };
}

/** Requires the admin role for an operation of administrators. Raises OperationError. */
export function requireAdminRole({ needs_admin }: DescribedOperation, { is_admin, email }: Caller): void {
  if (!needs_admin || is_admin) return;
  throw new OperationError(`admin role required (auth.admin_groups); ${email} does not have it`, 'forbidden');
}
