import { OperationError } from '../../base/contract/operation-error.ts';
import {
  type AdminChange,
  type ChangeFilter,
  changeInWords,
  countChanges,
  listChanges,
} from '../../domain/audit/admin-changes.ts';
import { type AdminOptions, type Asked, type Caller, listById, type PageBefore } from './calls.ts';
import { configOperations } from './config.ts';
import { checkInput, type DescribedOperation, periodOf, type Sent } from './description.ts';
import { homeOperations } from './home.ts';
import { limitOperations, limitRuleOperations } from './limits.ts';
import { meOperations, peopleOperations, refusedSignInOperations, sessionOperations } from './people.ts';
import { policyOperations } from './policies.ts';
import { requestOperations } from './requests.ts';
import { serviceTokenOperations, tokenGroupOperations, tokenOperations } from './tokens.ts';
import { modelOperations, upstreamOperations, upstreamTrafficOperations } from './upstreams.ts';
import { usageOperations } from './usage.ts';

/** Which changes are asked for. */
export interface ChangesAsked {
  readonly since?: string;
  readonly until?: string;
  readonly actor?: string;
  readonly action?: string;
  readonly subject?: string;
}

/** A change with what it says in words. */
export interface ToldChange extends AdminChange {
  readonly words: string;
}

function changeOperations({ config, database }: AdminOptions) {
  const told = (change: AdminChange): ToldChange => ({
    ...change,
    words: changeInWords(change, config.spend_limits?.time_zone ?? 'UTC'),
  });
  const filterOf = (asked: ChangesAsked): ChangeFilter => {
    const { actor, action, subject } = asked;
    return { actor, action, subject, ...periodOf(asked) };
  };
  const list = listById({
    name: 'changes',
    titles: ['id', 'at', 'actor_kind', 'actor', 'action', 'subject', 'words', 'before', 'after'],
    row: ({ actor, ...change }: ToldChange) => ({ ...change, actor_kind: actor.kind, actor: actor.name }),
    read: async (asked: ChangesAsked, page) => {
      return (await listChanges(database, { ...filterOf(asked), ...page })).map(told);
    },
    count: (asked, most) => countChanges(database, filterOf(asked), most),
  });
  return {
    async listChanges(_: Asked, asked: ChangesAsked & PageBefore) {
      const { entries, next } = await list.page(asked);
      return { changes: entries, next };
    },

    exportChanges: (_: Asked, asked: ChangesAsked) => list.lines(asked),
    exportChangesCsv: (_: Asked, asked: ChangesAsked) => list.csv(asked),
  };
}

/** Every admin operation by the `operationId` of its description: what it does for whom, and with which input. */
export function adminOperations(options: AdminOptions) {
  return {
    ...meOperations(options),
    ...modelOperations(options),
    ...tokenOperations(options),
    ...tokenGroupOperations(options),
    ...sessionOperations(options),
    ...peopleOperations(options),
    ...refusedSignInOperations(options),
    ...policyOperations(options),
    ...limitOperations(options),
    ...limitRuleOperations(options),
    ...upstreamOperations(options),
    ...upstreamTrafficOperations(options),
    ...usageOperations(options),
    ...homeOperations(options),
    ...requestOperations(options),
    ...changeOperations(options),
    ...configOperations(options),
    ...serviceTokenOperations(options),
  };
}

/** All operations. */
export type AdminOperations = ReturnType<typeof adminOperations>;

/** What JSON makes of a value. */
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
/** What a caller says: fields with a default may be left out, and what is `undefined` was not said. */
type Said<T> = Omit<T, MayLack<T>> & { readonly [Key in MayLack<T>]?: T[Key] | undefined };

/** Carries out an admin operation somewhere: here, or at a running gateway. Values are as JSON has them. */
export type AdminApi = <Name extends keyof AdminOperations>(
  name: Name,
  input: Said<Input<Name>>,
) => Promise<Answer<Name>>;

/** Carries out an operation as somebody who may ask for it. Raises OperationError, the errors of the store. */
export type RunOperation = (operation: DescribedOperation, caller: Caller, sent: Sent) => Promise<object>;

/** Makes the function that carries out operations. */
export function createRunOperation(options: AdminOptions): RunOperation {
  const { database, clock } = options;
  const operations = adminOperations(options) as unknown as Readonly<
    Record<string, (asked: Asked, input: object) => Promise<object>>
  >;
  return async (operation, caller, sent) => {
    const { actor, principal } = caller;
    const session_id = actor.kind === 'person' ? principal.token.id : undefined;
    const by = { database, clock, actor, ...(session_id !== undefined && { session_id }) };
    return operations[operation.name]!({ caller, by }, checkInput(operation, sent));
  };
}

/** Refuses everybody but administrators where an operation is for them. Raises OperationError. */
export function demandRole({ needs_admin }: DescribedOperation, { is_admin, email }: Caller): void {
  if (!needs_admin || is_admin) return;
  const who = 'they are the members of auth.admin_groups in gateway.yaml';
  throw new OperationError(`this is for administrators, and ${email} is none: ${who}`, 'forbidden');
}
