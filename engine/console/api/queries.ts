import {
  keepPreviousData,
  type UseMutationResult,
  type UseQueryResult,
  useMutation,
  useQuery,
  useQueryClient,
} from '@tanstack/react-query';
import { type AnswerOf, call, type InputOf, type OperationName, type ProblemError } from './client.ts';

interface Watching {
  /** Ask again after so long, while the page is looked at. */
  readonly every_seconds?: number;
  /** Whether to ask at all. */
  readonly enabled?: boolean;
}

/** What an operation answers now; asked again when the window is looked at again, and after any change made here. */
export function useOperation<Name extends OperationName>(
  name: Name,
  input: InputOf<Name>,
  { every_seconds, enabled = true }: Watching = {},
): UseQueryResult<AnswerOf<Name>, ProblemError> {
  return useQuery<AnswerOf<Name>, ProblemError>({
    queryKey: [name, input],
    queryFn: ({ signal }) => call(name, input, signal),
    // What was there stays until the answer to other filters arrives.
    placeholderData: keepPreviousData as never,
    enabled,
    ...(every_seconds !== undefined && { refetchInterval: every_seconds * 1000 }),
  });
}

/** Makes a change; what is shown anywhere is asked for again after it. */
export function useChange<Name extends OperationName>(
  name: Name,
): UseMutationResult<AnswerOf<Name>, ProblemError, InputOf<Name>> {
  const client = useQueryClient();
  return useMutation<AnswerOf<Name>, ProblemError, InputOf<Name>>({
    mutationFn: (input) => call(name, input),
    onSuccess: () => client.invalidateQueries(),
  });
}
