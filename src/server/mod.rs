//! The server's module API, made safe: the only room with `unsafe`.

mod alloc;
mod api;
mod call;
mod clock;
mod docs;
mod entry;
mod key;
mod load;

pub use call::Call;
pub use docs::{Arg, ArgKind, Docs};
pub use entry::{Command, Error, Handler};
pub use key::{Key, Kind};
pub(crate) use load::module;
pub use load::{OnLoad, Spec, unload};
