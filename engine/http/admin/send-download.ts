import { Readable } from 'node:stream';
import { pipeline } from 'node:stream/promises';
import type { Response } from 'express';
import type { Download } from '../../admin/download.ts';

/** Sends a file as it is made, to be kept and not shown. Ends the connection, and raises the error, where making it fails. */
export async function sendDownload(
  res: Response,
  { file_name, chunks }: Download,
  headers: Readonly<Record<string, string>>,
): Promise<void> {
  res.writeHead(200, { ...headers, 'content-disposition': `attachment; filename="${file_name}"` });
  // Nobody reads what would be made.
  if (res.req.method === 'HEAD') res.end();
  else await pipeline(Readable.from(chunks), res);
}
