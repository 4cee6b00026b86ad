/** A time limit that a test lets run out, in seconds. Nothing may depend on anything else being quicker. */
export const REACHED_SECONDS = 0.5;
