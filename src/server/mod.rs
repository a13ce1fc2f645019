//! The server's module API, made safe: the only room with `unsafe`.

mod alloc;
mod api;
mod call;
mod clock;
mod config;
mod docs;
mod entry;
mod info;
mod kept;
mod key;
mod load;
mod sorted_set;

pub use call::Call;
pub use config::{Choice, ChoiceSpec};
pub use docs::{Arg, ArgKind, Docs, Keys};
pub use entry::{Command, Error, ForEachKey, Handler, Reply};
pub use info::{Info, Report};
pub use key::{Access, Key, Kind};
pub(crate) use load::module;
pub use load::{OnLoad, Spec, unload};
pub use sorted_set::{Entry, SortedSet};
