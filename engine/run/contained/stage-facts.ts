/** Facts that a stage declares itself. */
import type { StageFact } from '../../contract/own-facts.ts';
import type { CompiledStage } from '../compiled.ts';

interface FactWriter {
  readonly stage: CompiledStage | undefined;
  setOwnFact(path: string, value: unknown): void;
}

function fits({ type, values }: StageFact, value: unknown): boolean {
  if (type === 'string') return values!.includes(value as string);
  if (type === 'boolean') return typeof value === 'boolean';
  return Number.isFinite(value) && (type === 'number' || Number.isSafeInteger(value));
}

/** Writes a fact that the running stage declares. Throws for one that it does not, and for a value of another type. */
export function writeStageFact(writer: FactWriter, name: string, value: unknown): void {
  const definition = writer.stage?.definition;
  const fact = definition?.facts?.[name];
  if (fact === undefined) throw new Error(`the fact "${name}" is not declared in "facts"`);
  if (!fits(fact, value)) {
    const wanted = fact.values === undefined ? fact.type : fact.values.join(' or ');
    throw new Error(`the fact "${name}" is not given what it is declared to be, ${wanted}`);
  }
  writer.setOwnFact(`${definition!.name}.${name}`, value);
}
