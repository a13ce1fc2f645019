//! `RL.TOKEN key capacity rate [COST n] [AT ms]`

use super::args::{Args, Range};
use super::moment::Moment;
use super::store;
use crate::limiter::Decision;
use crate::limiter::bucket::{self, Quota};
use crate::server::{Arg, ArgKind, Call, Command, Docs, Error};
use crate::state;

/// The command.
pub struct Token;

/// What is said of it.
pub const DOCS: Docs = Docs {
    summary: c"Takes from a token bucket that starts full and refills at a steady rate",
    complexity: c"O(1)",
    since: c"0.1.0",
    args: &[
        Arg::new(c"key", ArgKind::Key),
        Arg::new(c"capacity", ArgKind::Integer),
        Arg::new(c"rate", ArgKind::Text),
        Arg::option(c"cost", ArgKind::Integer, c"COST"),
        Arg::option(c"milliseconds", ArgKind::UnixTime, c"AT"),
    ],
};

impl Command for Token {
    fn run(call: &Call) -> Result<Decision, Error> {
        let mut args = Args::new(call);
        let key = args.key()?;
        let quota = Quota {
            capacity: args.capacity()?,
            rate: args.rate()?,
        };
        let options = args.options(Range::Wide, |_, _| {
            Err(Error::Message(
                c"ERR unknown option; RL.TOKEN knows COST n and AT ms",
            ))
        })?;

        let moment = Moment::of(call, options.at);
        let mut key = call.open(key).ok_or(Error::Arity)?;
        let state = store::load::<state::Token>(&mut key)?.map(|token| token.0);
        let outcome = bucket::decide_token(state, &quota, options.cost, moment.now);
        if let Some(next) = outcome.next {
            store::save(&mut key, &state::Token(next), outcome.lifetime, &moment)?;
        }
        Ok(outcome.decision)
    }
}
