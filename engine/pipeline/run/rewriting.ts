import { MAIN_PROTOCOL, protocolOf } from '../../base/contract/protocol.ts';
import { type Replacement, type Rewriting, TEXT_KINDS } from '../../base/contract/rewriting.ts';
import type { ResponseConverter, ResponseEvent } from '../../base/contract/stage.ts';
import { textsOf } from '../../domain/protocols/definitions.ts';
import { present } from '../../domain/protocols/read-json.ts';
import {
  AnswerRewriter,
  compileRewriting,
  type NamedRewriting,
  rewriteAnswer,
} from '../../domain/protocols/rewriting.ts';
import { proofToText } from '../../domain/protocols/translation/made-reasoning.ts';
import { DESCRIBING } from '../../domain/protocols/translation/translate.ts';
import { type CompiledStage, rewritesAnswer } from './compiled.ts';
import type { RequestContext } from './context.ts';
import type { UpstreamHead } from './headers.ts';

/** Longest window, in characters: the most text of a stream that a stage may delay. */
const WINDOW_CHARS_MAX = 4096;

function checkReplacement({ find, replace }: Replacement): Replacement {
  if (!(find instanceof RegExp)) throw new Error('`find` of a replacement must be a regular expression');
  if (typeof replace !== 'string' && typeof replace !== 'function')
    throw new Error('`replace` of a replacement must be a string or a function');
  return { find, replace };
}

/** Validates the result of a `rewrite` hook. Throws the problem. */
export function checkRewriting(returned: unknown): Rewriting | undefined {
  if (returned === undefined) return undefined;
  if (typeof returned !== 'object' || returned === null)
    throw new Error('a rewrite hook must return nothing, or an object with `replacements`');
  const { replacements, window_characters, never_contains, kinds } = returned as Partial<Rewriting>;
  if (!Array.isArray(replacements)) throw new Error('`replacements` must be a list');
  const is_window =
    Number.isInteger(window_characters) && window_characters! >= 1 && window_characters! <= WINDOW_CHARS_MAX;
  if (window_characters !== undefined && !is_window)
    throw new Error(`\`window_characters\` must be a whole number from 1 to ${WINDOW_CHARS_MAX}`);
  if (never_contains !== undefined && !(never_contains instanceof RegExp))
    throw new Error('`never_contains` must be a regular expression for one character');
  if (kinds !== undefined && !(Array.isArray(kinds) && kinds.every((kind) => TEXT_KINDS.includes(kind))))
    throw new Error(`\`kinds\` must be a list of ${TEXT_KINDS.join(', ')}`);
  return present({
    ...{ replacements: replacements.map(checkReplacement), window_characters, never_contains },
    kinds: kinds && [...kinds],
  });
}

/** Shadow mode ignores longer documents; in enforce mode they are rejected. */
const WATCHED_BYTES_MAX = 8 * 1024 * 1024;

/** A failure to rewrite a response. */
export class RewriteFailure extends Error {
  /** The stage that failed; `undefined` for another cause. */
  readonly stage: CompiledStage | undefined;

  /** @param cause the thrown value */
  constructor(stage: CompiledStage | undefined, cause: unknown) {
    super('the response could not be rewritten', { cause });
    this.stage = stage;
  }
}

/** Attributes errors of a stage's replacement functions to the stage. */
function ofStage(stage: CompiledStage, rewriting: Rewriting): Rewriting {
  const replacements = rewriting.replacements.map(({ find, replace }) => {
    if (typeof replace === 'string') return { find, replace };
    const replaceAsStage = (found: string) => {
      try {
        return replace(found);
      } catch (error) {
        throw new RewriteFailure(stage, error);
      }
    };
    return { find, replace: replaceAsStage };
  });
  return { ...rewriting, replacements };
}

function rewritingsOf(ctx: RequestContext, stages: readonly CompiledStage[]): NamedRewriting[] {
  return stages.flatMap((stage) => {
    ctx.stage = stage;
    const rewriting = stage.hooks.rewrite?.(ctx);
    ctx.stage = undefined;
    if (rewriting === undefined || rewriting.replacements.length === 0) return [];
    return [{ id: stage.id, rewriting: compileRewriting(ofStage(stage, rewriting)) }];
  });
}

/** Replaces the signature of a rewritten thinking block, which no upstream would accept. */
const MARK = proofToText(undefined, { protocol: MAIN_PROTOCOL, upstream: '' });

/** Marks errors of the rewriting itself, without a stage. */
function ofRewriting<T>(step: () => T): T {
  try {
    return step();
  } catch (error) {
    throw error instanceof RewriteFailure ? error : new RewriteFailure(undefined, error);
  }
}

/** The converter that rewrites a response, or `undefined`. Raises upstream_invalid for a response without texts. */
export function makeRewriter(ctx: RequestContext, head: UpstreamHead): ResponseConverter | undefined {
  if (!rewritesAnswer(ctx)) return undefined;
  if (head.status === 204 || head.status === 304 || ctx.call.req.method === 'HEAD') return undefined;
  const rewritings = rewritingsOf(ctx, ctx.entered);
  if (rewritings.length === 0) return undefined;
  const rewriter = new AnswerRewriter(textsOf(ctx.pipeline.spec.match.protocol), rewritings, MARK);
  const { write, end, fail } = rewriteAnswer(head.get('content-type'), rewriter);
  for (const name of DESCRIBING) head.remove(name);
  ctx.notes.response_rewrites.rewriter = rewriter;
  return {
    write: (chunk) => ofRewriting(() => write(chunk)),
    end: () => ofRewriting(end),
    ...(fail && { fail }),
  };
}

/** Chains a rewriter behind another converter. */
export function chainConverters(first: ResponseConverter | undefined, rewriter: ResponseConverter): ResponseConverter {
  if (first === undefined) return { write: rewriter.write, end: rewriter.end };
  const bytes = (output: Buffer | string) => (typeof output === 'string' ? Buffer.from(output) : output);
  const { fail, hasEnd } = first;
  return {
    write: (chunk) => rewriter.write(bytes(first.write(chunk))),
    end: () => `${rewriter.write(bytes(first.end()))}${rewriter.end()}`,
    ...(hasEnd && { hasEnd: () => hasEnd.call(first) }),
    ...(fail && {
      fail(error) {
        const last = fail.call(first, error);
        rewriter.fail?.(error);
        return String(rewriter.write(Buffer.from(last)));
      },
    }),
  };
}

/** Counts what stages in shadow mode would replace, in the upstream's response and protocol. */
export function watchResponse(
  ctx: RequestContext,
  report: (stage: CompiledStage, error: unknown) => void,
): ((event: ResponseEvent) => void) | undefined {
  const { watching } = ctx.notes.response_rewrites;
  if (watching.length === 0) return undefined;
  let watcher: AnswerRewriter | undefined;
  let over = false;
  const fail = (error: unknown) => {
    const stage = error instanceof RewriteFailure ? error.stage : ctx.stage;
    report(stage ?? watching[0]!, error instanceof RewriteFailure ? error.cause : error);
    ctx.stage = undefined;
    over = true;
  };
  return (event) => {
    if (over || (event.large?.bytes ?? 0) > WATCHED_BYTES_MAX) return;
    try {
      watcher ??= begin();
      if (event.name === undefined) watcher.document(event.data);
      else watcher.event(event.name, event.data);
    } catch (error) {
      fail(error);
    }
  };
  function begin(): AnswerRewriter {
    const served = ctx.pipeline.spec.match.protocol;
    const spoken = protocolOf(served) === undefined ? served : (ctx.peek('route.protocol') ?? served);
    const made = new AnswerRewriter(textsOf(spoken), rewritingsOf(ctx, watching), '');
    ctx.notes.response_rewrites.watcher = made;
    return made;
  }
}
