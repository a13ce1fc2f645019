//! `RL.STATS [RESET]`, and what `INFO` says

use std::collections::BTreeMap;

use redis_module::RedisValue;
use redis_module_macros::RedisValue;

use super::args::Args;
use super::tally::{self, Counted};
use crate::server::{Arg, ArgKind, Call, Command, Docs, Error, Info, Reply, Report};
use crate::stats::Outcome;

/// The command.
pub struct Stats;

/// What is said of it.
pub const DOCS: Docs = Docs {
    summary: c"Shows how many calls were allowed, denied and failed, by command",
    complexity: c"O(1)",
    since: c"0.1.0",
    args: &[Arg::option(c"reset", ArgKind::Flag, c"RESET")],
};

#[derive(RedisValue)]
struct Calls {
    allowed: i64,
    denied: i64,
    errors: i64,
}

impl Calls {
    fn of(counted: Counted) -> Self {
        let count = |outcome| counted.counts().get(outcome) as i64;
        Self {
            allowed: count(Outcome::Allowed),
            denied: count(Outcome::Denied),
            errors: count(Outcome::Failed),
        }
    }
}

impl Command for Stats {
    fn run(call: &Call) -> Result<Reply, Error> {
        let mut args = Args::new(call);
        if args.ends_with(b"RESET", c"ERR unknown argument; RL.STATS knows RESET")? {
            tally::reset(call.now().floor_millis());
            return Ok(Reply::Value(RedisValue::SimpleStringStatic("OK")));
        }
        let mut all = BTreeMap::new();
        for counted in Counted::EACH {
            let name = format!("rl.{}", counted.name().to_string_lossy());
            all.insert(name.into(), Calls::of(counted).into());
        }
        all.insert("since_ms".into(), tally::since().0.into());
        Ok(Reply::Value(RedisValue::OrderedMap(all)))
    }
}

impl Report for Stats {
    fn report(info: &mut Info) {
        const OUTCOMES: [Outcome; 3] = [Outcome::Allowed, Outcome::Denied, Outcome::Failed];
        if info.section(c"stats") {
            let takers = || Counted::EACH.into_iter().filter(|counted| counted.takes());
            let total = |outcome| {
                takers()
                    .map(|counted| counted.counts().get(outcome))
                    .sum::<u64>()
            };
            info.field(c"since_ms", tally::since().0.unsigned_abs());
            info.field(c"total_allowed", total(Outcome::Allowed));
            info.field(c"total_denied", total(Outcome::Denied));
            info.field(c"total_errors", total(Outcome::Failed));
        }
        if info.section(c"commandstats") {
            for counted in Counted::EACH {
                let [allowed, denied, errors] =
                    OUTCOMES.map(|outcome| counted.counts().get(outcome));
                let values = [
                    (c"allowed", allowed),
                    (c"denied", denied),
                    (c"errors", errors),
                ];
                info.fields(counted.name(), &values);
            }
        }
    }
}
