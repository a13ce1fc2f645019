//! `RL.TOKEN key capacity rate [COST n] [AT ms]`

use std::ffi::CStr;

use super::args::{Args, Most, Options, error};
use super::limiter::{Ask, Limiter};
use super::store;
use super::tally::Counted;
use crate::limiter::Decision;
use crate::limiter::bucket::{self, Quota};
use crate::server::{Arg, ArgKind, Docs, Error};
use crate::state;

/// The token bucket.
pub struct Token;

/// What is said of the command.
pub const DOCS: Docs = Docs {
    summary: c"Takes from a token bucket, which starts full and refills at a steady rate",
    complexity: c"O(1)",
    since: c"0.1.0",
    args: BUCKET_ARGS,
};

/// The arguments of both buckets.
pub const BUCKET_ARGS: &[Arg] = &[
    Arg::new(c"key", ArgKind::Key),
    Arg::new(c"capacity", ArgKind::Integer),
    Arg::new(c"rate", ArgKind::Text),
    Arg::option(c"cost", ArgKind::Integer, c"COST"),
    Arg::option(c"milliseconds", ArgKind::UnixTime, c"AT"),
];

/// Reads the arguments of both buckets. `unknown_option` is the error for an option that they do not have.
pub fn parse_bucket(
    args: &mut Args,
    unknown_option: &'static CStr,
) -> Result<(Quota, Options), Error> {
    let quota = Quota {
        capacity: args.capacity()?,
        rate: args.rate()?,
    };
    let options = args.options(Most::Wide, |_, _| error(unknown_option))?;
    Ok((quota, options))
}

impl Limiter for Token {
    const COUNTED: Counted = Counted::Token;
    type Quota = Quota;

    fn parse(args: &mut Args) -> Result<(Quota, Options), Error> {
        parse_bucket(args, c"ERR unknown option; RL.TOKEN knows COST n and AT ms")
    }

    fn decide(ask: &Ask, quota: &Quota) -> Result<Decision, Error> {
        let mut key = ask.open()?;
        let state = store::load::<state::Token>(&mut key)?.map(|token| token.0);
        let outcome = bucket::decide_token(state, quota, ask.cost, ask.moment.now, ask.intent);
        if let Some(next) = outcome.next {
            store::save(&mut key, &state::Token::of(next), outcome.lifetime, ask)?;
        }
        Ok(outcome.decision)
    }
}
