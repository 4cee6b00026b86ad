/**
 * The part of JSON Schema and the media types that each protocol takes, as its vendor documents or enforces them. This is the
 * only place that knows; `features/tool-schemas.ts` and `features/held-schemas.ts` bring schemas to it, `files.ts` files.
 * @module
 */
import type { Protocol } from '../../contract/protocol.ts';

/** What a schema may say that the model is held to: that of a strict tool, or of the answer. */
export interface HeldSchemas {
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

/** What one protocol takes. */
export interface Accepted {
  /** Keywords that must not stand at the top of a tool's schema; alternatives there become one object. */
  readonly refused_at_top: readonly string[];
  /** Whether objects at the top must have `properties`, and lists `items`, anywhere. */
  readonly explicit: boolean;
  /** Whether `$schema` may stay; some servers refuse the name. */
  readonly dialect: boolean;
  /** What names of properties at the top look like; absent: anything. */
  readonly property_name?: RegExp;
  readonly held: HeldSchemas;
  /** Media types of images. */
  readonly images: readonly string[];
}

const IMAGES = ['image/jpeg', 'image/png', 'image/gif', 'image/webp'];

const STRING_FORMATS = ['date-time', 'time', 'date', 'duration', 'email', 'hostname', 'ipv4', 'ipv6', 'uuid'];

/** Functions of chat completions and Responses have the same rules: guides "Function calling" and "Structured outputs". */
const FUNCTIONS: Accepted = {
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
  images: IMAGES,
};

/** What each protocol takes of a client's schemas and files. */
export const ACCEPTED: Readonly<Record<Protocol, Accepted>> = {
  /** Guide "Structured outputs", section "JSON Schema limitations", and what the SDKs' transform_schema leaves in a schema. */
  messages: {
    refused_at_top: ['anyOf', 'oneOf', 'allOf'],
    explicit: false,
    dialect: true,
    property_name: /^[a-zA-Z0-9_.-]{1,64}$/,
    held: {
      keywords: new Set(['format', 'minItems']),
      formats: new Set([...STRING_FORMATS, 'uri']),
      min_items_max: 1,
      all_required: false,
      recursion: false,
      alternatives_at_top: true,
      fully_typed: false,
      most: { tools: 20, optional: 24, unions: 16 },
    },
    images: IMAGES,
  },
  chat: FUNCTIONS,
  responses: FUNCTIONS,
};
