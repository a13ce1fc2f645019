//! What was decided: how often, and whom it was denied most often. Pure, and of fixed size.

mod counts;
mod top;

pub use counts::{Counts, Outcome};
pub use top::{Entry, Top};
