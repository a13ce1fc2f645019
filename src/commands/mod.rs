//! The commands: one table, and one file each.

mod all;
mod args;
mod clause;
mod counter;
mod fixed;
pub mod grammar;
mod inspect;
mod leaky;
mod limiter;
mod moment;
mod peek;
mod settings;
mod sliding;
mod sorted_log;
mod stats;
mod store;
mod tally;
mod throttle;
mod token;
mod top;

use std::ffi::{CStr, c_int};

use self::limiter::Take;
use crate::server::{Handler, Keys, OnLoad, Spec};

/// The module's version as the server shows it: major * 10000 + minor * 100 + patch.
pub const MODULE_VERSION: c_int = 100;

/// Takes: may write, uses memory, is quick.
const TAKES: &CStr = c"write deny-oom fast";
/// Takes from keys that it has to tell the server itself.
const TAKES_MANY: &CStr = c"write deny-oom fast getkeys-api";
/// Only looks.
const LOOKS: &CStr = c"readonly fast";
/// Looks at what was counted, which needs no keys.
const WATCHES: &CStr = c"readonly allow-loading allow-stale";

/// Every command.
#[rustfmt::skip]
const COMMANDS: [Spec; 11] = [
    Spec { name: c"RL.FIXED",    flags: TAKES,      arity: -4, keys: Keys::Updated(1), handler: Handler::of::<Take<fixed::Fixed>>(),     docs: fixed::DOCS },
    Spec { name: c"RL.SLIDING",  flags: TAKES,      arity: -4, keys: Keys::Updated(1), handler: Handler::of::<Take<sliding::Sliding>>(), docs: sliding::DOCS },
    Spec { name: c"RL.COUNTER",  flags: TAKES,      arity: -4, keys: Keys::Updated(1), handler: Handler::of::<Take<counter::Counter>>(), docs: counter::DOCS },
    Spec { name: c"RL.TOKEN",    flags: TAKES,      arity: -4, keys: Keys::Updated(1), handler: Handler::of::<Take<token::Token>>(),     docs: token::DOCS },
    Spec { name: c"RL.LEAKY",    flags: TAKES,      arity: -4, keys: Keys::Updated(1), handler: Handler::of::<Take<leaky::Leaky>>(),     docs: leaky::DOCS },
    THROTTLE,
    Spec { name: c"RL.ALL",      flags: TAKES_MANY, arity: -5, keys: Keys::Found,      handler: Handler::of::<all::All>(),               docs: all::DOCS },
    Spec { name: c"RL.PEEK",     flags: LOOKS,      arity: -5, keys: Keys::Read(2),    handler: Handler::of::<peek::Peek>(),             docs: peek::DOCS },
    Spec { name: c"RL.INSPECT",  flags: LOOKS,      arity: 2,  keys: Keys::Read(1),    handler: Handler::of::<inspect::Inspect>(),       docs: inspect::DOCS },
    Spec { name: c"RL.STATS",    flags: WATCHES,    arity: -1, keys: Keys::None,       handler: Handler::of::<stats::Stats>(),           docs: stats::DOCS },
    Spec { name: c"RL.TOP",      flags: WATCHES,    arity: -1, keys: Keys::None,       handler: Handler::of::<top::Top>(),               docs: top::DOCS },
];

#[rustfmt::skip]
const THROTTLE: Spec =
    Spec { name: c"RL.THROTTLE", flags: TAKES,      arity: -5, keys: Keys::Updated(1), handler: Handler::of::<throttle::Throttle>(),     docs: throttle::DOCS };

/// The same by the name that its users know, if it is wanted.
const CL_THROTTLE: Spec = Spec {
    name: c"CL.THROTTLE",
    ..THROTTLE
};

/// The server's commands that ours work through, by which changes reach replicas and the append-only file.
const NEEDED: [&CStr; 8] = [
    c"SET",
    c"SETRANGE",
    c"PEXPIREAT",
    c"ZADD",
    c"ZCARD",
    c"ZCOUNT",
    c"ZRANGE",
    c"ZREMRANGEBYSCORE",
];

/// Makes the module ready. False stops the load, for a reason that is in the log.
pub fn load(server: &OnLoad) -> bool {
    if let Err(right) = settings::read(server.arguments()) {
        server.warn(&format!("redis-rl: {right}"));
        return false;
    }
    if let Some(name) = server.first_unknown(&NEEDED) {
        server.warn(&format!(
            "redis-rl cannot work here: it needs the command {name:?}, which rename-command took away"
        ));
        return false;
    }
    server.set_options();
    let wanted = settings::has_cl_throttle().then_some(&CL_THROTTLE);
    for spec in COMMANDS.iter().chain(wanted) {
        if !server.register(spec) {
            server.warn(&format!(
                "redis-rl cannot register {:?}; is it loaded already?",
                spec.name
            ));
            return false;
        }
    }
    tally::reset(server.now());
    if !server.report_by::<stats::Stats>() {
        server.warn("redis-rl cannot register what it tells INFO");
        return false;
    }
    if !server.configure(&settings::CHANGEABLE) {
        server.warn("redis-rl cannot register its settings; see the line above");
        return false;
    }
    true
}
