//! `RL.INSPECT key`

use redis_module::RedisValue;
use redis_module_macros::RedisValue;

use super::args::Args;
use super::{sorted_log, store};
use crate::limiter::bucket::Bucket;
use crate::limiter::counter::Counter;
use crate::limiter::fixed::Fixed;
use crate::limiter::sliding::Log as _;
use crate::server::{Access, Arg, ArgKind, Call, Command, Docs, Error, Key, Kind, Reply};
use crate::state::State;
use crate::state::log::View;

/// The command.
pub struct Inspect;

/// What is said of it.
pub const DOCS: Docs = Docs {
    summary: c"Shows what the key of a limiter holds",
    complexity: c"O(1), O(log n) for a log",
    since: c"0.1.0",
    args: &[Arg::new(c"key", ArgKind::Key)],
};

// The derived maps list their fields in alphabetical order.

#[derive(RedisValue)]
struct FixedFields {
    algorithm: &'static str,
    bytes: i64,
    count: i64,
    ttl_ms: i64,
    window_ms: i64,
    window_start_ms: i64,
}

#[derive(RedisValue)]
struct SlidingFields {
    algorithm: &'static str,
    bytes: i64,
    cost: i64,
    horizon_ms: i64,
    newest_ms: i64,
    oldest_ms: i64,
    slots: i64,
    storage: &'static str,
    ttl_ms: i64,
}

#[derive(RedisValue)]
struct SortedFields {
    algorithm: &'static str,
    bytes: i64,
    cost: i64,
    newest_ms: i64,
    oldest_ms: i64,
    storage: &'static str,
    ttl_ms: i64,
}

#[derive(RedisValue)]
struct CounterFields {
    algorithm: &'static str,
    buckets: i64,
    bytes: i64,
    counts: Vec<i64>,
    latest_start_ms: i64,
    sub_window_ms: i64,
    ttl_ms: i64,
}

#[derive(RedisValue)]
struct TokenFields {
    algorithm: &'static str,
    bytes: i64,
    last_us: i64,
    ttl_ms: i64,
    used: String,
}

#[derive(RedisValue)]
struct LeakyFields {
    algorithm: &'static str,
    bytes: i64,
    last_us: i64,
    level: String,
    ttl_ms: i64,
}

/// An amount of a bucket in units, with up to six decimals, rounded down.
fn units(bucket: &Bucket) -> String {
    const DECIMALS: u128 = 1_000_000;
    let scale = u128::from(bucket.scale.max(1));
    let (whole, rest) = (bucket.used / scale, bucket.used % scale);
    let text = format!("{whole}.{:06}", rest * DECIMALS / scale);
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

/// Cost and times are told as of the newest request.
fn sliding(view: &View, bytes: i64, ttl_ms: i64) -> SlidingFields {
    let newest = view.newest().unwrap_or_default();
    SlidingFields {
        algorithm: "sliding",
        bytes,
        cost: view.cost_after(newest - view.horizon()) as i64,
        horizon_ms: view.horizon().0,
        newest_ms: newest.0,
        oldest_ms: view.oldest().0,
        slots: view.slots() as i64,
        storage: "compact",
        ttl_ms,
    }
}

fn string(key: &mut Key, bytes: i64, ttl_ms: i64) -> Result<RedisValue, Error> {
    if !State::fits(key.string_len()) {
        return Err(store::wrong_type(key));
    }
    Ok(match State::read(key.bytes()) {
        None => return Err(store::wrong_type(key)),
        Some(State::Fixed(Fixed {
            start,
            window,
            count,
        })) => FixedFields {
            algorithm: "fixed",
            bytes,
            count: count as i64,
            ttl_ms,
            window_ms: window.0,
            window_start_ms: start.0,
        }
        .into(),
        Some(State::Sliding(view)) => sliding(&view, bytes, ttl_ms).into(),
        Some(State::Counter(counter)) => counter_fields(&counter, bytes, ttl_ms).into(),
        Some(State::Token(token)) => TokenFields {
            algorithm: "token",
            bytes,
            last_us: token.0.last.0,
            ttl_ms,
            used: units(&token.0),
        }
        .into(),
        Some(State::Leaky(leaky)) => LeakyFields {
            algorithm: "leaky",
            bytes,
            last_us: leaky.0.last.0,
            level: units(&leaky.0),
            ttl_ms,
        }
        .into(),
    })
}

fn counter_fields(counter: &Counter, bytes: i64, ttl_ms: i64) -> CounterFields {
    CounterFields {
        algorithm: "counter",
        buckets: counter.buckets as i64,
        bytes,
        counts: counter.counts().iter().map(|count| *count as i64).collect(),
        latest_start_ms: counter.last().0,
        sub_window_ms: counter.sub_window.0,
        ttl_ms,
    }
}

impl Command for Inspect {
    fn run(call: &Call) -> Result<Reply, Error> {
        let mut args = Args::new(call);
        let place = args.key()?;
        if !args.is_end() {
            return Err(Error::Arity);
        }
        // Asked first: the server may not look at a key that is open here.
        let bytes = call.memory_usage(place).unwrap_or(0) as i64;
        let mut key = call.open(place, Access::Read)?;
        let kind = key.kind();
        if kind == Kind::Missing {
            return Ok(Reply::Value(RedisValue::Null));
        }
        let ttl_ms = match key.expires_at() {
            Some(at) => (at - call.now().floor_millis()).0.max(0),
            None => -1,
        };
        if kind != Kind::SortedSet {
            return string(&mut key, bytes, ttl_ms).map(Reply::Value);
        }
        let usage = key.usage();
        drop(key);
        let log = sorted_log::summary(call, place, ttl_ms >= 0);
        call.open(place, Access::Read)?.set_usage(usage);
        let log = log?;
        Ok(Reply::Value(
            SortedFields {
                algorithm: "sliding",
                bytes,
                cost: log.cost,
                newest_ms: log.newest.0,
                oldest_ms: log.oldest.0,
                storage: "sorted-set",
                ttl_ms,
            }
            .into(),
        ))
    }
}
