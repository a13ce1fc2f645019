//! The commands: one table, and one file each.

mod args;
mod fixed;
mod grammar;
mod moment;
mod sliding;
mod store;
mod token;

use std::ffi::c_int;

use crate::server::{Handler, OnLoad, Spec};

/// The module's version as the server shows it: major * 10000 + minor * 100 + patch.
pub const MODULE_VERSION: c_int = 100;

/// What every limiter does: it may write, it uses memory, it is quick.
const TAKES: &std::ffi::CStr = c"write deny-oom fast";

/// Every command.
#[rustfmt::skip]
const COMMANDS: [Spec; 3] = [
    Spec { name: c"RL.FIXED",   flags: TAKES, arity: -4, handler: Handler::of::<fixed::Fixed>(),     docs: fixed::DOCS },
    Spec { name: c"RL.SLIDING", flags: TAKES, arity: -4, handler: Handler::of::<sliding::Sliding>(), docs: sliding::DOCS },
    Spec { name: c"RL.TOKEN",   flags: TAKES, arity: -4, handler: Handler::of::<token::Token>(),     docs: token::DOCS },
];

/// Makes the module ready, given how many arguments it was loaded with. False stops the load, for a reason that is in the log.
pub fn load(server: &OnLoad, arguments: c_int) -> bool {
    if arguments > 0 {
        server.warn("redis-rl takes no module arguments; use: loadmodule /path/to/libredis_rl.so");
        return false;
    }
    if let Some(name) = server.first_unknown_effect() {
        server.warn(&format!(
            "redis-rl cannot work here: rename-command took {name:?} away, by which changes reach replicas and the append-only file"
        ));
        return false;
    }
    server.set_options();
    for spec in &COMMANDS {
        if !server.register(spec) {
            server.warn(&format!(
                "redis-rl cannot register {:?}; is it loaded already?",
                spec.name
            ));
            return false;
        }
    }
    true
}
