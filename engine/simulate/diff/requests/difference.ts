import type { Verdict } from './judge.ts';

/** How a request would end otherwise than before, told of many at once. */
export interface Difference {
  /** What it is about: `access rule no-preview`. */
  readonly subject: string;
  /** A sentence about `{requests}`, as in `refuses 12 requests of 2 people`. */
  readonly words: string;
  /** Whether it is only not known. */
  readonly untold?: true;
}

const about = (verdict: Verdict): string => (verdict.with === undefined ? '' : ` (${verdict.with})`);

const isSame = (a: Verdict, b: Verdict): boolean =>
  a.end === b.end && a.by === b.by && a.with === b.with && a.model === b.model;

/** What is different about a request under two configurations; none where all is as before. */
export function differences(before: Verdict, after: Verdict): Difference[] {
  if (after.end === 'untold') return [untold(after.by, after.with!)];
  if (before.end === 'untold') return [untold(before.by, before.with!)];
  // What one of them refuses above the body, the other would have to read.
  const unread = [before, after].find(({ end }) => end === 'unread');
  if (unread !== undefined && before.end !== after.end) {
    const words = 'cannot be told for {requests}, whose {bodies were|body was} not read then';
    return [{ subject: `pipeline ${unread.by}`, words, untold: true }];
  }
  return [...(isSame(before, after) ? [] : [change(before, after)]), ...shadowDifferences(before, after)];
}

const untold = (subject: string, missing: string): Difference => ({
  subject,
  words: `cannot be told for {requests}: it depends on ${missing}, recorded only while a rule looks at it`,
  untold: true,
});

function change(before: Verdict, after: Verdict): Difference {
  if (after.end === 'refused') {
    const also = before.end === 'refused' ? `, which ${before.by} refused before` : '';
    if (before.end === 'refused' && before.by === after.by) {
      return { subject: after.by, words: `refuses {requests} with${about(after)} instead of${about(before)}` };
    }
    return { subject: after.by, words: `refuses {requests}${also}${about(after)}` };
  }
  const now = outcome(after);
  if (before.end === 'refused') return { subject: before.by, words: `no longer refuses {requests}, which ${now}` };
  if (before.end === 'served' && after.end === 'served') {
    const is_moved = before.by !== after.by;
    const model = before.model === after.model ? '' : ` as ${after.model}`;
    return {
      subject: before.model!,
      words: is_moved
        ? `{requests} {go|goes} to ${after.by}${model} instead of ${before.by}`
        : `{requests} {are|is} served by ${after.model} instead of ${before.model}`,
    };
  }
  return { subject: after.by, words: `{requests} ${now}; before {they|it} ${outcome(before)}` };
}

function outcome({ end, by, model }: Verdict): string {
  if (end === 'served') return `{go|goes} to ${by} as ${model}`;
  return end === 'answered' ? `{are|is} answered by ${by}` : '{reach|reaches} no pipeline';
}

/** What begins to hold in shadow mode, or may. */
function shadowDifferences({ shadow: before }: Verdict, { shadow }: Verdict): Difference[] {
  const held = new Set(before.map(({ by, does }) => `${by} ${does}`));
  return shadow
    .filter(({ by, does }) => !held.has(`${by} ${does}`))
    .map(({ by, does, missing }) => {
      const subject = `${by}, in shadow mode`;
      return missing === undefined
        ? { subject, words: `would ${does.replace('{}', '{requests}')}` }
        : untold(subject, missing);
    });
}
