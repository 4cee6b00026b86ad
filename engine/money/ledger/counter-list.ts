import type { CounterName } from '../../contract/services.ts';
import { storable } from '../../kit/storable.ts';

/** Counters of a batch, each once, as parallel columns; a position counts from 1, like an SQL array. */
export class CounterList {
  /** Scopes, keys, windows, units. */
  readonly columns: readonly [string[], string[], string[], string[]] = [[], [], [], []];
  readonly #positions = new Map<string, number>();

  position(counter: CounterName): number {
    const { scope, key, window, unit } = counter;
    // Nothing but the last part can hold a blank.
    const name = `${scope} ${window} ${unit} ${key}`;
    const known = this.#positions.get(name);
    if (known !== undefined) return known;
    const [scopes, keys, windows, units] = this.columns;
    scopes.push(scope);
    keys.push(storable(key));
    windows.push(window);
    const position = units.push(unit);
    this.#positions.set(name, position);
    return position;
  }
}
