/**
 * What a stage does wrong ends here. Every hook is wrapped once, when the plan is made, so that whoever calls it needs to
 * know nothing of time limits, of failures, or of stages the request may go on without.
 *
 * All stages: `event`, `finish`, `finally` and `close` never fail; what goes wrong in them is logged.
 * Stages that have a time limit or may fail without failing the request (the operator's own, and those a pipeline says so
 * about): each call gets a `Guard` and ends within the limit, and what it returns is checked. The `request`, `attempt`,
 * `response` and `rewrite` hooks of all others are called as they are, at no cost.
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
import { runAsStage } from '../../../base/kit/strays.ts';
import type { StageEntry } from '../../../base/source/spec.ts';
import type { CompiledStage } from '../compiled.ts';
import type { RequestContext } from '../context.ts';
import { checkRewriting } from '../rewriting.ts';
import type { AuditNotebook } from './own-data.ts';
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

type Last = 'finish' | 'finally';

/** How long is waited for a stage. */
interface Patience {
  readonly id: string;
  /** Longest one of its hooks may take; for ever where absent. */
  readonly timeout_seconds: number | undefined;
  readonly clock: Clock;
}

/** Wraps the hooks that a stage made; `stage` is what they are called for. */
export function containHooks(
  stage: CompiledStage,
  made: StageHooks,
  limits: Pick<StageEntry, 'timeout_seconds' | 'fail_closed'>,
  { clock, log }: Pick<Services, 'clock' | 'log'>,
): StageHooks {
  const { timeout_seconds, fail_closed } = limits;
  const patience = { id: stage.id, timeout_seconds, clock };
  const is_contained = timeout_seconds !== undefined || !fail_closed;
  const contained = is_contained ? new ContainedStage(stage, made, { ...patience, fail_closed, log }) : undefined;
  const report = (ctx: RequestContext, moment: keyof StageHooks, error: unknown) =>
    reportFailure(log, ctx, stage, moment, error);
  const last = (moment: Last) => (ctx: RequestContext) => {
    try {
      const ended: unknown = contained === undefined ? made[moment]!(ctx) : contained.call(ctx, moment);
      // What takes no time is not waited for.
      return isThenable(ended) ? settled(ended, (error) => report(ctx, moment, error)) : undefined;
    } catch (error) {
      return report(ctx, moment, error);
    }
  };
  const runner = contained ?? made;
  const now = (['request', 'attempt', 'response', 'rewrite'] as const).filter((moment) => made[moment] !== undefined);
  return {
    ...Object.fromEntries(
      now.map((moment) => [moment, (runner[moment] as (...given: never[]) => unknown).bind(runner)]),
    ),
    ...(made.event && {
      event(ctx: RequestContext, event) {
        try {
          if (contained === undefined) made.event!(ctx, event);
          else contained.event(ctx, event);
        } catch (error) {
          // The client already has the bytes; an observer that fails must not cut its stream.
          report(ctx, 'event', error);
        }
      },
    }),
    ...(made.finish && { finish: last('finish') }),
    ...(made.finally && { finally: last('finally') }),
    ...(made.close && { close: () => close(made, patience, log) }),
  };
}

async function settled(pending: PromiseLike<unknown>, onError: (error: unknown) => void): Promise<void> {
  try {
    await pending;
  } catch (error) {
    onError(error);
  }
}

async function close(made: StageHooks, patience: Patience, log: Log): Promise<void> {
  const { id: stage } = patience;
  const fail = (error: unknown) => log.error({ err: asError(error), stage }, 'a stage failed to close');
  try {
    await waitFor(() => runAsStage(stage, () => made.close!()), patience, { onLateError: fail });
  } catch (error) {
    fail(error);
  }
}

/** The hooks of a stage that is given guards. */
class ContainedStage {
  readonly #stage: CompiledStage;
  readonly #made: StageHooks;
  readonly #patience: Patience & { readonly fail_closed: boolean; readonly log: Log };

  constructor(stage: CompiledStage, made: StageHooks, patience: Patience & { fail_closed: boolean; log: Log }) {
    this.#stage = stage;
    this.#made = made;
    this.#patience = patience;
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

  /** The head is sent when it returns, so that a promise comes too late and is a failure. */
  response(ctx: RequestContext, head: ResponseHead): void {
    this.#atOnce(ctx, 'response', (guard) => {
      const returned: unknown = this.#made.response!(guard.context, guardedHead(head, guard));
      if (!isThenable(returned)) return;
      Promise.resolve(returned).catch((error) => this.#report(ctx, 'response', error));
      throw new Error('its response hook returned a promise, and the head of the response does not wait');
    });
  }

  /** What it returns is checked; a replacement runs outside of hooks and is contained by itself. */
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
        throw new Error('a replacement makes a text or nothing, and it made something else');
      });
    return { find, replace: replaceContained };
  }

  /** Sees a copy of the event and is not waited for; what it leaves running is heard when it fails. */
  event(ctx: RequestContext, event: ResponseEvent): void {
    if (ctx.left_out?.has(this.#stage)) return;
    const guard = new Guard(ctx, this.#stage);
    let goes_on = false;
    try {
      const returned = runAsStage(this.#stage.id, () => this.#made.event!(guard.context, { ...event }), guard);
      // Even asking what was returned can throw.
      if (!isThenable(returned)) return;
      goes_on = true;
      const onLateError = (error: unknown) => this.#report(ctx, 'event', error);
      waitFor(() => returned, this.#patience, { guard, onLateError })
        .catch(onLateError)
        .finally(() => guard.end());
    } finally {
      if (!goes_on) guard.end();
    }
  }

  /** Runs a hook that may take time, within the stage's limit. Rejects with whatever the stage throws. */
  async call(ctx: RequestContext, moment: 'request' | 'attempt' | Last): Promise<unknown> {
    const guard = new Guard(ctx, this.#stage);
    const hook = () => runAsStage(this.#stage.id, () => this.#made[moment]!(guard.context), guard);
    const onLateError = (error: unknown) => this.#report(ctx, moment, error);
    try {
      return await waitFor(hook, this.#patience, { guard, onLateValue: discardResult, onLateError });
    } finally {
      guard.end();
    }
  }

  /** Runs what takes no time, unless the request goes on without the stage. */
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

  /** Raises what the request fails with; where it may go on without the stage, that is reported instead. */
  #fail(ctx: RequestContext, moment: 'request' | 'attempt' | 'response' | 'rewrite', error: unknown): void {
    let failure = error;
    let refusal: StageError | undefined;
    try {
      refusal = isRefusal(this.#stage, error) ? checkError(error) : undefined;
    } catch (trap) {
      // A refusal that cannot be sent is a failure. Even asking what was thrown can throw, where it is a proxy.
      failure = trap;
    }
    if (refusal !== undefined) throw refusal;
    if (this.#patience.fail_closed) throw failure;
    this.#report(ctx, moment, failure);
    ctx.leaveOut(this.#stage);
  }

  #report(ctx: RequestContext, moment: keyof StageHooks, error: unknown): void {
    reportFailure(this.#patience.log, ctx, this.#stage, moment, error);
  }
}

/** What a stage reaches of a request with a capability; the context itself asks for the others. */
const NEEDS: ReadonlyMap<PropertyKey, Capability> = new Map([
  ['body', 'raw-body'],
  ['readBody', 'raw-body'],
  ['call', 'network'],
  ['reservation', 'database'],
]);

/** What a stage reaches of a request, itself or through services; true where also when the hook is over. */
const REACHED: Readonly<Record<keyof StageContext | 'facts' | 'copyFacts' | 'auditRecord', boolean>> = {
  ...{ url: true, headers: true, aborted: true, given_up: true, relayed_bytes: true, converts_response: true },
  ...{ get: false, set: false, noteFact: false, noteShadow: false, facts: false, copyFacts: false, auditRecord: false },
  ...{ body: false, readBody: false, call: false, reservation: false, state: false, trace: false, onCancel: false },
  ...{ occupy: false, occupyInTime: false, convertResponse: false, candidates: false, passOver: false },
  ...{ attempts: false, noteAttempt: false, noteDropped: false, noteLimits: false, prepareAttempt: false },
  ...{ drainWithin: false, drainLater: false },
};

/** What it reaches of a body; the engine can do more with one, such as put any bytes into it. */
const BODY_REACHED: Readonly<Record<keyof RequestBody, boolean>> = {
  ...{ bytes: true, compressed: true, decompress: true, json: true, skim: true, value: true, free: true },
  ...{ rewrite: true, rename: true, remove: true, addFields: true, replaceTexts: true, replace: true },
  ...{ rewritten: true, replaced: true },
};

/** Longest name of a shadow rule that is kept, in characters. */
const SHADOW_NAME_LENGTH_MAX = 200;

/** Whether a value is one that rules, logs and audit records expect of this fact. */
function fits(path: FactPath, value: unknown): boolean {
  const { kind, values } = FACTS[path] as { kind: string; values?: readonly string[] };
  if (kind === 'strings') return Array.isArray(value) && value.every((item) => typeof item === 'string');
  if (kind === 'number') return Number.isFinite(value);
  if (kind === 'object') return typeof value === 'object' && value !== null && !Array.isArray(value);
  return typeof value === kind && (values?.includes(value as string) ?? true);
}

/**
 * The request as a contained stage has it for the length of one hook: its own context, with frozen facts and copied bytes. What is
 * done through it counts as done by that stage; when the hook is over, or its time is up, it refuses everything.
 */
class Guard implements ProxyHandler<object>, AuditNotebook {
  readonly context: StageContext;
  readonly #ctx: RequestContext;
  readonly #stage: CompiledStage;
  #over = false;
  #copied: readonly [Buffer, Buffer] | undefined;
  #onCancel: ((reason: StageError) => void) | undefined;

  constructor(ctx: RequestContext, stage: CompiledStage) {
    this.#ctx = ctx;
    this.#stage = stage;
    // Nothing of the request can be found by looking through an empty object.
    this.context = new Proxy({}, this) as StageContext;
  }

  end(): void {
    this.#over = true;
    if (this.#onCancel !== undefined && this.#ctx.cancel === this.#onCancel) this.#ctx.cancel = undefined;
  }

  /** Tells the stage, if it asked for that, that nobody waits for it any more. */
  cancel(reason: StageError): void {
    try {
      this.#onCancel?.(reason);
    } catch {
      // What goes wrong in the listener is the stage's own; it is given up anyway.
    }
  }

  /** For `services.audit`. */
  noteAudit(record: AuditRecord): void {
    this.asStage(() => this.#ctx.notes.addAuditFields(this.#stage.definition.name, record));
  }

  get(target: object, key: keyof typeof REACHED): unknown {
    if (!Object.hasOwn(REACHED, key)) return Reflect.get(target, key);
    const ctx = this.#ctx;
    // Not an error when it comes too late: the ledger reports from within a statement that others share.
    if (this.#over && key === 'noteShadow') return () => {};
    if (REACHED[key]) return this.#own(ctx, key) ?? ctx[key];
    return this.asStage(() => {
      const needed = NEEDS.get(key);
      if (needed !== undefined) requireCapability(this.#stage, needed, key);
      if (key === 'facts') return deepFreeze(ctx.copyFacts());
      const value = this.#own(ctx, key) ?? (Reflect.get(ctx, key, ctx) as unknown);
      if (key === 'body') return value && this.#guardBody();
      return typeof value === 'function' ? (...given: unknown[]) => this.asStage(() => value.apply(ctx, given)) : value;
    });
  }

  set(_: object, key: keyof typeof REACHED, value: unknown): boolean {
    if (key !== 'state' && key !== 'candidates' && key !== 'reservation') return false;
    if (key === 'reservation') requireCapability(this.#stage, 'database', key);
    return this.asStage(() => Reflect.set(this.#ctx, key, value));
  }

  /** What a contained stage has in another way than others. */
  #own(ctx: RequestContext, key: PropertyKey): unknown {
    switch (key) {
      case 'headers':
        return Object.freeze({ ...ctx.headers });
      case 'get':
        return (path: FactPath) => deepFreeze(ctx.get(path));
      case 'set':
        return (path: FactPath, value: unknown) => {
          if (this.#stage.definition.writes.includes(path) && !fits(path, value))
            throw new Error(`the fact "${path}" is not given a value of its kind, ${FACTS[path].kind}`);
          ctx.set(path, deepFreeze(structuredClone(value)) as never);
        };
      case 'readBody':
        return () => ctx.readBody().then(() => this.context.body);
      case 'occupy':
      case 'occupyInTime':
        return (name: string, most: number) => ctx[key](`${this.#stage.id} ${name}`, most);
      case 'onCancel':
        return (listener: (reason: StageError) => void) => {
          this.#onCancel = listener;
          ctx.onCancel(listener);
        };
      case 'noteShadow':
        return (name: string) => ctx.noteShadow(String(name).slice(0, SHADOW_NAME_LENGTH_MAX));
      default:
        return undefined;
    }
  }

  /** The body, with a copy of its bytes that may be read for as long as somebody likes. */
  #guardBody(): RequestBody {
    const read = (key: keyof RequestBody): unknown => {
      if (!Object.hasOwn(BODY_REACHED, key)) return undefined;
      const { body } = this.#ctx;
      if (body === undefined) throw new Error('the body is gone: the upstream has answered');
      if (key === 'bytes') return this.#copyOf(body.bytes);
      if (key === 'compressed') return undefined;
      if (key === 'replace') return (json: string) => this.asStage(() => body.replace(checkJson(json)));
      const value: unknown = key === 'free' ? () => {} : body[key];
      return typeof value === 'function'
        ? (...given: unknown[]) => this.asStage(() => value.apply(body, given))
        : value;
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

  /** Facts and capabilities are those of the stage, also where it goes on beside others. */
  asStage<T>(action: () => T): T {
    if (this.#over)
      throw new Error('the hook is over, or ran into its time limit: its context cannot be used any more');
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

/** The response head for a stage whose every header is checked, until its hook is over. */
function guardedHead(head: ResponseHead, guard: Guard): ResponseHead {
  return Object.freeze({
    status: head.status,
    get: (name: string) => head.get(name),
    set: (name: string, value: string) => guard.asStage(() => head.set(name, value)),
    remove: (name: string) => guard.asStage(() => head.remove(name)),
    replaceAll(prefix: string, headers: Readonly<Record<string, string>>) {
      if (typeof prefix !== 'string' || prefix === '') throw new Error('the prefix of the headers is not a text');
      // A copy, so that what is checked is what is set.
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
  /** Ends what the stage may do. */
  readonly guard?: Guard;
  /** What becomes of a value that comes too late. */
  readonly onLateValue?: (value: unknown) => void;
  readonly onLateError: (error: unknown) => void;
}

/** Waits for a stage no longer than it may take, and never leaves its promise without somebody who hears it fail. */
async function waitFor(
  begin: () => unknown,
  { id, timeout_seconds, clock }: Patience,
  { guard, onLateValue, onLateError }: Wait,
): Promise<unknown> {
  const pending = begin();
  if (!isThenable(pending)) return pending;
  return new Promise((resolve, reject) => {
    let late = false;
    const giveUp = (seconds: number) => {
      const reason = timeoutOf(id, seconds);
      guard?.cancel(reason);
      // A stage that listens can still say how far it came, such as that the request has left already.
      setImmediate(() => {
        late = true;
        guard?.end();
        reject(reason);
      });
    };
    const timer =
      timeout_seconds === undefined ? undefined : clock.after(timeout_seconds * 1000, () => giveUp(timeout_seconds));
    // A thenable of the stage's own may name another as its value, or settle more than once; a promise does neither.
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
