//! A module for tests that meddles: whenever a key expires or a sorted set gets a member, it deletes the key `victim`, in the middle of
//! whatever command made that happen.

#![allow(missing_docs)] // the functions that the macro makes

use redis_module::alloc::RedisAlloc;
use redis_module::{Context, NotifyEvent, redis_module};

fn meddle(ctx: &Context, _: NotifyEvent, event: &str, _: &[u8]) {
    if event == "expired" || event == "zadd" {
        // Where there is no such key there is nothing to spoil.
        let _ = ctx.call("DEL", &["victim"]);
    }
}

redis_module! {
    name: "meddler",
    version: 1,
    allocator: (RedisAlloc, RedisAlloc),
    data_types: [],
    commands: [],
    event_handlers: [
        [@EXPIRED @ZSET: meddle],
    ],
}
