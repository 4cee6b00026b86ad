import { storable } from '../kit/storable.ts';

/** An array parameter of a statement, written as it is collected: what pg makes of a JavaScript array takes several times as long. */
export class ArrayColumn {
  #text = '';

  /** Adds what SQL writes as JavaScript does. */
  add(value: number | bigint | boolean | null): void {
    if (this.#text !== '') this.#text += ',';
    this.#text += value ?? 'NULL';
  }

  /** Adds a text, with what PostgreSQL can't store replaced. */
  addText(value: string | null): void {
    if (this.#text !== '') this.#text += ',';
    if (value === null) this.#text += 'NULL';
    else this.#text += `"${/[\\"\0\ud800-\udfff]/.test(value) ? storable(value).replace(/[\\"]/g, '\\$&') : value}"`;
  }

  /** The array as a literal of SQL. */
  get literal(): string {
    return `{${this.#text}}`;
  }
}
