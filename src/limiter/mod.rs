//! The algorithms: pure, exact, without allocation. State, quota and time in; decision and new state out.

pub mod bucket;
pub mod counter;
mod decision;
pub mod fixed;
pub mod sliding;
mod units;

pub use decision::{Decision, Intent, Lifetime, Outcome};
pub use units::{MAX_INTEGER, Micros, Millis, Rate};

#[cfg(test)]
pub(crate) mod tests;
