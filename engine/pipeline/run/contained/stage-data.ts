/** Data of operators' stages: the facts that they declare, and custom fields of the audit record. @module */
import type { StageFact } from '../../../base/contract/own-facts.ts';
import type { AuditLog, AuditRecord } from '../../../base/contract/services.ts';
import { currentStageRequest } from '../../../base/kit/unhandled-errors.ts';
import type { CompiledStage } from '../compiled.ts';

/** Bounds of the custom fields of one stage. */
const FIELDS_MAX = 32;
const NAME = /^[a-z][a-z0-9_]{0,63}$/;
const TEXT_CHARS_MAX = 200;
const ENTRIES_MAX = 20;

/** Custom fields by stage name. */
export type AuditFields = Readonly<Record<string, Readonly<Record<string, unknown>>>>;

/** Receives the custom fields of a running hook. */
export interface AuditFieldSink {
  addAuditFields(record: AuditRecord): void;
}

function isPlain(value: unknown): boolean {
  if (typeof value === 'string') return value.length <= TEXT_CHARS_MAX;
  return value === null || typeof value === 'boolean' || Number.isFinite(value);
}

const isField = (value: unknown): boolean =>
  Array.isArray(value) ? value.length <= ENTRIES_MAX && value.every(isPlain) : isPlain(value);

/** Adds fields of a stage. Throws for large or nested values: they are kept for years, and buffered during outages. */
export function withAuditFields(before: AuditFields, stage: string, record: AuditRecord): AuditFields {
  const fields = Object.entries({ ...record }).filter(([, value]) => value !== undefined);
  for (const [name, value] of fields) {
    if (!NAME.test(name))
      throw new Error(
        'the name of an audit field must be 1 to 64 characters of a-z, 0-9 and _, beginning with a letter',
      );
    if (!isField(value))
      throw new Error(
        `the audit field "${name}" must be a number, a boolean, null, a string of up to ${TEXT_CHARS_MAX} characters, or a list of up to ${ENTRIES_MAX} of these`,
      );
  }
  const own = { ...before[stage], ...structuredClone(Object.fromEntries(fields)) };
  if (Object.keys(own).length > FIELDS_MAX)
    throw new Error(`a stage may add at most ${FIELDS_MAX} fields to an audit record`);
  return { ...before, [stage]: own };
}

/** The audit log of an operator's stage: writes within a hook become fields of the request's record, under the stage's name. */
export function auditLogOf(stage: string, audit: AuditLog): AuditLog {
  return {
    write(record) {
      const sink = currentStageRequest() as AuditFieldSink | undefined;
      if (sink !== undefined) sink.addAuditFields(record);
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

/** Writes a fact that the running stage declares. Throws for an undeclared fact and for a value of another type. */
export function writeStageFact(writer: FactWriter, name: string, value: unknown): void {
  const definition = writer.stage?.definition;
  const fact = definition?.facts?.[name];
  if (fact === undefined) throw new Error(`the fact "${name}" is not declared in "facts"`);
  if (!fits(fact, value)) {
    const wanted = fact.values === undefined ? fact.type : fact.values.join(' or ');
    throw new Error(`the fact "${name}" must be ${wanted}, as "facts" declares`);
  }
  writer.setOwnFact(`${definition!.name}.${name}`, value);
}
