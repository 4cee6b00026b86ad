export { type AnswerFeatures, answers, saidBy } from './answer-arbitraries.ts';
export { argumentTexts, type ConversationFeatures, conversations, names, texts } from './conversation-arbitraries.ts';
