/** A time limit that a test exceeds on purpose, in seconds. Nothing may depend on anything else being quicker. */
export const REACHED_SECONDS = 0.5;
