/** The operator and operands of a JSON-Logic expression; `undefined` for a plain value or a list. */
export function expressionOf(logic: unknown): readonly [operator: string, operands: readonly unknown[]] | undefined {
  if (typeof logic !== 'object' || logic === null || Array.isArray(logic)) return undefined;
  const keys = Object.keys(logic);
  if (keys.length !== 1) return undefined;
  const operator = keys[0]!;
  const operands = (logic as Readonly<Record<string, unknown>>)[operator];
  return [operator, Array.isArray(operands) ? operands : [operands]];
}

/** Truth in JSON-Logic: false, null, 0, "" and the empty list are false. */
export function truthy(value: unknown): boolean {
  return Array.isArray(value) ? value.length > 0 : Boolean(value);
}
