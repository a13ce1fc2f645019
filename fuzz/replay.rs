//! Replays what fuzzing has found worth keeping.

mod bodies;

use std::fs;
use std::path::Path;

fn replay(target: &str, body: fn(&[u8])) {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("fuzz/corpus")
        .join(target);
    let mut count = 0;
    for entry in fs::read_dir(&folder).expect("a corpus") {
        let path = entry.expect("an entry").path();
        println!("{}", path.display());
        body(&fs::read(path).expect("a file"));
        count += 1;
    }
    assert!(count > 10, "{target} has only {count}");
}

#[test]
fn grammar() {
    replay("grammar", bodies::grammar);
}

#[test]
fn blobs() {
    replay("blobs", bodies::blobs);
}

#[test]
fn limiters() {
    replay("limiters", bodies::limiters);
}
