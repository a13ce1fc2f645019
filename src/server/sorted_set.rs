//! A sorted set, by the server's own commands: exact, kept in step on replicas by the server itself, and not quick.

use redis_module::{CallOptionsBuilder, CallReply, CallResult, Context, RedisValue};

use super::call::Call;
use crate::limiter::Millis;

/// A member and its score.
#[derive(Clone, Debug, PartialEq)]
pub struct Entry {
    /// Any bytes.
    pub member: Vec<u8>,
    /// Never NaN.
    pub score: f64,
}

/// The sorted set in a key. `None` from a method means that the server refused.
pub struct SortedSet<'a> {
    call: Call<'a>,
    name: &'a [u8],
}

impl<'a> SortedSet<'a> {
    pub(super) fn new(call: Call<'a>, name: &'a [u8]) -> Self {
        Self { call, name }
    }

    fn ask(&self, command: &str, arguments: &[&[u8]]) -> Option<RedisValue> {
        self.run(command, arguments, false)
    }

    /// Runs a command that writes and answers an integer, and has replicas and the append-only file follow.
    #[must_use]
    fn write(&self, command: &str, arguments: &[&[u8]]) -> Option<()> {
        integer(self.run(command, arguments, true)?).map(drop)
    }

    fn run(&self, command: &str, arguments: &[&[u8]], is_replicated: bool) -> Option<RedisValue> {
        let options = CallOptionsBuilder::new();
        let options = if is_replicated {
            options.replicate()
        } else {
            options
        }
        .build();
        let mut all = Vec::with_capacity(1 + arguments.len());
        all.push(self.name);
        all.extend_from_slice(arguments);
        let context = Context::new(self.call.ctx);
        let reply: CallResult = context.call_ext(command, &options, all.as_slice());
        match reply {
            // No reply at all is a refusal, too: the command is unknown, or the key's slot is on its way elsewhere.
            Err(_) | Ok(CallReply::Unknown) => None,
            Ok(reply) => Some(RedisValue::from(&reply)),
        }
    }

    /// How many members there are.
    pub fn count(&self) -> Option<u64> {
        integer(self.ask("ZCARD", &[])?)
    }

    /// How many members have a score above `score`.
    pub fn count_above(&self, score: i64) -> Option<u64> {
        let above = format!("({score}");
        integer(self.ask("ZCOUNT", &[above.as_bytes(), b"+inf"])?)
    }

    /// The members from place `first` to place `last`, in order of their scores; negative places count from the end.
    pub fn entries(&self, first: i64, last: i64) -> Option<Vec<Entry>> {
        let (first, last) = (first.to_string(), last.to_string());
        let arguments: [&[u8]; 3] = [first.as_bytes(), last.as_bytes(), b"WITHSCORES"];
        let RedisValue::Array(items) = self.ask("ZRANGE", &arguments)? else {
            return None;
        };
        let pairs = items.chunks_exact(2);
        pairs
            .map(|pair| {
                let member = text(pair.first()?)?;
                let score = std::str::from_utf8(&text(pair.get(1)?)?)
                    .ok()?
                    .parse()
                    .ok()?;
                Some(Entry { member, score })
            })
            .collect()
    }

    /// Adds members, or gives those that are there another score.
    #[must_use]
    pub fn put(&self, entries: &[Entry]) -> Option<()> {
        let scores: Vec<String> = entries
            .iter()
            .map(|entry| entry.score.to_string())
            .collect();
        let pairs = entries.iter().zip(&scores);
        let arguments: Vec<&[u8]> = pairs
            .flat_map(|(entry, score)| [score.as_bytes(), entry.member.as_slice()])
            .collect();
        self.write("ZADD", &arguments)
    }

    /// Removes the members whose score is at most `score`.
    #[must_use]
    pub fn remove_up_to(&self, score: i64) -> Option<()> {
        let score = score.to_string();
        self.write("ZREMRANGEBYSCORE", &[b"-inf", score.as_bytes()])
    }

    /// Makes the key expire.
    #[must_use]
    pub fn expire_at(&self, time: Millis) -> Option<()> {
        let time = time.0.to_string();
        self.write("PEXPIREAT", &[time.as_bytes()])
    }
}

impl Call<'_> {
    /// Bytes that the key named by the `i`-th argument takes, as `MEMORY USAGE` counts them; `None` where the server does not tell.
    pub fn memory_usage(&self, i: usize) -> Option<u64> {
        let context = Context::new(self.ctx);
        let arguments: [&[u8]; 2] = [b"USAGE", self.argument(i)?];
        integer(context.call("MEMORY", &arguments).ok()?)
    }
}

fn integer(value: RedisValue) -> Option<u64> {
    match value {
        RedisValue::Integer(integer) => u64::try_from(integer).ok(),
        _ => None,
    }
}

fn text(value: &RedisValue) -> Option<Vec<u8>> {
    match value {
        RedisValue::SimpleString(text) | RedisValue::BulkString(text) => {
            Some(text.clone().into_bytes())
        }
        RedisValue::StringBuffer(bytes) => Some(bytes.clone()),
        RedisValue::BulkRedisString(text) => Some(text.as_slice().to_vec()),
        _ => None,
    }
}
