//! What each algorithm's file provides, and the command that it makes of it.

use std::marker::PhantomData;

use super::args::{Args, Options};
use super::moment::Moment;
use super::tally::{self, Counted};
use crate::limiter::{Decision, Intent};
use crate::server::{Access, Call, Command, Error, Key, Reply};

/// An algorithm, with the grammar of its arguments.
pub trait Limiter {
    /// What its command is counted as.
    const COUNTED: Counted;
    /// What it asks for.
    type Quota;

    /// Reads what stands behind the key.
    fn parse(args: &mut Args) -> Result<(Self::Quota, Options), Error>;
    /// Looks up, decides, and writes what changed.
    fn decide(ask: &Ask, quota: &Self::Quota) -> Result<Decision, Error>;
}

/// One question to one limiter.
pub struct Ask<'a> {
    /// The call that it is part of.
    pub call: &'a Call<'a>,
    /// The place of its key among the arguments.
    pub key: usize,
    /// How much is asked for.
    pub cost: u64,
    /// As of when.
    pub moment: Moment,
    /// Whether to take it.
    pub intent: Intent,
}

impl<'a> Ask<'a> {
    /// Its key, open for what the call may do.
    pub fn open(&self) -> Result<Key<'a>, Error> {
        let access = match self.intent {
            Intent::Take => Access::Write,
            Intent::Look => Access::Read,
        };
        self.call.open(self.key, access)
    }
}

/// The command of one limiter: asks, and takes.
pub struct Take<L>(PhantomData<L>);

impl<L: Limiter> Take<L> {
    fn decide(call: &Call) -> Result<Decision, Error> {
        let mut args = Args::new(call);
        let key = args.key()?;
        let (quota, options) = L::parse(&mut args)?;
        let ask = Ask {
            call,
            key,
            cost: options.cost,
            moment: Moment::of(call, options.at),
            intent: Intent::Take,
        };
        let decision = L::decide(&ask, &quota)?;
        if !decision.allowed {
            tally::denied(&ask);
        }
        Ok(decision)
    }
}

impl<L: Limiter> Command for Take<L> {
    fn run(call: &Call) -> Result<Reply, Error> {
        let decided = Self::decide(call);
        L::COUNTED.count(&decided, |decision| decision.allowed);
        decided.map(Reply::Decision)
    }
}
