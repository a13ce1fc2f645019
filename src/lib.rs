//! redis-rl: rate limiting as native commands inside Redis and Valkey.
//!
//! The rooms: [`limiter`] decides, [`state`] lays state out in bytes, [`stats`] counts, [`commands`] reads a call from top to bottom, [`server`] speaks
//! with the server.

pub mod commands;
pub mod limiter;
pub mod server;
pub mod state;
pub mod stats;

server::module! {
    name: c"rl",
    version: commands::MODULE_VERSION,
    load: commands::load
}
