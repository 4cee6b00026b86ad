import type { ChatBound } from '../../contract/config.ts';
import type { RequestBody } from '../../contract/stage.ts';

/** The other field by which chat completions are bounded. */
export function otherBound(field: ChatBound): ChatBound {
  return field === 'max_tokens' ? 'max_completion_tokens' : 'max_tokens';
}

/** Says the bound of a chat completions request in the one field that its upstream takes. A request that has both stays. */
export function spellBound(body: RequestBody, field: ChatBound): void {
  const other = otherBound(field);
  const bound = body.value(other);
  if (typeof bound !== 'number') return;
  const found = body.value(field);
  if (found === undefined) body.rename(other, field);
  else if (found === null) body.rewrite(field, bound);
}
