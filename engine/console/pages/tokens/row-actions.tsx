import { Button } from '../../parts/button.tsx';
import type { Column } from '../../parts/data-table.tsx';
import { isInForce } from './words.ts';

/** What can be done to a token of a list. */
export interface Changing<Token> {
  readonly token: Token;
  readonly what: 'rotate' | 'revoke';
}

/** The column with what can be done to each token that is in force. */
export function actions<Token extends { readonly name: string; readonly state: string }>(
  onChange: (changing: Changing<Token>) => void,
): Column<Token> {
  return {
    id: 'do',
    title: 'Actions',
    cell: (token) =>
      isInForce(token) && (
        <span className="row-actions">
          {token.state !== 'replaced' && (
            <Button
              kind="quiet"
              aria-label={`Rotate ${token.name}`}
              onClick={() => onChange({ token, what: 'rotate' })}
            >
              Rotate
            </Button>
          )}
          <Button kind="quiet" aria-label={`Revoke ${token.name}`} onClick={() => onChange({ token, what: 'revoke' })}>
            Revoke
          </Button>
        </span>
      ),
  };
}
