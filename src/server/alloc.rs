//! Memory from the server's allocator, so that it counts as used memory and survives no unload.

use std::alloc::{GlobalAlloc, Layout, System};

use redis_module::alloc::RedisAlloc;
use redis_module::raw;

/// The server's allocator inside a server, the system's in tests and benchmarks, where there is none.
struct ServerAlloc;

#[global_allocator]
static ALLOCATOR: ServerAlloc = ServerAlloc;

fn is_in_server() -> bool {
    // SAFETY: written once, by the first call that `RedisModule_OnLoad` makes, before anything is allocated.
    let (alloc, free) = unsafe { (raw::RedisModule_Alloc, raw::RedisModule_Free) };
    alloc.is_some() && free.is_some()
}

// SAFETY: each call goes on to an allocator that keeps the contract, and to the same one for the whole life of the process,
// as nothing is allocated before the server's functions are there.
unsafe impl GlobalAlloc for ServerAlloc {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        if is_in_server() {
            // SAFETY: the caller's promises about `layout` are passed on.
            unsafe { RedisAlloc.alloc(layout) }
        } else {
            // SAFETY: as above.
            unsafe { System.alloc(layout) }
        }
    }

    unsafe fn dealloc(&self, memory: *mut u8, layout: Layout) {
        if is_in_server() {
            // SAFETY: `memory` came from `alloc` above, with this `layout`.
            unsafe { RedisAlloc.dealloc(memory, layout) }
        } else {
            // SAFETY: as above.
            unsafe { System.dealloc(memory, layout) }
        }
    }
}
