// The connection to Redis: never in a request's way, and back by itself.

import { once } from 'node:events';
import { createClient } from 'redis';

const LOG_INTERVAL = 10_000; // milliseconds
const HOUR = 3_600_000;

/**
 * A connection to Redis for all the routes. It comes back by itself; while it is away, every request
 * is answered at once. This waits for the first attempt only: an application starts without Redis, and
 * one that has Redis limits its first request already.
 *
 * @param {import('redis').RedisClientOptions & {timeout?: number, log?: (line: string) => void}} [settings]
 *   `timeout` (milliseconds) and `log` are ours, all else goes to node-redis's `createClient`
 */
export async function connect({ timeout = 100, log = console.error, ...options } = {}) {
  if (!(timeout >= 1 && timeout <= HOUR)) throw new RangeError('timeout must be 1 to 3600000 ms');
  const client = createClient({
    disableOfflineQueue: true, // no request waits until Redis comes back
    pingInterval: 1000, // so that an idle connection does not look dead to socketTimeout
    ...options,
    socket: {
      connectTimeout: timeout,
      socketTimeout: timeout + 2000, // ends a connection on which nothing moves: its server is gone or hangs
      // node-redis's own strategy gives up for good after a socketTimeout.
      reconnectStrategy: (retries) => Math.min(50 * 2 ** retries, 1000) * (0.5 + Math.random() / 2),
      ...options.socket,
    },
  });
  const report = reporter(log);
  client.on('error', report); // without a listener it would end the process
  client.connect().catch(() => {}); // that listener has heard of it
  await once(client, 'ready').catch(() => {});

  let overdue = 0;

  /**
   * The reply to a command. node-redis's own timeout ends when a command is sent, and what was sent
   * cannot be taken back. So nothing more is sent while a reply is overdue. Then little waits for a
   * server that hangs, it finds no pile of stale requests when it goes on, and socketTimeout sees that
   * nothing moves.
   *
   * @param {(string | Buffer)[]} args
   * @returns {Promise<any>}
   */
  async function ask(args) {
    if (overdue > 0) throw new Error('an answer is overdue');
    const reply = client.sendCommand(args, { typeMapping: {} });
    let timer;
    const late = new Promise((_, reject) => {
      const giveUp = () => {
        overdue++;
        reply.catch(() => {}).finally(() => overdue--);
        reject(new Error(`no answer within ${timeout} ms`));
      };
      // If this process was busy, the reply may be there unread: it is read before an immediate.
      timer = setTimeout(() => setImmediate(giveUp), timeout);
    });
    return Promise.race([reply, late]).finally(() => clearTimeout(timer));
  }

  return { ask, report, close: () => client.destroy() };
}

/** At most one line of log in ten seconds for each kind of error, however many requests fail. */
function reporter(log) {
  const kinds = new Map(); // the first word of an error: what Redis calls it, such as OOM
  return (error) => {
    // What Redis says of an unknown command repeats its arguments, and keys may be secrets.
    const what = error.message.startsWith('ERR unknown command')
      ? 'it has not loaded the module redis-rl'
      : error.message || error.code;
    const [kind] = what.split(' ');
    const { said = -Infinity, unsaid = 0 } = kinds.get(kind) ?? {};
    if (performance.now() - said < LOG_INTERVAL) return void kinds.set(kind, { said, unsaid: unsaid + 1 });
    log(`redis-rl: no decision from Redis: ${what}${unsaid ? ` (${unsaid} more since the last such line)` : ''}`);
    kinds.set(kind, { said: performance.now(), unsaid: 0 });
  };
}
