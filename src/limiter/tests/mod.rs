//! The algorithms against slow and obvious models of what docs/commands says, over random sequences.

mod bucket;
mod counter;
mod fixed;
mod look;
pub mod model;
mod queue;

use proptest::prelude::*;

/// How far the clock goes before a call: mostly on, sometimes not at all, sometimes back, now and then a long way.
pub fn step(unit: i64) -> impl Strategy<Value = i64> {
    prop_oneof![
        4 => Just(0),
        8 => 1..=3_i64,
        8 => 1..=unit / 2 + 1,
        2 => unit - 1..=unit + 1,
        1 => unit..=unit * 20 + 1,
        3 => -(unit / 3 + 2)..=-1,
        1 => -unit - 1..=-unit + 1,
        1 => -unit * 30 - 1..=-unit,
    ]
}
