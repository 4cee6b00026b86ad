/** What a schema may say that the model is held to: that of a strict tool, or of the answer. */
interface StrictSchemaRules {
  /** Keywords that constrain values and may stay; those of structure always do. */
  readonly keywords: ReadonlySet<string>;
  /** Values of `format` that may stay. */
  readonly formats: ReadonlySet<string>;
  /** The largest `minItems` that may stay. */
  readonly min_items_max: number;
  /** Whether `required` must name every property. */
  readonly all_required: boolean;
  /** Whether a definition may refer to itself. */
  readonly recursion: boolean;
  /** Whether a list of alternatives may stand at the top. */
  readonly alternatives_at_top: boolean;
  /** Whether `enum` and lists need a `type` or `items` beside them. */
  readonly fully_typed: boolean;
  /** The most of one request: strict tools, properties that may be left out, properties of several types. */
  readonly most: { readonly tools: number; readonly optional: number; readonly unions: number };
}

/** What upstreams of a protocol accept of schemas, tool names and stop sequences, as their vendor documents or enforces it. */
export interface Accepted {
  /** Keywords that must not stand at the top of a tool's schema; alternatives there become one object. */
  readonly refused_at_top: readonly string[];
  /** Whether objects at the top must have `properties`, and lists `items`, anywhere. */
  readonly explicit: boolean;
  /** Whether `$schema` may stay; some servers refuse the name. */
  readonly dialect: boolean;
  /** What names of properties at the top look like; absent: anything. */
  readonly property_name?: RegExp;
  readonly held: StrictSchemaRules;
  /** The longest name of a tool, in characters. */
  readonly tool_name_chars: number;
  /** How many stop sequences, and whether blank ones are among them. */
  readonly stops: { readonly most: number; readonly blank: boolean };
}

/** Values of `format` for texts that every protocol knows. */
export const STRING_FORMATS = ['date-time', 'time', 'date', 'duration', 'email', 'hostname', 'ipv4', 'ipv6', 'uuid'];

/** Functions of chat completions and Responses have the same rules: guides "Function calling" and "Structured outputs". */
export const FUNCTIONS: Omit<Accepted, 'stops'> = {
  refused_at_top: ['anyOf', 'oneOf', 'allOf', 'enum', 'const', 'not'],
  explicit: true,
  dialect: false,
  held: {
    keywords: new Set([
      ...['minimum', 'maximum', 'exclusiveMinimum', 'exclusiveMaximum', 'multipleOf'],
      ...['minLength', 'maxLength', 'pattern', 'format', 'minItems', 'maxItems'],
    ]),
    formats: new Set(STRING_FORMATS),
    min_items_max: Infinity,
    all_required: true,
    recursion: true,
    alternatives_at_top: false,
    fully_typed: true,
    most: { tools: Infinity, optional: 0, unions: Infinity },
  },
  tool_name_chars: 64,
};
