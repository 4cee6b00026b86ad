/** Why nothing more is asked: somebody stopped it, or time was up. The message is a sentence without a full stop. */
export class NotAsked extends Error {
  override readonly name = 'NotAsked';
}
