//! A limiter as its own command, `RL.PEEK` and `RL.ALL` ask it.

use std::marker::PhantomData;

use super::args::{Args, Options};
use super::moment::Moment;
use super::{counter, fixed, leaky, sliding, token};
use crate::limiter::{Decision, Intent, Millis};
use crate::server::{Access, Call, Command, Error, Key, Reply};

/// An algorithm, with the grammar of its arguments.
pub trait Limiter {
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
        self.call.open(self.key, access).ok_or(Error::Arity)
    }
}

/// The command of one limiter: asks, and takes.
pub struct Take<L>(PhantomData<L>);

impl<L: Limiter> Command for Take<L> {
    fn run(call: &Call) -> Result<Reply, Error> {
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
        L::decide(&ask, &quota).map(Reply::Decision)
    }
}

/// A limiter named by a word, read as part of another command.
pub trait Clause {
    /// The place of its key among the arguments.
    fn key(&self) -> usize;
    /// Its own `AT`.
    fn at(&self) -> Option<Millis>;
    /// Asks it.
    fn decide(&self, call: &Call, moment: Moment, intent: Intent) -> Result<Decision, Error>;
}

struct Parsed<L: Limiter> {
    key: usize,
    quota: L::Quota,
    options: Options,
}

impl<L: Limiter> Clause for Parsed<L> {
    fn key(&self) -> usize {
        self.key
    }

    fn at(&self) -> Option<Millis> {
        self.options.at
    }

    fn decide(&self, call: &Call, moment: Moment, intent: Intent) -> Result<Decision, Error> {
        let ask = Ask {
            call,
            key: self.key,
            cost: self.options.cost,
            moment,
            intent,
        };
        L::decide(&ask, &self.quota)
    }
}

fn read<L: Limiter + 'static>(args: &mut Args) -> Result<Box<dyn Clause>, Error>
where
    L::Quota: 'static,
{
    let key = args.key()?;
    let (quota, options) = L::parse(args)?;
    Ok(Box::new(Parsed::<L> {
        key,
        quota,
        options,
    }))
}

/// How the clause behind a word is read.
type Read = fn(&mut Args) -> Result<Box<dyn Clause>, Error>;

/// The words for the limiters.
const LIMITERS: [(&str, Read); 5] = [
    ("FIXED", read::<fixed::Fixed>),
    ("SLIDING", read::<sliding::Sliding>),
    ("COUNTER", read::<counter::Counter>),
    ("TOKEN", read::<token::Token>),
    ("LEAKY", read::<leaky::Leaky>),
];

fn limiter(word: &[u8]) -> Option<Read> {
    let mut limiters = LIMITERS.into_iter();
    limiters
        .find(|(known, _)| word.eq_ignore_ascii_case(known.as_bytes()))
        .map(|(_, read)| read)
}

/// Whether `word` names a limiter.
pub fn is_limiter(word: &[u8]) -> bool {
    limiter(word).is_some()
}

/// A clause, from its word on to the end of `args`.
pub fn clause(args: &mut Args) -> Result<Box<dyn Clause>, Error> {
    let read = limiter(args.take()?).ok_or(Error::Message(
        c"ERR algorithm must be FIXED, SLIDING, COUNTER, TOKEN or LEAKY",
    ))?;
    read(args)
}
