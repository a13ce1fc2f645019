// Express middleware for redis-rl. What it does and answers is told in ../README.md.

import { isIP, SocketAddress } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';

export { connect } from './connection.js';

/**
 * @typedef {import('express').Request} Request
 * @typedef {import('express').Response} Response
 * @typedef {string | number | bigint | Buffer} Text
 * @typedef {Text | null | undefined} Key null, undefined or empty: the limit does not apply to the request
 *
 * @typedef {object} Limit
 * @property {string} name printable ASCII without `"` and `\`
 * @property {string} algorithm with its arguments as in the command: `SLIDING 60 100`
 * @property {(req: Request) => Key | Promise<Key>} key
 * @property {(req: Request) => number | Promise<number>} [cost] a whole number from 1 on
 *
 * @typedef {object} Options
 * @property {Limit[]} limits
 * @property {'open' | 'closed'} [onError]
 * @property {boolean} [legacyHeaders]
 * @property {Text | ((req: Request) => Text | Promise<Text>)} [hashTag]
 * @property {number} [maxWait] milliseconds
 *
 * @typedef {object} Verdict what one limit says of a request
 * @property {string} name
 * @property {boolean} denied
 * @property {number} limit
 * @property {number} window seconds
 * @property {number} remaining
 * @property {number} wait milliseconds; -1: never
 * @property {number} reset seconds
 */

/**
 * The middleware of one route.
 *
 * @param {Awaited<ReturnType<typeof import('./connection.js').connect>>} redis what `connect` gave
 * @param {Options} options
 * @returns {import('express').RequestHandler}
 */
export function rateLimit(
  redis,
  { limits, onError = 'open', legacyHeaders = false, hashTag, maxWait = 10_000 },
) {
  if (!['open', 'closed'].includes(onError)) throw new TypeError("onError must be 'open' or 'closed'");
  if (!(maxWait >= 0 && maxWait <= UNITS.h)) throw new RangeError('maxWait must be 0 to 3600000 ms');
  const rules = limits.map(compile);
  if (new Set(rules.map(({ name }) => name)).size < rules.length) throw new TypeError('two limits have the same name');

  /** Whether the request may go on; if not, it was answered or its client has gone. */
  async function admit(req, res) {
    const tag = typeof hashTag === 'function' ? await hashTag(req) : hashTag;
    const clauses = [];
    for (const rule of rules) {
      const clause = await clauseOf(rule, req, tag);
      if (clause) clauses.push(clause);
    }
    if (clauses.length === 0) return true;
    let replies;
    try {
      replies = await decide(redis, clauses);
    } catch (error) {
      redis.report(error);
      if (onError === 'closed') unavailable(res);
      return onError === 'open';
    }
    const taken = replies.every(([allowed]) => allowed); // if not, no place in a queue is either
    const verdicts = replies.map((reply, i) => verdict(clauses[i].rule, reply, taken ? maxWait : Infinity));
    setHeaders(res, verdicts, legacyHeaders);
    const denied = verdicts.filter((v) => v.denied);
    if (denied.length > 0) {
      tooMany(res, denied);
      return false;
    }
    const hold = Math.max(...verdicts.map((v) => v.wait));
    return hold === 0 || stays(res, hold);
  }

  return (req, res, next) => {
    admit(req, res).then((go) => go && next(), next);
  };
}

/** The address of the client, behind so many proxies that each append to X-Forwarded-For. */
export function byIp(trustedProxies = 0) {
  return (req) => {
    const forwarded = (req.headers['x-forwarded-for'] ?? '').split(',').filter((entry) => entry.trim());
    const entry = trustedProxies > 0 ? forwarded.at(-trustedProxies) : undefined;
    // Only a Unix socket has no address: all that comes through it is one client.
    return address(entry ?? req.socket.remoteAddress ?? 'unknown');
  };
}

/** The value of a header, its bytes as they came: Node reads UTF-8 as if it were Latin-1. */
export function byHeader(name) {
  return (req) => {
    const value = req.headers[name.toLowerCase()];
    return value === undefined ? undefined : Buffer.from(value, 'latin1');
  };
}

/** The one way of writing an address, so that it is one key. Some proxies add a port. */
function address(text) {
  const bare = text.trim().replace(/^\[(.*)\](:\d+)?$/, '$1').replace(/^([\d.]+):\d+$/, '$1');
  if (isIP(bare) !== 6) return bare;
  const plain = new SocketAddress({ address: bare.replace(/%.*/, ''), family: 'ipv6' }).address;
  const mapped = plain.replace(/^::ffff:/, '');
  return isIP(mapped) === 4 ? mapped : plain;
}

const UNITS = { ms: 1, s: 1000, m: 60_000, h: 3_600_000, d: 86_400_000 };

function milliseconds(duration = '') {
  const [, number, unit] = /^([\d.]+)(ms|s|m|h|d)?$/.exec(duration) ?? [];
  return Math.round(Number(number) * UNITS[unit ?? 's']);
}

/** Milliseconds in which a full bucket drains. Integers, so that nothing is rounded up by mistake. */
function drainTime(capacity, rate = '') {
  const [units, per] = rate.split('/');
  if (per === undefined) return (capacity * 1e9) / Math.round(Number(units) * 1e6);
  return (capacity * milliseconds(per in UNITS ? `1${per}` : per)) / Number(units);
}

/** Reads a limit once, so that a wrong one is an error at the start and not with each request. */
function compile({ name, algorithm, key, cost }) {
  const [word, ...args] = algorithm.trim().split(/\s+/);
  const kind = word.toUpperCase();
  const windows = new Map(); // limit -> seconds
  if (['FIXED', 'COUNTER', 'SLIDING'].includes(kind)) {
    const end = kind === 'SLIDING' ? args.length : 2;
    for (let i = 0; i < end; i += 2) {
      const limit = Number(args[i + 1]);
      if (!windows.has(limit)) windows.set(limit, seconds(milliseconds(args[i])));
    }
  } else if (['TOKEN', 'LEAKY'].includes(kind)) {
    windows.set(Number(args[0]), seconds(drainTime(Number(args[0]), args[1])));
  }
  const numbers = [...windows].flat();
  if (numbers.length === 0 || !numbers.every(Number.isFinite)) throw new TypeError(`no such limit: ${algorithm}`);
  // A colon would let two limits meet in one key; quotes would have to be escaped in headers.
  if (!/^[A-Za-z0-9_.-]+$/.test(name)) throw new TypeError(`a limit cannot have the name ${name}`);
  if (typeof key !== 'function') throw new TypeError(`the limit ${name} has no key function`);
  return { name, kind, args, windows, key, cost };
}

/** What to ask Redis of one limit; nothing if the limit does not apply. */
async function clauseOf(rule, req, tag) {
  const text = await rule.key(req);
  if (text === null || text === undefined) return undefined;
  const prefix = tag ? ['rl:{', withoutBraces(tag), '}:'] : ['rl:'];
  const key = Buffer.concat([...prefix, rule.name, ':', text].map(bytes));
  if (!rule.cost) return { rule, args: [key, ...rule.args] };
  const cost = await rule.cost(req);
  if (!Number.isSafeInteger(cost) || cost < 1) throw new TypeError(`cost of ${rule.name} is ${cost}`);
  return { rule, args: [key, ...rule.args, 'COST', String(cost)] };
}

/** A brace would end the hash tag, or make it empty. */
const withoutBraces = (tag) => String(tag).replace(/[%{}]/g, encodeURIComponent);

function bytes(text) {
  if (Buffer.isBuffer(text)) return text;
  // Anything else, such as the array of a repeated query parameter, would be the same text for many.
  if (!['string', 'number', 'bigint'].includes(typeof text)) throw new TypeError('a key must be text');
  return Buffer.from(String(text));
}

/** Five integers for each clause: allowed, limit, remaining, wait_ms, reset_ms. */
async function decide(redis, clauses) {
  if (clauses.length === 1) return [await redis.ask([`RL.${clauses[0].rule.kind}`, ...clauses[0].args])];
  const [, , ...replies] = await redis.ask(['RL.ALL', ...clauses.flatMap((c) => [c.rule.kind, ...c.args])]);
  return replies;
}

/** @returns {Verdict} which also denies what would be held for longer than `maxWait` */
function verdict({ name, windows }, [allowed, limit, remaining, wait, reset], maxWait) {
  const heldTooLong = Boolean(allowed) && wait > maxWait;
  return {
    name,
    denied: !allowed || heldTooLong,
    limit,
    window: windows.get(limit),
    remaining,
    wait: heldTooLong ? wait - maxWait : wait,
    reset: seconds(reset),
  };
}

function setHeaders(res, verdicts, legacy) {
  addToList(res, 'RateLimit-Policy', verdicts.map((v) => `"${v.name}";q=${sf(v.limit)};w=${sf(v.window)}`));
  addToList(res, 'RateLimit', verdicts.map((v) => `"${v.name}";r=${sf(v.remaining)};t=${sf(v.reset)}`));
  if (!legacy) return;
  const share = (v) => (v.limit ? v.remaining / v.limit : 0);
  const smallest = verdicts.reduce((least, v) => (share(v) < share(least) ? v : least));
  const speaker = verdicts.find((v) => v.denied) ?? smallest;
  res.setHeader('X-RateLimit-Limit', speaker.limit);
  res.setHeader('X-RateLimit-Remaining', speaker.remaining);
  res.setHeader('X-RateLimit-Reset', speaker.reset);
}

/** An integer of a structured field has at most 15 digits (RFC 9651). */
const sf = (integer) => Math.min(integer, 999_999_999_999_999);

/** Behind what another rateLimit on the way to this route has said. */
function addToList(res, name, items) {
  res.setHeader(name, [res.getHeader(name) ?? [], items].flat().join(', '));
}

function tooMany(res, denied) {
  const waits = denied.map((v) => v.wait);
  const wait = waits.includes(-1) ? null : Math.max(...waits);
  if (wait !== null) res.setHeader('Retry-After', seconds(wait));
  problem(res, {
    type: 'https://iana.org/assignments/http-problem-types#quota-exceeded',
    title: 'Too Many Requests',
    status: 429,
    detail: `Limit "${denied[0].name}" allows no more now.`,
    'violated-policies': denied.map((v) => v.name),
    retry_after_ms: wait,
  });
}

function unavailable(res) {
  res.setHeader('Retry-After', 1);
  problem(res, {
    type: 'about:blank',
    title: 'Service Unavailable',
    status: 503,
    detail: 'The rate limiter does not answer.',
  });
}

function problem(res, body) {
  res.statusCode = body.status;
  res.setHeader('Content-Type', 'application/problem+json');
  res.end(JSON.stringify(body));
}

/** Whether the client is still there after that time. */
async function stays(res, ms) {
  const gone = new AbortController();
  const leave = () => gone.abort();
  res.once('close', leave);
  if (res.closed) leave(); // while Redis was asked
  // Without ref: a process that has nothing else to do ends.
  const waited = await sleep(ms, true, { signal: gone.signal, ref: false }).catch(() => false);
  res.off('close', leave);
  return waited;
}

const seconds = (ms) => Math.ceil(ms / 1000);
