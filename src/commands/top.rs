//! `RL.TOP [n] [RESET]`

use redis_module::RedisValue;

use super::args::{Args, error};
use super::{grammar, tally};
use crate::server::{Arg, ArgKind, Call, Command, Docs, Error, Reply};
use crate::stats::{self, Entry};

/// The command.
pub struct Top;

/// What is said of it.
pub const DOCS: Docs = Docs {
    summary: c"Lists the keys that were denied most often lately",
    complexity: c"O(1)",
    since: c"0.1.0",
    args: &[
        Arg::optional(c"n", ArgKind::Integer),
        Arg::option(c"reset", ArgKind::Flag, c"RESET"),
    ],
};

/// How many keys are listed if nobody says.
const DEFAULT: u64 = 10;

fn listed(entry: Entry) -> RedisValue {
    RedisValue::Array(vec![
        RedisValue::StringBuffer(entry.key),
        RedisValue::Integer(entry.count as i64),
        RedisValue::Integer(entry.error as i64),
        RedisValue::Integer(entry.database.into()),
    ])
}

impl Command for Top {
    fn run(call: &Call) -> Result<Reply, Error> {
        let mut args = Args::new(call);
        let mut most = DEFAULT;
        if args.is_number_next() {
            most = match grammar::integer(args.take()?) {
                Some(n) if n > 0 && n <= stats::Top::MOST as u64 => n,
                _ => return error(c"ERR n must be an integer from 1 to 256"),
            };
        }
        let is_reset = args.ends_with(
            b"RESET",
            c"ERR unknown argument; RL.TOP knows a number of keys, then RESET",
        )?;
        let mut top = tally::top();
        let now = call.now().floor_millis();
        let entries = top.list(most as usize, now);
        if is_reset {
            top.reset(now);
        }
        Ok(Reply::Value(RedisValue::Array(
            entries.into_iter().map(listed).collect(),
        )))
    }
}
