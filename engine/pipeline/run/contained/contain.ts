/**
 * Isolates the failures of stages. Every hook is wrapped once, when the plan is made, so its callers ignore timeouts,
 * failures, and stages the request may continue without.
 *
 * All stages: `event`, `finish`, `finally` and `close` never throw; their errors are logged.
 * Contained stages (operators' stages, and entries with `timeout_seconds` or `fail_closed: false`): each call gets a
 * `Guard` in place of the context, ends within the timeout, and its result is validated. The `request`, `attempt`,
 * `response` and `rewrite` hooks of all other stages are called directly, at no cost.
 */

import type { StageError } from '../../../base/contract/errors.ts';
import { FACTS, type FactPath } from '../../../base/contract/facts.ts';
import type { Replacement, Rewriting } from '../../../base/contract/rewriting.ts';
import type { AuditRecord, Clock, Log, Services } from '../../../base/contract/services.ts';
import type {
  Capability,
  RequestBody,
  ResponseEvent,
  ResponseHead,
  StageContext,
  StageHooks,
} from '../../../base/contract/stage.ts';
import { deepFreeze } from '../../../base/kit/freeze.ts';
import { runAsStage } from '../../../base/kit/unhandled-errors.ts';
import type { StageEntry } from '../../../base/source/spec.ts';
import type { CompiledStage } from '../compiled.ts';
import type { RequestContext } from '../context.ts';
import { checkRewriting } from '../rewriting.ts';
import {
  asError,
  checkError,
  checkHeader,
  checkJson,
  checkResult,
  discardResult,
  isRefusal,
  type Result,
  reportFailure,
  requireCapability,
  timeoutOf,
} from './result.ts';
import type { AuditFieldSink } from './stage-data.ts';

type Last = 'finish' | 'finally';

interface Timeout {
  readonly id: string;
  readonly timeout_seconds: number | undefined;
  readonly clock: Clock;
}

/** Wraps the hooks that `stage` made. */
export function containHooks(
  stage: CompiledStage,
  made: StageHooks,
  limits: Pick<StageEntry, 'timeout_seconds' | 'fail_closed'>,
  { clock, log }: Pick<Services, 'clock' | 'log'>,
): StageHooks {
  const { timeout_seconds, fail_closed } = limits;
  const timeout = { id: stage.id, timeout_seconds, clock };
  const is_contained = timeout_seconds !== undefined || !fail_closed;
  const contained = is_contained ? new ContainedStage(stage, made, { ...timeout, fail_closed, log }) : undefined;
  const report = (ctx: RequestContext, moment: keyof StageHooks, error: unknown) =>
    reportFailure(log, ctx, stage, moment, error);
  const last = (moment: Last) => (ctx: RequestContext) => {
    try {
      const ended: unknown = contained === undefined ? made[moment]!(ctx) : contained.call(ctx, moment);
      // A synchronous hook costs no promise.
      return isThenable(ended) ? settled(ended, (error) => report(ctx, moment, error)) : undefined;
    } catch (error) {
      return report(ctx, moment, error);
    }
  };
  // A stage that fails at one event of a stream mostly fails at all of them.
  const reported = new WeakSet<RequestContext>();
  const reportEvent = (ctx: RequestContext, error: unknown) => {
    if (!reported.has(ctx)) report(ctx, 'event', error);
    reported.add(ctx);
  };
  const runner = contained ?? made;
  const used = (['request', 'attempt', 'response', 'rewrite'] as const).filter((moment) => made[moment] !== undefined);
  return {
    ...Object.fromEntries(
      used.map((moment) => [moment, (runner[moment] as (...args: never[]) => unknown).bind(runner)]),
    ),
    ...(made.event && {
      event(ctx: RequestContext, event) {
        try {
          if (contained === undefined) made.event!(ctx, event);
          else contained.event(ctx, event, (error) => reportEvent(ctx, error));
        } catch (error) {
          // The client already has the bytes; a failing observer must not end its stream.
          reportEvent(ctx, error);
        }
      },
    }),
    ...(made.finish && { finish: last('finish') }),
    ...(made.finally && { finally: last('finally') }),
    ...(made.close && { close: () => close(made, timeout, log) }),
  };
}

async function settled(pending: PromiseLike<unknown>, onError: (error: unknown) => void): Promise<void> {
  try {
    await pending;
  } catch (error) {
    onError(error);
  }
}

async function close(made: StageHooks, timeout: Timeout, log: Log): Promise<void> {
  const { id: stage } = timeout;
  const fail = (error: unknown) => log.error({ err: asError(error), stage }, 'a stage failed to close');
  try {
    await waitFor(() => runAsStage(stage, () => made.close!()), timeout, { onLateError: fail });
  } catch (error) {
    fail(error);
  }
}

class ContainedStage {
  readonly #stage: CompiledStage;
  readonly #made: StageHooks;
  readonly #timeout: Timeout & { readonly fail_closed: boolean; readonly log: Log };

  constructor(stage: CompiledStage, made: StageHooks, timeout: Timeout & { fail_closed: boolean; log: Log }) {
    this.#stage = stage;
    this.#made = made;
    this.#timeout = timeout;
  }

  async request(ctx: RequestContext): Promise<Result | undefined> {
    try {
      return checkResult(ctx, this.#stage, await this.call(ctx, 'request'));
    } catch (error) {
      this.#fail(ctx, 'request', error);
      return undefined;
    }
  }

  async attempt(ctx: RequestContext): Promise<void> {
    if (ctx.left_out?.has(this.#stage)) return;
    try {
      await this.call(ctx, 'attempt');
    } catch (error) {
      this.#fail(ctx, 'attempt', error);
    }
  }

  /** The head is sent when the hook returns, so a promise would come too late: it is a failure. */
  response(ctx: RequestContext, head: ResponseHead): void {
    this.#atOnce(ctx, 'response', (guard) => {
      const returned: unknown = this.#made.response!(guard.context, guardedHead(head, guard));
      if (!isThenable(returned)) return;
      Promise.resolve(returned).catch((error) => this.#report(ctx, 'response', error));
      throw new Error('its response hook returned a promise; it must be synchronous');
    });
  }

  /** Replacement functions run later, outside of the hook; each call of one is contained. */
  rewrite(ctx: RequestContext): Rewriting | undefined {
    return this.#atOnce(ctx, 'rewrite', (guard) => {
      const rewriting = checkRewriting(this.#made.rewrite!(guard.context));
      return (
        rewriting && { ...rewriting, replacements: rewriting.replacements.map((one) => this.#contained(ctx, one)) }
      );
    });
  }

  #contained(ctx: RequestContext, { find, replace }: Replacement): Replacement {
    if (typeof replace === 'string') return { find, replace };
    const replaceContained = (found: string) =>
      this.#atOnce(ctx, 'rewrite', () => {
        const replacement: unknown = replace(found);
        if (replacement === undefined || typeof replacement === 'string') return replacement;
        throw new Error('a replacement function must return a string or nothing');
      });
    return { find, replace: replaceContained };
  }

  /** Passes a copy of the event and does not wait for a promise, but logs its failure. */
  event(ctx: RequestContext, event: ResponseEvent, onLateError: (error: unknown) => void): void {
    if (ctx.left_out?.has(this.#stage)) return;
    const guard = new Guard(ctx, this.#stage);
    let goes_on = false;
    try {
      const returned = runAsStage(this.#stage.id, () => this.#made.event!(guard.context, { ...event }), guard);
      // `isThenable` can throw, too: the result may be a proxy.
      if (!isThenable(returned)) return;
      goes_on = true;
      waitFor(() => returned, this.#timeout, { guard, onLateError })
        .catch(onLateError)
        .finally(() => guard.end());
    } finally {
      if (!goes_on) guard.end();
    }
  }

  /** Runs an asynchronous hook within the timeout. Rejects with what the stage throws. */
  async call(ctx: RequestContext, moment: 'request' | 'attempt' | Last): Promise<unknown> {
    const guard = new Guard(ctx, this.#stage);
    const hook = () => runAsStage(this.#stage.id, () => this.#made[moment]!(guard.context), guard);
    const onLateError = (error: unknown) => this.#report(ctx, moment, error);
    try {
      return await waitFor(hook, this.#timeout, { guard, onLateValue: discardResult, onLateError });
    } finally {
      guard.end();
    }
  }

  /** Runs a synchronous hook, unless the request continues without the stage. */
  #atOnce<T>(ctx: RequestContext, moment: 'response' | 'rewrite', hook: (guard: Guard) => T): T | undefined {
    if (ctx.left_out?.has(this.#stage)) return undefined;
    const guard = new Guard(ctx, this.#stage);
    try {
      return runAsStage(this.#stage.id, () => hook(guard), guard);
    } catch (error) {
      this.#fail(ctx, moment, error);
      return undefined;
    } finally {
      guard.end();
    }
  }

  /** Throws the error that the request fails with; with `fail_closed: false`, logs it and leaves the stage out. */
  #fail(ctx: RequestContext, moment: 'request' | 'attempt' | 'response' | 'rewrite', error: unknown): void {
    let failure = error;
    let refusal: StageError | undefined;
    try {
      refusal = isRefusal(this.#stage, error) ? checkError(error) : undefined;
    } catch (trap) {
      // A rejection that cannot be sent is a failure; and where a proxy was thrown, the check itself throws.
      failure = trap;
    }
    if (refusal !== undefined) throw refusal;
    if (this.#timeout.fail_closed) throw failure;
    this.#report(ctx, moment, failure);
    ctx.leaveOut(this.#stage);
  }

  #report(ctx: RequestContext, moment: keyof StageHooks, error: unknown): void {
    reportFailure(this.#timeout.log, ctx, this.#stage, moment, error);
  }
}

/** Members of the context that need a capability. The methods of the context check the other capabilities. */
const NEEDS: ReadonlyMap<PropertyKey, Capability> = new Map([
  ['body', 'raw-body'],
  ['readBody', 'raw-body'],
  ['call', 'network'],
  ['reservation', 'database'],
]);

/** The members of the context that a contained stage can use, directly or through services; true: also after the hook. */
const ACCESSIBLE: Readonly<Record<keyof StageContext | 'facts' | 'copyFacts' | 'auditRecord', boolean>> = {
  ...{ url: true, headers: true, aborted: true, cancel_reason: true, relayed_bytes: true, converts_response: true },
  ...{
    get: false,
    set: false,
    setFact: false,
    recordShadow: false,
    facts: false,
    copyFacts: false,
    auditRecord: false,
  },
  ...{ body: false, readBody: false, call: false, reservation: false, state: false, trace: false, onCancel: false },
  ...{ claimSlot: false, waitForSlot: false, convertResponse: false, candidates: false, dropFirstCandidate: false },
  ...{ attempts: false, recordAttempt: false, recordDropped: false, recordLimits: false, prepareAttempt: false },
  ...{ readToEndWithin: false, readToEndLater: false },
};

/** The members of the body that a contained stage can use; true for all. */
const BODY_ACCESSIBLE: Readonly<Record<keyof RequestBody, boolean>> = {
  ...{ bytes: true, compressed: true, decompress: true, json: true, skim: true, value: true, markReleasable: true },
  ...{ rewrite: true, rename: true, remove: true, addFields: true, replaceTexts: true, replace: true },
  ...{ rewritten: true, replaced: true },
};

const SHADOW_NAME_LENGTH_MAX = 200;

/** Whether a value has the type of the fact. */
function fits(path: FactPath, value: unknown): boolean {
  const { kind, values } = FACTS[path] as { kind: string; values?: readonly string[] };
  if (kind === 'strings') return Array.isArray(value) && value.every((item) => typeof item === 'string');
  if (kind === 'number') return Number.isFinite(value);
  if (kind === 'object') return typeof value === 'object' && value !== null && !Array.isArray(value);
  return typeof value === kind && (values?.includes(value as string) ?? true);
}

/** The context of one hook of a contained stage, with frozen facts and copied bytes. Ends with the hook or its timeout. */
class Guard implements ProxyHandler<object>, AuditFieldSink {
  readonly context: StageContext;
  readonly #ctx: RequestContext;
  readonly #stage: CompiledStage;
  #over = false;
  #copied: readonly [Buffer, Buffer] | undefined;
  #onCancel: ((reason: StageError) => void) | undefined;

  constructor(ctx: RequestContext, stage: CompiledStage) {
    this.#ctx = ctx;
    this.#stage = stage;
    // The target is empty, so reflection on the proxy finds nothing of the request.
    this.context = new Proxy({}, this) as StageContext;
  }

  end(): void {
    this.#over = true;
    if (this.#onCancel !== undefined && this.#ctx.cancel === this.#onCancel) this.#ctx.cancel = undefined;
  }

  cancel(reason: StageError): void {
    try {
      this.#onCancel?.(reason);
    } catch {
      // The stage is cancelled either way.
    }
  }

  /** For `services.audit`. */
  addAuditFields(record: AuditRecord): void {
    this.asStage(() => this.#ctx.notes.addAuditFields(this.#stage.definition.name, record));
  }

  get(target: object, key: keyof typeof ACCESSIBLE): unknown {
    if (!Object.hasOwn(ACCESSIBLE, key)) return Reflect.get(target, key);
    const ctx = this.#ctx;
    // Never an error: the ledger calls it late, from a batch that other requests share.
    if (this.#over && key === 'recordShadow') return () => {};
    if (ACCESSIBLE[key]) return this.#own(ctx, key) ?? ctx[key];
    return this.asStage(() => {
      const needed = NEEDS.get(key);
      if (needed !== undefined) requireCapability(this.#stage, needed, key);
      if (key === 'facts') return deepFreeze(ctx.copyFacts());
      const value = this.#own(ctx, key) ?? (Reflect.get(ctx, key, ctx) as unknown);
      if (key === 'body') return value && this.#guardBody();
      return typeof value === 'function' ? (...args: unknown[]) => this.asStage(() => value.apply(ctx, args)) : value;
    });
  }

  set(_: object, key: keyof typeof ACCESSIBLE, value: unknown): boolean {
    if (key !== 'state' && key !== 'candidates' && key !== 'reservation') return false;
    if (key === 'reservation') requireCapability(this.#stage, 'database', key);
    return this.asStage(() => Reflect.set(this.#ctx, key, value));
  }

  /** Members that differ from those of the context. */
  #own(ctx: RequestContext, key: PropertyKey): unknown {
    switch (key) {
      case 'headers':
        return Object.freeze({ ...ctx.headers });
      case 'get':
        return (path: FactPath) => deepFreeze(ctx.get(path));
      case 'set':
        return (path: FactPath, value: unknown) => {
          if (this.#stage.definition.writes.includes(path) && !fits(path, value))
            throw new Error(`the fact "${path}" must be of the kind ${FACTS[path].kind}`);
          ctx.set(path, deepFreeze(structuredClone(value)) as never);
        };
      case 'readBody':
        return () => ctx.readBody().then(() => this.context.body);
      case 'claimSlot':
      case 'waitForSlot':
        return (name: string, max: number) => ctx[key](`${this.#stage.id} ${name}`, max);
      case 'onCancel':
        return (listener: (reason: StageError) => void) => {
          this.#onCancel = listener;
          ctx.onCancel(listener);
        };
      case 'recordShadow':
        return (name: string) => ctx.recordShadow(String(name).slice(0, SHADOW_NAME_LENGTH_MAX));
      default:
        return undefined;
    }
  }

  /** The body, with a copy of its bytes: the stage may keep it after the hook. */
  #guardBody(): RequestBody {
    const read = (key: keyof RequestBody): unknown => {
      if (!Object.hasOwn(BODY_ACCESSIBLE, key)) return undefined;
      const { body } = this.#ctx;
      if (body === undefined) throw new Error('the body is no longer available: the upstream has responded');
      if (key === 'bytes') return this.#copyOf(body.bytes);
      if (key === 'compressed') return undefined;
      if (key === 'replace') return (json: string) => this.asStage(() => body.replace(checkJson(json)));
      const value: unknown = key === 'markReleasable' ? () => {} : body[key];
      return typeof value === 'function' ? (...args: unknown[]) => this.asStage(() => value.apply(body, args)) : value;
    };
    return new Proxy({} as RequestBody, { get: (_, key) => this.asStage(() => read(key as keyof RequestBody)) });
  }

  #copyOf(bytes: Buffer): Buffer {
    if (this.#copied?.[0] !== bytes) {
      this.#ctx.incoming.takeForCopy(bytes.length);
      this.#copied = [bytes, Buffer.from(bytes)];
    }
    return this.#copied![1];
  }

  /** Runs an action attributed to the stage, also while the hook of another stage is running. */
  asStage<T>(action: () => T): T {
    if (this.#over) throw new Error('the hook has ended or timed out; its context can no longer be used');
    const ctx = this.#ctx;
    const before = ctx.stage;
    if (before === this.#stage) return action();
    ctx.stage = this.#stage;
    try {
      return action();
    } finally {
      ctx.stage = before;
    }
  }
}

/** The response head of a contained stage: checks every header, and rejects changes after the hook. */
function guardedHead(head: ResponseHead, guard: Guard): ResponseHead {
  return Object.freeze({
    status: head.status,
    get: (name: string) => head.get(name),
    set: (name: string, value: string) => guard.asStage(() => head.set(name, value)),
    remove: (name: string) => guard.asStage(() => head.remove(name)),
    replaceAll(prefix: string, headers: Readonly<Record<string, string>>) {
      if (typeof prefix !== 'string' || prefix === '') throw new Error('the header prefix must be a non-empty string');
      // A copy, because getters could return other values after the check.
      const copy = { ...headers };
      for (const [name, value] of Object.entries(copy)) checkHeader(name, value);
      guard.asStage(() => head.replaceAll(prefix, copy));
    },
  });
}

function isThenable(value: unknown): value is PromiseLike<unknown> {
  return typeof value === 'object' && value !== null && typeof (value as { then?: unknown }).then === 'function';
}

interface Wait {
  readonly guard?: Guard;
  readonly onLateValue?: (value: unknown) => void;
  readonly onLateError: (error: unknown) => void;
}

/** Awaits a stage within its timeout. A promise that settles later is still handled, so it is never an unhandled rejection. */
async function waitFor(
  begin: () => unknown,
  { id, timeout_seconds, clock }: Timeout,
  { guard, onLateValue, onLateError }: Wait,
): Promise<unknown> {
  const pending = begin();
  if (!isThenable(pending)) return pending;
  return new Promise((resolve, reject) => {
    let late = false;
    const giveUp = (seconds: number) => {
      const reason = timeoutOf(id, seconds);
      guard?.cancel(reason);
      // The `onCancel` listener may still record how far it came, such as an attempt under way.
      setImmediate(() => {
        late = true;
        guard?.end();
        reject(reason);
      });
    };
    const timer =
      timeout_seconds === undefined ? undefined : clock.after(timeout_seconds * 1000, () => giveUp(timeout_seconds));
    // A foreign thenable may resolve to another thenable or settle twice; a promise does neither.
    Promise.resolve(pending).then(
      (value) => {
        timer?.close();
        if (late) onLateValue?.(value);
        resolve(value);
      },
      (error) => {
        timer?.close();
        if (late) onLateError(error);
        reject(error);
      },
    );
  });
}
