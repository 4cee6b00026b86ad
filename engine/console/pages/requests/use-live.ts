import { useEffect, useRef, useState } from 'react';
import { type AnswerOf, addressOf } from '../../api/client.ts';
import type { RequestFilters } from './filters.ts';

/** One request of the list. */
export type RequestRow = AnswerOf<'listRequests'>['requests'][number];

/** More than this many are not kept: the list below has them. */
const KEPT_MAX = 200;

/** How the live list is doing: `mending` while it tries to get back, `ended` where it will not. */
export type LiveState = 'off' | 'opening' | 'live' | 'mending' | 'ended';

/** New requests that fit, the newest first, while `is_on`. What was missed in between comes when the connection is back. */
export function useLive(
  filters: RequestFilters,
  is_on: boolean,
): { readonly rows: readonly RequestRow[]; readonly state: LiveState } {
  const [rows, setRows] = useState<readonly RequestRow[]>([]);
  const [state, setState] = useState<LiveState>('off');
  const { since: _since, until: _until, ...wanted } = filters;
  const address = addressOf('watchRequests', wanted);
  const waiting = useRef<RequestRow[]>([]);
  useEffect(() => {
    setRows([]);
    waiting.current = [];
    if (!is_on) return setState('off');
    setState('opening');
    const source = new EventSource(address);
    // Many may come at once: they are drawn together.
    const timer = setInterval(() => {
      const fresh = waiting.current.splice(0).reverse();
      if (fresh.length > 0) setRows((before) => [...fresh, ...before].slice(0, KEPT_MAX));
    }, 400);
    source.onopen = () => setState('live');
    source.onerror = () => setState(source.readyState === EventSource.CLOSED ? 'ended' : 'mending');
    source.addEventListener('request', ({ data }) => {
      try {
        waiting.current.push(JSON.parse(data) as RequestRow);
      } catch {
        // Half an event, of a connection that was cut.
      }
    });
    source.addEventListener('ended', () => {
      source.close();
      setState('ended');
    });
    return () => {
      clearInterval(timer);
      source.close();
    };
  }, [address, is_on]);
  return { rows, state };
}
