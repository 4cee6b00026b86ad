/** What clients write about themselves; anything longer, with more digits or with other characters is no name of a product. */
const PRODUCT = /^(?=.{1,30}$)[A-Za-z][A-Za-z_.-]*\d{0,2}[A-Za-z_.-]*$/;
const VERSION = /^\d{1,6}(?:\.\d{1,6}){0,3}(?:[.+-][0-9A-Za-z.-]{1,20})?$/;
const MODEL_NAME = /^[\w][\w./:@+-]{0,99}$/;
const UUID = /^[0-9a-f]{8}-(?:[0-9a-f]{4}-){3}[0-9a-f]{12}$/i;
const UPSTREAM_ID = /^[\w.:/+=-]{1,100}$/;
/** What access tokens, session tokens and keys of providers begin with, or look like. */
const CREDENTIAL = /^(?:sk|pk|gw|key|tok|token|bearer|eyJ)[-_.]|[\w-]{20,}\.[\w-]{20,}\.|[A-Za-z0-9_-]{40,}/i;

/** The name of a client's product; `undefined` where the text is none. */
export function productName(text: string | undefined): string | undefined {
  return text !== undefined && PRODUCT.test(text) ? text : undefined;
}

/** The version of a client's product; `undefined` where the text is none. */
export function productVersion(text: string | undefined): string | undefined {
  return text !== undefined && VERSION.test(text) ? text : undefined;
}

/** What a client asked for as a model that does not exist, where it looks like the name of one. */
export function unknownModel(text: string | undefined): string | undefined {
  return text !== undefined && MODEL_NAME.test(text) && !text.includes('@') && !CREDENTIAL.test(text)
    ? text
    : undefined;
}

/** The model that an upstream says has answered, where it looks like the name of one. */
export function answeredModel(text: string | undefined): string | undefined {
  return text !== undefined && MODEL_NAME.test(text) ? text : undefined;
}

/** The session of a client, where it is a UUID, which says nothing about anybody. */
export function sessionId(text: string | undefined): string | undefined {
  return text !== undefined && UUID.test(text) ? text : undefined;
}

/** An upstream's identifier of a request. */
export function upstreamId(text: string | undefined): string | undefined {
  return text !== undefined && UPSTREAM_ID.test(text) ? text : undefined;
}
