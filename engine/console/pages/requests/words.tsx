import { Badge, type Tone } from '../../parts/badge.tsx';
import type { RequestRow } from './use-live.ts';

type Ended = Pick<RequestRow, 'status' | 'error' | 'aborted'>;

function toneOf({ status, error, aborted }: Ended): Tone {
  if (aborted || status === null) return 'plain';
  if (status < 400) return 'good';
  return error !== null && status < 500 ? 'warn' : 'alarm';
}

function wordOf({ status, error, aborted }: Ended): string {
  if (aborted) return 'client left';
  if (status === null) return 'no status';
  if (status < 400) return String(status);
  return `${status} ${error === null ? 'failed' : status < 500 ? 'refused' : 'given up'}`;
}

/** How a request ended. */
export function Result({ request }: { request: Ended }) {
  return <Badge tone={toneOf(request)}>{wordOf(request)}</Badge>;
}

/** The model a client asked for, what the upstream was asked for and what answered, each where it is another name. */
export function modelPath({ asked_model, sent_model, answered_model }: RequestRow): string[] {
  const names = [asked_model, sent_model, answered_model].filter((name) => name !== null);
  return names.filter((name, i) => i === 0 || name !== names[i - 1]);
}
