/** What stages find out of their own: facts that they declare, and what they add to the audit record of a request. */
import type { StageFact } from '../../../base/contract/own-facts.ts';
import type { AuditLog, AuditRecord } from '../../../base/contract/services.ts';
import { strayRequest } from '../../../base/kit/strays.ts';
import type { CompiledStage } from '../compiled.ts';

/** Most fields that one stage adds to a record, and how long their names, texts and lists may be. */
const FIELDS_MAX = 32;
const NAME = /^[a-z][a-z0-9_]{0,63}$/;
const TEXT_CHARS_MAX = 200;
const ENTRIES_MAX = 20;

/** Fields by the name of the stage. */
export type AuditFields = Readonly<Record<string, Readonly<Record<string, unknown>>>>;

/** Who takes fields for the record of a request, for as long as a hook of a stage runs. */
export interface AuditNotebook {
  noteAudit(record: AuditRecord): void;
}

function isPlain(value: unknown): boolean {
  if (typeof value === 'string') return value.length <= TEXT_CHARS_MAX;
  return value === null || typeof value === 'boolean' || Number.isFinite(value);
}

const isField = (value: unknown): boolean =>
  Array.isArray(value) ? value.length <= ENTRIES_MAX && value.every(isPlain) : isPlain(value);

/**
 * The fields of a stage with further ones. Throws for what is not small and plain: records are kept for years, and wait in memory
 * while the store is away.
 */
export function withAuditFields(before: AuditFields, stage: string, record: AuditRecord): AuditFields {
  const given = Object.entries({ ...record }).filter(([, value]) => value !== undefined);
  for (const [name, value] of given) {
    if (!NAME.test(name)) throw new Error('a field of the audit record is named by up to 64 of a-z, 0-9 and _');
    if (!isField(value))
      throw new Error(
        `the field "${name}" of the audit record must be a number, true or false, a text of up to ${TEXT_CHARS_MAX} characters, or a list of up to ${ENTRIES_MAX} of them`,
      );
  }
  const own = { ...before[stage], ...structuredClone(Object.fromEntries(given)) };
  if (Object.keys(own).length > FIELDS_MAX)
    throw new Error(`a stage adds no more than ${FIELDS_MAX} fields to an audit record`);
  return { ...before, [stage]: own };
}

/** The audit log for a stage of the operator's: what it writes in a hook stands in the record of the request, under its name. */
export function auditLogOf(stage: string, audit: AuditLog): AuditLog {
  return {
    write(record) {
      const notebook = strayRequest() as AuditNotebook | undefined;
      if (notebook !== undefined) notebook.noteAudit(record);
      else audit.write({ stage, found: withAuditFields({}, stage, record) });
    },
    appendLine: (path, record) => audit.appendLine(path, record),
  };
}

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
