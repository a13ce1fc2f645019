//! `RL.LEAKY key capacity rate [COST n] [AT ms]`

use super::args::{Args, Options};
use super::limiter::{Ask, Limiter};
use super::store;
use super::tally::Counted;
use super::token;
use crate::limiter::Decision;
use crate::limiter::bucket::{self, Quota};
use crate::server::{Docs, Error};
use crate::state;

/// The leaky bucket.
pub struct Leaky;

/// What is said of the command.
pub const DOCS: Docs = Docs {
    summary:
        c"Joins a queue that drains at a steady rate, and tells how long to wait for one's turn",
    complexity: c"O(1)",
    since: c"0.1.0",
    args: token::BUCKET_ARGS,
};

impl Limiter for Leaky {
    const COUNTED: Counted = Counted::Leaky;
    type Quota = Quota;

    fn parse(args: &mut Args) -> Result<(Quota, Options), Error> {
        token::parse_bucket(args, c"ERR unknown option; RL.LEAKY knows COST n and AT ms")
    }

    fn decide(ask: &Ask, quota: &Quota) -> Result<Decision, Error> {
        let mut key = ask.open()?;
        let state = store::load::<state::Leaky>(&mut key)?.map(|leaky| leaky.0);
        let outcome = bucket::decide_leaky(state, quota, ask.cost, ask.moment.now, ask.intent);
        if let Some(next) = outcome.next {
            store::save(&mut key, &state::Leaky::of(next), outcome.lifetime, ask)?;
        }
        Ok(outcome.decision)
    }
}
