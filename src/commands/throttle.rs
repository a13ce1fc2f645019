//! `RL.THROTTLE key max_burst count period [quantity]`, which is `CL.THROTTLE` in grammar and reply, over the state of `RL.TOKEN`

use super::args::{Args, MAX_DURATION, error};
use super::limiter::{Ask, Limiter};
use super::moment::Moment;
use super::tally::{self, Counted};
use super::{grammar, token};
use crate::limiter::bucket::Quota;
use crate::limiter::{Decision, Intent, MAX_INTEGER, Millis, Rate};
use crate::server::{Arg, ArgKind, Call, Command, Docs, Error, Reply};

/// The command.
pub struct Throttle;

/// What is said of it.
pub const DOCS: Docs = Docs {
    summary: c"Takes from a token bucket, with the arguments and the reply of CL.THROTTLE",
    complexity: c"O(1)",
    since: c"0.1.0",
    args: &[
        Arg::new(c"key", ArgKind::Key),
        Arg::new(c"max_burst", ArgKind::Integer),
        Arg::new(c"count", ArgKind::Integer),
        Arg::new(c"period", ArgKind::Integer),
        Arg::optional(c"quantity", ArgKind::Integer),
    ],
};

/// Whole seconds, rounded up.
fn seconds(length: Millis) -> i64 {
    (length.0 + 999) / 1000
}

fn decide(call: &Call) -> Result<Decision, Error> {
    const MAX_PERIOD: u64 = MAX_DURATION.0 as u64 / 1000;
    let mut args = Args::new(call);
    let key = args.key()?;
    let max_burst = grammar::integer(args.take()?).filter(|burst| *burst < MAX_INTEGER);
    let Some(max_burst) = max_burst else {
        return error(c"ERR max_burst must be an integer from 0 to 9007199254740990");
    };
    let count = grammar::integer(args.take()?).filter(|count| *count > 0);
    let Some(count) = count else {
        return error(c"ERR count must be an integer from 1 to 9007199254740991");
    };
    let period = grammar::integer(args.take()?)
        .filter(|period| (1..=MAX_PERIOD).contains(period))
        .and_then(|period| Rate::per(count, Millis(period as i64 * 1000)));
    let Some(rate) = period else {
        return error(c"ERR period must be an integer from 1 to 31622400, in seconds");
    };
    let quantity = if args.is_end() {
        Some(1)
    } else {
        grammar::integer(args.take()?)
    };
    let Some(quantity) = quantity else {
        return error(c"ERR quantity must be an integer from 0 to 9007199254740991");
    };
    if !args.is_end() {
        return Err(Error::Arity);
    }

    let (intent, cost) = match quantity {
        0 => (Intent::Look, 1),
        _ => (Intent::Take, quantity),
    };
    let ask = Ask {
        call,
        key,
        cost,
        moment: Moment::of(call, None),
        intent,
    };
    let quota = Quota {
        capacity: max_burst + 1,
        rate,
    };
    let decision = token::Token::decide(&ask, &quota)?;
    if !decision.allowed && intent == Intent::Take {
        tally::denied(&ask);
    }
    Ok(decision)
}

impl Command for Throttle {
    fn run(call: &Call) -> Result<Reply, Error> {
        let decided = decide(call);
        Counted::Throttle.count(&decided, |decision| decision.allowed);
        let decision = decided?;
        let retry_after = match decision.wait {
            Some(wait) if !decision.allowed => seconds(wait),
            _ => -1,
        };
        Ok(Reply::Integers([
            (!decision.allowed).into(),
            decision.limit as i64,
            decision.remaining as i64,
            retry_after,
            seconds(decision.reset),
        ]))
    }
}
