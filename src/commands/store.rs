//! From a key to a state and back: what is read, what is written, and what of it goes to replicas and the append-only file.

use std::ffi::CStr;

use super::moment::Moment;
use crate::limiter::{Lifetime, Millis};
use crate::server::{Error, Key, Kind};
use crate::state::log::{Change, View};
use crate::state::{Blob, Tag};

/// Strings up to this many bytes are sent whole where their expiry moves, in one command; longer ones in two.
const SENT_WHOLE: usize = 1024;

/// The answer where a string would have to be longer than the server's may be.
pub const NO_ROOM: Error = Error::Message(
    c"ERR the log of this key would not fit a string of 512 MB; use a smaller max or a shorter window",
);
/// The answer where the server refuses to replicate.
const NOT_SENT: Error = Error::Message(
    c"ERR the server cannot send this change to replicas; SET, SETRANGE and PEXPIREAT must keep their names",
);

/// The error for a key that holds something else.
pub fn wrong_type(key: &mut Key) -> Error {
    const NO_LIMITER: &CStr = c"WRONGTYPE key holds a string that is not the state of a limiter";
    let message: &CStr = match key.kind() {
        Kind::Missing => c"WRONGTYPE key is missing",
        // The length first: looking at the bytes makes a raw string of whatever it is.
        Kind::String if !Tag::fits(key.string_len()) => NO_LIMITER,
        Kind::String => match Tag::of(key.bytes()) {
            Some(Tag::Fixed) => {
                c"WRONGTYPE key holds the state of RL.FIXED; call that, or DEL the key"
            }
            Some(Tag::Sliding) => {
                c"WRONGTYPE key holds the state of RL.SLIDING; call that, or DEL the key"
            }
            Some(Tag::Token) => {
                c"WRONGTYPE key holds the state of RL.TOKEN; call that, or DEL the key"
            }
            None => NO_LIMITER,
        },
        Kind::List => c"WRONGTYPE key holds a list, not the state of a limiter",
        Kind::Hash => c"WRONGTYPE key holds a hash, not the state of a limiter",
        Kind::Set => c"WRONGTYPE key holds a set, not the state of a limiter",
        Kind::SortedSet => c"WRONGTYPE key holds a sorted set, not the state of a limiter",
        Kind::Stream => c"WRONGTYPE key holds a stream, not the state of a limiter",
        Kind::Other => c"WRONGTYPE key holds a value of another type, not the state of a limiter",
    };
    Error::Message(message)
}

/// The state of fixed size in `key`; `None` where there is no key.
pub fn load<B: Blob>(key: &mut Key) -> Result<Option<B>, Error> {
    match key.kind() {
        Kind::Missing => Ok(None),
        // The length first: looking at the bytes makes a raw string of whatever it is.
        Kind::String if key.string_len() == B::LEN => match B::decode(key.bytes()) {
            Some(state) => Ok(Some(state)),
            None => Err(wrong_type(key)),
        },
        _ => Err(wrong_type(key)),
    }
}

/// Stores `state`, which is not what the key held, for its lifetime.
pub fn save<B: Blob>(
    key: &mut Key,
    state: &B,
    lifetime: Lifetime,
    moment: &Moment,
) -> Result<(), Error> {
    let new = state.encode();
    let new = new.as_ref();
    let is_new = key.kind() == Kind::Missing;
    if is_new && !key.resize(new.len()) {
        return Err(NO_ROOM);
    }
    let current = if is_new { None } else { key.expires_at() };
    let old = key.bytes();
    let differs = |(old, new): (&u8, &u8)| old != new;
    let start = old.iter().zip(new).position(differs).unwrap_or(0);
    let end = old
        .iter()
        .zip(new)
        .rposition(differs)
        .map_or(0, |last| last + 1);
    if let Some(old) = old.get_mut(..new.len()) {
        old.copy_from_slice(new);
    }
    let stretch = (start, end.saturating_sub(start));
    finish(key, Some([stretch].into_iter()), lifetime, moment, current)
}

/// The log in `key`; `None` where there is no key.
pub fn load_log<'k>(key: &'k mut Key) -> Result<Option<View<'k>>, Error> {
    if key.kind() == Kind::Missing {
        return Ok(None);
    }
    // The length first: looking at the bytes makes a raw string of whatever it is.
    if key.kind() != Kind::String || !View::fits(key.string_len()) || !View::is_log(key.bytes()) {
        return Err(wrong_type(key));
    }
    Ok(View::read(key.bytes()))
}

/// Applies `change` to the log, and keeps it for its lifetime.
pub fn save_log(
    key: &mut Key,
    change: &Change,
    lifetime: Lifetime,
    moment: &Moment,
) -> Result<(), Error> {
    let current = match key.kind() {
        Kind::Missing => None,
        _ => key.expires_at(),
    };
    if let Some(len) = change.new_len() {
        change.gather(key.bytes());
        if !key.resize(len) {
            return Err(NO_ROOM);
        }
    }
    change.write(key.bytes());
    finish(key, change.stretches(), lifetime, moment, current)
}

/// Sets the expiry of a changed key if it has to move, tells replicas and the append-only file of the change, and the watchers.
///
/// `stretches` are those that changed, as start and length; `None` for all.
fn finish(
    key: &mut Key,
    stretches: Option<impl Iterator<Item = (usize, usize)>>,
    lifetime: Lifetime,
    moment: &Moment,
    current: Option<Millis>,
) -> Result<(), Error> {
    let moved = moment.expiry(lifetime, current);
    if let Some(expiry) = moved {
        key.expire_at(expiry);
    }
    let is_sent = match (stretches, moved) {
        (Some(stretches), None) => send_stretches(key, stretches),
        (Some(stretches), Some(expiry)) if current.is_some() && key.string_len() > SENT_WHOLE => {
            send_stretches(key, stretches) && key.replicate_expiry(expiry)
        }
        // An expiry that stays is one that there is.
        (_, moved) => key.replicate_set(moved.or(current).unwrap_or(Millis::MAX)),
    };
    key.signal_changed();
    if is_sent { Ok(()) } else { Err(NOT_SENT) }
}

fn send_stretches(key: &mut Key, mut stretches: impl Iterator<Item = (usize, usize)>) -> bool {
    stretches.all(|(start, len)| key.replicate_stretch(start, len))
}
