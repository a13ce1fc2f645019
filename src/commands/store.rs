//! From a key to a state and back: what is read, what is written, and what of it goes to replicas and the append-only file.

use std::ffi::CStr;

use super::limiter::Ask;
use crate::limiter::{Intent, Lifetime, Millis};
use crate::server::{Error, Key, Kind};
use crate::state::log::{Change, View};
use crate::state::{Blob, State, Writer};

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
        Kind::String if !State::fits(key.string_len()) => NO_LIMITER,
        Kind::String => match State::read(key.bytes()) {
            Some(State::Fixed(_)) => {
                c"WRONGTYPE key holds the state of RL.FIXED; call that, or DEL the key"
            }
            Some(State::Sliding(_)) => {
                c"WRONGTYPE key holds the state of RL.SLIDING; call that, or DEL the key"
            }
            Some(State::Counter(_)) => {
                c"WRONGTYPE key holds the state of RL.COUNTER; call that, or DEL the key"
            }
            Some(State::Token(_)) => {
                c"WRONGTYPE key holds the state of RL.TOKEN; call that, or DEL the key"
            }
            Some(State::Leaky(_)) => {
                c"WRONGTYPE key holds the state of RL.LEAKY; call that, or DEL the key"
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
        Kind::String if B::fits(key.string_len()) => match B::decode(key.bytes()) {
            Some(state) => Ok(Some(state)),
            None => Err(wrong_type(key)),
        },
        _ => Err(wrong_type(key)),
    }
}

/// Stores `state`, which is not what the key held, for its lifetime. A look stores nothing.
pub fn save<B: Blob>(key: &mut Key, state: &B, lifetime: Lifetime, ask: &Ask) -> Result<(), Error> {
    if ask.intent == Intent::Look {
        return Ok(());
    }
    let current = key.expires_at();
    let is_resized = key.string_len() != state.encoded_len();
    if is_resized && !key.resize(state.encoded_len()) {
        return Err(NO_ROOM);
    }
    let mut writer = Writer::new(key.bytes_mut());
    state.write(&mut writer);
    let stretch = writer.changed();
    let stretches = (!is_resized).then(|| [stretch].into_iter());
    finish(key, stretches, lifetime, ask, current)
}

/// The log in `key`, which most likely was called until `now`; `None` where there is no key.
pub fn load_log<'k>(key: &'k mut Key, now: Millis) -> Result<Option<View<'k>>, Error> {
    if key.kind() == Kind::Missing {
        return Ok(None);
    }
    // The length first: looking at the bytes makes a raw string of whatever it is. The header twice, here and in `read_at`: a view
    // that could be returned from here would hold the key on the way to the error, too.
    if key.kind() != Kind::String || !View::fits(key.string_len()) || !View::is_log(key.bytes()) {
        return Err(wrong_type(key));
    }
    Ok(View::read_at(key.bytes(), now))
}

/// Applies `change` to the log, and keeps it for its lifetime. A look changes nothing.
pub fn save_log(
    key: &mut Key,
    change: &Change,
    lifetime: Lifetime,
    ask: &Ask,
) -> Result<(), Error> {
    if ask.intent == Intent::Look {
        return Ok(());
    }
    let current = key.expires_at();
    if let Some(len) = change.new_len() {
        change.gather(key.bytes_mut());
        if !key.resize(len) {
            return Err(NO_ROOM);
        }
    }
    change.write(key.bytes_mut());
    finish(key, change.stretches(), lifetime, ask, current)
}

/// Sets the expiry of a changed key if it has to move, tells replicas and the append-only file of the change, and the watchers.
///
/// `stretches` are those that changed, as start and length; `None` for all.
fn finish(
    key: &mut Key,
    stretches: Option<impl Iterator<Item = (usize, usize)>>,
    lifetime: Lifetime,
    ask: &Ask,
    current: Option<Millis>,
) -> Result<(), Error> {
    let moved = ask.moment.expiry(lifetime, current);
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
